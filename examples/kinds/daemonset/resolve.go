package daemonset

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/daemonset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/partition"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// settings are a DaemonSet's spec with every default filled in and every selector resolved.
type settings struct {
	selector     labels.Selector
	minReady     time.Duration
	historyLimit int
	// rollout lacks the numbers that depend on the number of fitting Nodes: see count.
	rollout rollout.NodeSpec

	// warnings are values silently accepted by OpenKruise. The controller reads warnings as OpenKruise did.
	warnings reason.List
}

const rollingUpdate = "spec.updateStrategy.rollingUpdate"

func rollingOf(set *v1beta1.DaemonSet) v1beta1.RollingUpdateDaemonSet {
	if set.Spec.UpdateStrategy.Type == v1beta1.OnDeleteDaemonSetStrategyType {
		return v1beta1.RollingUpdateDaemonSet{}
	}
	return ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateDaemonSet{})
}

// rules are the DaemonSet's rules for its Pods. A DaemonSet has no hook besides preDelete, and no grace period.
func rules(set *v1beta1.DaemonSet) podcontrol.Rules {
	var hooks *pub.Lifecycle
	if set.Spec.Lifecycle != nil {
		hooks = &pub.Lifecycle{PreDelete: set.Spec.Lifecycle.PreDelete}
	}
	return kruise.Rules(string(rollingOf(set).RollingUpdateType), hooks, nil)
}

// resolve reads the spec. If some values are unusable, resolve returns the unusable values instead.
func resolve(set *v1beta1.DaemonSet, gates map[apps.Gate]bool) (*settings, reason.List) {
	if problems := decode.Reasons(set.Spec.Undecodable); problems != nil {
		return nil, problems // the rest would only complain of missing values
	}
	if refused := api.Unusable(set); len(refused) > 0 {
		return nil, kruise.Refused(refused)
	}
	read, spec, ru := &kruise.Reading{}, &set.Spec, rollingOf(set)
	s := &settings{
		selector:     read.Selector("spec.selector", spec.Selector),
		minReady:     time.Duration(read.OrZero("spec.minReadySeconds", spec.MinReadySeconds)) * time.Second,
		historyLimit: read.OrZero("spec.revisionHistoryLimit", ptr.Deref(spec.RevisionHistoryLimit, api.DefaultRevisionHistoryLimit)),
		rollout: rollout.NodeSpec{
			Progressive: spec.ScaleStrategy != nil && spec.ScaleStrategy.PartitionedScaling,
			Paused:      ptr.Deref(ru.Paused, false),
			OnDelete:    spec.UpdateStrategy.Type == v1beta1.OnDeleteDaemonSetStrategyType,
			LeaveUnfit:  gates[apps.GateDaemonSetPruneIneligibleNodes],
			Paths: rollout.Paths{
				Partition: rollingUpdate + ".partition", MaxUnavailable: rollingUpdate + ".maxUnavailable",
				MaxSurge: rollingUpdate + ".maxSurge", Paused: rollingUpdate + ".paused",
			},
		},
	}
	s.warnings = read.Warnings.Reasons()
	return s, read.Problems.Reasons()
}

// count resolves percentages of the fitting Nodes. A percentage of a burst is at least a single Pod: with none a pass
// would never do anything.
func (s *settings) count(set *v1beta1.DaemonSet, fitting int) (spec rollout.NodeSpec, burst int, problems reason.List) {
	read, ru := &kruise.Reading{}, rollingOf(set)
	number := func(path string, value *intstr.IntOrString, round partition.Rounding) int {
		if value == nil {
			return 0
		}
		return read.Count(path, value, fitting, round)
	}
	spec = s.rollout
	spec.Partition = number(spec.Paths.Partition, ru.Partition, partition.Down)
	spec.MaxUnavailable = number(spec.Paths.MaxUnavailable, ru.MaxUnavailable, partition.Up)
	spec.MaxSurge = number(spec.Paths.MaxSurge, ru.MaxSurge, partition.Up)
	if spec.MaxUnavailable == 0 && spec.MaxSurge == 0 {
		spec.MaxUnavailable = int(api.DefaultMaxUnavailable)
	}
	value := cmp.Or(set.Spec.BurstReplicas, new(intstr.FromInt32(api.DefaultBurstReplicas)))
	burst = number("spec.burstReplicas", value, partition.Down)
	if value.Type == intstr.String && strings.Trim(value.StrVal, "0.%") != "" {
		burst = max(burst, 1)
	}
	return spec, burst, read.Problems.Reasons()
}
