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

// Keys are the names of labels and annotations used by the history. The kit has no default names.
type Keys struct {
	// HashLabel is the label with the hash on each revision. Required.
	HashLabel string
	// HashVersionAnnotation, unless empty, is the annotation with HashVersion on each revision that the kit creates.
	HashVersionAnnotation string
	// ClaimTemplatesAnnotation, unless empty, is the annotation with the claim templates of a revision's Pods: see
	// History.RecordClaims.
	ClaimTemplatesAnnotation string
}

// Owner describes the owner of a history. Make an Owner with OwnerOf.
type Owner struct {
	Namespace, Name string
	// Reference is the controller reference of each revision.
	Reference metav1.OwnerReference
	// Annotations are copied to each new revision, so that users find the change cause in the revision.
	Annotations map[string]string
	// Deleting is set if the owner is being deleted. No revision is then written.
	Deleting bool
}

// OwnerOf describes an object as the owner of a history. kind is the object's API kind, because objects from a cache do
// not contain their kind.
func OwnerOf(object metav1.Object, kind schema.GroupVersionKind) Owner {
	return Owner{
		Namespace: object.GetNamespace(), Name: object.GetName(), Reference: *metav1.NewControllerRef(object, kind),
		Annotations: object.GetAnnotations(), Deleting: object.GetDeletionTimestamp() != nil,
	}
}

// Histories makes the History of each owner of a kind. A Histories is safe for concurrent use. Make a Histories with
// NewHistories.
type Histories struct {
	keys    Keys
	decoder *Decoder
}

// NewHistories returns a Histories that uses the keys. The decoder may be shared with an inplaceupdate.Planner. The
// error names a missing argument.
func NewHistories(keys Keys, decoder *Decoder) (*Histories, error) {
	switch {
	case keys.HashLabel == "":
		return nil, errors.New("revision: Keys.HashLabel is required")
	case decoder == nil:
		return nil, errors.New("revision: a decoder is required")
	}
	return &Histories{keys: keys, decoder: decoder}, nil
}

// IsNamedFor reports whether a revision's name has the form of a revision of the named owner: a revision without an
// owner reference may then belong to a deleted owner with this name.
func (h *Histories) IsNamedFor(rev *appsv1.ControllerRevision, owner string) bool {
	hash := rev.Labels[h.keys.HashLabel]
	return hash != "" && rev.Name == Name(owner, hash)
}

// Of returns the history of an owner. collisions is the collisionCount in the owner's status; if nil, the hash does not
// include a count. revisions are the owner's revisions, in any order. Of does not modify the slice.
func (h *Histories) Of(owner Owner, collisions *int32, revisions []*appsv1.ControllerRevision) *History {
	return &History{owner: owner, keys: h.keys, decoder: h.decoder, Collisions: collisions, Revisions: Sort(revisions)}
}

// History is the history of an owner. A History is not safe for concurrent use while package revision/history writes to
// it.
type History struct {
	// Revisions are all revisions, from oldest to newest. Do not modify the objects.
	Revisions []*appsv1.ControllerRevision
	// Update is the revision of the present template, nil before history.Sync.
	Update *appsv1.ControllerRevision
	// Collisions is the collisionCount for the owner's status. The count grows when the name of a new revision is taken
	// by a revision with other data.
	Collisions *int32
	// Left reports whether a revision without a controller was left by an earlier owner of the same name and may be
	// used for the present owner. history.Write calls Left if the name of a new revision is taken by a revision with
	// equal data: a cache may still show the earlier owner. Optional: if nil, no such revision is used.
	Left func(*appsv1.ControllerRevision) bool

	owner   Owner
	keys    Keys
	decoder *Decoder
}

// Owner returns the owner of the history.
func (h *History) Owner() Owner { return h.owner }

// Find returns the revision named in a Pod's revision label, by its full name or by the hash alone; nil if the history
// has no such revision.
func (h *History) Find(label string) *appsv1.ControllerRevision {
	for _, rev := range h.Revisions {
		if Same(label, rev.Name) {
			return rev
		}
	}
	return nil
}

// Current returns the revision with the name stored in the owner's status: the revision that Update replaces. If the
// name is unknown, Current returns Update.
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

