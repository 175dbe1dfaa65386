package cloneset

import (
	"cmp"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/cloneset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/examples/kruise/predownload"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// settings are the values of a CloneSet's spec, with all defaults set, and with percentages and selectors resolved.
type settings struct {
	selector labels.Selector
	rollout  rollout.Spec
	rules    podcontrol.Rules
	priority podorder.Priority
	scatter  podorder.Scatter

	updates            bool // whether Pods are updated: neither paused nor OnDelete
	paused             bool
	onDelete           bool
	preparingIsUpdated bool
	claimsCount        bool // whether changed claim templates recreate Pods
	minReady           time.Duration
	progressDeadline   *time.Duration // nil means no deadline
	historyLimit       int
	restart            *restart.Wish // nil means that no restart is requested
	download           predownload.Settings

	// warnings are invalid values that OpenKruise accepts. The controller interprets these values as OpenKruise does.
	warnings reason.List
}

// rules returns the rules in the CloneSet's spec for updating its Pods.
func rules(cs *v1beta1.CloneSet) podcontrol.Rules {
	ru := ptr.Deref(cs.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateCloneSet{})
	return kruise.Rules(string(ru.PodUpdatePolicy), cs.Spec.Lifecycle, ru.InPlaceUpdateStrategy)
}

// claimTemplatesCount reports whether changed claim templates recreate Pods. If the policy is InPlaceOnly, no update
// recreates a Pod.
func claimTemplatesCount(cs *v1beta1.CloneSet, options Options) bool {
	return options.Gates[apps.GateRecreatePodWhenChangeVCT] && rules(cs).Policy != podcontrol.InPlaceOnly
}

const rollingUpdate = "spec.updateStrategy.rollingUpdate"

// resolve parses and validates the spec, with or without defaults. Problems are values with which the controller cannot
// work; the settings must then not be used. Warnings are mistakes that the controller tolerates, such as a negative
// minReadySeconds, because objects taken over from OpenKruise must continue to work.
//
// Lists of more than [apps.MaxTerms] entries are not checked, because the check would take too long. The order of the
// errors depends only on the object, so that a condition with the errors does not change when nothing has changed.
func resolve(cs *v1beta1.CloneSet, options Options) (s *settings, problems, warnings judge.Faults) {
	if left := judge.Undecodable(cs.Spec.Undecodable); left != nil {
		return nil, left, nil // further checks would only report missing values
	}
	read, spec := &judge.Reading{}, &cs.Spec
	s = &settings{
		rules:              rules(cs),
		onDelete:           spec.UpdateStrategy.Type == v1beta1.OnDelete,
		preparingIsUpdated: options.Gates[apps.GatePreparingUpdateAsUpdate],
		claimsCount:        claimTemplatesCount(cs, options),
		rollout: rollout.Spec{
			Replicas:           read.Replicas("spec.replicas", replicasOf(cs)),
			Rollback:           options.Gates[apps.GateCloneSetPartitionRollback],
			ExcludePreDeleting: spec.ScaleStrategy.ExcludePreparingDelete || options.ExcludePreparingDelete,
			Paths: rollout.Paths{
				Partition: rollingUpdate + ".partition", MaxUnavailable: rollingUpdate + ".maxUnavailable",
				ScaleMaxUnavailable: "spec.scaleStrategy.maxUnavailable",
			},
		},
	}
	s.selector = read.Pods("spec", spec.Selector, spec.Template.Labels, apps.ReservedPodLabels())
	s.historyLimit = read.OrZero("spec.revisionHistoryLimit", ptr.Deref(spec.RevisionHistoryLimit,
		api.DefaultRevisionHistoryLimit))
	s.minReady = time.Duration(read.OrZero("spec.minReadySeconds", spec.MinReadySeconds)) * time.Second
	s.progressDeadline = progressDeadline(read, spec)
	read.Warn(validation.ClaimNames(spec.VolumeClaimTemplates, field.NewPath("spec", "volumeClaimTemplates"))...)
	read.Template("spec.template", &spec.Template, apps.ReservedPodLabels())
	s.rollout.ScaleMaxUnavailable = read.LimitAsUpstream(s.rollout.Paths.ScaleMaxUnavailable,
		spec.ScaleStrategy.MaxUnavailable,
		s.rollout.Replicas, partition.Up)
	s.readStrategy(read, &spec.UpdateStrategy)
	s.restart = restart.Read(read, cs.Annotations)
	s.download = predownload.Read(read, cs.Annotations, ptr.Deref(spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateCloneSet{}).InPlaceUpdateStrategy)
	s.warnings = read.Warnings.Reasons()
	return s, read.Problems, read.Warnings
}

// restartRules returns the rules for a restart of containers, which are those of an update.
func (s *settings) restartRules(pods *podcontrol.Set) restart.Rules {
	return restart.Rules{
		Replicas: s.rollout.Replicas, Partition: s.rollout.Partition, MaxUnavailable: s.rollout.MaxUnavailable, Paused: s.paused, Paths: s.rollout.Paths,
		Order: func() []*corev1.Pod { return pods.Order(s.priority, s.scatter) },
	}
}

func replicasOf(cs *v1beta1.CloneSet) int32 { return ptr.Deref(cs.Spec.Replicas, api.DefaultReplicas) }

// progressDeadline returns the deadline by the rule of v1alpha1: either no deadline, or a deadline longer than
// minReadySeconds. Nil means no deadline.
func progressDeadline(read *judge.Reading, spec *v1beta1.CloneSetSpec) *time.Duration {
	const path = "spec.progressDeadlineSeconds"
	seconds := ptr.Deref(spec.ProgressDeadlineSeconds, math.MaxInt32)
	switch {
	case seconds == math.MaxInt32:
		return nil
	case seconds >= 0 && seconds <= spec.MinReadySeconds:
		read.Warn(field.Invalid(field.NewPath(path), seconds, fmt.Sprintf("must be greater than minReadySeconds (%d)",
			spec.MinReadySeconds)))
	}
	return new(time.Duration(read.OrZero(path, seconds)) * time.Second)
}

// readStrategy parses the update strategy. With OnDelete, defaulting sets no fields, so any field may be missing.
func (s *settings) readStrategy(read *judge.Reading, strategy *v1beta1.CloneSetUpdateStrategy) {
	const path = "spec.updateStrategy.type"
	judge.OneOf(read, path, strategy.Type, v1beta1.RollingUpdate, v1beta1.OnDelete)
	switch {
	case strategy.Type == "":
		read.Absent(field.Required(field.NewPath(path), "use RollingUpdate or OnDelete"))
	case strategy.Type == v1beta1.RollingUpdate && strategy.RollingUpdate == nil:
		read.Absent(field.Required(field.NewPath(rollingUpdate), "type RollingUpdate needs it"))
	}
	ru, plan := ptr.Deref(strategy.RollingUpdate, v1beta1.RollingUpdateCloneSet{}), &s.rollout
	judge.OneOf(read, rollingUpdate+".podUpdatePolicy", ru.PodUpdatePolicy, v1beta1.ReCreate,
		v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly)
	if ru.PodUpdatePolicy == v1beta1.InPlaceOnly {
		read.NoneWith(rollingUpdate+".maxSurge", ru.MaxSurge, plan.Replicas,
			"must be 0 with InPlaceOnly, which never replaces a Pod")
	}
	s.paused, s.updates = ru.Paused, !ru.Paused && !s.onDelete
	plan.Partition = read.Kept(plan.Paths.Partition, ru.Partition, plan.Replicas)
	round := partition.Up
	if s.updates && !validation.IsNone(ru.MaxSurge) {
		round = partition.Down
	}
	// With OnDelete, the budget also limits deletions that users request.
	unavailable := cmp.Or(ru.MaxUnavailable, new(intstr.FromString(api.DefaultMaxUnavailable)))
	plan.MaxUnavailable = read.Count(plan.Paths.MaxUnavailable, unavailable, plan.Replicas, round)
	surge := read.Count(rollingUpdate+".maxSurge", ru.MaxSurge, plan.Replicas, partition.Up)
	if s.updates {
		plan.MaxSurge = surge
	}
	s.priority, s.scatter = read.Order(rollingUpdate, ru.PriorityStrategy, ru.ScatterStrategy)
	if strategy.Type == v1beta1.RollingUpdate && ru.MaxUnavailable != nil && validation.IsNone(ru.MaxUnavailable) &&
		validation.IsNone(ru.MaxSurge) {
		read.Warn(field.Invalid(field.NewPath(plan.Paths.MaxUnavailable), ru.MaxUnavailable.String(),
			"must be at least 1 or 1% when maxSurge is 0"))
	}
	read.InPlace(rollingUpdate+".inPlaceUpdateStrategy", ru.InPlaceUpdateStrategy)
}
