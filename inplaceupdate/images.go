package inplaceupdate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// record returns the container's record from before the change of its image. ok is false unless a relevant update has
// changed the image.
func (c *container) record() (record containerRecord, ok bool) {
	if c.view.state == nil {
		return containerRecord{}, false
	}
	record, ok = c.view.state.LastContainerStatuses[c.name]
	return record, ok
}

// superseded returns the images of earlier, unfinished updates.
func (c *container) superseded() []string {
	if c.view.state == nil {
		return nil
	}
	return c.view.state.SupersededImages[c.name]
}

// runs reports whether the reported instance was started from the spec's image. A node names an image by any known tag,
// and by none if the node pulled the image by digest, so the name proves little. But a node restarts a container
// exactly when the spec names another image than the instance's start image. An instance with a known image needs no
// further proof.
func (c *container) runs() bool {
	if c.spec == nil || c.status == nil {
		return false
	}
	if is := c.instance(); is != nil {
		return is.Image == c.spec.Image
	}
	id := digestOf(c.status.ImageID)
	switch {
	case neverStarted(c.status):
		return false
	case named(c.spec.Image, c.status), id != "" && id == c.knownDigest(c.spec.Image):
		return true
	}
	record, _ := c.record()
	return id != "" && id != digestOf(record.ImageID) && !c.mayBeSuperseded()
}

// mayBeSuperseded reports whether the reported instance may run a superseded image. Either the instance has the name or
// digest of such an image, or a superseded image has an unknown digest on the node. The digest in the image's name does
// not decide: a node may know a manifest by the digest of its index, and the reverse.
func (c *container) mayBeSuperseded() bool {
	id := digestOf(c.status.ImageID)
	for _, image := range c.superseded() {
		if image != c.spec.Image && (c.knownDigest(image) == id || named(image, c.status)) {
			return true
		}
	}
	return !c.isPast(c.unknown())
}

// settled reports whether the container is known to run the spec's image.
func (c *container) settled() bool {
	if c.spec == nil || c.status == nil || c.status.ImageID == "" || c.view.nodeIsBehind() {
		return false
	}
	if _, changed := c.record(); changed {
		return c.runs() || c.provenByTime()
	}
	// During a grace period only SupersededImages records an unfinished earlier update.
	return !slices.Contains(c.superseded(), c.spec.Image)
}

// certain grades the evidence for an instance that seems to run the spec's image. sameInstance is false if the instance
// may have been started from another image. Two names can mean a single image, and the reported instance may be a crash
// before the restart. sameImage is false if the instance may even run another image, because the digest of a superseded
// image is unknown.
func (c *container) certain() (sameInstance, sameImage bool) {
	if is := c.instance(); is != nil {
		return is.Image == c.spec.Image, is.Image == c.spec.Image
	}
	id := digestOf(c.status.ImageID)
	record, changed := c.record()
	sameInstance, sameImage = !changed || id != digestOf(record.ImageID), true
	for _, known := range c.known() {
		// An image noted without an instance was uncertain then, and still is.
		other := known.Image != c.spec.Image || known.ContainerID == ""
		sameInstance = sameInstance && (!other || digestOf(known.ImageID) != id)
	}
	called := named(c.spec.Image, c.status)
	for _, other := range c.superseded() {
		if other == c.spec.Image {
			continue
		}
		digest := c.knownDigest(other)
		sameInstance = sameInstance && digest != "" && digest != id
		sameImage = sameImage && (called || digest != "")
	}
	return sameInstance, sameImage
}

// mayStay reports whether the running instance may already run the asked image, so the kubelet would not restart the
// container. Example: an image is taken back before the kubelet has acted.
func (c *container) mayStay(asked string) bool {
	if c.spec == nil || c.spec.Image == asked {
		return true
	}
	if c.settled() {
		if sameInstance, _ := c.certain(); sameInstance {
			return false
		}
	}
	return slices.Contains(c.superseded(), asked) || c.knownDigest(asked) != "" || (c.status != nil && isImage(c.status.Image, asked))
}

// notRunning says why a container with a changed image does not run the image yet.
func (c *container) notRunning() reason.Reason {
	why := reason.Reason{
		Code: ImageNotRunning, Object: c.view.object(), Path: "status.containerStatuses[" + c.name + "].imageID",
		Detail: "container " + c.name + " is not reported",
	}
	if c.spec == nil || c.status == nil {
		return why
	}
	why.Detail = "container " + c.name + " still runs " + c.status.Image + " (" + c.status.ImageID + "), not " + c.spec.Image
	if c.isAmbiguous() {
		why.Remedy = "if it was restarted, its node reports another name of the image, and only time can tell: "
		if askedDigest(c.spec.Image) == "" {
			why.Remedy += "name the image by digest, the one of its index if it has one, "
		}
		why.Remedy += "recreate the Pod, or run a node agent that reports runtime metadata"
	}
	return why
}

// isAmbiguous reports whether a container that does not seem to run its image may already be restarted. Another tag or
// digest of the container's earlier image, or of a superseded image, looks the same if the node reports that name.
func (c *container) isAmbiguous() bool {
	return len(c.known()) > 0 && c.status.ImageID != "" && c.status.ContainerID != "" && c.instance() == nil
}

// neverStarted recognises the kubelet's report for a container without an instance: the container waits under the name
// of the spec's image.
func neverStarted(status *corev1.ContainerStatus) bool {
	return status.State.Waiting != nil && status.ContainerID == "" && status.ImageID == ""
}
