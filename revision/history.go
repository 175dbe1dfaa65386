package revision

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workloadkit/workloadkit/reason"
)

// Keys are the metadata names the history uses. The kit has no defaults for them.
type Keys struct {
	// HashLabel carries the hash on each revision. Required.
	HashLabel string
	// HashVersionAnnotation, unless empty, carries HashVersion on each revision this kit creates.
	HashVersionAnnotation string
	// ClaimTemplatesAnnotation, unless empty, carries the claim templates that Pods of a revision are made with: see
	// History.RecordClaims.
	ClaimTemplatesAnnotation string
}

// Owner describes whose history it is. Make it with OwnerOf.
type Owner struct {
	Namespace, Name string
	// Reference is the controller reference that each revision carries.
	Reference metav1.OwnerReference
	// Annotations are copied to each new revision, so that a user finds change causes there.
	Annotations map[string]string
	// Deleting is set while the owner has a deletionTimestamp. Nothing is written then.
	Deleting bool
}

// OwnerOf describes an object as the owner of a history. kind is its API kind, which objects from a cache do not carry.
func OwnerOf(object metav1.Object, kind schema.GroupVersionKind) Owner {
	return Owner{
		Namespace: object.GetNamespace(), Name: object.GetName(), Reference: *metav1.NewControllerRef(object, kind),
		Annotations: object.GetAnnotations(), Deleting: object.GetDeletionTimestamp() != nil,
	}
}

// Histories reads the histories of the owners of one kind. It is safe for concurrent use. Make it with NewHistories.
type Histories struct {
	keys    Keys
	decoder *Decoder
}

// NewHistories returns what reads histories kept under the keys. The decoder may be shared with an inplaceupdate.Planner. The
// error says which of the two is missing.
func NewHistories(keys Keys, decoder *Decoder) (*Histories, error) {
	switch {
	case keys.HashLabel == "":
		return nil, errors.New("revision: Keys.HashLabel is required")
	case decoder == nil:
		return nil, errors.New("revision: a decoder is required")
	}
	return &Histories{keys: keys, decoder: decoder}, nil
}

// Of returns the history of an owner. collisions is the count of hash collisions that its status keeps; nil leaves it out of the
// hash. revisions are the owner's, in any order; the slice is not modified.
func (h *Histories) Of(owner Owner, collisions *int32, revisions []*appsv1.ControllerRevision) *History {
	return &History{owner: owner, keys: h.keys, decoder: h.decoder, Collisions: collisions, Revisions: Sort(revisions)}
}

// History is the history of one owner. It is not safe for concurrent use while package revision/history writes it.
type History struct {
	// Revisions are all of them, from oldest to newest. The objects are read only.
	Revisions []*appsv1.ControllerRevision
	// Update is the revision of today's template, nil before history.Sync.
	Update *appsv1.ControllerRevision
	// Collisions is the count to keep in the owner's status. It grows when a name is taken by other data.
	Collisions *int32

	owner   Owner
	keys    Keys
	decoder *Decoder
}

// Owner returns whose history it is.
func (h *History) Owner() Owner { return h.owner }

// Find returns the revision that a Pod's revision label names, by its full name or by its hash alone, nil when it is
// not among them.
func (h *History) Find(label string) *appsv1.ControllerRevision {
	for _, rev := range h.Revisions {
		if Same(label, rev.Name) {
			return rev
		}
	}
	return nil
}

// Current returns the revision that is being replaced by Update, under the name that the owner's status keeps. Without a record
// of it, that is Update itself.
func (h *History) Current(name string) *appsv1.ControllerRevision {
	if h.Update != nil && name == h.Update.Name {
		return h.Update
	}
	for _, rev := range h.Revisions {
		if rev.Name == name {
			return rev
		}
	}
	return h.Update
}

// Twins returns the owner's other revisions of the same template as Update, which somebody else has written: Pods at them are not to be
// updated but to have their label changed. There are none before Update is known.
func (h *History) Twins() (twins []*appsv1.ControllerRevision) {
	if h.Update == nil {
		return nil
	}
	template, err := h.Template(h.Update)
	if err != nil {
		return nil
	}
	for _, rev := range h.Revisions {
		ref := metav1.GetControllerOfNoCopy(rev)
		if rev.Name != h.Update.Name && ref != nil && ref.UID == h.owner.Reference.UID && h.decoder.holds(rev, template, h.Update.Data.Raw) {
			twins = append(twins, rev)
		}
	}
	return twins
}

// UnknownRevision means that a revision is asked for that is not in the history, as Find says by nil.
const UnknownRevision reason.Code = "UnknownRevision"

// Template returns the Pod template that a revision holds, shared with others: read only. The error is UnknownRevision for nil,
// otherwise that of Decode.
func (h *History) Template(rev *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	if rev == nil {
		return nil, reason.Reason{
			Code: UnknownRevision, Object: reason.Object{Kind: h.owner.Reference.Kind, Namespace: h.owner.Namespace, Name: h.owner.Name},
			Remedy: "recreate the Pod",
		}
	}
	content, err := h.decoder.Content(rev)
	if err != nil {
		return nil, err
	}
	return content.Template, nil
}

