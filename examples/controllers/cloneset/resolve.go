package cloneset

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/claim"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/partition"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// settings are a CloneSet's spec with every default filled in and every percentage and selector resolved.
type settings struct {
	selector labels.Selector
	rollout  rollout.Spec
	machine  lifecycle.Machine
	priority podorder.Priority
	scatter  podorder.Scatter

	policy       v1beta1.CloneSetPodUpdatePolicy
	updates      bool // neither paused nor OnDelete
	paused       bool
	onDelete     bool
	graceSeconds int32
	minReady     time.Duration
	historyLimit int
	excludeDying bool

	// warnings are values that OpenKruise took without a word. They are read as it read them.
	warnings reason.List
}

const defaultMaxUnavailable = "20%"

// OddValue means that a value of the spec is not what its field is for. It came past admission, and is read as OpenKruise reads
// it, so that a take-over does not stop what has worked so far.
const OddValue reason.Code = "OddValue"

// Undecodable means that a template in the spec does not make sense to this version of the Kubernetes libraries. No schema checks
// templates; without webhooks anything is stored.
const Undecodable reason.Code = "Undecodable"

// undecodable returns what of the spec could not be decoded.
func undecodable(cs *v1beta1.CloneSet) (out reason.List) {
	for _, problem := range cs.Spec.Undecodable {
		out = append(out, reason.Reason{Code: Undecodable, Path: problem.Path, Detail: problem.Detail, Remedy: "correct the value"})
	}
	return out
}

// resolve reads the spec. It returns every value that cannot be used, as a reason.List.
func resolve(cs *v1beta1.CloneSet, options Options) (*settings, error) {
	if problems := undecodable(cs); problems != nil {
		return nil, problems // the rest would only complain of what is missing therefore
	}
	s := &settings{
		machine:      kruise.Lifecycle(cs.Spec.Lifecycle),
		policy:       v1beta1.ReCreate,
		onDelete:     cs.Spec.UpdateStrategy.Type == v1beta1.OnDelete,
		minReady:     time.Duration(max(cs.Spec.MinReadySeconds, 0)) * time.Second,
		historyLimit: int(max(ptr.Deref(cs.Spec.RevisionHistoryLimit, 10), 0)),
		excludeDying: cs.Spec.ScaleStrategy.ExcludePreparingDelete || options.ExcludePreparingDelete,
	}
	var problems reason.List
	failed := func(err error) {
		if list := reason.From(err); list != nil {
			problems = append(problems, list...)
		} else if err != nil {
			problems = append(problems, reason.Reason{Code: partition.InvalidValue, Detail: err.Error()})
		}
	}
	if err := tooManyTerms(cs); err != nil {
		return nil, reason.From(err) // nothing else is looked at: that would take long
	}
	selector, err := metav1.LabelSelectorAsSelector(cs.Spec.Selector)
	switch {
	case err != nil:
		failed(reason.Reason{Code: claim.InvalidSelector, Path: "spec.selector", Detail: err.Error()})
	case cs.Spec.Selector == nil || selector.Empty():
		failed(reason.Reason{Code: claim.InvalidSelector, Path: "spec.selector", New: "empty", Remedy: "select the labels of the template"})
	case apps.ReservedKeyIn(cs.Spec.Selector) != "":
		failed(reason.Reason{
			Code: claim.InvalidSelector, Path: "spec.selector", New: selector.String(),
			Detail: "asks for " + apps.ReservedKeyIn(cs.Spec.Selector) + ", which the controller writes", Remedy: "select labels of your own",
		})
	case !selector.Matches(labels.Set(cs.Spec.Template.Labels)):
		failed(reason.Reason{
			Code: claim.InvalidSelector, Path: "spec.template.metadata.labels", New: labels.Set(cs.Spec.Template.Labels).String(),
			Detail: "not selected by " + selector.String(), Remedy: "give the template the labels of spec.selector",
		})
	}
	s.selector = selector
	replicas := ptr.Deref(cs.Spec.Replicas, 1)
	failed(negative("spec.replicas", replicas))
	s.oddIfNegative("spec.minReadySeconds", cs.Spec.MinReadySeconds)
	s.oddIfNegative("spec.revisionHistoryLimit", ptr.Deref(cs.Spec.RevisionHistoryLimit, 0))
	s.oddIfNegative("spec.progressDeadlineSeconds", ptr.Deref(cs.Spec.ProgressDeadlineSeconds, 0))
	switch cs.Spec.UpdateStrategy.Type {
	case "", v1beta1.RollingUpdate, v1beta1.OnDelete:
	default:
		failed(reason.Reason{
			Code: partition.InvalidValue, Path: "spec.updateStrategy.type", New: string(cs.Spec.UpdateStrategy.Type), Remedy: "use RollingUpdate or OnDelete",
		})
	}
	s.rollout = rollout.Spec{
		Replicas: int(replicas),
		Rollback: options.Gates[apps.GateCloneSetPartitionRollback], ExcludePreDeleting: s.excludeDying,
	}
	if limit := cs.Spec.ScaleStrategy.MaxUnavailable; limit != nil {
		const path = "spec.scaleStrategy.maxUnavailable"
		n, err := partition.Resolve(path, s.asUpstream(path, limit), int(replicas), partition.Up|partition.Over100)
		failed(err)
		s.rollout.ScaleMaxUnavailable = &n
	}
	failed(s.resolveUpdate(cs, &replicas))
	if len(problems) > 0 {
		return nil, problems
	}
	s.updates = !s.paused && !s.onDelete
	return s, nil
}

