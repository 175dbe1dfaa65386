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

// Keys are the metadata names used by the history. The kit has no default names.
type Keys struct {
	// HashLabel carries the hash on each revision. Required.
	HashLabel string
	// HashVersionAnnotation, unless empty, carries HashVersion on each revision created by the kit.
	HashVersionAnnotation string
	// ClaimTemplatesAnnotation, unless empty, carries the claim templates for Pods of a revision: see
	// History.RecordClaims.
	ClaimTemplatesAnnotation string
}

// Owner describes the owner of a history. Make an Owner with OwnerOf.
type Owner struct {
	Namespace, Name string
	// Reference is the controller reference of each revision.
	Reference metav1.OwnerReference
	// Annotations are copied to each new revision, so a user finds change causes there.
	Annotations map[string]string
	// Deleting is set while the owner has a deletionTimestamp. Nothing is written then.
	Deleting bool
}

// OwnerOf describes an object as the owner of a history. kind is the object's API kind, missing on objects from a
// cache.
func OwnerOf(object metav1.Object, kind schema.GroupVersionKind) Owner {
	return Owner{
		Namespace: object.GetNamespace(), Name: object.GetName(), Reference: *metav1.NewControllerRef(object, kind),
		Annotations: object.GetAnnotations(), Deleting: object.GetDeletionTimestamp() != nil,
	}
}

// Histories reads the histories of the owners of a kind. A Histories is safe for concurrent use. Make a Histories with
// NewHistories.
type Histories struct {
	keys    Keys
	decoder *Decoder
}

// NewHistories returns a reader of histories kept under the keys. The decoder may be shared with an
// inplaceupdate.Planner. The error names the missing argument.
func NewHistories(keys Keys, decoder *Decoder) (*Histories, error) {
	switch {
	case keys.HashLabel == "":
		return nil, errors.New("revision: Keys.HashLabel is required")
	case decoder == nil:
		return nil, errors.New("revision: a decoder is required")
	}
	return &Histories{keys: keys, decoder: decoder}, nil
}

// IsNamedFor reports whether a revision's name follows the naming for an owner of the name: a revision without an owner
// may then belong to a deleted owner.
func (h *Histories) IsNamedFor(rev *appsv1.ControllerRevision, owner string) bool {
	hash := rev.Labels[h.keys.HashLabel]
	return hash != "" && rev.Name == Name(owner, hash)
}

// Of returns the history of an owner. collisions is the count of hash collisions in the owner's status; nil leaves the
// count out of the hash. revisions are the owner's, in any order. Of does not modify the slice.
func (h *Histories) Of(owner Owner, collisions *int32, revisions []*appsv1.ControllerRevision) *History {
	return &History{owner: owner, keys: h.keys, decoder: h.decoder, Collisions: collisions, Revisions: Sort(revisions)}
}

// History is the history of an owner. A History is not safe for concurrent use while package revision/history writes.
type History struct {
	// Revisions are all revisions, from oldest to newest. The objects are read only.
	Revisions []*appsv1.ControllerRevision
	// Update is the revision of today's template, nil before history.Sync.
	Update *appsv1.ControllerRevision
	// Collisions is the count to keep in the owner's status. The count grows when other data has taken a name.
	Collisions *int32
	// Left reports whether a revision without a controller was left by an earlier owner of the name, and is used for the
	// owner of today. history.Write asks when the name of a new revision is taken, by data equal to its own: a cache may
	// still show the earlier owner. Optional: without Left, no such revision is used.
	Left func(*appsv1.ControllerRevision) bool

	owner   Owner
	keys    Keys
	decoder *Decoder
}

// Owner returns the owner of the history.
func (h *History) Owner() Owner { return h.owner }

// Find returns the revision named in a Pod's revision label, by full name or by hash alone, nil if the history has no
// such revision.
func (h *History) Find(label string) *appsv1.ControllerRevision {
	for _, rev := range h.Revisions {
		if Same(label, rev.Name) {
			return rev
		}
	}
	return nil
}

