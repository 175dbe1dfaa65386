package cloneset

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/cloneset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// settings are a CloneSet's spec with every default filled in and every percentage and selector resolved.
type settings struct {
	selector labels.Selector
	rollout  rollout.Spec
	rules    podcontrol.Rules
	priority podorder.Priority
	scatter  podorder.Scatter

	updates            bool // neither paused nor OnDelete
	paused             bool
	onDelete           bool
	preparingIsUpdated bool
	claimsCount        bool // whether changed claim templates recreate Pods
	minReady           time.Duration
	historyLimit       int

	// warnings are values silently accepted by OpenKruise. The controller reads warnings as OpenKruise did.
	warnings reason.List
}

// rules are the CloneSet's rules for its Pods.
func rules(cs *v1beta1.CloneSet) podcontrol.Rules {
	ru := ptr.Deref(cs.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateCloneSet{})
	return kruise.Rules(string(ru.PodUpdatePolicy), cs.Spec.Lifecycle, ru.InPlaceUpdateStrategy)
}

// claimTemplatesCount reports whether changed claim templates recreate Pods. With InPlaceOnly no update ever recreates
// a Pod.
func claimTemplatesCount(cs *v1beta1.CloneSet, options Options) bool {
	return options.Gates[apps.GateRecreatePodWhenChangeVCT] && rules(cs).Policy != podcontrol.InPlaceOnly
}

// resolve reads the spec. If some values are unusable, resolve returns the unusable values instead.
func resolve(cs *v1beta1.CloneSet, options Options) (*settings, reason.List) {
	if problems := decode.Reasons(cs.Spec.Undecodable); problems != nil {
		return nil, problems // the rest would only complain of missing values
	}
	if refused := api.Unusable(cs); len(refused) > 0 {
		return nil, kruise.Refused(refused)
	}
	const path = "spec.updateStrategy.rollingUpdate"
	read, spec := &kruise.Reading{}, &cs.Spec
	ru := ptr.Deref(spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateCloneSet{})
	s := &settings{
		selector:           read.Selector("spec.selector", spec.Selector),
		rules:              rules(cs),
		paused:             ru.Paused,
		onDelete:           spec.UpdateStrategy.Type == v1beta1.OnDelete,
		preparingIsUpdated: options.Gates[apps.GatePreparingUpdateAsUpdate],
		claimsCount:        claimTemplatesCount(cs, options),
		minReady:           time.Duration(read.OrZero("spec.minReadySeconds", spec.MinReadySeconds)) * time.Second,
		historyLimit:       read.OrZero("spec.revisionHistoryLimit", ptr.Deref(spec.RevisionHistoryLimit, api.DefaultRevisionHistoryLimit)),
	}
	s.updates = !s.paused && !s.onDelete
	read.OrZero("spec.progressDeadlineSeconds", ptr.Deref(spec.ProgressDeadlineSeconds, 0))
	read.OrZero(path+".inPlaceUpdateStrategy.gracePeriodSeconds", ptr.Deref(ru.InPlaceUpdateStrategy, pub.InPlaceUpdateStrategy{}).GracePeriodSeconds)
	s.rollout = rollout.Spec{
		Replicas:           int(ptr.Deref(spec.Replicas, api.DefaultReplicas)),
		Rollback:           options.Gates[apps.GateCloneSetPartitionRollback],
		ExcludePreDeleting: spec.ScaleStrategy.ExcludePreparingDelete || options.ExcludePreparingDelete,
		Paths: rollout.Paths{
			Partition: path + ".partition", MaxUnavailable: path + ".maxUnavailable", ScaleMaxUnavailable: "spec.scaleStrategy.maxUnavailable",
		},
	}
	plan, replicas := &s.rollout, s.rollout.Replicas
	plan.ScaleMaxUnavailable = read.LimitAsUpstream(plan.Paths.ScaleMaxUnavailable, spec.ScaleStrategy.MaxUnavailable, replicas, partition.Up)
	plan.Partition = read.Kept(plan.Paths.Partition, ru.Partition, replicas)
	if s.updates && ru.MaxSurge != nil {
		plan.MaxSurge = read.Count(path+".maxSurge", ru.MaxSurge, replicas, partition.Up)
	}
	round := partition.Up
	if plan.MaxSurge > 0 {
		round = partition.Down
	}
	// OnDelete has a budget as well, for specified deletes.
	unavailable := cmp.Or(ru.MaxUnavailable, new(intstr.FromString(api.DefaultMaxUnavailable)))
	plan.MaxUnavailable = read.Count(plan.Paths.MaxUnavailable, unavailable, replicas, round)
	s.priority, s.scatter = read.Order(path, ru.PriorityStrategy, ru.ScatterStrategy)
	s.warnings = read.Warnings
	return s, read.Problems
}
