// Package adopt answers "which of these objects are mine?".
//
// An owner controls the objects that name it as their controller. It releases those that its selector no longer matches,
// and may take orphans that it does match. [Split] sorts objects into these groups; package adopt/ownerrefs writes the owner
// references. Whether orphans are taken is the owner's choice: StatefulSets adopt, CloneSets only release.
//
// Everything here is pure, safe for concurrent use, and leaves the objects alone.
package adopt

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// InvalidSelector means that the owner's selector is nil or empty. Acting on it would release everything, or take
	// everything in the namespace.
	InvalidSelector reason.Code = "InvalidSelector"
	// NotSelected means that an object is released because its owner no longer selects it.
	NotSelected reason.Code = "NotSelected"
	// Orphaned means that an object is adopted because its owner selects it and nobody controls it.
	Orphaned reason.Code = "Orphaned"
	// ControlledByOther means that the owner selects an object which somebody else controls. Two selectors overlap.
	ControlledByOther reason.Code = "ControlledByOther"
)

// Owner is what ownership depends on. All fields but Deleting are required.
type Owner struct {
	UID       types.UID
	Namespace string
	Selector  labels.Selector
	// Deleting is set when the owner has a deletionTimestamp. It neither adopts nor releases then, so that the garbage
	// collector decides about what it owns.
	Deleting bool
}

// Options of Split. The zero value releases but does not adopt.
type Options struct {
	// Adopt takes orphans.
	Adopt bool
	// Match is a further condition beside the selector, such as the form of the name; nil for none. Objects that fail it are
	// treated as if the selector did not match.
	Match func(metav1.Object) bool
}

// Decision sorts objects, each group in the order given. Objects that are none of the owner's business are in no group.
type Decision[T metav1.Object] struct {
	// Owned are controlled by the owner and match, terminating ones included.
	Owned []T
	// Adopt are orphans to take. They are not among Owned before that has succeeded.
	Adopt []T
	// Release are controlled by the owner and do not match.
	Release []T
	// Reasons has one entry for each object in Adopt and Release, and for each that somebody else controls although it
	// matches.
	Reasons reason.List
}

// Split decides about objects. kind names them in the reasons. Terminating orphans and orphans in another namespace are not
// adopted. The error is a reason.Reason with code InvalidSelector. O(n); beside the groups nothing is allocated for objects
// that are owned and match.
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

// mayAdopt is false for what is about to disappear, on either side, and across namespaces.
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
