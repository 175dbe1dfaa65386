// Package imagename completes names of images as container runtimes do.
package imagename

import "strings"

// Full returns an image name as a runtime reports it: with the registry, and with a tag or a digest. If the name has
// both, the digest is kept.
func Full(image string) string {
	host, path, found := strings.Cut(image, "/")
	switch {
	case !found || !strings.ContainsAny(host, ".:") && host != "localhost":
		host, path = "docker.io", image
	case host == "index.docker.io":
		host = "docker.io"
	}
	if host == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	name, digest, byDigest := strings.Cut(host+"/"+path, "@")
	switch tagged := strings.LastIndexByte(name, ':') > strings.LastIndexByte(name, '/'); {
	case byDigest:
		return Repository(name) + "@" + digest
	case tagged:
		return name
	default:
		return name + ":latest"
	}
}

// Repository removes tag and digest from a full name. A port of the registry is kept.
func Repository(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if tag := strings.LastIndexByte(name, ':'); tag > strings.LastIndexByte(name, '/') {
		return name[:tag]
	}
	return name
}
