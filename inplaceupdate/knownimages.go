package inplaceupdate

import "slices"

// maxKnownImages bounds how many images of a container are remembered: the one it runs, and those it may be rolled back to.
const maxKnownImages = 3

// known returns the images of the container whose digest on this node is known, the newest last.
func (c *container) known() []knownImage {
	if c.view.state == nil {
		return nil
	}
	return c.view.state.KnownImages[c.name]
}

// instance returns what is known about the instance that is reported, nil if it was not seen before.
func (c *container) instance() *knownImage {
	known := c.known()
	for i := range known {
		if known[i].ContainerID != "" && known[i].ContainerID == c.status.ContainerID {
			return &known[i]
		}
	}
	return nil
}

// knownDigest returns the digest of an image that is known, nothing for others.
func (c *container) knownDigest(image string) string {
	known := c.known()
	for i := range known {
		if withTag(known[i].Image) == withTag(image) {
			return digestOf(known[i].ImageID)
		}
	}
	return ""
}

// learn returns what the container teaches about the image of its spec. ok is false if it is not known to run that image.
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

// know adds a fact about an image in place of an older one.
func (p *progress) know(container string, fact knownImage) {
	// A new slice: the old one may belong to another state.
	known := slices.DeleteFunc(slices.Clone(p.KnownImages[container]), func(k knownImage) bool { return k.Image == fact.Image })
	known = append(known, fact)
	put(&p.KnownImages, container, known[max(0, len(known)-maxKnownImages):])
}

// isLast reports whether the instance that is reported is neither of the image before the update nor of a superseded one.
func (c *container) isLast() bool {
	record, _ := c.record()
	return digestOf(c.status.ImageID) != digestOf(record.ImageID) && !c.mayBeSuperseded()
}

// relearn notes what containers run when a change of their images that was held back goes out: they may have been restarted
// meanwhile.
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

// remember turns what time or an earlier image has proven into known images, so that a later crash does not raise the question
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
