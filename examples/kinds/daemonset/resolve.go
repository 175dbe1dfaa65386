package daemonset

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/daemonset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/examples/kruise/predownload"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/rollout/pernode"
)

// settings are the values of a DaemonSet's spec, with all defaults set and with selectors resolved.
type settings struct {
	selector     labels.Selector
	minReady     time.Duration
	historyLimit int
	// The numbers in rollout that depend on the number of Nodes are not set; count sets them.
	rollout  pernode.Spec
	restart  *restart.Wish // nil means that no restart is requested
	download predownload.Settings

	// warnings are invalid values that OpenKruise accepts. The controller interprets these values as OpenKruise does.
	warnings reason.List
}

const rollingUpdate = "spec.updateStrategy.rollingUpdate"

func rollingOf(set *v1beta1.DaemonSet) v1beta1.RollingUpdateDaemonSet {
	if set.Spec.UpdateStrategy.Type == v1beta1.OnDeleteDaemonSetStrategyType {
		return v1beta1.RollingUpdateDaemonSet{}
	}
	return ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, v1beta1.RollingUpdateDaemonSet{})
}

// rules returns the rules in the DaemonSet's spec for updating its Pods. The only hook of a DaemonSet is preDelete, and
// there is no grace period.
func rules(set *v1beta1.DaemonSet) podcontrol.Rules {
	var hooks *pub.Lifecycle
	if set.Spec.Lifecycle != nil {
		hooks = &pub.Lifecycle{PreDelete: set.Spec.Lifecycle.PreDelete}
	}
	return kruise.Rules(string(rollingOf(set).RollingUpdateType), hooks, nil)
}

// beyondNodes is a number of Nodes that no cluster exceeds: a percentage whose result for beyondNodes is too large is
// refused, so that an accepted percentage cannot become too large later.
const beyondNodes = 100_000

