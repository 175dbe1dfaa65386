package judge

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// mostNodes is a number of Nodes that no cluster exceeds. A percentage is refused if its result for mostNodes is too
// large, so an accepted percentage is valid in any cluster.
const mostNodes = 100_000

// BroadcastJob validates the spec of a BroadcastJob, or of the BroadcastJob template in an AdvancedCronJob.
func (r *Reading) BroadcastJob(path *field.Path, spec *v1beta1.BroadcastJobSpec) {
	pod, done, failure := path.Child("template", "spec"), path.Child("completionPolicy"), path.Child("failurePolicy")
	r.Refuse(validation.CountOf(spec.Parallelism, mostNodes, path.Child("parallelism"))...)
	if policy := spec.Template.Spec.RestartPolicy; policy == "" {
		r.Refuse(field.Required(pod.Child("restartPolicy"), "use Never or OnFailure: without one Pods would never end"))
	} else {
		OneOf(r, pod.Child("restartPolicy").String(), policy, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)
	}
	r.Refuse(validation.NotTooMany(apps.NodeTerms(&spec.Template.Spec), pod.Child("affinity", "nodeAffinity"))...)
	OneOf(r, done.Child("type").String(), spec.CompletionPolicy.Type, v1beta1.Always, v1beta1.Never)
	deadline, ttl := spec.CompletionPolicy.ActiveDeadlineSeconds, spec.CompletionPolicy.TTLSecondsAfterFinished
	r.Refuse(validation.NotNegative(deadline, done.Child("activeDeadlineSeconds"))...)
	r.Refuse(validation.NotNegative(ttl, done.Child("ttlSecondsAfterFinished"))...)
	OneOf(r, failure.Child("type").String(), spec.FailurePolicy.Type,
		v1beta1.FailurePolicyTypeFailFast, v1beta1.FailurePolicyTypeContinue, v1beta1.FailurePolicyTypePause)
	r.Refuse(validation.NotNegative(&spec.FailurePolicy.RestartLimit, failure.Child("restartLimit"))...)
	r.Warn(validation.Reserved(&spec.Template, apps.ReservedBroadcastJobLabels(), path.Child("template",
		"metadata"))...)
	const unused = "has no meaning with type Never: such a job does not end"
	if spec.CompletionPolicy.Type == v1beta1.Never {
		r.unused(deadline != nil, done.Child("activeDeadlineSeconds"), unused)
		r.unused(ttl != nil, done.Child("ttlSecondsAfterFinished"), unused)
	}
}

func (r *Reading) unused(isSet bool, path *field.Path, why string) {
	if isSet {
		r.Warn(field.Forbidden(path, why))
	}
}
