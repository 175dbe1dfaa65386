// Package broadcastjob answers "what does the API make of a BroadcastJob somebody writes: what is filled in, what is refused?"
//
// There is one set of rules for what no controller can work with, [Unusable], which controllers ask too, because objects come past
// admission. Admission refuses that and what is merely a mistake. The functions that take a spec and a path are for kinds that have such a
// spec in a template.
//
// The functions are pure and work on v1beta1, which v1alpha1 is the same as. Admission is stricter than that of OpenKruise 1.9 where values
// would be stored that nobody can use: a parallelism that is no count, policies of unknown types and negative numbers are refused. The Pod
// template is stored as it was written, so a restartPolicy has to be given: what Kubernetes takes for a missing one, Always, never ends. An
// update is never refused for a problem that the stored object already has.
package broadcastjob

import (
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// DefaultParallelism is no limit.
const DefaultParallelism int32 = math.MaxInt32

// Default fills in what the user left out. It is idempotent.
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