// Twins returns all further revisions of the owner with the same template as Update, written by another controller.
// Pods of such a revision need no update, only a change of their revision label. If Update is nil, there are none.
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

// UnknownRevision means that a requested revision is not in the history: History.Find then returns nil.
const UnknownRevision reason.Code = "UnknownRevision"

// Template returns the Pod template of a revision; other callers share the template, so do not modify the template. The
// error is UnknownRevision if rev is nil, otherwise an error of Decode.
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

// Action says how the history must be changed.
type Action string

const (
	// Keep says that the newest revision already has the present template. Only Decision.Annotations are written.
	Keep Action = "Keep"
	// Bump says that an older revision has the present template. The revision gets the highest revision number, and
	// keeps its name and hash.
	Bump Action = "Bump"
	// Create says that no revision has the present template.
	Create Action = "Create"
)

// Decision is the result of History.Decide.
type Decision struct {
	Action Action
	// Revision is the existing object for Keep and Bump (from the caller's slice, so do not modify the object), and a
	// new object for Create.
	Revision *appsv1.ControllerRevision
	// Number is the present revision number for Keep, and the new number for Bump and Create.
	Number int64
	// Annotations must be written on the revision for Keep and Bump. The caller may add annotations that depend on more
	// than the template.
	Annotations map[string]string
}

// maxNumber is the highest revision number that the kit assigns. Counting from 1 never reaches maxNumber, so a higher
// number was set by somebody else.
const maxNumber = math.MaxInt64/2 - 1

// Decide finds the revision with the given template, or makes a new revision. Numbers start at 1. If two revisions have
// equal content, the newer revision is used. Revisions whose number is above maxNumber are ignored when the next number
// is chosen. If such a revision has the same template, the decision is to keep this revision. The only error is that
// the template cannot be encoded.
func (h *History) Decide(template *corev1.PodTemplateSpec) (Decision, error) {
	data, err := Encode(template)
	if err != nil {
		return Decision{}, fmt.Errorf("history of %s/%s: %w", h.owner.Namespace, h.owner.Name, err)
	}
	return h.DecideData(data, template.Labels, func(rev *appsv1.ControllerRevision) bool { return h.decoder.holds(rev, template, data) }), nil
}

// DecideData is like Decide, for owners whose revisions contain something other than a Pod template. data is the
// present content as JSON, and same reports whether the content of a revision is equivalent to data. A new revision
// gets labels in addition to the hash label.
func (h *History) DecideData(data []byte, labels map[string]string, same func(*appsv1.ControllerRevision) bool) Decision {
	next := int64(1)
	// newest is the newest revision with a number up to maxNumber; numbered is a revision with the same content and a
	// number above maxNumber.
	var newest, numbered *appsv1.ControllerRevision
	for _, rev := range slices.Backward(h.Revisions) {
		counts := rev.Revision <= maxNumber
		if counts && newest == nil {
			newest, next = rev, min(rev.Revision+1, maxNumber)
		}
		switch {
		case !same(rev):
		case !counts:
			numbered = cmp.Or(numbered, rev)
		case rev == newest, rev.Revision >= next: // rev is the newest revision already
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

// Rename increases the collision count, and returns a copy of a revision to create, with the name for the new count.
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

// Sort returns the revisions from oldest to newest: by number, then by creation time, then by name, so that revisions
// with equal numbers (set by a user, for example) also have an order. Sort does not modify the given slice.
func Sort(revisions []*appsv1.ControllerRevision) []*appsv1.ControllerRevision {
	return slices.SortedFunc(slices.Values(revisions), func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// Counting says which revisions count towards a history limit.
type Counting string

const (
	// CountUnused limits the number of unused revisions that are kept.
	CountUnused Counting = "Unused"
	// CountAllOld makes every revision except the update revision and the kept revisions count, whether used or not. A
	// used revision is never deleted.
	CountAllOld Counting = "AllOld"
)

// Excess returns the revisions to delete, oldest first: revisions beyond the limit that are not needed. The update
// revision and the revisions named in keep never count; name the current revision in keep. inUse reports whether a Pod
// has a revision. Excess ignores revisions of other owners in Revisions. A negative limit counts as zero.
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
