package nodefit

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxHash is how many characters the hash in a Pod's name has at most.
const maxHash = 10

// PodName returns the name for the Pod of a revision created by an owner for a Node. Callers with the same answers of
// taken get the same name. So two processes that both take themselves for the leader, or a process with a late cache,
// cannot create a second Pod, because the API server refuses the name. taken reports whether a Pod of a name exists;
// nil stands for no Pods.
// PodName then tries the next name. A Pod of another revision has another name: a late deletion of the old Pod by name
// alone does not hit its successor.
//
// The name begins with the owner's name, cut so that the whole is a host name (63 characters).
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
