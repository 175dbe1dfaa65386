package persistentpodstate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/persistentpodstate"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateSpec returns the values of a parsed spec, and all errors in the spec.
func validateSpec(spec *v1beta1.PersistentPodStateSpec) (*settings, field.ErrorList) {
	s, problems, warnings := resolve(spec)
	return s, append(problems.Refusals(), warnings.Refusals()...)
}

// validateUpdate returns the errors in an update. An unchanged spec is not validated, because users must be able to
// remove finalizers. Unchanged parts are not validated either, because OpenKruise may have accepted invalid parts.
func validateUpdate(obj, stored *v1beta1.PersistentPodState) field.ErrorList {
	_, found := validateSpec(&obj.Spec)
	_, known := validateSpec(&stored.Spec)
	errs := validation.NewProblems(found, known)
	if obj.Spec.TargetReference != stored.Spec.TargetReference {
		errs = append(errs, field.Invalid(targetPath(), shown(obj.Spec.TargetReference),
			"cannot change: the records are of the former one's Pods; make another PersistentPodState"))
	}
	return errs
}

func shown(ref v1beta1.PersistentPodStateTarget) string {
	return fmt.Sprintf("%s %s of %s", ref.Kind, ref.Name, ref.APIVersion)
}

// unlisted returns an error if the target's kind is neither StatefulSet nor listed in the configuration.
func unlisted(obj *v1beta1.PersistentPodState, s *settings, listed []schema.GroupVersionKind) field.ErrorList {
	is := func(kind schema.GroupVersionKind) bool { return kind.GroupKind() == s.kind }
	if api.IsStatefulSet(s.kind) || slices.ContainsFunc(listed, is) {
		return nil
	}
	return field.ErrorList{field.Invalid(targetPath(), shown(obj.Spec.TargetReference), "must be a StatefulSet of apps "+
		"or apps.kruise.io, or of a kind that the ConfigMap kruise-configuration lists")}
}

// rivals returns an error if another PersistentPodState has the same target.
func rivals(obj *v1beta1.PersistentPodState, s *settings, others []v1beta1.PersistentPodState) (errs field.ErrorList) {
	for i := range others {
		other := &others[i]
		kind, err := api.TargetKind(other.Spec.TargetReference)
		if err == nil && kind == s.kind && other.Spec.TargetReference.Name == s.name &&
			other.Namespace == obj.Namespace && other.Name != obj.Name {
			errs = append(errs, field.Invalid(targetPath(), shown(obj.Spec.TargetReference),
				"has a PersistentPodState already: "+other.Name))
		}
	}
	return errs
}
