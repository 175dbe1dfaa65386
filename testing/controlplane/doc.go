// Package controlplane answers the question: how do I test a controller against a real API server on a single machine,
// without containers and without a cluster? The package starts a real etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler as plain processes on loopback ports, and kwok to simulate the kubelets of any number of Nodes.
//
// # What is real
//
// Admission, storage, watches, conflicts, priority and fairness, garbage collection, scheduling, quota, Jobs and
// Deployments are real. Only the Nodes are simulated. The files in the directory stages define how a simulated kubelet
// behaves. A controller gets the same status as from a kubelet of the same version: readiness gates, in-place changes
// of images and resources, native sidecars, observedGeneration, graceful deletion. Annotations on the Pod request
// states that otherwise need a real container, such as a failing probe: see [Unready], [Fail], [Complete], [Crash],
// [StartDelay] and [StopDelay].
//
// # Binaries
//
// The go command on PATH builds the binaries once from Go modules, into the user's cache directory. The first build
// takes minutes; later starts need no build. [Binary] builds or finds a binary.
//
// # Processes and data
//
// A control plane uses a directory, and runs until the process that called [Start] ends: on Linux the kernel kills
// the children, however the process dies. A later Start in the same directory begins with an empty cluster. Tests use
// package controlplanetest.
package controlplane

//go:generate go run ../internal/bundle/generate binaries binaries.txtar go.mod go.sum etcd/main.go