// tooManyTerms refuses what would make every pass long.
func tooManyTerms(cs *v1beta1.CloneSet) error {
	var problems reason.List
	check := func(path string, n int) {
		if n > apps.MaxTerms {
			problems = append(problems, reason.Reason{
				Code: podorder.InvalidTerm, Path: path, New: strconv.Itoa(n) + " terms", Remedy: fmt.Sprintf("use at most %d", apps.MaxTerms),
			})
		}
	}
	check("spec.selector", apps.SelectorTerms(cs.Spec.Selector))
	const path = "spec.updateStrategy.rollingUpdate"
	if ru := cs.Spec.UpdateStrategy.RollingUpdate; ru != nil {
		check(path+".scatterStrategy", len(ru.ScatterStrategy))
		if priority := ru.PriorityStrategy; priority != nil {
			check(path+".priorityStrategy.weightPriority", apps.WeightTerms(priority.WeightPriority))
			check(path+".priorityStrategy.orderPriority", len(priority.OrderPriority))
		}
	}
	return problems.Err()
}

// asUpstream reads a number in a string as a percentage and what is negative as zero, as OpenKruise does where it validates
// nothing, and warns of it. Anything else is returned as it is.
func (s *settings) asUpstream(path string, value *intstr.IntOrString) *intstr.IntOrString {
	read := *value
	if value.Type == intstr.String {
		n, err := strconv.ParseInt(strings.TrimSuffix(value.StrVal, "%"), 10, 32)
		if err != nil {
			return value
		}
		read = intstr.FromString(strconv.FormatInt(max(n, 0), 10) + "%")
	} else if value.IntVal < 0 {
		read = intstr.FromInt32(0)
	}
	if read != *value {
		s.warnings = append(s.warnings, reason.Reason{
			Code: OddValue, Path: path, New: quoted(value), Detail: "read as " + quoted(&read), Remedy: "write what is meant",
		})
	}
	return &read
}

func quoted(value *intstr.IntOrString) string {
	if value.Type == intstr.String {
		return strconv.Quote(value.StrVal)
	}
	return value.String()
}

// oddIfNegative warns of a negative number, which counts as zero.
func (s *settings) oddIfNegative(path string, n int32) {
	if n < 0 {
		s.warnings = append(s.warnings, reason.Reason{
			Code: OddValue, Path: path, New: strconv.Itoa(int(n)), Detail: "read as 0", Remedy: "use 0 or more",
		})
	}
}

// negative refuses what cannot be a number of anything.
func negative(path string, n int32) error {
	if n >= 0 {
		return nil
	}
	return reason.Reason{Code: partition.InvalidValue, Path: path, New: strconv.Itoa(int(n)), Remedy: "use 0 or more"}
}

