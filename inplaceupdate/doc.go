// Package inplaceupdate answers "can a Pod get a new template without being recreated, and is the update done?".
//
// A Pod updated in place keeps its UID, name, node, IP and volumes; its kubelet restarts only the containers whose
// image changed. On a running Pod the API server allows few changes: images, labels and annotations, and cpu and
// memory through pods/resize. The package decides whether such changes are enough to reach a new template, and takes
// a Pod through the update. Every function of the package is pure, so no function sends a request. Package
// podpatch/podwrite sends the changes and needs the right to patch pods, pods/status and, for resizes, pods/resize.
//
//   - [Updater.Plan] compares two templates and says whether the update is possible, with every blocking field and the
//     reason.
//   - [Updater.Start] begins an update of a live Pod: the first patch closes the readiness gate, the second changes
//     images, metadata and the state annotation, and a third changes cpu and memory if needed.
//   - [Updater.Next] looks at a Pod during an update. Next names the grace period or the container that the update
//     waits for, sends the next batch of images, or finishes the update by opening the readiness gate.
//
// Plan compares two templates, and Start applies their differences to the live Pod, so fields that webhooks have
// added to the Pod do not matter. Plan handles separately the fields that can be updated in place, and requires all
// other fields to be equal. A field added by a later API version therefore blocks an in-place update, even if the
// package does not know the field.
//
// # What "in place" means to a container
//
// The kubelet recreates a container whose image changed: the new container has a new root file system and the same
// volumes. A closed gate makes the endpoints controllers take the Pod out of service, but does not drain connections.
// To drain connections, use preStop hooks or a grace period, the time between closing the gate and changing the spec.
// A kubelet may report the Pod as Ready again before the kubelet has observed the closed gate. The grace period
// therefore starts when the Pod's status says that the Pod is not ready.
//
// # What a node cannot tell
//
// A node reports the image of a container as a name and a digest. The name is any tag of the image known to the node,
// not necessarily the spec's tag, and not even a tag if the node pulled the image by digest. The digest is any digest
// that the node knows for the image: if the spec names a platform's manifest, the node may report the digest of the
// index (a multi-platform image). The state annotation therefore records, for a running container, the spec's image
// and the digest reported by the node. If the reported digest equals the spec's digest, the container runs the spec's
// image. A different digest proves nothing until the node has reported a digest that is known to belong to the spec's
// image.
//
// Two cases can be decided only by waiting: an update to another name of the same image, and an update that follows an
// unfinished update to an image whose digest the node has not reported. In the first case, a restarted container looks
// like a crash of the old container; in the second, the container may run the image of the unfinished update. A kubelet
// stops a container with the wrong image at once. So the update is complete if the kubelet has observed the new spec
// (status.observedGeneration), and the new instance still runs after the time that stopping a container takes: the
// Pod's termination grace period and 10 seconds. Until then the Pod stays out of service, and the returned reason says
// why. API servers before 1.34 do not report which generation of the spec the kubelet has observed, so with these API
// servers such an update may never complete.
//
// Both cases are rare if templates name images by the digest that nodes report: the digest of the index if the image
// has an index. Neither case arises if a node agent reports runtime metadata (Keys.RuntimeMetaAnnotation). Recreating a
// Pod that waits is always possible.
//
// # The second that a kubelet needs
//
// A kubelet evaluates a Pod's readiness gates when the kubelet inspects the Pod's containers, once a second. After a
// restart, a kubelet inspects the Pod at once, finds the gate closed, and inspects the Pod again a second later. If a
// node agent reports a new instance as soon as the instance is created (runtimemeta.Container.CreatedAt), the update
// completes and the gate opens before this second inspection. The kubelet must report status.observedGeneration for
// this. The Pod never becomes Ready before the new instance is ready: a kubelet never computes Ready from the
// container states before a restart, unless the alpha feature EventedPLEG is on. For a container with a startup
// probe, the update is complete only when the kubelet has reported the new instance.
//
// # Startup probes
//
// Kubelets since Kubernetes 1.35 report a restarted container as started until the first run of the startup probe.
// Without a closed gate, a Pod whose container has no readiness probe would be Ready at once. The gate of such a Pod
// stays closed until the kubelet has reported that the new instance has not started, or until a period of the startup
// probe and 3 seconds have passed.
//
// # Errors
//
// Every error carries a reason.Code for errors.Is. Package reason returns the details of an error.
//
// # Wire format
//
// Two annotations of the Pod, with names from [Keys], record the progress of an update. Their JSON is OpenKruise's
// format, so OpenKruise and the package can continue each other's updates. OpenKruise ignores the package's additional
// keys.
package inplaceupdate
