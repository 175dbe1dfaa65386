// Package faultapi answers "what does a controller do when everything around goes wrong, and can I see the failure
// again?".
//
// The package has an API server, a cache and a node in memory, for tests that drive a controller step by step. Nothing
// happens by itself and nothing depends on the timing of goroutines, so a schedule of steps drawn from a seed can be
// replayed from the seed.
//
//   - [Server] stores objects under one global resourceVersion and treats creation, updates, patches, subresources,
//     preconditions, finalizers and graceful deletion as the real server does. A table of cases in the package's tests
//     runs against both.
//   - [Client] is a controller-runtime client of a Server. A [Gate] decides for each call: refused, carried out, or
//     carried out with a lost answer.
//   - [Turnstile] is the Gate for a choice by the test: every call waits there until the test releases it. Run the
//     controller in a testing/synctest bubble, and synctest.Wait tells when all of its goroutines stand at the
//     turnstile.
//   - [Cache] feeds client-go stores with the server's events, each resource on its own and as late as the test wants.
//   - [Watch] is a watch opened by a client itself; its events come as late as the test wants, too.
//   - [Nodes] is scheduler and kubelet. Both see Pods as late as the test wants, and report Pods as containerd does.
//     [Images] knows tags with a shared digest, broken images, and images that never become ready. On a server made
//     with Nodes as objects, a Pod naming its Node is bound only to the named Node, if the Node exists and has no taint
//     against the Pod. Such a server also collects the Pods of deleted Nodes.
//
// Not supported are admission, quotas, field selectors other than by name, pagination, server-side apply, and
// validation irrelevant to controllers of Pods.
package faultapi
