package cloneset

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/partition"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
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
	minReady           time.Duration
	historyLimit       int

	// warnings are values that OpenKruise took without a word. They are read as it read them.
	warnings reason.List
}

// rules are what a CloneSet wants for its Pods.
func rules(cs *v1beta1.CloneSet) podcontrol.Rules {
	ru := ptr.Deref(cs.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateCloneSet{})
	return kruise.Rules(string(ru.PodUpdatePolicy), cs.Spec.Lifecycle, ru.InPlaceUpdateStrategy)
}

// resolve reads the spec. It returns every value that cannot be used.
func resolve(cs *v1beta1.CloneSet, options Options) (*settings, reason.List) {
	if problems := decode.Reasons(cs.Spec.Undecodable); problems != nil {
		return nil, problems // the rest would only complain of what is missing therefore
	}
	const path = "spec.updateStrategy.rollingUpdate"
	read, spec := &kruise.Reading{}, &cs.Spec
	ru := ptr.Deref(spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateCloneSet{})
	read.AtMost("spec.selector", apps.SelectorTerms(spec.Selector))
	if read.OrderTerms(path, ru.PriorityStrategy, ru.ScatterStrategy); len(read.Problems) > 0 {
		return nil, read.Problems // nothing else is looked at: that would take long
	}
	s := &settings{
		selector:           read.Selector(spec.Selector, spec.Template.Labels),
		rules:              rules(cs),
		paused:             ru.Paused,
		onDelete:           spec.UpdateStrategy.Type == v1beta1.OnDelete,
		preparingIsUpdated: options.Gates[apps.GatePreparingUpdateAsUpdate],
		minReady:           time.Duration(read.OrZero("spec.minReadySeconds", spec.MinReadySeconds)) * time.Second,
		historyLimit:       read.OrZero("spec.revisionHistoryLimit", ptr.Deref(spec.RevisionHistoryLimit, 10)),
	}
	s.updates = !s.paused && !s.onDelete
	kruise.OneOf(read, "spec.updateStrategy.type", spec.UpdateStrategy.Type, v1beta1.RollingUpdate, v1beta1.OnDelete)
	read.OrZero("spec.progressDeadlineSeconds", ptr.Deref(spec.ProgressDeadlineSeconds, 0))
	s.rollout = rollout.Spec{
		Replicas:           read.NotNegative("spec.replicas", ptr.Deref(spec.Replicas, 1)),
		Rollback:           options.Gates[apps.GateCloneSetPartitionRollback],
		ExcludePreDeleting: spec.ScaleStrategy.ExcludePreparingDelete || options.ExcludePreparingDelete,
	}
	if limit := spec.ScaleStrategy.MaxUnavailable; limit != nil {
		n := read.CountAsUpstream("spec.scaleStrategy.maxUnavailable", limit, s.rollout.Replicas, partition.Up|partition.Over100)
		s.rollout.ScaleMaxUnavailable = &n
	}
	s.readBudget(read, path, &ru)
	s.priority, s.scatter = read.Order(path, ru.PriorityStrategy, ru.ScatterStrategy)
	if len(read.Problems) > 0 {
		return nil, read.Problems
	}
	s.warnings = read.Warnings
	return s, nil
}

// readBudget reads what bounds an update. OnDelete has a budget as well, for specified deletes.
func (s *settings) readBudget(read *kruise.Reading, path string, ru *v1beta1.RollingUpdateCloneSet) {
	policy := kruise.OneOf(read, path+".podUpdatePolicy", ru.PodUpdatePolicy, v1beta1.ReCreate, v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly)
	if in := ru.InPlaceUpdateStrategy; in != nil {
		read.OrZero(path+".inPlaceUpdateStrategy.gracePeriodSeconds", in.GracePeriodSeconds)
	}
	replicas := int32(s.rollout.Replicas)
	var err error
	s.rollout.Partition, err = partition.Kept(path+".partition", ru.Partition, &replicas)
	read.Failed(err)
	if ru.MaxSurge != nil {
		surge := read.Count(path+".maxSurge", ru.MaxSurge, s.rollout.Replicas, partition.Up|partition.Over100)
		if surge > 0 && policy == v1beta1.InPlaceOnly {
			read.Refuse(path+".maxSurge", ru.MaxSurge.String(), "policy InPlaceOnly never replaces a Pod", "use 0")
		}
		if s.updates {
			s.rollout.MaxSurge = surge
		}
	}
	round := partition.Up
	if s.rollout.MaxSurge > 0 {
		round = partition.Down
	}
	unavailable := ru.MaxUnavailable
	if unavailable == nil {
		unavailable = ptr.To(intstr.FromString("20%"))
	}
	s.rollout.MaxUnavailable = read.Count(path+".maxUnavailable", unavailable, s.rollout.Replicas, round|partition.Over100)
}
