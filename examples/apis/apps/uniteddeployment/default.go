// Package uniteddeployment answers "what does the API make of a UnitedDeployment somebody writes: what is filled in?"
//
// The functions are pure and work on v1beta1, the hub; webhooks for v1alpha1 convert first.
package uniteddeployment

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// Defaults of OpenKruise 1.9.
const (
	DefaultReplicas             int32 = 1
	DefaultRevisionHistoryLimit int32 = 10
	// DefaultRescheduleCriticalSeconds and DefaultUnschedulableDuration are for type Adaptive.
	DefaultRescheduleCriticalSeconds int32 = 30
	DefaultUnschedulableDuration     int32 = 300
)

// DefaultOptions are the feature gates that change defaulting. The zero value is the default.
type DefaultOptions struct {
	// TemplateNoDefaults leaves the templates as written.
	TemplateNoDefaults bool
}

// Default fills in the missing values. stored is the object before an update and nil on creation. An unchanged template
// gets no new defaults: a default added by a newer version would roll every Pod. Only statefulSetTemplate gets defaults
// within, because the webhooks of its workloads fill the rest in. Default is idempotent.
func Default(obj, stored *v1beta1.UnitedDeployment, opts DefaultOptions) {
	spec := &obj.Spec
	defaults.IfNil(&spec.Replicas, DefaultReplicas)
	defaults.IfNil(&spec.RevisionHistoryLimit, DefaultRevisionHistoryLimit)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = v1beta1.ManualUpdateStrategyType
	}
	if spec.UpdateStrategy.Type == v1beta1.ManualUpdateStrategyType {
		defaults.IfNil(&spec.UpdateStrategy.ManualUpdate, v1beta1.ManualUpdate{})
	}
	if strategy := &spec.Topology.ScheduleStrategy; strategy.Type == v1beta1.AdaptiveSchedule {
		defaults.IfNil(&strategy.Adaptive, v1beta1.AdaptiveUnitedDeploymentStrategy{})
		defaults.IfNil(&strategy.Adaptive.RescheduleCriticalSeconds, DefaultRescheduleCriticalSeconds)
		defaults.IfNil(&strategy.Adaptive.UnschedulableDuration, DefaultUnschedulableDuration)
	}
	defaultMinimums(spec.Topology.Subsets)
	template := spec.Template.StatefulSetTemplate
	if template == nil || opts.TemplateNoDefaults ||
		stored != nil && apiequality.Semantic.DeepEqual(spec.Template, stored.Spec.Template) {
		return
	}
	defaults.Templates{Pod: &template.Spec.Template, Claims: template.Spec.VolumeClaimTemplates}.
		Default(defaults.Templates{}, defaults.Options{})
}

// defaultMinimums fills in minReplicas if any subset has a bound, and none has a share.
func defaultMinimums(subsets []v1beta1.Subset) {
	bounded := func(s v1beta1.Subset) bool { return s.MinReplicas != nil || s.MaxReplicas != nil }
	shared := func(s v1beta1.Subset) bool { return s.Replicas != nil }
	if !slices.ContainsFunc(subsets, bounded) || slices.ContainsFunc(subsets, shared) {
		return
	}
	for i := range subsets {
		defaults.IfNil(&subsets[i].MinReplicas, intstr.FromInt32(0))
	}
}
