// Package broadcastjob answers "what does the API do with a BroadcastJob written by a user: the defaults and the
// refusals?"
//
// A common set of rules, [Unusable], finds values unusable for every controller. Controllers ask Unusable too, because
// objects can bypass admission. Admission also refuses mere mistakes. The functions with a spec and a path are for
// kinds with such a spec in a template.
//
// The functions are pure and work on v1beta1; v1alpha1 is the same. Admission is stricter than in OpenKruise 1.9
// against unusable values: a parallelism other than a count, policies of unknown types and negative numbers are
// refused. The Pod template is stored as written, so a restartPolicy is required: the default of Kubernetes, Always,
// never ends. An update is never refused for a problem already in the stored object.
package broadcastjob

import (
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// DefaultParallelism is no limit.
const DefaultParallelism int32 = math.MaxInt32

// Default sets the fields left out by the user. Default is idempotent.
func Default(obj *v1beta1.BroadcastJob) { DefaultSpec(&obj.Spec) }

// DefaultSpec is [Default] for a spec.
func DefaultSpec(spec *v1beta1.BroadcastJobSpec) {
	defaults.IfNil(&spec.Parallelism, intstr.FromInt32(DefaultParallelism))
	if spec.CompletionPolicy.Type == "" {
		spec.CompletionPolicy.Type = v1beta1.Always
	}
	if spec.FailurePolicy.Type == "" {
		spec.FailurePolicy.Type = v1beta1.FailurePolicyTypeFailFast
	}
}
