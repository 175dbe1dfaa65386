// Package execprovider gets credentials for images from programs on the Node, by the kubelet's protocol for exec
// credential providers (KEP-2133, k8s.io/kubelet/pkg/apis/credentialprovider/v1).
//
//	providers, err := execprovider.Load(configPath, directory, execprovider.Options{})
//	keyring, problems := providers.For(ctx, image)
//	for each credential of keyring.For(image): pull, until a pull succeeds
//
// A provider is a program in the directory, named in the configuration. For an image that matches a provider's
// patterns, the program gets a request with the image on its standard input, and writes a response with credentials to
// its standard output. Responses are cached for the image, for the registry or for all images, as long as the response
// or the configuration says.
//
// # Differences from the kubelet
//
// The programs are checked before each run and not at the start, so a program may be installed later. If a provider
// fails, a reason is returned, and the credentials of the other providers are used. A program gets the environment
// from [Options] and from the configuration, and not the agent's environment. The program is killed, with all its
// children, at the timeout or if the response is too large. The directory and the program must belong to the agent's
// user or to root, and no other user may have write permission.
//
// A node agent does not pull for a particular Pod, so there is no service account. As in the kubelet, a provider that
// requires a service account then gives no credentials, and a provider with an optional service account runs without
// one.
package execprovider
