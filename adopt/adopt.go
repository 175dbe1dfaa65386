// Package adopt answers "which of these objects are mine?".
//
// An owner controls the objects that name the owner as their controller. The owner releases objects no longer matched
// by its selector, and may take matching orphans. [Split] sorts objects into these three groups: controlled, released
// and adopted objects. Package adopt/ownerrefs writes the owner references. Each kind of owner decides whether to
// adopt: StatefulSets adopt matching orphans; CloneSets only release objects.
//
// All functions are pure and safe for concurrent use, and do not modify the objects.
package adopt

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// InvalidSelector means that the owner's selector is nil or empty. With such a selector, Split would release all
	// owned objects, or adopt all orphans in the namespace.
	InvalidSelector reason.Code = "InvalidSelector"
	// NotSelected means that an object is released because its owner no longer selects the object.
	NotSelected reason.Code = "NotSelected"
	// Orphaned means that an object is adopted because its owner selects the object and the object has no controller.
	Orphaned reason.Code = "Orphaned"
	// ControlledByOther means that the owner's selector matches an object controlled by another owner. The selectors of
	// two owners overlap.
	ControlledByOther reason.Code = "ControlledByOther"
)

// Owner is the owner for which Split sorts the objects. All fields but Deleting are required.
type Owner struct {
	UID       types.UID
	Namespace string
	Selector  labels.Selector
	// Deleting is set if the owner has a deletionTimestamp. The owner then neither adopts nor releases, so the garbage
	// collector decides whether the owned objects are deleted.
	Deleting bool
}

// Options are options of Split. The zero value means that Split releases objects, but adopts none.
type Options struct {
	// Adopt makes Split adopt matching orphans.
	Adopt bool
	// Match is a condition in addition to the selector, such as a check of the object's name. Optional. Objects that
	// fail Match are treated as if the selector did not match.
	Match func(metav1.Object) bool
}

// Decision is the result of Split: the objects by group, each group in the given order. Objects that the owner neither
// controls nor adopts are in no group.
type Decision[T metav1.Object] struct {
	// Owned are the matching objects controlled by the owner, terminating objects included.
	Owned []T
	// Adopt are the orphans that the owner must adopt. Owned does not include these orphans: add an orphan once its
	// adoption has succeeded.
	Adopt []T
	// Release are the objects that the owner controls but whose labels the selector, or Match, no longer accepts.
	Release []T
	// Reasons has an entry for each object in Adopt and Release, and for each matching object controlled by another
	// owner.
	Reasons reason.List
}

// Split sorts objects by what the owner must do with each: keep, adopt or release. kind is the objects' kind, for the
// text of the reasons. Split adopts no terminating orphans and no orphans in another namespace. The error is a
// reason.Reason with code InvalidSelector. Split runs in O(n), and allocates nothing for owned, matching objects but
// the list of the group.
func Split[T metav1.Object](owner Owner, kind string, objects []T, options Options) (Decision[T], error) {
	if owner.Selector == nil || owner.Selector.Empty() {
		return Decision[T]{}, reason.Reason{
			Code: InvalidSelector, Object: reason.Object{UID: owner.UID}, Path: "spec.selector", New: "{}",
			Remedy: "select by at least one label",
		}
	}
	d := Decision[T]{Owned: make([]T, 0, len(objects))}
	for _, object := range objects {
		controller := metav1.GetControllerOfNoCopy(object)
		matches := owner.Selector.Matches(labels.Set(object.GetLabels())) && (options.Match == nil || options.Match(object))
		switch {
		case controller == nil:
			if matches && options.Adopt && owner.mayAdopt(object) {
				d.Adopt = append(d.Adopt, object)
				d.explain(Orphaned, kind, object, nil)
			}
		case controller.UID != owner.UID:
			if matches {
				d.explain(ControlledByOther, kind, object, controller)
			}
		case matches:
			d.Owned = append(d.Owned, object)
		case !owner.Deleting:
			d.Release = append(d.Release, object)
			d.explain(NotSelected, kind, object, nil)
		}
	}
	return d, nil
}

// mayAdopt is false if the owner or the object is being deleted, or if owner and object are in different namespaces.
func (o *Owner) mayAdopt(object metav1.Object) bool {
	return !o.Deleting && object.GetDeletionTimestamp() == nil && object.GetNamespace() == o.Namespace
}

func (d *Decision[T]) explain(code reason.Code, kind string, object T, controller *metav1.OwnerReference) {
	why := reason.Reason{
		Code:   code,
		Object: reason.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()},
	}
	switch {
	case controller != nil:
		why.Path, why.New = "metadata.ownerReferences", controller.Kind+" "+controller.Name
		why.Remedy = "make the selectors of both owners disjoint"
	case code == NotSelected:
		why.Path, why.Remedy = "metadata.labels", "restore the labels to have it adopted again, where its owner adopts"
	}
	d.Reasons = append(d.Reasons, why)
}
