// Package fakeregistry answers "how do I test pulls of images, with credentials and faults, without a registry?"
//
// A [Registry] serves images over HTTP on the loopback address, for a real container runtime or for a client of the
// distribution protocol. Tests push the images as Go values:
//
//	r, err := fakeregistry.New(ctx)
//	digest, err := r.Push("team/app", "v1", fakeregistry.Image{Entrypoint: []string{"/app"}, Files: files})
//	r.Protect("team", fakeregistry.Access{Users: map[string]string{"ci": "secret"}, Bearer: true})
//	... the runtime pulls r.Host() + "/team/app:v1" ...
//	for _, request := range r.Requests() { ... } // each request, with its credential
//
// [Access] defines which users may pull the images of a repository: by HTTP Basic, or by expiring tokens from the
// registry's own token endpoint. [Fault] makes a repository slow, busy, or broken.
//
// A Registry does not support pushes over HTTP, or TLS.
package fakeregistry
