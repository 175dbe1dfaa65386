package broadcastjob

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
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
// The spec need not be defaulted. Undecodable fields are no problem here; the spec itself reports undecodable fields.
// The order of the result depends on the spec alone.
func Unusable(spec *v1beta1.BroadcastJobSpec, path *field.Path) field.ErrorList {
	pod := path.Child("template", "spec")
	errs := validation.CountOf(spec.Parallelism, mostNodes, path.Child("parallelism"))
	errs = append(errs, endingRestartPolicy(spec.Template.Spec.RestartPolicy, pod.Child("restartPolicy"))...)
	errs = append(errs, validation.NotTooMany(apps.NodeTerms(&spec.Template.Spec), pod.Child("affinity", "nodeAffinity"))...)
	completion := path.Child("completionPolicy")
	errs = append(errs, oneOf(spec.CompletionPolicy.Type, completion.Child("type"), v1beta1.Always, v1beta1.Never)...)
	errs = append(errs, validation.NotNegative(spec.CompletionPolicy.ActiveDeadlineSeconds, completion.Child("activeDeadlineSeconds"))...)
	errs = append(errs, validation.NotNegative(spec.CompletionPolicy.TTLSecondsAfterFinished, completion.Child("ttlSecondsAfterFinished"))...)
	failure := path.Child("failurePolicy")
	errs = append(errs, oneOf(spec.FailurePolicy.Type, failure.Child("type"),
		v1beta1.FailurePolicyTypeFailFast, v1beta1.FailurePolicyTypeContinue, v1beta1.FailurePolicyTypePause)...)
	return append(errs, validation.NotNegative(&spec.FailurePolicy.RestartLimit, failure.Child("restartLimit"))...)
}

// endingRestartPolicy wants a policy of ending Pods.
func endingRestartPolicy(policy corev1.RestartPolicy, path *field.Path) field.ErrorList {
	switch policy {
	case corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure:
		return nil
	case "":
		return field.ErrorList{field.Required(path, "use Never or OnFailure: without one Pods would never end")}
	}
	return field.ErrorList{field.NotSupported(path, policy, []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure})}
}

// oneOf refuses unknown values. Empty stands for the default.
func oneOf[T ~string](value T, path *field.Path, known ...T) field.ErrorList {
	if value == "" {
		return nil
	}
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}
