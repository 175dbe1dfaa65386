// Package imagepulljob answers "what does the API do with an ImagePullJob or ImageListPullJob written by a user: the
// defaults?"
package imagepulljob

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// These are the defaults of OpenKruise 1.9.
const (
	DefaultTimeoutSeconds int32 = 600
	DefaultBackoffLimit   int32 = 3
	DefaultParallelism    int32 = 1
)

// Default sets the fields left out by the user. Default is idempotent. Parallelism stays as written.
func Default(obj *v1beta1.ImagePullJob) {
	limits(&obj.Spec.PullPolicy, &obj.Spec.CompletionPolicy)
	if obj.Spec.ImagePullPolicy == "" {
		obj.Spec.ImagePullPolicy = corev1.PullIfNotPresent
	}
}

// DefaultList does the same as [Default] for an ImageListPullJob. The pull policy of images is left to the jobs of the
// images.
func DefaultList(obj *v1beta1.ImageListPullJob) { DefaultListSpec(&obj.Spec) }

// DefaultListSpec does the same as [DefaultList] for a spec.
func DefaultListSpec(spec *v1beta1.ImageListPullJobSpec) {
	limits(&spec.PullPolicy, &spec.CompletionPolicy)
}

func limits(policy **v1beta1.PullPolicy, completion *v1beta1.CompletionPolicy) {
	if completion.Type == "" {
		completion.Type = v1beta1.Always
	}
	defaults.IfNil(policy, v1beta1.PullPolicy{})
	defaults.IfNil(&(*policy).TimeoutSeconds, DefaultTimeoutSeconds)
	defaults.IfNil(&(*policy).BackoffLimit, DefaultBackoffLimit)
}

// Parallelism returns the number of Nodes that pull at the same time, without checks of the value: a value that is no
// number counts as 0.
func Parallelism(value *intstr.IntOrString) int {
	if value == nil {
		return int(DefaultParallelism)
	}
	return max(value.IntValue(), 0)
}
