package inplaceupdate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// record returns what the container ran before its image was changed. ok is false if no update that counts has changed it.
func (c *container) record() (record containerRecord, ok bool) {
	if c.view.state == nil {
		return containerRecord{}, false
	}
	record, ok = c.view.state.LastContainerStatuses[c.name]
	return record, ok
}

// superseded returns the images that earlier, unfinished updates asked for.
func (c *container) superseded() []string {
	if c.view.state == nil {
		return nil
	}
	return c.view.state.SupersededImages[c.name]
}

// runs reports whether the instance that the node reports was started from the image of the spec. A node names an image by any
// tag it knows, and by none if the image was pulled by digest, so the name proves little. But a node restarts a container
// whose spec names another image than the instance was started from, and only then: an instance whose image is known needs no
// other proof.
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

// mayBeSuperseded reports whether the instance that is reported may be one of a superseded image: it has its name or its digest,
// or the digest that the node knows this image by is unknown. The digest that an image names does not tell that one: a node may
// know a manifest by the digest of its index, and the other way round.
func (c *container) mayBeSuperseded() bool {
	id := digestOf(c.status.ImageID)
	for _, image := range c.superseded() {
		if image != c.spec.Image && (c.knownDigest(image) == id || named(image, c.status)) {
			return true
		}
	}
	return !c.isPast(c.unknown())
}

// settled reports whether the container is known to run the image of its spec.
func (c *container) settled() bool {
	if c.spec == nil || c.status == nil || c.status.ImageID == "" || c.view.nodeIsBehind() {
		return false
	}
	if _, changed := c.record(); changed {
		return c.runs() || c.provenByTime()
	}
	// While an update waits for the end of its grace period, an unfinished one before it is recorded here alone.
	return !slices.Contains(c.superseded(), c.spec.Image)
}

// certain says how certain it is that the instance that is reported was started from the image of the spec, which it seems to
// run. sameInstance is false if it may have been started from another image: two names may be of one image, and the instance a
// crash before the restart. sameImage is false if it may even be another image, because the digest of a superseded one is
// unknown.
func (c *container) certain() (sameInstance, sameImage bool) {
	if is := c.instance(); is != nil {
		return is.Image == c.spec.Image, is.Image == c.spec.Image
	}
	id := digestOf(c.status.ImageID)
	record, changed := c.record()
	sameInstance, sameImage = !changed || id != digestOf(record.ImageID), true
	for _, known := range c.known() {
		// An image that was noted without instance was uncertain then, and still is.
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

// mayStay reports whether the instance that runs now may be one of the asked image already, so that its kubelet would not
// restart it: an image that is taken back before the kubelet has acted.
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

// notRunning says why a container whose image was changed does not run it yet.
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

// isAmbiguous reports whether a container that does not seem to run its image may have been restarted for it: another tag or digest
// of the image that it ran before, or of a superseded one, looks the same on a node that reports that name.
func (c *container) isAmbiguous() bool {
	return len(c.known()) > 0 && c.status.ImageID != "" && c.status.ContainerID != "" && c.instance() == nil
}

// neverStarted recognises what the kubelet reports about a container that has no instance yet: it waits, under the name of the
// image in the spec.
func neverStarted(status *corev1.ContainerStatus) bool {
	return status.State.Waiting != nil && status.ContainerID == "" && status.ImageID == ""
}
