package nodefit

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxHash is the largest number of characters of the hash in a Pod's name.
const maxHash = 10

// PodName returns the name for the Pod that an owner creates for a Node and a revision. For the same arguments, and
// the same results of taken, PodName returns the same name. So if two processes both believe to be the leader, or a
// process has a stale cache, no second Pod is created, because the API server refuses the name. taken reports whether
// a Pod of the given name exists; if so, PodName tries another name. A nil function means that no Pod exists. Pods of
// different revisions have different names: so a late deletion of the old Pod, by name alone, does not delete the new
// Pod.
//
// The name begins with the owner's name, shortened so that the whole name is a valid host name (63 characters).
func PodName(owner string, uid types.UID, node, revision string, taken func(name string) bool) string {
	if room := validation.DNS1123LabelMaxLength - 1 - maxHash; len(owner) > room {
		owner = strings.TrimRight(owner[:room], "-.")
	}
	for i := 0; ; i++ {
		h := fnv.New32a()
		_, _ = fmt.Fprintf(h, "%s/%s/%s/%d", uid, node, revision, i)
		name := owner + "-" + rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
		if taken == nil || !taken(name) {
			return name
		}
	}
}