// resolveUpdate reads the update strategy. Without rollingUpdate its defaults apply; OnDelete has a budget as well, for
// specified deletes.
func (s *settings) resolveUpdate(cs *v1beta1.CloneSet, replicas *int32) error {
	const path = "spec.updateStrategy.rollingUpdate"
	ru := cs.Spec.UpdateStrategy.RollingUpdate
	if ru == nil {
		ru = &v1beta1.RollingUpdateCloneSet{}
	}
	if ru.PodUpdatePolicy != "" {
		s.policy = ru.PodUpdatePolicy
	}
	var problems reason.List
	failed := func(err error) { problems = append(problems, reason.From(err)...) }
	switch s.policy {
	case v1beta1.ReCreate, v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly:
	default:
		failed(reason.Reason{
			Code: partition.InvalidValue, Path: path + ".podUpdatePolicy", New: string(s.policy),
			Remedy: "use ReCreate, InPlaceIfPossible or InPlaceOnly",
		})
	}
	s.paused = ru.Paused
	if in := ru.InPlaceUpdateStrategy; in != nil {
		s.graceSeconds = max(in.GracePeriodSeconds, 0)
		s.oddIfNegative(path+".inPlaceUpdateStrategy.gracePeriodSeconds", in.GracePeriodSeconds)
	}
	var err error
	s.rollout.Partition, err = partition.Kept(path+".partition", ru.Partition, replicas)
	failed(err)
	round := partition.Up
	if ru.MaxSurge != nil {
		surge, err := partition.Resolve(path+".maxSurge", ru.MaxSurge, int(*replicas), partition.Up|partition.Over100)
		failed(err)
		if surge > 0 && s.policy == v1beta1.InPlaceOnly {
			failed(reason.Reason{
				Code: partition.InvalidValue, Path: path + ".maxSurge", New: ru.MaxSurge.String(), Detail: "policy InPlaceOnly never replaces a Pod", Remedy: "use 0",
			})
		}
		if !s.paused && !s.onDelete {
			s.rollout.MaxSurge = surge
		}
	}
	if s.rollout.MaxSurge > 0 {
		round = partition.Down
	}
	unavailable := ru.MaxUnavailable
	if unavailable == nil {
		unavailable = ptr.To(intstr.FromString(defaultMaxUnavailable))
	}
	s.rollout.MaxUnavailable, err = partition.Resolve(path+".maxUnavailable", unavailable, int(*replicas), round|partition.Over100)
	failed(err)
	failed(s.compileOrder(path, ru.PriorityStrategy, ru.ScatterStrategy))
	return problems.Err()
}

func (s *settings) compileOrder(path string, priority *pub.PriorityStrategy, scatter []pub.ScatterTerm) error {
	var problems reason.List
	var err error
	switch {
	case priority == nil:
	case len(priority.WeightPriority) > 0 && len(priority.OrderPriority) > 0:
		err = reason.Reason{
			Code: podorder.InvalidTerm, Path: path + ".priorityStrategy", New: "weightPriority and orderPriority", Remedy: "use one of the two",
		}
	case len(priority.WeightPriority) > 0:
		terms := make([]podorder.WeightTerm, len(priority.WeightPriority))
		for i := range priority.WeightPriority {
			terms[i] = podorder.WeightTerm{Selector: &priority.WeightPriority[i].MatchSelector, Weight: priority.WeightPriority[i].Weight}
		}
		s.priority, err = podorder.CompileWeights(path+".priorityStrategy.weightPriority", terms)
	case len(priority.OrderPriority) > 0:
		terms := make([]podorder.OrderTerm, len(priority.OrderPriority))
		for i := range priority.OrderPriority {
			terms[i] = podorder.OrderTerm{Key: priority.OrderPriority[i].OrderedKey}
		}
		s.priority, err = podorder.CompileOrder(path+".priorityStrategy.orderPriority", terms)
	}
	problems = append(problems, reason.From(err)...)
	terms := make([]podorder.ScatterTerm, len(scatter))
	for i := range scatter {
		terms[i] = podorder.ScatterTerm{Key: scatter[i].Key, Value: scatter[i].Value}
	}
	s.scatter, err = podorder.CompileScatter(path+".scatterStrategy", terms)
	problems = append(problems, reason.From(err)...)
	return problems.Err()
}
