// Package inplaceupdate answers "can a Pod get a new template without being recreated, and is the update done?".
//
// A Pod updated in place keeps its UID, name, node, IP and volumes; its kubelet restarts only the containers whose
// image changed. The API server lets little change on a live Pod: images, labels and annotations, and cpu and memory
// through pods/resize. The package decides whether a change of template stays within the limits of the API server, and
// takes a Pod through the update. Every function here is pure. Package podpatch/podwrite sends the changes and needs
// the right to patch pods, pods/status and, for resizes, pods/resize.
//
//   - [Updater.Plan] compares two templates and says whether the update is possible, with every blocking field and the
//     reason.
//   - [Updater.Start] applies a possible plan to a live Pod: readiness gate off, then images, metadata and the state
//     annotation in one patch, and cpu and memory in a third if they change.
//   - [Updater.Next] looks at a Pod during an update. Next names the grace period or the container to wait for, sends
//     the next batch, or finishes by opening the readiness gate.
//
// Plan compares two templates and applies the differences to the live Pod, so additions by webhooks to the Pod do not
// matter. Plan sets the deliverable fields aside and compares the rest as a whole. A field of a later API version
// therefore blocks an update without a change of code.
//
// # What "in place" means to a container
//
// The container is recreated, not only restarted: its root file system is new, volumes stay. A closed gate makes the
// endpoints controllers take the Pod out of service, but does not drain connections. To drain connections, use the
// grace period (the spec changes only a grace period after the gate closes) or preStop hooks. A kubelet may report the
// Pod Ready again before seeing the closed gate. The grace period starts with the report that the Pod is not ready.
//
// # What a node cannot tell
//
// A node reports the image of a container as a name and a digest. The name is any tag of the image known to the node,
// not necessarily the spec's tag, and not even a tag if the node pulled the image by digest. The digest is any digest
// known to the node, such as the digest of an index if the spec names the platform's manifest. The package therefore
// records, in the state annotation, each container instance with its image and the node's report of the image. A
// reported digest equal to the spec's digest proves the image. A different digest proves nothing until the node has
// reported this image once with a digest that is known to belong to the image.
//
// Only time can decide two cases: an update to another name of the same image, and an update after an unfinished update
// to an image with an unknown digest on the node. The first case looks like a crash of the old container, the second
// like the unfinished update. A kubelet ends a container with the wrong image at once. So if a kubelet has seen the new
// spec and leaves the new instance running for longer than the end of a container takes (the Pod's termination grace
// period and 10 seconds), the instance runs the new image and the update is complete. Until then the Pod stays out of
// service, and the reason says so. API servers before 1.34 do not report the spec's generation seen by the kubelet, so
// such an update may never complete there.
//
// Both cases are rare if templates name images by the digest reported by nodes: the digest of the index if an index
// exists. Neither case arises if a node agent reports runtime metadata (Keys.RuntimeMetaAnnotation). Recreating a
// waiting Pod is always possible.
//
// # Errors
//
// Every error carries a reason.Code for errors.Is. Package reason returns the details.
//
// # Wire format
//
// Two annotations with names from [Keys] hold the progress. Their JSON is OpenKruise's, so OpenKruise and the package
// take over each other's updates. OpenKruise ignores the package's additional keys.
package inplaceupdate
