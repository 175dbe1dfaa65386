// Package statefulset answers "what does the API do with a StatefulSet written by a user: the defaults and the
// ordinals?"
//
// The functions are pure and work on v1beta1, the hub of conversions; webhooks convert v1alpha1 objects first.
package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/defaults"
)

// These are the defaults of OpenKruise 1.9.
const (
	DefaultReplicas             int32 = 1
	DefaultRevisionHistoryLimit int32 = 10
	DefaultMaxUnavailable       int32 = 1
)

// MaxMinReadySeconds is the largest minReadySeconds accepted by admission.
const MaxMinReadySeconds int32 = 300

// DefaultOptions are the feature gates with an effect on defaulting. In the zero value all gates are off.
type DefaultOptions struct {
	// If TemplateNoDefaults is true, the Pod template and the claim templates are stored as written.
	TemplateNoDefaults bool
	// If HostNetworkHostPorts is true, missing host ports are set in templates with hostNetwork.
	HostNetworkHostPorts bool
	// AutoDeletePVC means that the retention policy of claims is filled in (gate StatefulSetAutoDeletePVC, which is on
	// by default).
	AutoDeletePVC bool
	// AutoResizePVC means that the update strategy of claims is filled in (gate StatefulSetAutoResizePVCGate).
	AutoResizePVC bool
}

// Default sets the fields left out by the user. stored is the object before an update and nil on creation: an unchanged
// Pod template or claim template gets no new defaults, because a new default in a newer version would update every Pod.
// Default is idempotent.
func Default(obj, stored *v1beta1.StatefulSet, opts DefaultOptions) {
	spec := &obj.Spec
	defaults.IfNil(&spec.Replicas, DefaultReplicas)
	defaults.IfNil(&spec.RevisionHistoryLimit, DefaultRevisionHistoryLimit)
	if spec.PodManagementPolicy == "" {
		spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	defaultUpdateStrategy(&spec.UpdateStrategy)
	if opts.AutoDeletePVC {
		defaultRetention(&spec.PersistentVolumeClaimRetentionPolicy)
	}
	if opts.AutoResizePVC && spec.VolumeClaimUpdateStrategy.Type == "" {
		spec.VolumeClaimUpdateStrategy.Type = v1beta1.ClaimsOnDelete
	}
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
func defaultUpdateStrategy(strategy *v1beta1.StatefulSetUpdateStrategy) {
	if strategy.Type == "" {
		strategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	}
	if strategy.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		return
	}
	defaults.IfNil(&strategy.RollingUpdate, v1beta1.RollingUpdateStatefulSet{})
	rolling := strategy.RollingUpdate
	if rolling.PodUpdatePolicy == "" {
		rolling.PodUpdatePolicy = v1beta1.ReCreate
	}
	defaults.IfNil(&rolling.Partition, 0)
	defaults.IfNil(&rolling.MaxUnavailable, intstr.FromInt32(DefaultMaxUnavailable))
	defaults.IfNil(&rolling.MinReadySeconds, 0)
}

func defaultRetention(policy **appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy) {
	defaults.IfNil(policy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	for _, when := range []*appsv1.PersistentVolumeClaimRetentionPolicyType{&(*policy).WhenDeleted, &(*policy).WhenScaled} {
		if *when == "" {
			*when = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
		}
	}
}
