package inplaceupdate

import "slices"

// unknown returns the superseded images with an unknown digest on the node, or none if the asked image is the only such
// image.
func (c *container) unknown() []string {
	all := slices.DeleteFunc(slices.Clone(c.superseded()), func(image string) bool { return c.knownDigest(image) != "" })
	if !slices.ContainsFunc(all, func(image string) bool { return image != c.spec.Image }) {
		return nil
	}
	return all
}

// isPast reports whether at least as many images as are unknown ran before the reported image. A node starts images in
// the order of requests, so the last image is the asked image. A tag may name several images in turn and is never past.
func (c *container) isPast(unknown []string) bool {
	if len(unknown) == 0 {
		return true
	}
	id, passed := digestOf(c.status.ImageID), 0
	for _, seen := range c.passed() {
		// A node may later know the same instance by another digest.
		if seen.ImageID != id && seen.ContainerID != c.status.ContainerID {
			passed++
		}
	}
	return passed >= len(unknown) && !slices.ContainsFunc(unknown, isTag)
}

// passed returns the instances of unknown images seen since the request for the first superseded image, a single
// instance per digest.
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

// passing returns the instance of an unknown image to note now. A later image tells more if a noted image came before.
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
		return seen, false // already noted under another digest
	}
	return seen, len(before) < len(unknown) && !slices.ContainsFunc(unknown, isTag)
}

// isKnown reports whether the digest belongs to a known image.
func (c *container) isKnown(digest string) bool {
	return slices.ContainsFunc(c.known(), func(k knownImage) bool { return digestOf(k.ImageID) == digest })
}

func isTag(image string) bool { return askedDigest(image) == "" }
