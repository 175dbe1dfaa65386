package persistentpodstate

import (
	"fmt"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/reason"
)

// NotGenerated means that a workload's annotations request a PersistentPodState that the controller cannot create.
const NotGenerated reason.Code = "NotGenerated"

// weight is the weight of every preference for a topology that an annotation requests.
const weight = 100

// generated returns the spec that the annotations of a workload request; nil if the annotations request no
// PersistentPodState or are incomplete. The error names the invalid annotations.
func generated(workload *workloads.Workload) (*v1beta1.PersistentPodStateSpec, error) {
	annotations := workload.Object.GetAnnotations()
	required, preferred := list(annotations[apps.AnnotationRequiredPersistentTopology]), list(annotations[apps.AnnotationPreferredPersistentTopology])
	if !asks(workload) || len(required)+len(preferred) == 0 {
		return nil, nil
	}
	spec := &v1beta1.PersistentPodStateSpec{TargetReference: v1beta1.PersistentPodStateTarget{
		APIVersion: workload.Kind.GroupVersion().String(), Kind: workload.Kind.Kind, Name: workload.Object.GetName(),
	}}
	if len(required) > 0 {
		spec.RequiredPersistentTopology = &v1beta1.NodeTopologyTerm{Keys: required}
	}
	if len(preferred) > 0 {
		spec.PreferredPersistentTopology = []v1beta1.PreferredTopologyTerm{{Weight: weight, Preference: v1beta1.NodeTopologyTerm{Keys: preferred}}}
	}
	for _, key := range list(annotations[apps.AnnotationPersistentPodAnnotations]) {
		spec.PersistentPodAnnotations = append(spec.PersistentPodAnnotations, v1beta1.PersistentPodAnnotation{Key: key})
	}
	if _, wrong := validateSpec(spec); len(wrong) > 0 {
		return nil, judge.Refused(wrong)
	}
	return spec, nil
}

// asks reports whether a workload's annotations request a PersistentPodState.
func asks(workload *workloads.Workload) bool {
	return workload.Object.GetAnnotations()[apps.AnnotationGeneratePersistentPodState] == "true"
}

// isMarked reports whether an object has the annotation that requests a PersistentPodState, with any value.
func isMarked(object metav1.Object) bool {
	_, marked := object.GetAnnotations()[apps.AnnotationGeneratePersistentPodState]
	return marked
}

// changesMarks reports whether the change of a workload may change the generated PersistentPodState.
func changesMarks(before, after metav1.Object) bool {
	if !isMarked(before) && !isMarked(after) {
		return false
	}
	if before.GetUID() != after.GetUID() || (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) {
		return true
	}
	return slices.ContainsFunc([]string{
		apps.AnnotationGeneratePersistentPodState, apps.AnnotationRequiredPersistentTopology,
		apps.AnnotationPreferredPersistentTopology, apps.AnnotationPersistentPodAnnotations,
	}, func(key string) bool { return before.GetAnnotations()[key] != after.GetAnnotations()[key] })
}

// list splits a text at commas, without spaces and empty parts.
func list(text string) (words []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// action is what must be done to the PersistentPodState of a given name.
type action string

// These are the actions. The empty action means that nothing must be done.
const (
	create action = "create"
	update action = "update"
	// adopt sets the workload as the controller of an existing PersistentPodState that equals the PersistentPodState to
	// generate.
	adopt  action = "adopt"
	Delete action = "delete"
)

// generation is the decision of the function generate.
type generation struct {
	Action action
	// For is the workload for which Action is taken, or whose PersistentPodState cannot be generated. For is nil if
	// no workload is affected.
	For *workloads.Workload
	// Spec is the spec that the PersistentPodState should have.
	Spec *v1beta1.PersistentPodStateSpec
	// Why says why the PersistentPodState cannot be generated; nil if there is no problem.
	Why error
}

// owner returns the owner reference that makes the workload the controller.
func (g *generation) owner() metav1.OwnerReference {
	owner := *metav1.NewControllerRef(g.For.Object, g.For.Kind)
	owner.BlockOwnerDeletion = nil // blockOwnerDeletion would require a further permission for each kind of workload
	return owner
}

// Made returns the PersistentPodState to create, controlled by the workload.
func (g *generation) Made() *v1beta1.PersistentPodState {
	return &v1beta1.PersistentPodState{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: g.For.Object.GetNamespace(), Name: g.For.Object.GetName(),
			OwnerReferences: []metav1.OwnerReference{g.owner()},
		},
		Spec: *g.Spec,
	}
}

// wholeSpec returns a value for every field that annotations determine, so that a merge patch leaves no old value.
func wholeSpec(spec *v1beta1.PersistentPodStateSpec) map[string]any {
	whole := map[string]any{"targetRef": spec.TargetReference}
	for name, value := range map[string]struct {
		value any
		is    bool
	}{
		"requiredPersistentTopology":  {spec.RequiredPersistentTopology, spec.RequiredPersistentTopology != nil},
		"preferredPersistentTopology": {spec.PreferredPersistentTopology, len(spec.PreferredPersistentTopology) > 0},
		"persistentPodAnnotations":    {spec.PersistentPodAnnotations, len(spec.PersistentPodAnnotations) > 0},
	} {
		whole[name] = nil
		if value.is {
			whole[name] = value.value
		}
	}
	return whole
}

