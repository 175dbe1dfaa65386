package workloadspread

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/workloadspread"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// validateSpec returns the parsed spec, and all errors in the spec.
func validateSpec(spec *v1beta1.WorkloadSpreadSpec) (*settings, field.ErrorList) {
	s, problems, warnings := resolve(spec)
	return s, append(problems.Refusals(), warnings.Refusals()...)
}

// validateUpdate returns the errors in an update. Unchanged parts are not validated, because OpenKruise may have
// accepted invalid parts. If only the API version of the target changes, the target counts as unchanged.
func validateUpdate(obj, stored *v1beta1.WorkloadSpread) (*settings, field.ErrorList) {
	s, found := validateSpec(&obj.Spec)
	was, known := validateSpec(&stored.Spec)
	errs := validation.NewProblems(found, known)
	if s.kind != was.kind || s.name != was.name {
		errs = append(errs, field.Invalid(targetPath(), shown(obj),
			"cannot change: the places are of the former one's Pods; make another WorkloadSpread"))
	}
	return s, errs
}

// refilters reports whether an update changes the filter that selects Pods.
func refilters(obj, stored *v1beta1.WorkloadSpread) bool {
	return !apiequality.Semantic.DeepEqual(obj.Spec.TargetFilter, stored.Spec.TargetFilter)
}

func shown(obj *v1beta1.WorkloadSpread) string {
	ref := obj.Spec.TargetReference
	return ref.Kind + " " + ref.Name + " of " + ref.APIVersion
}

// unlisted returns an error if the target's kind is neither always allowed nor listed in the configuration.
func unlisted(obj *v1beta1.WorkloadSpread, s *settings, listed []api.Target) field.ErrorList {
	is := func(target api.Target) bool { return target.GroupKind() == s.kind }
	if _, ok := api.BuiltIn(s.kind); ok || slices.ContainsFunc(listed, is) {
		return nil
	}
	return field.ErrorList{field.Invalid(targetPath(), shown(obj), "must be a CloneSet, Deployment, ReplicaSet, StatefulSet "+
		"or Job, or of a kind that the ConfigMap kruise-configuration lists")}
}

// rivals returns an error if another WorkloadSpread has the same target, unless no Pod can match both filters.
func rivals(obj *v1beta1.WorkloadSpread, s *settings, others []v1beta1.WorkloadSpread) (errs field.ErrorList) {
	for i := range others {
		other := &others[i]
		if other.Namespace != obj.Namespace || other.Name == obj.Name || other.DeletionTimestamp != nil {
			continue
		}
		if kind, name := targetIn(&other.Spec); kind != s.kind || name != s.name {
			continue
		}
		if of, _, _ := resolve(&other.Spec); !validation.AreDisjoint(of.selector, s.selector) {
			errs = append(errs, field.Invalid(targetPath(), shown(obj), "has a WorkloadSpread already: "+other.Name+
				"; for both, let spec.targetFilter.selector of each select other values of a label"))
		}
	}
	return errs
}
