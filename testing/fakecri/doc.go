// Package fakecri answers the question: how do I test a program that talks to a container runtime, without a runtime?
// The package serves CRI v1, the protocol between a kubelet and a runtime, on a unix socket or in this process.
// The answers follow containerd: codes of errors, short IDs, filters, labels of the kubelet, the verbose information.
//
//	server, err := fakecri.Start(fakecri.Options{Machine: machine, Images: images, Socket: path})
//	...
//	defer server.Stop()
//
// Behind the server stand three small interfaces:
//
//   - [Machine] is the containers of a Node. Package scripted has a Machine for tests of an agent alone, package podview
//     shows the Pods of a simulated cluster, and package faultnodes runs ahead of a kubelet's reports.
//   - [Images] is the image store. Package imagestore has a store with rules for registries.
//   - [Faults] decides for each call: delayed, hanging, failed, cut off, or the whole runtime restarted. [Plan] is the
//     Faults of most tests.
//
// # What is served
//
// Version, Status, ListPodSandbox, PodSandboxStatus, ListContainers, ContainerStatus, StopContainer, ExecSync,
// ListImages, ImageStatus, PullImage, RemoveImage, ImageFsInfo. All further methods answer Unimplemented: a kubelet
// cannot run on this server.
package fakecri
