// Package realnode answers the question: what does a controller do on a real Node? It starts a real kubelet with containerd,
// runc and CNI on this machine, as root and without containers, joins it to a control plane of package controlplane, and
// serves tiny images from a registry in this process.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, Nodes: controlplane.NoNodes})
//	...
//	node, err := realnode.Start(ctx, realnode.Options{ControlPlane: cp})
//	...
//	defer node.Stop(context.WithoutCancel(ctx))
//	container.Image, err = node.Image("v1")
//
// # What it needs
//
// Linux with cgroup v1, root, a C compiler, libseccomp with its headers and the ip command. [Start] and
// [Prerequisites] name all that is missing in one error.
// The binaries are built from Go modules once, into the user's cache directory.
//
// # Isolation and cleaning up
//
// All processes of the Node live in PID and mount namespaces of their own, under a process 1 that the kernel kills together
// with the process that called Start. With it go shims, containers and mounts. The network is the machine's, so that a test
// reaches Pods at their addresses. What outlives a kill (a bridge, cgroups, a directory) is removed by the next Start: one
// Node at a time runs on a machine.
package realnode

//go:generate go run ../internal/bundle/generate binaries binaries.txtar kubelet/go.mod kubelet/go.sum runtime/go.mod runtime/go.sum runtime/nodeinit/main.go runtime/app/main.go