// Action says what to do about the history.
type Action string

const (
	// Keep says that the newest revision is of today's template already. Nothing is written but Decision.Annotations.
	Keep Action = "Keep"
	// Bump says that an older revision is of today's template; it becomes the newest by its number and keeps name and hash.
	Bump Action = "Bump"
	// Create says that no revision is of today's template.
	Create Action = "Create"
)

// Decision is the answer of History.Decide.
type Decision struct {
	Action Action
	// Revision is the existing object for Keep and Bump (read only, from the caller's slice) and the one to create for
	// Create.
	Revision *appsv1.ControllerRevision
	// Number is the revision number that Revision has or gets.
	Number int64
	// Annotations are written on the revision of a Keep or Bump; the caller may add what depends on more than the template.
	Annotations map[string]string
}

// maxNumber is the highest number that a revision gets. Nobody counts that far: who has a higher one was numbered by somebody else.
const maxNumber = math.MaxInt64/2 - 1

// Decide finds the revision for a template. Numbers start at 1. Two revisions of equal content are tolerated: the newer one is
// taken. Revisions whose number leaves no room for a next one are passed over where numbers are chosen; one of them that is of this
// template is kept as it is. The only error is a template that cannot be encoded.
func (h *History) Decide(template *corev1.PodTemplateSpec) (Decision, error) {
	data, err := Encode(template)
	if err != nil {
		return Decision{}, fmt.Errorf("history of %s/%s: %w", h.owner.Namespace, h.owner.Name, err)
	}
	return h.DecideData(data, template.Labels, func(rev *appsv1.ControllerRevision) bool { return h.decoder.holds(rev, template, data) }), nil
}

// DecideData is Decide for owners whose revisions hold something else than a Pod template. data is the JSON of today's content, and same
// reports whether a revision means the same. labels are those of a new revision, beside the hash.
func (h *History) DecideData(data []byte, labels map[string]string, same func(*appsv1.ControllerRevision) bool) Decision {
	next := int64(1)
	var newest, numbered *appsv1.ControllerRevision // the newest that counts; of this content, but with a number that does not
	for _, rev := range slices.Backward(h.Revisions) {
		counts := rev.Revision <= maxNumber
		if counts && newest == nil {
			newest, next = rev, min(rev.Revision+1, maxNumber)
		}
		switch {
		case !same(rev):
		case !counts:
			numbered = cmp.Or(numbered, rev)
		case rev == newest, rev.Revision >= next: // nothing is above it
			return Decision{Action: Keep, Revision: rev, Number: rev.Revision}
		default:
			return Decision{Action: Bump, Revision: rev, Number: next}
		}
	}
	if numbered != nil {
		return Decision{Action: Keep, Revision: numbered, Number: numbered.Revision}
	}
	return Decision{Action: Create, Revision: h.build(labels, data, next), Number: next}
}

// Rename counts one more collision and returns a copy of a revision to create, under the name that this count gives.
func (h *History) Rename(rev *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	collisions := int32(1)
	if h.Collisions != nil {
		collisions = *h.Collisions + 1
	}
	h.Collisions = &collisions
	out := rev.DeepCopy()
	hash := Hash(rev.Data.Raw, h.Collisions)
	out.Name = Name(h.owner.Name, hash)
	out.Labels[h.keys.HashLabel] = hash
	return out
}

func (h *History) build(more map[string]string, data []byte, number int64) *appsv1.ControllerRevision {
	owner, keys := h.owner, h.keys
	hash := Hash(data, h.Collisions)
	labels := make(map[string]string, len(more)+1)
	maps.Copy(labels, more)
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

// Counting says which revisions a history limit counts.
type Counting string

const (
	// CountUnused makes the limit the number of revisions kept beyond those in use.
	CountUnused Counting = "Unused"
	// CountAllOld makes the limit count every revision but the protected ones, in use or not; what is in use is never deleted.
	CountAllOld Counting = "AllOld"
)

// Excess returns the revisions to delete, oldest first: those that nobody needs beyond the limit. The update revision and those
// named in keep are never history; keep the current revision. inUse reports those that a Pod was made from. Revisions of other
// owners among Revisions are left alone. A negative limit counts as zero.
func (h *History) Excess(limit int, counting Counting, inUse func(*appsv1.ControllerRevision) bool, keep ...string) []*appsv1.ControllerRevision {
	var unused []*appsv1.ControllerRevision
	old := 0
	for _, rev := range h.Revisions {
		if ref := metav1.GetControllerOfNoCopy(rev); ref == nil || ref.UID != h.owner.Reference.UID || h.isNeeded(rev, keep) {
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

func (h *History) isNeeded(rev *appsv1.ControllerRevision, keep []string) bool {
	return h.Update != nil && rev.Name == h.Update.Name || slices.Contains(keep, rev.Name)
}
