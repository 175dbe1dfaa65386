package kruise

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/adopt"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/partition"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/reason"
)

// OddValue means that a value of the spec is not what its field is for. It came past admission, and is read as OpenKruise reads
// it, so that a take-over does not stop what has worked so far.
const OddValue reason.Code = "OddValue"

// Reading reads the values of a spec, and collects what is wrong with them. The zero value is ready.
type Reading struct {
	// Problems are values that cannot be used.
	Problems reason.List
	// Warnings are values that OpenKruise took without a word. They are read as it read them.
	Warnings reason.List
}

func (r *Reading) invalid(path, value, detail, remedy string) {
	r.Problems = append(r.Problems, reason.Reason{Code: partition.InvalidValue, Path: path, New: value, Detail: detail, Remedy: remedy})
}

// Failed adds what an error says, unless it is nil.
func (r *Reading) Failed(err error) { r.Problems.Add(partition.InvalidValue, err) }

// Refuse adds a value that cannot be used for a reason of the caller's.
func (r *Reading) Refuse(path, value, detail, remedy string) { r.invalid(path, value, detail, remedy) }

// NotNegative refuses what cannot be a number of anything.
func (r *Reading) NotNegative(path string, n int32) int {
	if n < 0 {
		r.invalid(path, strconv.Itoa(int(n)), "", "use 0 or more")
	}
	return int(n)
}

// OrZero reads a negative number as zero, with a warning.
func (r *Reading) OrZero(path string, n int32) int {
	if n >= 0 {
		return int(n)
	}
	r.odd(path, strconv.Itoa(int(n)), "0", "use 0 or more")
	return 0
}

func (r *Reading) odd(path, value, read, remedy string) {
	r.Warnings = append(r.Warnings, reason.Reason{Code: OddValue, Path: path, New: value, Detail: "read as " + read, Remedy: remedy})
}

// OneOf refuses a value that is not among those that are known. An empty one stands for the first.
func OneOf[T ~string](r *Reading, path string, value T, known ...T) T {
	if value == "" {
		return known[0]
	}
	if !slices.Contains(known, value) {
		words := make([]string, len(known))
		for i, k := range known {
			words[i] = string(k)
		}
		last := len(words) - 1
		r.invalid(path, string(value), "", "use "+strings.Join(words[:last], ", ")+" or "+words[last])
	}
	return value
}

// Count resolves a number or percentage of replicas.
func (r *Reading) Count(path string, value *intstr.IntOrString, replicas int, round partition.Rounding) int {
	n, err := partition.Resolve(path, value, replicas, round)
	r.Failed(err)
	return n
}

// CountAsUpstream is Count for a field that OpenKruise does not validate: a number in a string is a percentage, and what is
// negative is zero, with a warning.
func (r *Reading) CountAsUpstream(path string, value *intstr.IntOrString, replicas int, round partition.Rounding) int {
	read := *value
	if value.Type == intstr.String {
		if n, err := strconv.ParseInt(strings.TrimSuffix(value.StrVal, "%"), 10, 32); err == nil {
			read = intstr.FromString(strconv.FormatInt(max(n, 0), 10) + "%")
		}
	} else if value.IntVal < 0 {
		read = intstr.FromInt32(0)
	}
	if read != *value {
		r.odd(path, quoted(value), quoted(&read), "write what is meant")
	}
	return r.Count(path, &read, replicas, round)
}

func quoted(value *intstr.IntOrString) string {
	if value.Type == intstr.String {
		return strconv.Quote(value.StrVal)
	}
	return value.String()
}

// AtMost refuses more terms than can be looked at in each pass.
func (r *Reading) AtMost(path string, terms int) {
	if terms > apps.MaxTerms {
		r.Problems = append(r.Problems, reason.Reason{
			Code: podorder.InvalidTerm, Path: path, New: strconv.Itoa(terms) + " terms", Remedy: fmt.Sprintf("use at most %d", apps.MaxTerms),
		})
	}
}

// Selector reads the selector of a workload, which must select the Pods of its template, by labels that are not the controller's.
func (r *Reading) Selector(selector *metav1.LabelSelector, templateLabels map[string]string) labels.Selector {
	refuse := func(path, value, detail, remedy string) {
		r.Problems = append(r.Problems, reason.Reason{Code: adopt.InvalidSelector, Path: path, New: value, Detail: detail, Remedy: remedy})
	}
	const path = "spec.selector"
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	switch reserved := apps.ReservedKeyIn(selector); {
	case err != nil:
		refuse(path, "", err.Error(), "")
	case selector == nil || compiled.Empty():
		refuse(path, "empty", "", "select the labels of the template")
	case reserved != "":
		refuse(path, compiled.String(), "asks for "+reserved+", which the controller writes", "select labels of your own")
	case !compiled.Matches(labels.Set(templateLabels)):
		refuse("spec.template.metadata.labels", labels.Set(templateLabels).String(), "not selected by "+compiled.String(), "give the template the labels of spec.selector")
	}
	return compiled
}

// Order compiles in which order Pods are updated.
func (r *Reading) Order(path string, priority *pub.PriorityStrategy, scatter []pub.ScatterTerm) (p podorder.Priority, s podorder.Scatter) {
	var err error
	switch path := path + ".priorityStrategy"; {
	case priority == nil:
	case len(priority.WeightPriority) > 0 && len(priority.OrderPriority) > 0:
		err = reason.Reason{Code: podorder.InvalidTerm, Path: path, New: "weightPriority and orderPriority", Remedy: "use one of the two"}
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
	r.Failed(err)
	terms := make([]podorder.ScatterTerm, len(scatter))
	for i := range scatter {
		terms[i] = podorder.ScatterTerm{Key: scatter[i].Key, Value: scatter[i].Value}
	}
	s, err = podorder.CompileScatter(path+".scatterStrategy", terms)
	r.Failed(err)
	return p, s
}

// OrderTerms refuses more terms than can be looked at in each pass, before any is compiled.
func (r *Reading) OrderTerms(path string, priority *pub.PriorityStrategy, scatter []pub.ScatterTerm) {
	r.AtMost(path+".scatterStrategy", len(scatter))
	if priority != nil {
		r.AtMost(path+".priorityStrategy.weightPriority", apps.WeightTerms(priority.WeightPriority))
		r.AtMost(path+".priorityStrategy.orderPriority", len(priority.OrderPriority))
	}
}
