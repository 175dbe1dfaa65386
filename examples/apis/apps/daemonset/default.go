// Package daemonset answers "what does the API make of a DaemonSet somebody writes: what is filled in, what is refused?"
//
// There is one set of rules for what no controller can work with, [Unusable], which controllers ask too, because objects come past
// admission. Admission refuses that and what is merely a mistake.
//
// The functions are pure and work on v1beta1, the hub; webhooks for v1alpha1 convert first, after [DefaultV1alpha1]. Admission is stricter than that
// of OpenKruise 1.9 where values would be stored that no controller can use, or that have no effect: a budget that is no count is
// refused and not taken for 0, burstReplicas must be a count, the template must not set what the controller writes on Pods, preNormal is
// refused as inPlaceUpdate is, rollingUpdate.selector must be well-formed, and minReadySeconds and revisionHistoryLimit must not
// be negative. An update is never refused for a problem the stored object already has, so objects taken over from another controller stay editable.
package daemonset

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// Defaults of OpenKruise 1.9.
const (
	DefaultRevisionHistoryLimit int32 = 10
	DefaultBurstReplicas        int32 = 250
	// DefaultMaxUnavailable holds where maxSurge is unset too.
	DefaultMaxUnavailable int32 = 1
)

// Default fills in what the user left out. It is idempotent. The Pod template stays as it was written, so that a default that a newer
// version learned rolls no Pod; nor are partition and paused written, as OpenKruise does not.
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

// DefaultV1alpha1 writes out what the deprecated type Surging stands for, which conversion would hide: Standard, and where they are unset
// maxSurge 1 and maxUnavailable 0. The rest is for [Default].
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
