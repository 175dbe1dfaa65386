// Package faultapi answers "what does a controller do when everything around the controller fails, and can I see the
// failure again?".
//
// The package simulates an API server, a cache and nodes in memory, for tests that drive a controller step by step.
// The simulation changes only when the test asks for a change, and does not depend on the timing of goroutines. So a
// schedule of steps chosen by a seed can be repeated with the same seed.
//
//   - [Server] stores objects with a common resourceVersion, and handles creation, updates, patches, subresources,
//     preconditions, finalizers and graceful deletion like the real API server. A table of cases in the package's tests
//     runs against both servers.
//   - [Client] is a controller-runtime client of a Server. A [Gate] decides whether a call is refused, carried out, or
//     carried out with its response lost.
//   - [Turnstile] is a Gate that lets the test choose: every call waits until the test releases the call. Run the
//     controller in a testing/synctest bubble: synctest.Wait returns when all of its goroutines are blocked, for
//     example at the Turnstile.
//   - [Cache] applies the server's events to client-go stores, for each resource separately and as late as the test
//     wants.
//   - [Watch] is a watch opened by a client itself; its events come as late as the test wants, too.
//   - [Nodes] simulates scheduler and kubelets. Both see changes of Pods as late as the test wants, and report image
//     names as containerd does. [Images] can contain several tags with the same digest, broken images, and images whose
//     containers never become ready. If the server has Node objects, a Pod that names its Node is bound only to this
//     Node, if the Node exists and has no taint that the Pod does not tolerate. Such a server also collects the Pods of
//     deleted Nodes.
//
// The package does not support admission, quotas, field selectors other than by name, pagination, server-side apply,
// and validation that does not matter to controllers of Pods.
package faultapi
