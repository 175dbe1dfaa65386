// Package pullsecret answers "which credentials fit an image, and who may have a copy?"
//
// Credentials for registries come from Secrets with docker configurations, and from programs on the Node (package
// pullsecret/execprovider). [Read] makes a [Keyring] from Secrets, and [Keyring.For] returns the credentials for an
// image, in the order in which the kubelet tries credentials:
//
//	keyring, problems := pullsecret.Read(secrets)
//	plugins, more := providers.For(ctx, image)
//	keyring = keyring.Join(plugins)
//	for each credential of keyring.For(image): pull, until a pull succeeds
//	message := keyring.Redact(err.Error())
//
// A registry name matches as in the kubelet (pkg/credentialprovider/keyring.go). The registry name must have the same
// number of host labels as the image, and may have globs inside a label. The ports must be equal. The path of the
// registry name must be a prefix of the image's path, compared by character. Credentials with more specific registry
// names come first. If no other name matches an image of Docker Hub, the credentials of "index.docker.io" are used.
//
// # Differences from the kubelet
//
// If a Secret or an entry of a Secret is malformed, the kubelet ends the pull. Package pullsecret leaves out the
// malformed part, names the part in a [reason.Reason], and uses all other parts. The kubelet only reads user names
// and passwords; package pullsecret also reads identity tokens and registry tokens. An entry with several kinds of
// credentials gives several credentials, the password first, because a runtime that gets several kinds at once uses
// only one kind. An entry with an identity token and a user name but no password gives no password credential. Only
// images of Docker Hub get the credentials of Docker Hub, whereas the kubelet also sends these credentials to
// registries such as "localhost".
//
// # Copies
//
// A node agent may read Secrets in a single namespace, so a manager copies Secrets there. [Cut] reduces a Secret to
// the entries for given images, and [Synced] decides which copies to make, refresh and delete.
//
// # Secrecy
//
// No reason, error or String method contains user names, passwords or tokens. Registries may repeat credentials in
// messages: see [Keyring.Redact].
//
// All functions are pure and safe for concurrent use, and never modify their arguments.
package pullsecret
