package podorder

import (
	"cmp"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/reason"
)

// InvalidTerm means that a term of a priority or scatter strategy is invalid. The reason has the term's field and
// value, and the allowed values.
const InvalidTerm reason.Code = "InvalidTerm"

// MaxWeight is the largest weight of a WeightTerm; the smallest is 0.
const MaxWeight = 100

// WeightTerm gives a weight to Pods matched by the selector.
type WeightTerm struct {
	Selector *metav1.LabelSelector
	Weight   int32
}

// OrderTerm orders Pods by the number at the end of a label's value.
type OrderTerm struct {
	Key string
}

// Priority is a compiled priority, by weight or by order, for Update. CompileWeights and CompileOrder make a Priority.
// The zero value does not change the order.
type Priority struct {
	weights []weight
	keys    []string
}

type weight struct {
	selector labels.Selector
	weight   int64
}

// CompileWeights makes a priority by weight: the weights of all matching terms are added up and larger sums come first.
// path is the field path of the list, used only in the error. The error is a reason.List with an InvalidTerm for each
// nil, empty or invalid selector and each weight outside 0 to MaxWeight.
func CompileWeights(path string, terms []WeightTerm) (Priority, error) {
	var problems reason.List
	p := Priority{weights: make([]weight, 0, len(terms))}
	for i, term := range terms {
		at := path + "[" + strconv.Itoa(i) + "]"
		if term.Weight < 0 || term.Weight > MaxWeight {
			problems = append(problems, reason.Reason{
				Code: InvalidTerm, Path: at + ".weight", New: strconv.Itoa(int(term.Weight)), Remedy: "use 0 to 100",
			})
		}
		selector, err := metav1.LabelSelectorAsSelector(term.Selector)
		switch {
		case err != nil:
			problems = append(problems, reason.Reason{
				Code: InvalidTerm, Path: at + ".matchSelector", New: reason.Shorten(term.Selector.String(), 200), Detail: err.Error(),
				Remedy: "use a valid label selector",
			})
		case term.Selector == nil || selector.Empty():
			problems = append(problems, reason.Reason{
				Code: InvalidTerm, Path: at + ".matchSelector", New: "{}", Detail: "the selector is empty",
				Remedy: "select by at least one label",
			})
		}
		p.weights = append(p.weights, weight{selector, int64(term.Weight)})
	}
	if len(problems) > 0 {
		return Priority{}, problems
	}
	return p, nil
}

// CompileOrder makes a priority by order: the index of the first term whose label the Pod has is the Pod's level. Pods
// without any of the labels come first, then level by level; within a level, Pods with a larger number at the end of
// the label's value come first ("sts-10" is 10, "abc" is 0). path is the field path of the list, used only in the
// error. The error is a reason.List with an InvalidTerm for each empty key.
func CompileOrder(path string, terms []OrderTerm) (Priority, error) {
	var problems reason.List
	p := Priority{keys: make([]string, 0, len(terms))}
	for i, term := range terms {
		if term.Key == "" {
			problems = append(problems, reason.Reason{
				Code: InvalidTerm, Path: path + "[" + strconv.Itoa(i) + "].orderedKey", New: `""`, Remedy: "name a label",
			})
		}
		p.keys = append(p.keys, term.Key)
	}
	if len(problems) > 0 {
		return Priority{}, problems
	}
	return p, nil
}

// sort moves the Pods of higher priority to the front. The sort is stable.
func (p Priority) sort(pods []*corev1.Pod) {
	if len(p.weights) == 0 && len(p.keys) == 0 || len(pods) < 2 {
		return
	}
	type priority struct {
		level  int
		number int64
	}
	of := make([]priority, len(pods))
	for i, pod := range pods {
		if len(p.weights) > 0 {
			of[i].number = p.sum(pod)
		} else {
			of[i].level, of[i].number = p.level(pod)
		}
	}
	arrange(pods, sorted(len(pods), func(a, b int32) int {
		if of[a].level != of[b].level {
			return cmp.Compare(of[a].level, of[b].level)
		}
		return cmp.Compare(of[b].number, of[a].number)
	}))
}

func (p Priority) sum(pod *corev1.Pod) int64 {
	var sum int64
	for i := range p.weights {
		if p.weights[i].selector.Matches(labels.Set(pod.Labels)) {
			sum += p.weights[i].weight
		}
	}
	return sum
}

func (p Priority) level(pod *corev1.Pod) (int, int64) {
	for i, key := range p.keys {
		if value, ok := pod.Labels[key]; ok {
			return i, trailingNumber(value)
		}
	}
	return -1, 0
}

// trailingNumber parses the digits at the end of s, 0 if there are none. A number too large for an int64 counts as the
// largest int64.
func trailingNumber(s string) int64 {
	start := len(s)
	for start > 0 && s[start-1] >= '0' && s[start-1] <= '9' {
		start--
	}
	if start == len(s) {
		return 0
	}
	n, err := strconv.ParseInt(s[start:], 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}
