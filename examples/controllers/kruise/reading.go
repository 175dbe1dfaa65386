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
	"github.com/workloadkit/workloadkit/partition"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
)

// OddValue means that a value of the spec is not what its field is for. It came past admission, and is read as OpenKruise reads
// it, so that a take-over does not stop what has worked so far.
const OddValue reason.Code = "OddValue"

// Refused returns what the validity function of a kind has found, as reasons: with path, value and what is wanted.
func Refused(errs field.ErrorList) reason.List {
	list := make(reason.List, len(errs))
	for i, err := range errs {
		kind, detail := err.Type.String(), err.Detail
		// The body is "<type>: <value>: <detail>", and formats values of all types.
		value := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(err.ErrorBody(), kind), ": "+detail), ": ")
		switch {
		case detail == "":
			detail = kind
		case value == "": // the detail alone does not say what is wrong
			detail = kind + ": " + detail
		}
		list[i] = reason.Reason{Code: partition.InvalidValue, Path: err.Field, New: reason.Shorten(value, 200), Detail: detail}
	}
	return list
}

// Reading reads the values of a spec that the validity function of its kind has found usable. The zero value is ready.
type Reading struct {
	// Problems are values that cannot be read all the same. There are none, unless the validity function and who reads disagree:
	// then a pass has to end, because nothing sensible stands for such a value.
	Problems reason.List
	// Warnings are values that OpenKruise took without a word. They are read as it read them.
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

// Ungated warns of a value that means nothing, because its feature gate is off.
func (r *Reading) Ungated(path, value string, gate apps.Gate) {
	r.Warnings = append(r.Warnings, reason.Reason{
		Code: OddValue, Path: path, New: value, Detail: "has no effect without the feature gate " + string(gate), Remedy: "switch the gate on, or leave the field out",
	})
}

func (r *Reading) odd(path, value, read, remedy string) {
	r.Warnings = append(r.Warnings, reason.Reason{Code: OddValue, Path: path, New: value, Detail: "read as " + read, Remedy: remedy})
}

// Count resolves a number or percentage of replicas, which may be above 100 %.
func (r *Reading) Count(path string, value *intstr.IntOrString, replicas int, round partition.Rounding) int {
	n, err := partition.ResolveUncapped(path, value, replicas, round)
	r.failed(err)
	return n
}

// LimitAsUpstream is Count for a limit that need not be there and that OpenKruise does not validate, with a warning where it is read as
// something else than is written.
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

// Order compiles in which order Pods are updated.
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
