package inplaceupdate

import "slices"

// maxKnownImages bounds the remembered images of a container: the running image and candidates for a rollback.
const maxKnownImages = 3

// known returns the container's images with a known digest on the node, the newest last.
func (c *container) known() []knownImage {
	if c.view.state == nil {
		return nil
	}
	return c.view.state.KnownImages[c.name]
}

// instance returns the recorded facts about the reported instance, nil for a new instance.
func (c *container) instance() *knownImage {
	known := c.known()
	for i := range known {
		if known[i].ContainerID != "" && known[i].ContainerID == c.status.ContainerID {
			return &known[i]
		}
	}
	return nil
}

// knownDigest returns the known digest of an image, otherwise the empty string.
func (c *container) knownDigest(image string) string {
	known := c.known()
	for i := range known {
		if withTag(known[i].Image) == withTag(image) {
			return digestOf(known[i].ImageID)
		}
	}
	return ""
}

// learn returns the fact about the spec's image shown by the container. ok is false unless the container is known to
// run the image.
func (c *container) learn() (fact knownImage, ok bool) {
	if !c.settled() {
		return knownImage{}, false
	}
	sameInstance, sameImage := c.certain()
	fact = knownImage{Image: c.spec.Image, ImageID: digestOf(c.status.ImageID)}
	if sameInstance {
		fact.ContainerID = c.status.ContainerID
	}
	return fact, sameImage
}

// know adds a fact about an image in place of an older fact.
func (p *progress) know(container string, fact knownImage) {
	// A new slice: the old one may belong to another state.
	known := slices.DeleteFunc(slices.Clone(p.KnownImages[container]), func(k knownImage) bool { return k.Image == fact.Image })
	known = append(known, fact)
	put(&p.KnownImages, container, known[max(0, len(known)-maxKnownImages):])
}

// isLast reports whether the reported instance runs neither the image before the update nor a superseded image.
func (c *container) isLast() bool {
	record, _ := c.record()
	return digestOf(c.status.ImageID) != digestOf(record.ImageID) && !c.mayBeSuperseded()
}

// relearn notes the running images before held-back image changes go out. The containers may have restarted meanwhile.
func (v *view) relearn(images map[string]string) {
	for name, image := range images {
		c := v.container(name)
		if c.spec == nil || c.spec.Image == image {
			continue
		}
		if fact, ok := c.learn(); ok {
			v.saved.know(name, fact)
		}
	}
}

// remember turns proofs by time or by earlier images into known images, so a later crash does not raise the question
// again.
func (v *view) remember() {
	for i := range v.containers {
		c := &v.containers[i]
		if c.spec == nil || c.status == nil {
			continue
		}
		seen, timed := v.saved.Seen[c.name]
		if timed && c.status.ContainerID == seen.ContainerID || len(v.saved.SeenDigests[c.name]) > 0 && c.isLast() {
			v.saved.know(c.name, knownImage{Image: c.spec.Image, ImageID: digestOf(c.status.ImageID), ContainerID: c.status.ContainerID})
		}
	}
	v.saved.Seen, v.saved.SeenDigests = nil, nil
}
