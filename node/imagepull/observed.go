package imagepull

import (
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/reason"
)

// Image is an image stored on a Node, from the list of the container runtime.
type Image struct {
	// ID is the image's ID in the runtime.
	ID string
	// Tags and Digests are names of the image, with a tag or with a digest.
	Tags, Digests []string
	// Bytes is the size in bytes.
	Bytes uint64
}

// byName returns the images by their names. Names that do not parse are left out.
func byName(images []Image) map[Reference]*Image {
	out := map[Reference]*Image{}
	for i := range images {
		for _, name := range slices.Concat(images[i].Tags, images[i].Digests) {
			if parsed, err := Parse(name); err == nil {
				out[parsed] = &images[i]
			}
		}
	}
	return out
}

// Pull is a pull in progress, or a pull that has ended since the last call of Next.
type Pull struct {
	// Image and Round come from the Action that began the pull.
	Image Reference
	Round int64
	// Ended means that the pull has ended. Err is the error of a failed pull, and its text must not contain
	// credentials. A pull is not retried after an error marked by reason.Final.
	Ended bool
	Err   error
	// ID is the ID of the pulled image.
	ID string
	// Stopping means that the pull was stopped and has not ended yet. Such a pull still counts towards Bounds.Pulls,
	// and the result of the pull is ignored.
	Stopping bool
}

// Observed is the state of a Node. Read the ended pulls first and the images afterwards, so that Images contains the
// images of all ended pulls.
type Observed struct {
	// Listed means that Images is the complete list of the runtime. If Listed is false, no image counts as lost, and
	// no pull begins.
	Listed bool
	Images []Image
	// Pulls are the pulls in progress and the ended pulls, each image once except for stopped pulls.
	Pulls []Pull
	// Free is the free disk for images in bytes; nil if unknown.
	Free *uint64
}

// Registries lists the allowed registries: a host with port as in "registry.example:5000", a host and the beginning
// of a path as in "ghcr.io/team", all hosts of a domain as in "*.example.com", or "*" for all registries. An empty
// list allows no registry.
type Registries []string

// Allow returns nil if the registry of an image is allowed, and otherwise a reason with the code RegistryNotAllowed.
func (r Registries) Allow(image Reference) error {
	for _, entry := range r {
		host, path, _ := strings.Cut(strings.TrimSuffix(entry, "/"), "/")
		if isHostAllowed(host, image.registry) && (path == "" || image.path == path || strings.HasPrefix(image.path, path+"/")) {
			return nil
		}
	}
	return reason.Reason{Code: RegistryNotAllowed, New: image.String(), Detail: "registry " + image.registry, Remedy: "allow the registry, or use an allowed registry"}
}

func isHostAllowed(entry, host string) bool {
	entry, host = strings.ToLower(entry), strings.ToLower(host)
	domain, isDomain := strings.CutPrefix(entry, "*")
	switch {
	case entry == "*":
		return true
	case isDomain && strings.HasPrefix(domain, "."):
		return strings.HasSuffix(host, domain) && len(host) > len(domain)
	default:
		return entry == host
	}
}

// Bounds limit the pulls of a Node. The zero value allows no pull, because no registry is allowed.
type Bounds struct {
	// Pulls is the largest number of pulls at the same time; 0 or less means 1.
	Pulls int
	// Bytes is the largest size of all wanted images together, in bytes; 0 means no limit. The size of an image comes
	// from Want.Bytes or from an earlier pull. An image of unknown size is pulled unless the limit is already
	// reached.
	Bytes uint64
	// Floor is the free disk, in bytes, that must remain after each pull; 0 means no limit. If less disk than Floor
	// is free, pulls in progress are stopped, and count as failed attempts.
	Floor uint64
	// Registries are the allowed registries.
	Registries Registries
	// Window is the time of the day in which pulls begin.
	Window Window
}
