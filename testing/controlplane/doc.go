// Package controlplane answers the question: how do I test a controller against the real thing on a single machine,
// without containers and without a cluster? The package starts a real etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler as plain processes on loopback ports, and kwok to play the kubelets of any number of simulated Nodes.
//
// # What is real
//
// Real are admission, storage, watches, conflicts, priority and fairness, garbage collection, scheduling, quota, Jobs,
// Deployments. Only the Nodes are simulated. The stages in the directory stages describe a simulated kubelet. A
// controller sees the same status as from a kubelet of the same version: readiness gates, in-place changes of images
// and resources, native sidecars, observedGeneration, graceful deletion. Annotations on the Pod request states without
// a real container, such as a failing probe: see [Unready], [Fail], [Complete], [Crash], [StartDelay] and [StopDelay].
//
// # Binaries
//
// The binaries are built from Go modules with the go command on PATH, once, into the user's cache directory; the first
// build takes minutes, everything after it none. [Binary] builds or finds a binary.
//
// # Processes and data
//
// A control plane lives in a directory and lasts as long as its starting process: the kernel (Linux) kills the children
// when the process dies in any way, and a later [Start] in the same directory begins with an empty cluster. Tests use
// package controlplanetest.
package controlplane

//go:generate go run ../internal/bundle/generate binaries binaries.txtar go.mod go.sum etcd/main.go
