package imagepull

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/workloadkit/workloadkit/reason"
)

// These are the parts of image names that may be omitted.
const (
	hub       = "docker.io"
	hubLegacy = "index.docker.io"
	hubPrefix = "library/"
	latest    = "latest"
)

// These are the largest lengths in bytes, as in github.com/distribution/reference.
const (
	longestPath = 255
	longestTag  = 128
	// longestHost is the largest length of a registry with its port: a DNS name has at most 253 bytes.
	longestHost = 260
)

// Reference is the name of an image with a tag or a digest. A Reference is comparable: equal References name the same
// image. The zero value names no image; make a Reference with Parse or Join.
type Reference struct {
	registry, path string
	version        string // a tag or a digest
}

// Parse reads the name of an image as container runtimes do (github.com/distribution/reference, ParseDockerRef):
// without a registry in the name, the registry is docker.io, and without a tag, the tag is "latest". If the name has
// a tag and a digest, the tag is dropped. The error has the code InvalidImage.
func Parse(image string) (Reference, error) {
	name, digest, byDigest := strings.Cut(image, "@")
	tag := ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		if name, tag = name[:i], name[i+1:]; !isTag(tag) {
			return Reference{}, invalidImage(image, "the tag is not valid")
		}
	}
	switch {
	case byDigest && !isDigest(digest):
		return Reference{}, invalidImage(image, "the digest is not valid")
	case byDigest:
		return named(image, name, digest)
	default:
		return named(image, name, cmp.Or(tag, latest))
	}
}

// Join makes a Reference from a name without tag, and from a tag or a digest. The error has the code InvalidImage.
func Join(name, version string) (Reference, error) {
	if !isTag(version) && !isDigest(version) {
		return Reference{}, invalidImage(name+":"+version, "neither a tag nor a digest")
	}
	return named(name, name, version)
}

// named splits a name into registry and path.
func named(image, name, version string) (Reference, error) {
	r := Reference{registry: hub, path: name, version: version}
	host, rest, found := strings.Cut(name, "/")
	if found && (strings.ContainsAny(host, ".:") || host == "localhost" || strings.ToLower(host) != host) {
		r.registry, r.path = host, rest
	}
	if r.registry == hubLegacy {
		r.registry = hub
	}
	if r.registry == hub && !strings.Contains(r.path, "/") {
		r.path = hubPrefix + r.path
	}
	switch {
	case !isHost(r.registry):
		return Reference{}, invalidImage(image, "the registry is not valid")
	case !isPath(r.path):
		return Reference{}, invalidImage(image, "the name is not valid: lower case letters and digits are needed")
	case len(name) == 64 && isHex(name):
		return Reference{}, invalidImage(image, "64 hexadecimal digits are the ID of an image")
	}
	return r, nil
}

func invalidImage(image, detail string) error {
	return reason.Reason{Code: InvalidImage, New: strconv.Quote(reason.Shorten(image, 128)), Detail: detail, Remedy: "correct the name of the image"}
}

// IsZero reports whether the Reference names no image.
func (r Reference) IsZero() bool { return r == Reference{} }

// Registry returns the host of the registry, with the port if the name has a port.
func (r Reference) Registry() string { return r.registry }

// Repository returns the full name without tag and digest: "docker.io/library/nginx".
func (r Reference) Repository() string {
	if r.IsZero() {
		return ""
	}
	return r.registry + "/" + r.path
}

// Path returns the path of the repository in the registry: "library/nginx".
func (r Reference) Path() string { return r.path }

// Name returns the short name without tag and digest: "nginx" for docker.io/library/nginx.
func (r Reference) Name() string {
	if r.registry != hub {
		return r.Repository()
	}
	if short, found := strings.CutPrefix(r.path, hubPrefix); found && !strings.Contains(short, "/") {
		return short
	}
	return r.path
}

// Version returns the tag or the digest.
func (r Reference) Version() string { return r.version }

// Digest returns the digest, or "" if the Reference has a tag.
func (r Reference) Digest() string {
	if strings.Contains(r.version, ":") {
		return r.version
	}
	return ""
}

// Normal returns the full name with tag or digest, as container runtimes list and pull images.
func (r Reference) Normal() string { return joined(r.Repository(), r.version) }

// String returns the short name with tag or digest.
func (r Reference) String() string { return joined(r.Name(), r.version) }

func joined(name, version string) string {
	switch {
	case version == "":
		return name
	case strings.Contains(version, ":"):
		return name + "@" + version
	default:
		return name + ":" + version
	}
}

// isTag reports whether a string is a tag: at most 128 letters, digits, underscores, dots and dashes, with no dot or
// dash at the beginning.
func isTag(s string) bool {
	if s == "" || len(s) > longestTag || s[0] == '.' || s[0] == '-' {
		return false
	}
	return only(s, func(c byte) bool {
		return isAlphanumeric(c) || 'A' <= c && c <= 'Z' || c == '_' || c == '.' || c == '-'
	})
}

// isDigest reports whether a string is a digest with an algorithm that container runtimes know
// (github.com/opencontainers/go-digest).
func isDigest(s string) bool {
	algorithm, sum, _ := strings.Cut(s, ":")
	length := 0
	switch algorithm {
	case "sha256":
		length = 64
	case "sha384":
		length = 96
	case "sha512":
		length = 128
	}
	return length > 0 && len(sum) == length && isHex(sum)
}

// isHost reports whether a string is a host with an optional port.
func isHost(s string) bool {
	if len(s) > longestHost {
		return false
	}
	host := s
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		if host = s[:i]; !isPort(s[i+1:]) {
			return false
		}
	}
	if inner, found := strings.CutPrefix(host, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		return found && inner != "" && only(inner, func(c byte) bool { return c == ':' || isHexDigit(c) || 'A' <= c && c <= 'F' })
	}
	for part := range strings.SplitSeq(strings.ToLower(host), ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' {
			return false
		}
		if !only(part, func(c byte) bool { return isAlphanumeric(c) || c == '-' }) {
			return false
		}
	}
	return true
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// isPath reports whether a string is the path of a repository. The parts of a path contain lower case letters and
// digits, separated by a dot, one or two underscores, or dashes.
func isPath(s string) bool {
	if len(s) > longestPath {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || !isAlphanumeric(part[0]) || !isAlphanumeric(part[len(part)-1]) {
			return false
		}
		for _, separator := range strings.FieldsFunc(part, func(c rune) bool { return c < 0x80 && isAlphanumeric(byte(c)) }) {
			if separator != "." && separator != "_" && separator != "__" && strings.Trim(separator, "-") != "" {
				return false
			}
		}
	}
	return true
}

func isAlphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func isHexDigit(c byte) bool { return 'a' <= c && c <= 'f' || '0' <= c && c <= '9' }

func isHex(s string) bool { return only(s, isHexDigit) }

func only(s string, fits func(byte) bool) bool {
	for i := range len(s) {
		if !fits(s[i]) {
			return false
		}
	}
	return true
}
