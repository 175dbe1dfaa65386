package kruise

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
)

// OddValue means that a value of the spec does not suit its field. The value has bypassed admission, and the controller
// reads the value as OpenKruise does. So a take-over does not stop working objects.
const OddValue reason.Code = "OddValue"

// Refused turns the findings of a kind's validity function into reasons: with path, value and the expected value.
func Refused(errs field.ErrorList) reason.List {
	list := make(reason.List, len(errs))
	for i, err := range errs {
		kind, detail := err.Type.String(), err.Detail
		// The body is "<type>: <value>: <detail>", and formats values of all types.
		value := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(err.ErrorBody(), kind), ": "+detail), ": ")
		switch {
		case detail == "":
			detail = kind
		case value == "": // the detail alone does not name the fault
			detail = kind + ": " + detail
		}
		list[i] = reason.Reason{Code: partition.InvalidValue, Path: err.Field, New: reason.Shorten(value, 200), Detail: detail}
	}
	return list
}

// Reading reads values of a spec found usable by the validity function of its kind. The zero value is ready.
type Reading struct {
	// Problems are unreadable values all the same. Problems stay empty unless the validity function and the reader
	// disagree: then the pass has to end, because no sensible value can stand in.
	Problems reason.List
	// Warnings are values silently accepted by OpenKruise. Reading reads such values as OpenKruise does.
	Warnings reason.List
}

func (r *Reading) failed(err error) { r.Problems.Add(partition.InvalidValue, err) }

// OrZero reads a negative number as zero, with a warning.
func (r *Reading) OrZero(path string, n int32) int {
	if n >= 0 {
		return int(n)
	}
	r.odd(path, strconv.Itoa(int(n)), "0", "use 0 or more")
	return 0
}

// Ungated warns of a value without effect because of its feature gate.
func (r *Reading) Ungated(path, value string, gate apps.Gate) {
	r.Warnings = append(r.Warnings, reason.Reason{
		Code: OddValue, Path: path, New: value, Detail: "has no effect without the feature gate " + string(gate), Remedy: "switch the gate on, or leave the field out",
	})
}

func (r *Reading) odd(path, value, read, remedy string) {
	r.Warnings = append(r.Warnings, reason.Reason{Code: OddValue, Path: path, New: value, Detail: "read as " + read, Remedy: remedy})
}

// Count resolves a number or percentage of replicas, possibly above 100 %.
func (r *Reading) Count(path string, value *intstr.IntOrString, replicas int, round partition.Rounding) int {
	n, err := partition.ResolveUncapped(path, value, replicas, round)
	r.failed(err)
	return n
}

// LimitAsUpstream is Count for an optional limit not validated by OpenKruise, with a warning if the value is read
// differently from its text.
func (r *Reading) LimitAsUpstream(path string, value *intstr.IntOrString, replicas int, round partition.Rounding) *int {
	if value == nil {
		return nil
	}
	read := validation.AsOpenKruise(*value)
	if read != *value {
		r.odd(path, quoted(value), quoted(&read), "write what is meant")
	}
	return new(r.Count(path, &read, replicas, round))
}

func quoted(value *intstr.IntOrString) string {
	if value.Type == intstr.String {
		return strconv.Quote(value.StrVal)
	}
	return value.String()
}

// Kept resolves a partition.
func (r *Reading) Kept(path string, value *intstr.IntOrString, replicas int) int {
	n, err := partition.Kept(path, value, new(int32(replicas)))
	r.failed(err)
	return n
}

// Selector compiles the selector of a workload.
func (r *Reading) Selector(path string, selector *metav1.LabelSelector) labels.Selector {
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		r.failed(reason.Reason{Code: partition.InvalidValue, Path: path, Detail: err.Error()})
	}
	return compiled
}

// Order compiles the update order of Pods.
func (r *Reading) Order(path string, priority *pub.PriorityStrategy, scatter []pub.ScatterTerm) (p podorder.Priority, s podorder.Scatter) {
	var err error
	switch path := path + ".priorityStrategy"; {
	case priority == nil:
	case len(priority.WeightPriority) > 0:
		terms := make([]podorder.WeightTerm, len(priority.WeightPriority))
		for i := range priority.WeightPriority {
			terms[i] = podorder.WeightTerm{Selector: &priority.WeightPriority[i].MatchSelector, Weight: priority.WeightPriority[i].Weight}
		}
		p, err = podorder.CompileWeights(path+".weightPriority", terms)
	case len(priority.OrderPriority) > 0:
		terms := make([]podorder.OrderTerm, len(priority.OrderPriority))
		for i := range priority.OrderPriority {
			terms[i] = podorder.OrderTerm{Key: priority.OrderPriority[i].OrderedKey}
		}
		p, err = podorder.CompileOrder(path+".orderPriority", terms)
	}
	r.failed(err)
	terms := make([]podorder.ScatterTerm, len(scatter))
	for i := range scatter {
		terms[i] = podorder.ScatterTerm{Key: scatter[i].Key, Value: scatter[i].Value}
	}
	s, err = podorder.CompileScatter(path+".scatterStrategy", terms)
	r.failed(err)
	return p, s
}
