package inplaceupdate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// named reports whether the asked image is what the node calls the one that runs, by digest or by name.
func named(asked string, status *corev1.ContainerStatus) bool {
	id := digestOf(status.ImageID)
	return (id != "" && id == askedDigest(asked)) || isImage(status.Image, asked)
}

// isName reports whether a node reports an image by a name. One without a tag, because that is of another image by now, has its ID instead.
func isName(image string) bool {
	algorithm, _, isID := strings.Cut(image, ":")
	return image != "" && (!isID || algorithm != "sha256" && algorithm != "sha512")
}

// digestOf returns the digest in an image ID as nodes report it, such as docker-pullable://app@sha256:1, or the ID itself
// if it names no repository.
func digestOf(imageID string) string {
	if at := strings.LastIndex(imageID, "@"); at >= 0 {
		return imageID[at+1:]
	}
	if at := strings.LastIndex(imageID, "://"); at >= 0 {
		return imageID[at+len("://"):]
	}
	return imageID
}

// askedDigest returns the digest that an image names, nothing for one that names a tag.
func askedDigest(image string) string {
	_, digest, _ := strings.Cut(image, "@")
	return digest
}

// isImage reports whether the image that a runtime reports is the one that a spec asks for. Runtimes report names in full:
// docker.io/library/app:v2 is app:v2.
func isImage(running, asked string) bool {
	asked = withTag(asked)
	return running == asked || fullName(running) == fullName(asked)
}

// fullName expands what image names leave out: the registry if the first part names no host, and library before a name of one
// part there. The rest of the name is kept as it is.
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

// withTag appends the tag that is meant by an image without tag and digest. A port before the first slash is no tag.
func withTag(image string) string {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.ContainsAny(name, ":@") {
		return image
	}
	return image + ":latest"
}
