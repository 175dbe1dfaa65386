package faultapi

import (
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
// digest, in full, and the digest's own ID if it knows none. It is not safe for concurrent use.
type Images struct {
	digests      map[string]string          // of tags, by their full names
	tags         map[string]map[string]bool // that nodes know, by digest
	repos        map[string]map[string]bool // that nodes know a digest from
	broken, sick map[string]bool            // by full names
	changes      int                        // of what nodes know
}

func newImages() *Images {
	return &Images{
		digests: map[string]string{}, tags: map[string]map[string]bool{}, repos: map[string]map[string]bool{},
		broken: map[string]bool{}, sick: map[string]bool{},
	}
}

// Publish lets a tag name a digest ("sha256:..."), from now on. What runs keeps the digest that it was started from.
func (i *Images) Publish(tag, digest string) { i.digests[fullImage(tag)] = digest }

// Pull lets the nodes know an image, as when another workload has pulled it. Those that their containers are started from
// they know anyway.
func (i *Images) Pull(image string) {
	name, digest := fullImage(image), i.Digest(image)
	repo := repoOf(name)
	if !strings.Contains(name, "@") {
		i.note(i.tags, digest, name)
	}
	i.note(i.repos, digest, repo)
}

func (i *Images) note(known map[string]map[string]bool, digest, name string) {
	if known[digest] == nil {
		known[digest] = map[string]bool{}
	}
	if !known[digest][name] {
		known[digest][name] = true
		i.changes++
	}
}

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
	image = digestOf(digest) // the configuration's, which is another one than the manifest's
	if tags := slices.Sorted(maps.Keys(i.tags[digest])); len(tags) > 0 {
		image = tags[0]
	}
	if repos := slices.Sorted(maps.Keys(i.repos[digest])); len(repos) > 0 {
		id = repos[0] + "@" + digest
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
