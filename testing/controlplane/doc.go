// Package controlplane answers the question: how do I test a controller against the real thing on one machine, without
// containers and without a cluster? It starts a real etcd, kube-apiserver, kube-controller-manager and kube-scheduler as
// plain processes on loopback ports, and kwok, which plays the kubelets of any number of simulated Nodes.
//
// # What is real
//
// Admission, storage, watches, conflicts, priority and fairness, garbage collection, scheduling, quota, Jobs, Deployments:
// all of it. Only the Nodes are simulated. The stages in the directory stages say what a simulated kubelet does; they are
// written so that a controller sees the status that a kubelet of the same version would report: readiness gates, in-place
// changes of images and resources, native sidecars, observedGeneration, graceful deletion. What no container could show,
// such as a probe that fails, is asked for by annotations on the Pod: see [Unready], [Fail], [Complete], [Crash],
// [StartDelay] and [StopDelay].
//
// # Binaries
//
// The binaries are built from Go modules with the go command on PATH, once, into the user's cache directory; the first build
// takes minutes, everything after it none. [Binary] builds or finds one.
//
// # Processes and data
//
// A control plane lives in a directory and lasts as long as the process that started it: its children are killed by the
// kernel (Linux) when that process dies in whatever way, and a later [Start] in the same directory begins with an empty
// cluster. Tests use package controlplanetest.
package controlplane

//go:generate go run ../internal/bundle/generate binaries binaries.txtar go.mod go.sum etcd/main.go
