package inplaceupdate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// named reports whether the asked image has the digest or the name of the image in the node's report.
func named(asked string, status *corev1.ContainerStatus) bool {
	id := digestOf(status.ImageID)
	return (id != "" && id == askedDigest(asked)) || isImage(status.Image, asked)
}

// isName reports whether a node reports an image by a name. An image without a tag has its ID instead: its tag has
// moved to another image.
func isName(image string) bool {
	algorithm, _, isID := strings.Cut(image, ":")
	return image != "" && (!isID || algorithm != "sha256" && algorithm != "sha512")
}

// digestOf returns the digest in an image ID as nodes report IDs, such as docker-pullable://app@sha256:1, or the ID
// itself if the ID names no repository.
func digestOf(imageID string) string {
	if at := strings.LastIndex(imageID, "@"); at >= 0 {
		return imageID[at+1:]
	}
	if at := strings.LastIndex(imageID, "://"); at >= 0 {
		return imageID[at+len("://"):]
	}
	return imageID
}

// askedDigest returns the digest in an image name, empty for a tag.
func askedDigest(image string) string {
	_, digest, _ := strings.Cut(image, "@")
	return digest
}

// isImage reports whether the image reported by a runtime is the image asked for in a spec. Runtimes report names in
// full: docker.io/library/app:v2 is app:v2.
func isImage(running, asked string) bool {
	asked = withTag(asked)
	return running == asked || fullName(running) == fullName(asked)
}

// fullName adds the omitted parts of an image name: the registry if the first part names no host, and library before a
// name of a single part in docker.io. The rest of the name stays.
func fullName(image string) string {
	host, path, found := strings.Cut(image, "/")
	if !found || (!strings.ContainsAny(host, ".:") && host != "localhost") {
		host, path = "docker.io", image
	}
	if host == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	return host + "/" + path
}

// withTag appends the tag latest to an image without tag and digest. A port before the first slash is no tag.
func withTag(image string) string {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.ContainsAny(name, ":@") {
		return image
	}
	return image + ":latest"
}
