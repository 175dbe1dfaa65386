package pullsecret

import (
	"errors"
	"net"
	"net/url"
	"path"
	"strings"
)

// Image is the name of an image, without tag and digest.
type Image struct {
	// Host is the registry's host, with the port if any: "registry.example.com:5000". Docker Hub is "docker.io".
	Host string
	// Path is the path of the repository: "library/nginx".
	Path string
}

// String returns the name as in an image reference: "docker.io/library/nginx".
func (i Image) String() string { return i.Host + "/" + i.Path }

// dockerHub is the host under which docker stores the credentials of Docker Hub.
const dockerHub = "index.docker.io"

func (i Image) isOfDockerHub() bool { return i.Host == "docker.io" || i.Host == dockerHub }

// Match reports whether a pattern of an image credential provider matches an image: a host that may contain globs, an
// optional port, and the beginning of a path. No pattern matches an image without a host, and an invalid pattern
// matches no image. Source: URLsMatch in the kubelet's pkg/credentialprovider/keyring.go.
func Match(pattern string, image Image) bool {
	place, err := parsePlace(pattern)
	return err == nil && place.matches(image)
}

// place is a parsed registry name: the registry, or the part of a registry, to which credentials apply.
type place struct {
	key    string   // the registry name without scheme, user and API version
	labels []string // the host's labels, with globs
	port   string
	path   string
}

// errRegistryName has no details, because the parser's error would repeat the registry name, perhaps with a password.
var errRegistryName = errors.New("the registry name is not a host with an optional port and path")

// parseRegistry parses a registry name from a docker configuration: with or without scheme, and perhaps with the path
// /v1/ or /v2/ of the registry's API.
func parseRegistry(name string) (place, error) {
	if !strings.HasPrefix(name, "https://") && !strings.HasPrefix(name, "http://") {
		name = "https://" + name
	}
	parsed, err := url.Parse(name)
	if err != nil {
		return place{}, errRegistryName
	}
	below := parsed.Path
	if strings.HasPrefix(below, "/v1/") || strings.HasPrefix(below, "/v2/") {
		below = below[len("/v1"):]
	}
	if below == "/" {
		below = ""
	}
	return parsePlace(parsed.Host + below)
}

// parsePlace parses a registry name without scheme.
func parsePlace(key string) (place, error) {
	parsed, err := url.Parse("https://" + key)
	if err != nil || parsed.Host == "" || parsed.User != nil {
		return place{}, errRegistryName
	}
	labels, port := splitHost(parsed.Host)
	for _, label := range labels {
		if _, err := path.Match(label, ""); err != nil {
			return place{}, errRegistryName
		}
	}
	return place{key: key, labels: labels, port: port, path: parsed.Path}, nil
}

func splitHost(hostPort string) (labels []string, port string) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		host, port = hostPort, ""
	}
	return strings.Split(host, "."), port
}

func (p *place) matches(image Image) bool {
	labels, port := splitHost(image.Host)
	if image.Host == "" || port != p.port || len(labels) != len(p.labels) {
		return false
	}
	if !strings.HasPrefix("/"+image.Path, p.path) {
		return false
	}
	for i, label := range labels {
		if matched, err := path.Match(p.labels[i], label); err != nil || !matched {
			return false
		}
	}
	return true
}
