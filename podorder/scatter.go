package podorder

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// ScatterTerm selects Pods by a label's value. The updates of these Pods are spread over the whole rollout.
type ScatterTerm struct {
	Key, Value string
}

// Scatter spreads the Pods of each term evenly over the order of an Update. The term that the most waiting Pods match
// is applied first. A term has no effect if fewer than two Pods match, or if at most a single Pod does not match.
// Make a Scatter with CompileScatter; the zero value does not change the order.
type Scatter struct {
	terms []ScatterTerm
}

// CompileScatter checks the terms. path is the field path of the list, used only in the error. The error is a
// reason.List with an InvalidTerm for each empty key and each key and value that occurs twice.
func CompileScatter(path string, terms []ScatterTerm) (Scatter, error) {
	var problems reason.List
	for i, term := range terms {
		at := path + "[" + strconv.Itoa(i) + "]"
		switch {
		case term.Key == "":
			problems = append(problems, reason.Reason{Code: InvalidTerm, Path: at + ".key", New: `""`, Remedy: "name a label"})
		case slices.Contains(terms[:i], term):
			problems = append(problems, reason.Reason{
				Code: InvalidTerm, Path: at, New: term.Key + "=" + term.Value, Detail: "the pair occurs twice", Remedy: "remove one",
			})
		}
	}
	if len(problems) > 0 {
		return Scatter{}, problems
	}
	return Scatter{slices.Clone(terms)}, nil
}

// apply spreads the Pods that match a term evenly among the other Pods in waiting, which are the Pods still to be
// updated, in their present order. all holds every Pod of the workload, including the waiting Pods: the proportion of
// matching Pods in all keeps the spread the same in each step of a rollout. Terms with more matching waiting Pods are
// applied first. A term has no effect if fewer than two Pods match, or if at most one does not match. apply takes O(n)
// time per term.
func (s Scatter) apply(waiting, all []*corev1.Pod) {
	type counted struct {
		ScatterTerm

		matches int
	}
	terms := make([]counted, 0, len(s.terms))
	for _, term := range s.terms {
		if n := term.count(waiting); n > 0 {
			terms = append(terms, counted{term, n})
		}
	}
	slices.SortStableFunc(terms, func(a, b counted) int { return cmp.Compare(b.matches, a.matches) })
	for _, term := range terms {
		if term.matches > 1 && len(waiting)-term.matches > 1 {
			term.spread(waiting, term.matches, all)
		}
	}
}

func (t ScatterTerm) matches(pod *corev1.Pod) bool {
	value, ok := pod.Labels[t.Key]
	return ok && value == t.Value
}

func (t ScatterTerm) count(pods []*corev1.Pod) int {
	n := 0
	for _, pod := range pods {
		if t.matches(pod) {
			n++
		}
	}
	return n
}

// spread interleaves the matching Pods with the other Pods; there are at least two of each. A matching Pod is last,
// so that the matching Pods are spread up to the end of the rollout.
func (t ScatterTerm) spread(waiting []*corev1.Pod, matches int, all []*corev1.Pod) {
	matched := make([]*corev1.Pod, 0, matches)
	others := make([]*corev1.Pod, 0, len(waiting)-matches)
	for _, pod := range waiting {
		if t.matches(pod) {
			matched = append(matched, pod)
		} else {
			others = append(others, pod)
		}
	}
	last := matched[len(matched)-1]
	matched = matched[:len(matched)-1]
	m, n := len(matched), len(others)
	totalMatched := t.count(all)
	// If all does not contain all waiting Pods, only the waiting Pods count.
	tm, tn := max(totalMatched-1, m), max(len(all)-totalMatched, n)

	out := waiting[:0]
	take := func(from *[]*corev1.Pod, size int) {
		size = min(size, len(*from))
		out = append(out, (*from)[:size]...)
		*from = (*from)[size:]
	}
	count, sizeMatched, sizeOthers := groups(m, n)
	// If the waiting Pods have more other Pods per matching Pod than the whole workload, the surplus of other Pods comes
	// first.
	if tn*m < n*tm {
		_, sizeMatched, sizeOthers = groups(tm, tn)
		count = min(m/sizeMatched, n/sizeOthers)
		take(&others, n-count*sizeOthers)
	}
	for range count {
		take(&matched, sizeMatched)
		take(&others, sizeOthers)
	}
	take(&matched, m)
	take(&others, n)
	_ = append(out, last)
}

// groups returns the number of groups, which is the smaller of a and b, and, rounded, how many of a and how many of b
// belong to a group.
func groups(a, b int) (count, sizeA, sizeB int) {
	count = min(a, b)
	return count, (2*a + count) / (2 * count), (2*b + count) / (2 * count)
}
