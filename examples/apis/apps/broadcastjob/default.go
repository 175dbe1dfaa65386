// Package broadcastjob answers "what does the API do with a BroadcastJob written by a user: the defaults?"
//
// The functions are pure and work on v1beta1; v1alpha1 has the same fields. The functions for a spec are for kinds that
// have such a spec in a template. The Pod template is stored as written, so a restartPolicy is required: with
// Kubernetes' default Always, Pods would never end.
package broadcastjob

import (
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// DefaultParallelism means that there is no limit.
const DefaultParallelism int32 = math.MaxInt32

// Default sets the fields left out by the user. Default is idempotent.
func Default(obj *v1beta1.BroadcastJob) { DefaultSpec(&obj.Spec) }

// DefaultSpec does the same as [Default] for a spec.
func DefaultSpec(spec *v1beta1.BroadcastJobSpec) {
	defaults.IfNil(&spec.Parallelism, intstr.FromInt32(DefaultParallelism))
	if spec.CompletionPolicy.Type == "" {
		spec.CompletionPolicy.Type = v1beta1.Always
	}
	if spec.FailurePolicy.Type == "" {
		spec.FailurePolicy.Type = v1beta1.FailurePolicyTypeFailFast
	}
}