// Current returns the revision being replaced by Update, under the name kept in the owner's status. Without a known
// revision, Current returns Update.
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

// Twins returns further revisions of the owner with the same template as Update, written by somebody else: Pods at a
// twin need no update, but a change of their label. Without Update there are none.
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

// UnknownRevision means that a requested revision is not in the history: Find returns nil.
const UnknownRevision reason.Code = "UnknownRevision"

// Template returns the Pod template of a revision, shared with other callers: read only. The error is UnknownRevision
// for nil, otherwise an error of Decode.
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

// Action is an action on the history.
type Action string

const (
	// Keep says that the newest revision already has today's template. Only Decision.Annotations are written.
	Keep Action = "Keep"
	// Bump says that an older revision has today's template. The revision gets the highest number and keeps name and hash.
	Bump Action = "Bump"
	// Create says that no revision has today's template.
	Create Action = "Create"
)

// Decision is the answer of History.Decide.
type Decision struct {
	Action Action
	// Revision is the existing object for Keep and Bump (read only, from the caller's slice) and the new object for
	// Create.
	Revision *appsv1.ControllerRevision
	// Number is the present or new number of Revision.
	Number int64
	// Annotations are written on the revision of a Keep or Bump. The caller may add annotations with further dependencies
	// than the template.
	Annotations map[string]string
}

// maxNumber is the highest number given to a revision. Nobody counts so far: somebody else has given any higher number.
const maxNumber = math.MaxInt64/2 - 1

// Decide finds the revision for a template. Numbers start at 1. Two revisions of equal content are tolerated: the newer
// revision is taken. Revisions with a number too high for a successor do not count in the choice of numbers. If such a
// revision has the same template, the revision is kept. The only error is a template that cannot be encoded.
func (h *History) Decide(template *corev1.PodTemplateSpec) (Decision, error) {
	data, err := Encode(template)
	if err != nil {
		return Decision{}, fmt.Errorf("history of %s/%s: %w", h.owner.Namespace, h.owner.Name, err)
	}
	return h.DecideData(data, template.Labels, func(rev *appsv1.ControllerRevision) bool { return h.decoder.holds(rev, template, data) }), nil
}

// DecideData is Decide for owners whose revisions hold something else than a Pod template. data is the present content
// as JSON, and same reports whether the content of a revision is equivalent. A new revision gets labels in addition to
// the label with the hash.
func (h *History) DecideData(data []byte, labels map[string]string, same func(*appsv1.ControllerRevision) bool) Decision {
	next := int64(1)
	var newest, numbered *appsv1.ControllerRevision // newest counted revision; revision of the same content with an uncounted number
	for _, rev := range slices.Backward(h.Revisions) {
		counts := rev.Revision <= maxNumber
		if counts && newest == nil {
			newest, next = rev, min(rev.Revision+1, maxNumber)
		}
		switch {
		case !same(rev):
		case !counts:
			numbered = cmp.Or(numbered, rev)
		case rev == newest, rev.Revision >= next: // no revision is above
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

// Rename counts a further collision and returns a copy of a revision to create, under the name for the new count.
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

// Sort returns the revisions from oldest to newest: by number, then creation, then name, so equal numbers (perhaps made
// by a user by hand) still have an order. Sort does not modify the given slice.
func Sort(revisions []*appsv1.ControllerRevision) []*appsv1.ControllerRevision {
	return slices.SortedFunc(slices.Values(revisions), func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// Counting says which revisions count for a history limit.
type Counting string

const (
	// CountUnused makes the limit the number of unused revisions to keep.
	CountUnused Counting = "Unused"
	// CountAllOld makes the limit count every revision except the protected revisions, in use or not. A used revision is
	// never deleted.
	CountAllOld Counting = "AllOld"
)

// Excess returns the revisions to delete, oldest first: unneeded revisions beyond the limit. The update revision and
// the revisions named in keep are never history; keep the current revision. inUse reports revisions with a Pod. Excess
// leaves revisions of other owners in Revisions alone. A negative limit counts as zero.
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
