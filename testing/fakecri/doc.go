// Package fakecri answers the question: how do I test a program that talks to a container runtime, without a runtime?
// The package serves CRI v1, the protocol between a kubelet and a runtime, on a unix socket or in this process. The
// responses are like containerd's: error codes, short IDs, filters, labels of the kubelet, the verbose information.
//
//	server, err := fakecri.Start(fakecri.Options{Machine: machine, Images: images, Socket: path})
//	...
//	defer server.Stop()
//
// The server uses three small interfaces:
//
//   - [Machine] returns the containers of a Node. Package scripted has a Machine for tests of an agent alone, package
//     podview derives containers from the Pods of a simulated cluster, and package faultnodes shows containers before a
//     kubelet reports them.
//   - [Images] is the image store. Package imagestore has a store with rules that simulate registries.
//   - [Faults] decides for each call whether the call is delayed, hangs, fails or is cut off, or whether the whole
//     runtime restarts. [Plan] implements Faults for most tests.
//
// # What is served
//
// The server implements Version, Status, ListPodSandbox, PodSandboxStatus, ListContainers, ContainerStatus,
// StopContainer, ExecSync, ListImages, ImageStatus, PullImage, RemoveImage, ImageFsInfo. All other methods return
// Unimplemented: a kubelet cannot run with this server.
package fakecri
