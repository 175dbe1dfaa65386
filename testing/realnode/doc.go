// Package realnode answers the question: what does a controller do on a real Node? The package starts a real kubelet
// with containerd, runc and CNI on this machine, as root and without containers, joins the kubelet to a control plane
// of package controlplane, and serves tiny images from a registry in this process.
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
// Linux with cgroup v1, root, a C compiler, libseccomp with its headers and the ip command. The error of [Start] and
// [Prerequisites] names everything missing. The binaries are built from Go modules once, into the user's cache
// directory.
//
// # Isolation and cleaning up
//
// All processes of the Node live in PID and mount namespaces of their own, under a process 1. The kernel kills process
// 1 together with the process that called Start, and so shims, containers and mounts go too. The network is the
// machine's, so that a test reaches Pods at their addresses. The next Start removes the remains of a kill (a bridge,
// cgroups, a directory): a machine runs a single Node at a time.
package realnode

//go:generate go run ../internal/bundle/generate binaries binaries.txtar kubelet/go.mod kubelet/go.sum runtime/go.mod runtime/go.sum runtime/nodeinit/main.go runtime/app/main.go
