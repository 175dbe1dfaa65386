package faultapi

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// Images is what registries offer and what nodes have pulled from it; all nodes share one store of images. A tag names a
// digest of its own unless Publish says otherwise. Digests are short, so that stories can be read.
//
// A node reports what containerd does: not the image that was asked for but the first of the tags that it knows for the same
// manifest, in full, and the ID of its configuration if it knows none; and the first of the digests that it knows for it. It is not
// safe for concurrent use.
type Images struct {
	digests      map[string]string          // of tags, by their full names
	manifests    map[string]string          // of the nodes' platform, by the digests of their indexes
	tags         map[string]map[string]bool // that nodes know, by manifest
	ids          map[string]map[string]bool // that nodes know, a repository with a digest, by manifest
	broken, sick map[string]bool            // by full names
	changes      int                        // of what nodes know
}

func newImages() *Images {
	return &Images{
		digests: map[string]string{}, manifests: map[string]string{}, tags: map[string]map[string]bool{}, ids: map[string]map[string]bool{},
		broken: map[string]bool{}, sick: map[string]bool{},
	}
}

// Publish lets a tag name a digest ("sha256:..."), from now on. What runs keeps the digest that it was started from.
func (i *Images) Publish(tag, digest string) { i.digests[fullImage(tag)] = digest }

// PublishIndex lets the digest of an index stand for a manifest, the one of the nodes' platform: both are one image.
func (i *Images) PublishIndex(index, manifest string) { i.manifests[index] = manifest }

// Pull lets the nodes know an image, as when another workload has pulled it. Those that their containers are started from
// they know anyway.
func (i *Images) Pull(image string) {
	name, digest := fullImage(image), i.Digest(image)
	if !strings.Contains(name, "@") {
		i.note(i.tags, digest, name)
	}
	i.note(i.ids, digest, repoOf(name)+"@"+digest)
}

func (i *Images) note(known map[string]map[string]bool, digest, name string) {
	manifest := i.manifest(digest)
	if known[manifest] == nil {
		known[manifest] = map[string]bool{}
	}
	if !known[manifest][name] {
		known[manifest][name] = true
		i.changes++
	}
}

// manifest returns the digest of the manifest that a node of the platform finds behind a digest.
func (i *Images) manifest(digest string) string { return cmp.Or(i.manifests[digest], digest) }

// SetBroken says whether an image cannot be pulled. What runs already goes on.
func (i *Images) SetBroken(image string, broken bool) { i.broken[fullImage(image)] = broken }

// SetSick says whether the program in an image never becomes ready.
func (i *Images) SetSick(image string, sick bool) { i.sick[fullImage(image)] = sick }

// Digest returns what an image is now: the digest that its name ends with, or the one that its tag names.
func (i *Images) Digest(image string) string {
	name := fullImage(image)
	if _, digest, found := strings.Cut(name, "@"); found {
		return digest
	}
	if digest := i.digests[name]; digest != "" {
		return digest
	}
	return digestOf(name)
}

// reported returns image and imageID of a container's status.
func (i *Images) reported(digest string) (image, id string) {
	manifest := i.manifest(digest)
	image = digestOf(manifest) // the configuration's, which is another one than the manifest's
	if tags := slices.Sorted(maps.Keys(i.tags[manifest])); len(tags) > 0 {
		image = tags[0]
	}
	if ids := slices.Sorted(maps.Keys(i.ids[manifest])); len(ids) > 0 {
		id = ids[0]
	}
	return image, id
}

func digestOf(content string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(content))
	return fmt.Sprintf("sha256:%016x", h.Sum64())
}

// fullImage returns the name that a runtime knows an image by: with its registry, and with a tag or a digest, of which the
// digest counts.
func fullImage(image string) string {
	host, path, found := strings.Cut(image, "/")
	if !found || (!strings.ContainsAny(host, ".:") && host != "localhost") {
		host, path = "docker.io", image
		if !strings.Contains(path, "/") {
			path = "library/" + path
		}
	}
	name, digest, byDigest := strings.Cut(host+"/"+path, "@")
	switch tagged := strings.LastIndexByte(name, ':') > strings.LastIndexByte(name, '/'); {
	case byDigest:
		return repoOf(name) + "@" + digest
	case tagged:
		return name
	default:
		return name + ":latest"
	}
}

// repoOf cuts tag and digest off a full name. A port is no tag.
func repoOf(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if tag := strings.LastIndexByte(name, ':'); tag > strings.LastIndexByte(name, '/') {
		return name[:tag]
	}
	return name
}
