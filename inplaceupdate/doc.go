// Package inplaceupdate answers "can this Pod become that template without being recreated, and is it done?".
//
// A Pod that is updated in place keeps its UID, name, node, IP and volumes; its kubelet restarts only the containers whose
// image changed. The API server lets little change on a live Pod: images, labels and annotations, and cpu and memory through
// pods/resize. This package decides whether a change of template stays within that, and takes a Pod through it. Everything
// here is pure; package podpatch/podwrite sends the changes, which takes the right to patch pods, pods/status and, for resizes,
// pods/resize.
//
//   - [Updater.Plan] compares two templates and says whether the update is possible, with every field that blocks it and why.
//   - [Updater.Start] applies a possible plan to a live Pod: readiness gate off, then images, metadata and the state
//     annotation in one patch, and cpu and memory in a third if they change.
//   - [Updater.Next] looks at a Pod during an update: it waits for the grace period or a container and says which, sends the
//     next batch, or finishes by opening the readiness gate.
//
// Two templates are compared, and the differences applied to the live Pod, so it does not matter what webhooks added to the
// Pod. The fields that can be delivered are set aside and the rest is compared as a whole, so a field that a later version of
// the API adds blocks an update without a change of this code.
//
// # What "in place" means to a container
//
// The container is recreated, not only restarted: its root file system is new, volumes stay. A closed gate makes the endpoints
// controllers take the Pod out of service; it does not drain connections. For that, use the grace period (the gate closes, and
// the spec changes that much later) or preStop hooks. A kubelet that has not seen the closed gate yet may report the Pod Ready
// once more; the grace period covers that as well.
//
// # What a node cannot tell
//
// A node reports what a container runs as a name and a digest. The name is any tag of the image that the node knows, not
// necessarily the one in the spec, and not even a tag if the image was pulled by digest. The digest is any that the node knows,
// such as the one of an index for an image that was asked for by its platform's manifest. This package therefore records, in the
// state annotation, which instance of a container was started for which image and how the node reported it. A digest that is equal to
// the one in the spec proves the image; one that is not proves nothing before the image was seen under another one.
//
// Two cases only time can decide: an update to another name of the same image, and one that replaced an unfinished update to an
// image whose digest on the node is unknown. They look like a crash of the old container, or like the unfinished update. A
// kubelet ends a container with the wrong image at once. So if a kubelet that has seen the new spec leaves the new instance
// running for longer than it takes to end a container (the Pod's termination grace period and 10 seconds), the instance runs
// the new image and the update is complete. Until then the Pod stays out of service, and the reason says so. API servers before
// 1.34 do not report what a kubelet has seen: there such an update may never complete.
//
// The cases are rare if templates name images by the digest that nodes report, which is that of the index where there is one, and
// do not arise if a node agent reports runtime metadata (Keys.RuntimeMetaAnnotation). A Pod that waits can also be recreated.
//
// # Errors
//
// Every error carries a reason.Code that errors.Is finds; package reason returns the details.
//
// # Wire format
//
// Progress is kept in two annotations whose names come from [Keys]. Their JSON is that of OpenKruise, so each takes over
// an update that the other began. OpenKruise ignores the keys that this package adds.
package inplaceupdate
