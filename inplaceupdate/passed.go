package inplaceupdate

import "slices"

// unknown returns the superseded images whose digest on this node is unknown; none where that could only be the asked one.
func (c *container) unknown() []string {
	all := slices.DeleteFunc(slices.Clone(c.superseded()), func(image string) bool { return c.knownDigest(image) != "" })
	if !slices.ContainsFunc(all, func(image string) bool { return image != c.spec.Image }) {
		return nil
	}
	return all
}

// isPast reports whether as many images as are unknown were seen to run before the one that is reported. A node starts images in the
// order in which they are asked for, so the last of them is the asked one. A tag may be of several images in turn: it is never past.
func (c *container) isPast(unknown []string) bool {
	if len(unknown) == 0 {
		return true
	}
	id, passed := digestOf(c.status.ImageID), 0
	for _, seen := range c.passed() {
		// A node may come to know one instance by another digest.
		if seen.ImageID != id && seen.ContainerID != c.status.ContainerID {
			passed++
		}
	}
	return passed >= len(unknown) && !slices.ContainsFunc(unknown, isTag)
}

// passed returns the instances of unknown images that were seen to run since the first superseded image was asked for, one of each digest.
func (c *container) passed() []passedImage {
	seen := slices.Clone(c.view.state.SeenDigests[c.name])
	record, _ := c.record()
	if id := digestOf(record.ImageID); id != "" && !c.isKnown(id) && !hasDigest(seen, id) {
		seen = append(seen, passedImage{ImageID: id})
	}
	return seen
}

func hasDigest(seen []passedImage, digest string) bool {
	return slices.ContainsFunc(seen, func(p passedImage) bool { return p.ImageID == digest })
}

// passing returns the instance of an unknown image that is to be noted, because a later one tells more if this one came before it.
func (c *container) passing() (seen passedImage, ok bool) {
	if c.spec == nil || c.status == nil || neverStarted(c.status) || c.view.nodeIsBehind() {
		return seen, false
	}
	unknown, before := c.unknown(), c.passed()
	seen = passedImage{ImageID: digestOf(c.status.ImageID), ContainerID: c.status.ContainerID}
	if seen.ImageID == "" || seen.ContainerID == "" || c.isKnown(seen.ImageID) || hasDigest(before, seen.ImageID) {
		return seen, false
	}
	if slices.ContainsFunc(before, func(p passedImage) bool { return p.ContainerID == seen.ContainerID }) {
		return seen, false // it was noted by another digest
	}
	return seen, len(before) < len(unknown) && !slices.ContainsFunc(unknown, isTag)
}

// isKnown reports whether a digest is the one of a known image.
func (c *container) isKnown(digest string) bool {
	return slices.ContainsFunc(c.known(), func(k knownImage) bool { return digestOf(k.ImageID) == digest })
}

func isTag(image string) bool { return askedDigest(image) == "" }
