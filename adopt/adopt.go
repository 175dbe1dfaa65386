// Package adopt answers "which of these objects are mine?".
//
// An owner controls the objects that name the owner as their controller. The owner releases objects no longer matched
// by its selector, and may take matching orphans. [Split] sorts objects into these groups; package adopt/ownerrefs
// writes the owner references. Whether orphans are taken is the owner's choice: StatefulSets adopt, CloneSets only
// release.
//
// All functions are pure and safe for concurrent use, and leave the objects alone.
package adopt

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// InvalidSelector means that the owner's selector is nil or empty. Acting on such a selector would release everything,
	// or take everything in the namespace.
	InvalidSelector reason.Code = "InvalidSelector"
	// NotSelected means that an object is released because its owner no longer selects the object.
	NotSelected reason.Code = "NotSelected"
	// Orphaned means that an object is adopted because its owner selects the object and nobody controls the object.
	Orphaned reason.Code = "Orphaned"
	// ControlledByOther means that the owner selects an object with a foreign controller. Two selectors overlap.
	ControlledByOther reason.Code = "ControlledByOther"
)

// Owner holds the dependencies of ownership. All fields but Deleting are required.
type Owner struct {
	UID       types.UID
	Namespace string
	Selector  labels.Selector
	// Deleting is set if the owner has a deletionTimestamp. The owner then neither adopts nor releases, so the garbage
	// collector decides about the owned objects.
	Deleting bool
}

// Options of Split. The zero value releases but does not adopt.
type Options struct {
	// Adopt takes orphans.
	Adopt bool
	// Match is a further condition beside the selector, such as the form of the name; nil for none. Objects that fail
	// Match are treated as if the selector did not match.
	Match func(metav1.Object) bool
}

// Decision sorts objects, each group in the given order. Objects outside of the owner's business are in no group.
type Decision[T metav1.Object] struct {
	// Owned are controlled by the owner and match, terminating ones included.
	Owned []T
	// Adopt are orphans to take. They are not in Owned before a successful adoption.
	Adopt []T
	// Release are controlled by the owner and do not match.
	Release []T
	// Reasons has an entry for each object in Adopt and Release, and for each matching object with a foreign controller.
	Reasons reason.List
}

// Split decides about objects. kind is their kind in the reasons. Split adopts no terminating orphans and no orphans in
// another namespace. The error is a reason.Reason with code InvalidSelector. O(n); beside the groups Split allocates
// nothing for owned, matching objects.
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

// mayAdopt is false if the owner or the object is about to disappear, and across namespaces.
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
