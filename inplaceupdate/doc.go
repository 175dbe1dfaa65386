// Package inplaceupdate answers "can this Pod become that template without being recreated, and is it done?".
//
// A Pod that is updated in place keeps its UID, name, node, IP and volumes; only the containers whose image changed are
// restarted by their kubelet. What the API server lets change on a live Pod is little: images, labels and annotations, and
// cpu and memory through pods/resize. This package decides whether a change of template stays within that, and takes a Pod
// through it. Everything here is pure; package podpatch/podwrite sends what was decided, for which it needs to patch pods,
// pods/status and, for resizes, pods/resize.
//
//   - [Config.Plan] compares two templates and says possible or not, with every field that stands in the way and why.
//   - [Config.Start] lays a possible plan on a live Pod: readiness gate off, then images, metadata and the state
//     annotation in one patch, and cpu and memory in a third if they change.
//   - [Config.Next] looks at a Pod in the middle of an update: wait for the grace period or a container and say which,
//     send the next batch, or finish by opening the readiness gate.
//
// Template is compared with template and the result laid on the live Pod, so whatever webhooks injected into Pods makes no
// difference. Deliverable fields are neutralised and the rest is compared as a whole: a field that a later version of the
// API adds is noticed without a change here.
//
// # What "in place" means to a container
//
// The container is recreated, not restarted: its root file system is new, volumes stay. Closing the gate makes endpoints
// controllers take the Pod out of service; it does not drain connections. That is the job of the grace period (the gate
// closes, the spec changes that many seconds later) or of preStop hooks. A kubelet that has not seen the closed gate yet may
// report the Pod Ready once more; the grace period outlasts that as well.
//
// # What a node cannot tell
//
// A node reports what a container runs as a name and a digest. The name is any tag of the image that the node knows, not
// the one in the spec, and for an image that was pulled by digest it is no tag at all. This package therefore remembers, in
// the state annotation, which instance of a container was started for which image, and compares digests where it has them.
// One thing only time can tell: an update to another tag of the very same image, or to one that overtook an image of unknown
// digest, on a node that names any tag but the new one, looks like a crash of the old container. It is complete when the kubelet, which
// has seen the new spec, has left the new instance alone for longer than it takes to end a container (the Pod's termination
// grace period and 10 seconds), because it ends one of another image at once. Until then the Pod stays out of service, and the
// reason says so. API servers before 1.34 do not say what a kubelet has seen: there such an update never completes.
//
// None of that happens where templates name images by digest, or where a node agent reports runtime metadata
// (Keys.RuntimeMetaAnnotation). A Pod that waits can also be recreated.
//
// # Wire format
//
// Progress is kept in two annotations whose names come from [Keys]. Their JSON is that of OpenKruise, so each takes over
// what the other left in the middle of an update. OpenKruise ignores the keys that this package adds.
package inplaceupdate
