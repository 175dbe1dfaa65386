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
	for _, digest := range c.seenDigests() {
		if digest != id {
			passed++
		}
	}
	return passed >= len(unknown) && !slices.ContainsFunc(unknown, isTag)
}

// seenDigests returns the digests of unknown images that were seen to run since the first superseded image was asked for.
func (c *container) seenDigests() []string {
	seen := slices.Clone(c.view.state.SeenDigests[c.name])
	record, _ := c.record()
	if id := digestOf(record.ImageID); id != "" && !c.isKnown(id) && !slices.Contains(seen, id) {
		seen = append(seen, id)
	}
	return seen
}

// passing returns the digest of an unknown image that is to be noted, because a later one tells more if this one came before it.
func (c *container) passing() (digest string, ok bool) {
	if c.spec == nil || c.status == nil || neverStarted(c.status) || c.view.nodeIsBehind() {
		return "", false
	}
	unknown, seen := c.unknown(), c.seenDigests()
	digest = digestOf(c.status.ImageID)
	if digest == "" || c.isKnown(digest) || slices.Contains(seen, digest) {
		return "", false
	}
	return digest, len(seen) < len(unknown) && !slices.ContainsFunc(unknown, isTag)
}

// isKnown reports whether a digest is the one of a known image.
func (c *container) isKnown(digest string) bool {
	return slices.ContainsFunc(c.known(), func(k knownImage) bool { return digestOf(k.ImageID) == digest })
}

func isTag(image string) bool { return askedDigest(image) == "" }
