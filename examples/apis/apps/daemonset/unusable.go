package daemonset

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// mostNodes is beyond every cluster: a percentage too large for mostNodes is refused, so no accepted percentage is too
// large later.
const mostNodes = 100_000

// Unusable returns every value of the spec that a controller cannot work with. Controllers ask Unusable about stored
// objects, because objects can bypass admission; [ValidateCreate] and [ValidateUpdate] refuse all unusable values and
// more.
//
// The object need not be defaulted. Values stored and read by OpenKruise in its own way, such as a negative
// minReadySeconds, two budgets or none, are no problem: such objects have to keep working after a take-over. Neither is
// rollingUpdate with the type OnDelete, unread then, nor are undecodable fields; the spec itself reports undecodable
// fields.
//
// Unusable does not look into selectors of more than [apps.MaxTerms] terms, so its time has a bound. The order of the
// result depends on the object alone, so a condition with the result stays the same from pass to pass.
func Unusable(obj *v1beta1.DaemonSet) field.ErrorList {
	spec, path := &obj.Spec, specPath()
	errs := validation.Selector(spec.Selector, spec.Template.Labels, apps.ReservedDaemonSetLabels(), path)
	errs = append(errs, validation.NotTooMany(apps.NodeTerms(&spec.Template.Spec), path.Child("template", "spec", "affinity", "nodeAffinity"))...)
	errs = append(errs, count(spec.BurstReplicas, path.Child("burstReplicas"))...)
	at := path.Child("updateStrategy")
	switch kind := spec.UpdateStrategy.Type; kind {
	case "", v1beta1.RollingUpdateDaemonSetStrategyType:
	case v1beta1.OnDeleteDaemonSetStrategyType:
		return errs
	default:
		return append(errs, field.NotSupported(at.Child("type"), kind, []v1beta1.DaemonSetUpdateStrategyType{
			v1beta1.RollingUpdateDaemonSetStrategyType, v1beta1.OnDeleteDaemonSetStrategyType,
		}))
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil {
		errs = append(errs, unusableRolling(rolling, at.Child("rollingUpdate"))...)
	}
	return errs
}

func unusableRolling(rolling *v1beta1.RollingUpdateDaemonSet, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch rolling.RollingUpdateType {
	case "", v1beta1.StandardRollingUpdateType:
	case v1beta1.InPlaceIfPossibleRollingUpdateType:
		if surge := rolling.MaxSurge; surge != nil && validation.AtLeastOne(*surge, 1) {
			errs = append(errs, field.Invalid(path.Child("maxSurge"), surge.String(), "must be 0 with InPlaceIfPossible, which changes the Pod that is there"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("rollingUpdateType"), rolling.RollingUpdateType,
			[]v1beta1.RollingUpdateType{v1beta1.StandardRollingUpdateType, v1beta1.InPlaceIfPossibleRollingUpdateType}))
	}
	errs = append(errs, count(rolling.MaxUnavailable, path.Child("maxUnavailable"))...)
	errs = append(errs, count(rolling.MaxSurge, path.Child("maxSurge"))...)
	errs = append(errs, unusableNodes(rolling.Selector, path.Child("selector"))...)
	return append(errs, count(rolling.Partition, path.Child("partition"))...)
}

// unusableNodes checks the selector of Nodes. An unset or empty selector selects all Nodes.
func unusableNodes(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if errs := validation.NotTooMany(apps.SelectorTerms(selector), path); len(errs) > 0 {
		return errs
	}
	errs := metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) }) // labels are a map
	return errs
}

// count refuses values that are neither integer nor percentage, and names the values accepted by admission: OpenKruise
// reads no percentage with decimals.
func count(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	errs := validation.CountOf(value, mostNodes, path)
	for _, err := range errs {
		problem, _, _ := strings.Cut(err.Detail, "; ")
		err.Detail = problem + "; " + wanted
	}
	return errs
}

const wanted = `use an integer of at least 0, or a whole percentage such as "30%"`
