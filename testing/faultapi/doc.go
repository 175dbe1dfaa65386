// Package faultapi answers "what does this controller do when everything around it goes wrong, and can I see it again?".
//
// It is an API server, a cache and a node in memory, for tests that drive a controller one step at a time. Nothing happens
// by itself and nothing depends on the timing of goroutines, so a schedule of steps that was drawn from a seed can be
// replayed from it.
//
//   - [Server] stores objects under one global resourceVersion and treats creation, updates, patches, subresources,
//     preconditions, finalizers and graceful deletion as the real one does. A table of cases in this package's tests is run
//     against both.
//   - [Client] is a controller-runtime client of it. A [Gate] decides for each call whether it is refused, carried out, or
//     carried out with its answer lost.
//   - [Turnstile] is the Gate that lets a test choose: every call waits there until the test releases it. Run the controller
//     in a testing/synctest bubble, and synctest.Wait tells when all of its goroutines stand at the turnstile.
//   - [Cache] feeds client-go stores with the server's events, each resource on its own and as late as the test wants.
//   - [Watch] is a watch that a client opens by itself; its events come as late as the test wants, too.
//   - [Nodes] is scheduler and kubelet, which see Pods as late as they are told to, and report them as containerd does: [Images]
//     says which tags share a digest, what cannot be pulled, and what never becomes ready. A server that is made with Nodes as objects
//     binds a Pod that names its Node there alone, while that exists and has no taint against it, and collects the Pods of Nodes that are gone.
//
// What it does not do: admission, quotas, field selectors other than by name, pagination, server-side apply and validation beyond what a
// controller of Pods can run into.
package faultapi
