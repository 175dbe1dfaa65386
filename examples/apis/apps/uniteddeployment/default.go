// Package uniteddeployment answers "what does the API do with a UnitedDeployment written by a user: the defaults?"
//
// The functions are pure and work on v1beta1, the hub of conversions; webhooks convert v1alpha1 objects first.
package uniteddeployment

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// These are the defaults of OpenKruise 1.9.
const (
	DefaultReplicas             int32 = 1
	DefaultRevisionHistoryLimit int32 = 10
	// DefaultRescheduleCriticalSeconds and DefaultUnschedulableDuration apply to the type Adaptive.
	DefaultRescheduleCriticalSeconds int32 = 30
	DefaultUnschedulableDuration     int32 = 300
)

// DefaultOptions are the feature gates with an effect on defaulting. The zero value means that all gates are off.
type DefaultOptions struct {
	// TemplateNoDefaults means that the templates are stored as written.
	TemplateNoDefaults bool
}

// Default sets the missing fields of a UnitedDeployment. stored is the object before an update and nil on creation.
// An unchanged template gets no new defaults, because a new default in a newer version would update every Pod.
// Defaults inside a template are set only in statefulSetTemplate; for templates of other kinds, the webhooks of the
// kinds set the defaults in the workloads. Default is idempotent.
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

// defaultMinimums sets minReplicas if any subset has a minReplicas or maxReplicas, and no subset has a share.
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