// resolve parses and validates the spec, with or without defaults. Problems are values with which no controller can
// work; the settings must then not be used. Warnings are mistakes that the controller tolerates, because objects taken
// over from OpenKruise must continue to work. An example is a strategy with both or neither of maxUnavailable and
// maxSurge. If the type is OnDelete, rollingUpdate is ignored.
//
// Selectors of more than [apps.MaxTerms] terms are not checked, because the check would take too long. The order of the
// errors depends only on the object, so that a condition with the errors does not change when nothing has changed.
func resolve(set *v1beta1.DaemonSet, gates map[apps.Gate]bool) (s *settings, problems, warnings judge.Faults) {
	if left := judge.Undecodable(set.Spec.Undecodable); left != nil {
		return nil, left, nil // further checks would only report missing values
	}
	read, spec, ru := &judge.Reading{}, &set.Spec, rollingOf(set)
	s = &settings{
		rollout: pernode.Spec{
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
	s.selector = read.Pods("spec", spec.Selector, spec.Template.Labels, apps.ReservedDaemonSetLabels())
	read.Refuse(validation.NotTooMany(apps.NodeTerms(&spec.Template.Spec), field.NewPath("spec", "template", "spec",
		"affinity", "nodeAffinity"))...)
	s.historyLimit = read.OrZero("spec.revisionHistoryLimit", ptr.Deref(spec.RevisionHistoryLimit,
		api.DefaultRevisionHistoryLimit))
	s.minReady = time.Duration(read.OrZero("spec.minReadySeconds", spec.MinReadySeconds)) * time.Second
	judgeCount(read, "spec.burstReplicas", spec.BurstReplicas, math.MaxInt)
	judgeLifecycle(read, ptr.Deref(spec.Lifecycle, pub.Lifecycle{}))
	read.Template("spec.template", &spec.Template, apps.ReservedDaemonSetLabels())
	judgeStrategy(read, &spec.UpdateStrategy, &ru)
	s.restart = restart.Read(read, set.Annotations)
	s.download = predownload.Read(read, set.Annotations, nil)
	s.warnings = read.Warnings.Reasons()
	return s, read.Problems, read.Warnings
}

// judgeLifecycle warns of hooks that have no effect: updates in place do not wait for the hook inPlaceUpdate, and new
// Pods become available without the hook preNormal.
func judgeLifecycle(read *judge.Reading, hooks pub.Lifecycle) {
	path := field.NewPath("spec", "lifecycle")
	if hooks.InPlaceUpdate != nil {
		read.Warn(field.Forbidden(path.Child("inPlaceUpdate"), "a DaemonSet has the hook preDelete alone"))
	}
	if hooks.PreNormal != nil {
		read.Warn(field.Forbidden(path.Child("preNormal"), "a DaemonSet has the hook preDelete alone"))
	}
}

func judgeStrategy(read *judge.Reading, strategy *v1beta1.DaemonSetUpdateStrategy,
	ru *v1beta1.RollingUpdateDaemonSet,
) {
	const path = "spec.updateStrategy.type"
	judge.OneOf(read, path, strategy.Type, v1beta1.RollingUpdateDaemonSetStrategyType,
		v1beta1.OnDeleteDaemonSetStrategyType)
	switch {
	case strategy.Type == "":
		read.Absent(field.Required(field.NewPath(path), "use RollingUpdate or OnDelete"))
	case strategy.Type == v1beta1.RollingUpdateDaemonSetStrategyType && strategy.RollingUpdate == nil:
		read.Absent(field.Required(field.NewPath(rollingUpdate), "type RollingUpdate needs it"))
	}
	judge.OneOf(read, rollingUpdate+".rollingUpdateType", ru.RollingUpdateType, v1beta1.StandardRollingUpdateType,
		v1beta1.InPlaceIfPossibleRollingUpdateType)
	if ru.RollingUpdateType == v1beta1.InPlaceIfPossibleRollingUpdateType {
		read.NoneWith(rollingUpdate+".maxSurge", ru.MaxSurge, 1,
			"must be 0 with InPlaceIfPossible, which changes the Pod that is there")
	}
	unavailableFits := judgeCount(read, rollingUpdate+".maxUnavailable", ru.MaxUnavailable, 100)
	surgeFits := judgeCount(read, rollingUpdate+".maxSurge", ru.MaxSurge, 100)
	if apps.SelectorTerms(ru.Selector) > 0 { // an empty selector selects all Nodes
		read.Refuse(validation.Selects(ru.Selector, field.NewPath(rollingUpdate, "selector"))...)
	}
	judgeCount(read, rollingUpdate+".partition", ru.Partition, 100)
	switch hasUnavailable, hasSurge := !validation.IsNone(ru.MaxUnavailable), !validation.IsNone(ru.MaxSurge); {
	case !unavailableFits || !surgeFits: // already reported
	case ru.MaxUnavailable == nil && ru.MaxSurge == nil: // the default applies
	case !hasUnavailable && !hasSurge:
		read.Warn(field.Required(field.NewPath(rollingUpdate, "maxUnavailable"),
			"must be at least 1 or 1% when maxSurge is 0"))
	case hasUnavailable && hasSurge:
		read.Warn(field.Invalid(field.NewPath(rollingUpdate, "maxSurge"), ru.MaxSurge.String(),
			"must be 0 when maxUnavailable is not"))
	}
}

// judgeCount returns an error for values that are neither integers nor percentages. A warning is given for percentages
// above most, and for percentages with decimals, because OpenKruise cannot parse decimals.
func judgeCount(read *judge.Reading, path string, value *intstr.IntOrString, most int) (fits bool) {
	const wanted = `use an integer of at least 0, or a whole percentage such as "30%"`
	at := field.NewPath(path)
	errs := validation.CountOf(value, beyondNodes, at)
	for _, err := range errs {
		problem, _, _ := strings.Cut(err.Detail, "; ")
		err.Detail = problem + "; " + wanted
	}
	read.Refuse(errs...)
	if len(errs) > 0 || value == nil || value.Type == intstr.Int {
		return len(errs) == 0
	}
	if len(utilvalidation.IsValidPercent(value.StrVal)) > 0 {
		read.Warn(field.Invalid(at, value.StrVal, "has decimals; "+wanted))
	} else if percent, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%")); err != nil || percent > most {
		read.Warn(field.Invalid(at, value.StrVal, "must be at most 100%"))
	}
	return true
}

// count converts the percentages in the spec to numbers of fitting Nodes. A percentage for the burst gives at least one
// Pod, because with a burst of zero nothing would ever be done.
func (s *settings) count(set *v1beta1.DaemonSet, fitting int) (spec pernode.Spec, burst int, problems reason.List) {
	read, ru := &judge.Reading{}, rollingOf(set)
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
