// Package realnode answers the question: what does a controller do on a real Node? The package starts a real kubelet
// with containerd, runc and CNI on the machine, as root and without containers, joins the kubelet to a control plane of
// package controlplane, and serves tiny images from a registry in the test process.
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
// The package requires Linux with cgroup v1, root, a C compiler, libseccomp with its headers, and the ip command. The
// error of [Start] and [Prerequisites] names everything that is missing. The binaries are built from Go modules once,
// into the user's cache directory.
//
// # Isolation and cleaning up
//
// All processes of the Node run in their own PID and mount namespaces, under a process 1. The kernel kills process 1
// when the process that called Start dies, and with it all containers and mounts. The Node uses the machine's network,
// so that a test can reach Pods at their addresses. The next Start removes what a killed run has left (a bridge,
// cgroups, a directory): only one Node can run on a machine at a time.
package realnode

//go:generate go run ../internal/bundle/generate binaries binaries.txtar kubelet/go.mod kubelet/go.sum runtime/go.mod runtime/go.sum runtime/nodeinit/main.go runtime/app/main.go
