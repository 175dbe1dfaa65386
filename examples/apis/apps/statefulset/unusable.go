package statefulset

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
)

// MaxReserved is the maximum number of entries in reserveOrdinals; a range is a single entry. Nobody needs more, and
// each pass reads all entries.
const MaxReserved = 10_000

// Unusable returns every value of the spec that a controller cannot work with. Controllers ask Unusable about stored
// objects, because objects can bypass admission; [ValidateCreate] and [ValidateUpdate] refuse all unusable values and
// more.
//
// The object need not be defaulted. Values readable by a controller, such as a maxUnavailable of 0, read as 1, are no
// problem. Neither are undecodable fields; the spec itself reports undecodable fields. ordinals.start is judged with or
// without its feature gate.
//
// Unusable does not look into overlong lists, so its time has a bound. The order of the result depends on the object
// alone, so a condition with the result stays the same from pass to pass.
func Unusable(obj *v1beta1.StatefulSet) field.ErrorList {
	return unusable(obj, max(replicasOf(obj), 0))
}

// unusable judges percentages of the given number of replicas.
func unusable(obj *v1beta1.StatefulSet, replicas int32) field.ErrorList {
	spec, path := &obj.Spec, specPath()
	errs := unusableOrdinals(obj)
	errs = append(errs, validation.Selector(spec.Selector, spec.Template.Labels, apps.ReservedStatefulSetLabels(), path)...)
	errs = append(errs, oneOf(path.Child("podManagementPolicy"), spec.PodManagementPolicy,
		"", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)...)
	if scale := spec.ScaleStrategy; scale != nil {
		errs = append(errs, validation.CountOf(scale.MaxUnavailable, replicas, path.Child("scaleStrategy", "maxUnavailable"))...)
	}
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		errs = append(errs, retention(policy, "")...)
	}
	at := path.Child("updateStrategy")
	errs = append(errs, oneOf(at.Child("type"), spec.UpdateStrategy.Type,
		"", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType)...)
	rolling, at := spec.UpdateStrategy.RollingUpdate, at.Child("rollingUpdate")
	if rolling == nil {
		return errs
	}
	errs = append(errs, oneOf(at.Child("podUpdatePolicy"), rolling.PodUpdatePolicy,
		"", v1beta1.ReCreate, v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly)...)
	errs = append(errs, validation.NotNegative(rolling.Partition, at.Child("partition"))...)
	errs = append(errs, validation.CountOf(rolling.MaxUnavailable, replicas, at.Child("maxUnavailable"))...)
	if unordered := rolling.UnorderedUpdate; unordered != nil {
		errs = append(errs, validation.Priority(unordered.PriorityStrategy, at.Child("unorderedUpdate", "priorityStrategy"))...)
	}
	return errs
}

// Ordinals returns the ordinals wanted by the object. fromStart is true if ordinals.start counts (gate
// StatefulSetStartOrdinal). The error is a [reason.List] and names paths of the object; without findings of [Unusable]
// there is no error.
func Ordinals(obj *v1beta1.StatefulSet, fromStart bool) (ordinals.Set, error) {
	start := 0
	if numbers := obj.Spec.Ordinals; numbers != nil && fromStart {
		start = int(numbers.Start)
	}
	paths := ordinals.Paths{Start: "spec.ordinals.start", Replicas: "spec.replicas", Reserved: "spec.reserveOrdinals"}
	return ordinals.Of(paths, start, int(replicasOf(obj)), obj.Spec.ReserveOrdinals...)
}

// unusableOrdinals checks for an ordinal for each replica. A start above 0 never leaves more ordinals than 0, so the
// gate of the start need not be known.
func unusableOrdinals(obj *v1beta1.StatefulSet) field.ErrorList {
	if n := len(obj.Spec.ReserveOrdinals); n > MaxReserved {
		return append(validation.NotNegative(obj.Spec.Replicas, specPath().Child("replicas")),
			field.TooMany(specPath().Child("reserveOrdinals"), n, MaxReserved))
	}
	_, err := Ordinals(obj, true)
	var errs field.ErrorList
	for _, why := range reason.From(err) {
		errs = append(errs, field.Invalid(field.NewPath(why.Path), written(why.New), why.Detail+"; "+why.Remedy))
	}
	return errs
}

// written returns a value as written by the user: a reason has the value as text, in quotes unless certainly a number.
func written(text string) any {
	if s, err := strconv.Unquote(text); err == nil {
		text = s
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return text
}

// retention checks the retention policy of claims. others are further valid values.
func retention(policy *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy, others ...appsv1.PersistentVolumeClaimRetentionPolicyType) field.ErrorList {
	path := specPath().Child("persistentVolumeClaimRetentionPolicy")
	allowed := append(others, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
	return append(oneOf(path.Child("whenDeleted"), policy.WhenDeleted, allowed...), oneOf(path.Child("whenScaled"), policy.WhenScaled, allowed...)...)
}

// oneOf refuses every value outside allowed. An empty value stands for a default, and is not recommended to anybody.
func oneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, slices.DeleteFunc(slices.Clone(allowed), func(a T) bool { return a == "" }))}
}
