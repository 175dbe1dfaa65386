package revision

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workloadkit/workloadkit/podstate"
)

// Keys are the metadata names the history uses. The kit has no defaults for them.
type Keys struct {
	// HashLabel carries the hash on each revision. Required.
	HashLabel string
	// HashVersionAnnotation, unless empty, carries HashVersion on each revision this kit creates.
	HashVersionAnnotation string
}

// Owner describes whose history it is.
type Owner struct {
	Namespace, Name string
	// Reference is the controller reference that each revision carries.
	Reference metav1.OwnerReference
	// Annotations are copied to each new revision, so that a user finds change causes there.
	Annotations map[string]string
}

// Action says what to do about the history.
type Action string

const (
	// Keep says that the newest revision is of today's template already.
	Keep Action = "Keep"
	// Bump says that an older revision is of today's template; it becomes the newest by its number and keeps name and hash.
	Bump Action = "Bump"
	// Create says that no revision is of today's template.
	Create Action = "Create"
)

// Decision is the answer of Decide.
type Decision struct {
	Action Action
	// Revision is the existing object for Keep and Bump (read only, from the caller's slice) and the one to create for
	// Create.
	Revision *appsv1.ControllerRevision
	// Number is the revision number that Revision has or gets.
	Number int64
	// Annotations are written together with the number of a Bump; the caller may add what depends on more than the template.
	Annotations map[string]string
}

// Decide finds the revision for a template among the owner's existing ones, in any order. collisions is the owner's
// count of hash collisions so far; nil leaves it out of the hash. Numbers start at 1. Two revisions of equal content are
// tolerated: the newer one is taken. Revisions whose number leaves no room for a next one are passed over: nobody counts that far,
// so somebody else has written it. The only error is a template that cannot be encoded.
func Decide(owner Owner, keys Keys, template *corev1.PodTemplateSpec, collisions *int32,
	existing []*appsv1.ControllerRevision, decoder *Decoder,
) (Decision, error) {
	data, err := Encode(template)
	if err != nil {
		return Decision{}, fmt.Errorf("history of %s/%s: %w", owner.Namespace, owner.Name, err)
	}
	sorted := slices.DeleteFunc(Sort(existing), func(rev *appsv1.ControllerRevision) bool { return rev.Revision >= math.MaxInt64/2 })
	next := int64(1)
	if n := len(sorted); n > 0 {
		newest := sorted[n-1]
		if decoder.holds(newest, template, data) {
			return Decision{Action: Keep, Revision: newest, Number: newest.Revision}, nil
		}
		next = newest.Revision + 1
		for i := n - 2; i >= 0; i-- {
			if decoder.holds(sorted[i], template, data) {
				return Decision{Action: Bump, Revision: sorted[i], Number: next}, nil
			}
		}
	}
	return Decision{Action: Create, Revision: build(owner, keys, template.Labels, data, next, collisions), Number: next}, nil
}

// Renamed returns a copy of a revision to create under the name that another collision count gives.
func Renamed(owner Owner, keys Keys, rev *appsv1.ControllerRevision, collisions int32) *appsv1.ControllerRevision {
	out := rev.DeepCopy()
	hash := Hash(rev.Data.Raw, &collisions)
	out.Name = Name(owner.Name, hash)
	out.Labels[keys.HashLabel] = hash
	return out
}

func build(owner Owner, keys Keys, templateLabels map[string]string, data []byte, number int64, collisions *int32) *appsv1.ControllerRevision {
	hash := Hash(data, collisions)
	labels := make(map[string]string, len(templateLabels)+1)
	maps.Copy(labels, templateLabels)
	labels[keys.HashLabel] = hash
	annotations := make(map[string]string, len(owner.Annotations)+1)
	maps.Copy(annotations, owner.Annotations)
	if keys.HashVersionAnnotation != "" {
		annotations[keys.HashVersionAnnotation] = HashVersion
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.Namespace,
			Name:            Name(owner.Name, hash),
			Labels:          labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{owner.Reference},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
}

// Sort returns the revisions from oldest to newest: by number, then creation, then name, so that equal numbers (which a
// user may have made by hand) still have one order. The given slice is not modified.
func Sort(revisions []*appsv1.ControllerRevision) []*appsv1.ControllerRevision {
	return slices.SortedFunc(slices.Values(revisions), func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// Find returns the revision that a Pod's revision label names, by its full name or by its hash alone, nil when it is
// not among them.
func Find(revisions []*appsv1.ControllerRevision, label string) *appsv1.ControllerRevision {
	for _, rev := range revisions {
		if podstate.SameRevision(label, rev.Name) {
			return rev
		}
	}
	return nil
}

// Counting says which revisions a history limit counts.
type Counting string

const (
	// CountUnused makes the limit the number of revisions kept beyond those in use.
	CountUnused Counting = "Unused"
	// CountAllOld makes the limit count every revision but the protected ones, in use or not; what is in use is never deleted.
	CountAllOld Counting = "AllOld"
)

// Truncate returns the revisions to delete, oldest first. protected reports the revisions that are never history (the
// current and the update revision), inUse those that a Pod was made from; protected ones need not be reported as in use.
// A negative limit counts as zero.
func Truncate(revisions []*appsv1.ControllerRevision, limit int, counting Counting,
	protected, inUse func(*appsv1.ControllerRevision) bool,
) []*appsv1.ControllerRevision {
	var unused []*appsv1.ControllerRevision
	old := 0
	for _, rev := range Sort(revisions) {
		if protected(rev) {
			continue
		}
		old++
		if !inUse(rev) {
			unused = append(unused, rev)
		}
	}
	if counting == CountUnused {
		old = len(unused)
	}
	excess := min(max(old-max(limit, 0), 0), len(unused))
	return unused[:excess]
}
