package faultapi

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/testing/internal/imagename"
)

// Images contains the images in registries and the images pulled to nodes; all nodes share the pulled images.
// Different tags have different digests, unless Publish sets the digest. Digests are short, so that logs are easy to
// read.
//
// A node reports images as containerd does. The reported image is not the requested name but the first known tag of
// the same manifest, as a full name, or the ID of the image configuration if no tag is known. The reported image ID
// is the first known digest of the manifest. Images is not safe for concurrent use.
type Images struct {
	digests      map[string]string          // digests of tags, by the tags' full names
	manifests    map[string]string          // manifests for the nodes' platform, by the digests of their indexes
	tags         map[string]map[string]bool // tags known to nodes, by manifest
	ids          map[string]map[string]bool // repositories with digest known to nodes, by manifest
	broken, sick map[string]bool            // keyed by the full names of images
	changes      int                        // counts the changes of tags and ids
}

func newImages() *Images {
	return &Images{
		digests: map[string]string{}, manifests: map[string]string{}, tags: map[string]map[string]bool{}, ids: map[string]map[string]bool{},
		broken: map[string]bool{}, sick: map[string]bool{},
	}
}

// Publish makes a tag name a digest ("sha256:...") from now on. Running containers keep the digest with which they were
// started.
func (i *Images) Publish(tag, digest string) { i.digests[imagename.Full(tag)] = digest }

// PublishIndex makes an index digest refer to a manifest for the nodes' platform. Both digests then mean the same
// image.
func (i *Images) PublishIndex(index, manifest string) { i.manifests[index] = manifest }

// Pull makes an image known to the nodes, as if another workload had pulled the image. The nodes also know the images
// of all started containers.
func (i *Images) Pull(image string) {
	name, digest := imagename.Full(image), i.Digest(image)
	if !strings.Contains(name, "@") {
		i.note(i.tags, digest, name)
	}
	i.note(i.ids, digest, imagename.Repository(name)+"@"+digest)
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

// manifest returns the digest of the manifest for the nodes' platform to which a digest refers.
func (i *Images) manifest(digest string) string { return cmp.Or(i.manifests[digest], digest) }

// SetBroken sets whether pulls of an image fail. Running containers are not affected.
func (i *Images) SetBroken(image string, broken bool) { i.broken[imagename.Full(image)] = broken }

// SetSick sets whether containers of an image never become ready.
func (i *Images) SetSick(image string, sick bool) { i.sick[imagename.Full(image)] = sick }

// Digest returns the present digest of an image: the digest at the end of the name, or the digest of the tag.
func (i *Images) Digest(image string) string {
	name := imagename.Full(image)
	if _, digest, found := strings.Cut(name, "@"); found {
		return digest
	}
	if digest := i.digests[name]; digest != "" {
		return digest
	}
	return digestOf(name)
}

// reported returns the fields image and imageID of a container status.
func (i *Images) reported(digest string) (image, id string) {
	manifest := i.manifest(digest)
	image = digestOf(manifest) // the ID of the image configuration, which differs from the manifest's digest
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