// generate decides what must be done to the PersistentPodState of a given name. workloads are all workloads of this
// name, of any kind. If the annotations of several workloads request a PersistentPodState, only the first workload in
// the list gets one. found is the PersistentPodState with this name, or nil. others are the PersistentPodStates of
// other names whose targets are among the workloads. A PersistentPodState that none of the workloads controls belongs
// to a user, and is neither changed nor deleted. As an exception, a workload adopts a PersistentPodState that has no
// controller and equals the PersistentPodState to generate.
func generate(workloads []*workloads.Workload, found *v1beta1.PersistentPodState, others []*v1beta1.PersistentPodState) generation {
	if found != nil {
		ref := metav1.GetControllerOfNoCopy(found)
		for _, workload := range workloads {
			if ref != nil && ref.UID == workload.UID() && ref.Kind == workload.Kind.Kind {
				return keep(workload, found)
			}
		}
	}
	for _, workload := range workloads {
		if workload.Ending {
			continue
		}
		spec, err := generated(workload)
		switch {
		case err != nil:
			return generation{For: workload, Why: err}
		case spec == nil:
		case found != nil:
			return inTheWay(workload, found, spec)
		default:
			if other := about(workload, others); other != nil {
				return taken(workload, other, "is about it already")
			}
			return generation{Action: create, For: workload, Spec: spec}
		}
	}
	return generation{}
}

// keep decides whether the PersistentPodState that a workload controls stays unchanged, is changed, or is deleted.
func keep(workload *workloads.Workload, found *v1beta1.PersistentPodState) generation {
	if workload.Ending || found.DeletionTimestamp != nil {
		return generation{For: workload}
	}
	if !asks(workload) {
		return generation{Action: Delete, For: workload}
	}
	spec, err := generated(workload)
	if err != nil || spec == nil {
		return generation{For: workload, Why: err}
	}
	if isAsGenerated(workload, found, spec) {
		return generation{For: workload}
	}
	return generation{Action: update, For: workload, Spec: spec}
}

// isAsGenerated reports whether found has the spec that was generated for the workload. Before the comparison,
// isAsGenerated copies into spec the fields of found that no annotation determines: the retention policy, which users
// set, and the API version of the target, which has no effect and cannot change.
func isAsGenerated(workload *workloads.Workload, found *v1beta1.PersistentPodState, spec *v1beta1.PersistentPodStateSpec) bool {
	if kind, err := api.TargetKind(found.Spec.TargetReference); err == nil && kind == workload.Kind.GroupKind() {
		spec.TargetReference.APIVersion = found.Spec.TargetReference.APIVersion
	}
	spec.PersistentPodStateRetentionPolicy = found.Spec.PersistentPodStateRetentionPolicy
	return len(found.Spec.Undecodable) == 0 && apiequality.Semantic.DeepEqual(*spec, found.Spec)
}

// inTheWay decides what must be done if a workload requests a PersistentPodState, and a PersistentPodState of the
// name exists that no workload of the name controls.
func inTheWay(workload *workloads.Workload, found *v1beta1.PersistentPodState, spec *v1beta1.PersistentPodStateSpec) generation {
	switch {
	case isOrphaned(found):
		return generation{For: workload} // the garbage collector is about to delete found, and an event will follow
	case isLeft(workload, found, spec):
		return generation{Action: adopt, For: workload, Spec: spec}
	}
	return taken(workload, found, "has its name, and is not its own")
}

// isLeft reports whether found was generated for a deleted workload of the same name, and has no owner any more. The
// cause is a deletion with the propagation policy Orphan: the garbage collector removes the owner references from all
// dependents of the workload.
func isLeft(workload *workloads.Workload, found *v1beta1.PersistentPodState, spec *v1beta1.PersistentPodStateSpec) bool {
	return metav1.GetControllerOfNoCopy(found) == nil && found.DeletionTimestamp == nil && isAsGenerated(workload, found, spec)
}

// isOrphaned reports whether found was generated for a workload that has been deleted since.
func isOrphaned(found *v1beta1.PersistentPodState) bool {
	ref, target := metav1.GetControllerOfNoCopy(found), found.Spec.TargetReference
	return ref != nil && ref.Kind == target.Kind && ref.Name == target.Name && target.Name == found.Name
}

func about(workload *workloads.Workload, others []*v1beta1.PersistentPodState) *v1beta1.PersistentPodState {
	for _, other := range others {
		kind, err := api.TargetKind(other.Spec.TargetReference)
		if err == nil && kind == workload.Kind.GroupKind() && other.Spec.TargetReference.Name == workload.Object.GetName() {
			return other
		}
	}
	return nil
}

func taken(workload *workloads.Workload, by *v1beta1.PersistentPodState, how string) generation {
	return generation{For: workload, Why: reason.Reason{
		Code: NotGenerated, Object: reason.ObjectOf("PersistentPodState", by), Detail: fmt.Sprintf("PersistentPodState %s %s", by.Name, how),
		Remedy: "delete it, or take the annotation off the workload",
	}}
}
