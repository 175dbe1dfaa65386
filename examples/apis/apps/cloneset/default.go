// Package cloneset answers "what does the API do with a CloneSet written by a user: the defaults?"
//
// The functions are pure and work on v1beta1, the hub of conversions; webhooks convert v1alpha1 objects first. If the
// type is OnDelete, rollingUpdate may be incomplete.
package cloneset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// These are the defaults of OpenKruise 1.9.
const (
	DefaultReplicas             int32 = 1
	DefaultRevisionHistoryLimit int32 = 10
	// DefaultMaxUnavailable is a percentage of the replicas.
	DefaultMaxUnavailable = "20%"
)

// DefaultOptions are the feature gates with an effect on defaulting. In the zero value both gates are off, as by
// default.
type DefaultOptions struct {
	// If TemplateNoDefaults is true, the Pod template and the claim templates are stored as written.
	TemplateNoDefaults bool
	// If HostNetworkHostPorts is true, missing host ports are set in templates with hostNetwork.
	HostNetworkHostPorts bool
}

// Default sets the missing fields of a CloneSet. stored is the object before an update and nil on creation. An
// unchanged Pod template or claim template gets no new defaults, because a new default in a newer version would update
// every Pod. Default is idempotent.
func Default(obj, stored *v1beta1.CloneSet, opts DefaultOptions) {
	spec := &obj.Spec
	defaults.IfNil(&spec.Replicas, DefaultReplicas)
	defaults.IfNil(&spec.RevisionHistoryLimit, DefaultRevisionHistoryLimit)
	defaultUpdateStrategy(&spec.UpdateStrategy)
	if opts.TemplateNoDefaults {
		return
	}
	var before defaults.Templates
	if stored != nil {
		before = defaults.Templates{Pod: &stored.Spec.Template, Claims: stored.Spec.VolumeClaimTemplates}
	}
	defaults.Templates{Pod: &spec.Template, Claims: spec.VolumeClaimTemplates}.Default(before, defaults.Options{
		ContainerImagePullPolicy: corev1.PullAlways,
		HostNetworkHostPorts:     opts.HostNetworkHostPorts,
	})
}

// defaultUpdateStrategy sets fields of rollingUpdate only if the type is RollingUpdate.
func defaultUpdateStrategy(strategy *v1beta1.CloneSetUpdateStrategy) {
	if strategy.Type == "" {
		strategy.Type = v1beta1.RollingUpdate
	}
	if strategy.Type != v1beta1.RollingUpdate {
		return
	}
	defaults.IfNil(&strategy.RollingUpdate, v1beta1.RollingUpdateCloneSet{})
	rolling := strategy.RollingUpdate
	if rolling.PodUpdatePolicy == "" {
		rolling.PodUpdatePolicy = v1beta1.ReCreate
	}
	defaults.IfNil(&rolling.Partition, intstr.FromInt32(0))
	defaults.IfNil(&rolling.MaxUnavailable, intstr.FromString(DefaultMaxUnavailable))
	defaults.IfNil(&rolling.MaxSurge, intstr.FromInt32(0))
	switch rolling.PodUpdatePolicy {
	case v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly:
		defaults.IfNil(&rolling.InPlaceUpdateStrategy, pub.InPlaceUpdateStrategy{})
	case v1beta1.ReCreate:
	}
}
