// Package daemonset answers "what does the API do with a DaemonSet written by a user: the defaults?"
//
// The functions are pure and work on v1beta1, the hub of conversions; webhooks call [DefaultV1alpha1] for v1alpha1
// objects, and then convert the objects to v1beta1.
package daemonset

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// These are the defaults of OpenKruise 1.9.
const (
	DefaultRevisionHistoryLimit int32 = 10
	DefaultBurstReplicas        int32 = 250
	// DefaultMaxUnavailable applies if maxSurge is not set either.
	DefaultMaxUnavailable int32 = 1
)

// Default sets the fields left out by the user. Default is idempotent. The Pod template is stored as written, so a
// default that a newer version adds does not update any Pod. Defaults of partition and paused are not stored either, as
// in OpenKruise.
func Default(obj *v1beta1.DaemonSet) {
	spec := &obj.Spec
	defaults.IfNil(&spec.BurstReplicas, intstr.FromInt32(DefaultBurstReplicas))
	defaults.IfNil(&spec.RevisionHistoryLimit, DefaultRevisionHistoryLimit)
	strategy := &spec.UpdateStrategy
	if strategy.Type == "" {
		strategy.Type = v1beta1.RollingUpdateDaemonSetStrategyType
	}
	if strategy.Type != v1beta1.RollingUpdateDaemonSetStrategyType {
		return
	}
	defaults.IfNil(&strategy.RollingUpdate, v1beta1.RollingUpdateDaemonSet{})
	rolling := strategy.RollingUpdate
	if rolling.RollingUpdateType == "" {
		rolling.RollingUpdateType = v1beta1.StandardRollingUpdateType
	}
	if rolling.MaxUnavailable == nil && rolling.MaxSurge == nil {
		unavailable, surge := intstr.FromInt32(DefaultMaxUnavailable), intstr.FromInt32(0)
		rolling.MaxUnavailable, rolling.MaxSurge = &unavailable, &surge
	}
}

// DefaultV1alpha1 replaces the deprecated type Surging by fields with the same meaning, because conversion would hide
// the type: the type Standard and, if these are unset, a maxSurge of 1 and a maxUnavailable of 0. [Default] sets the
// remaining fields.
func DefaultV1alpha1(obj *v1alpha1.DaemonSet) {
	strategy := &obj.Spec.UpdateStrategy
	rolling := strategy.RollingUpdate
	if strategy.Type != "" && strategy.Type != v1beta1.RollingUpdateDaemonSetStrategyType ||
		rolling == nil || rolling.RollingUpdateType != v1alpha1.SurgingRollingUpdateType {
		return
	}
	rolling.RollingUpdateType = v1beta1.StandardRollingUpdateType
	defaults.IfNil(&rolling.MaxSurge, intstr.FromInt32(1))
	defaults.IfNil(&rolling.MaxUnavailable, intstr.FromInt32(0))
}
