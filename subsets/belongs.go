package subsets

import (
	"errors"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Fit says how well a Pod that names no subset goes with a subset.
type Fit struct {
	// Runs says that the subset's Nodes include the Pod's Node. Otherwise the Pod is not of the subset.
	Runs bool
	// Preferred is the sum of the met preferences, from 0 up, and counts first; Same says that the Pod looks as if
	// created for the subset, and counts second; Room says that the subset has room for the Pod, and counts last.
	Preferred  int
	Same, Room bool
}

// score weighs a preference of 1 as much as ten Pods that look the same.
func (f Fit) score() int {
	score := 100 * f.Preferred
	if f.Same {
		score += 10
	}
	if f.Room {
		score++
	}
	return score
}

// Matcher says to which subset a Pod belongs. A Matcher is safe for concurrent use if its functions are.
type Matcher struct {
	names []string
	known map[string]bool
	named func(*corev1.Pod) string
	fit   func(pod *corev1.Pod, subset string) Fit
}

// NewMatcher returns a Matcher for the subsets, in the order of preference. named returns the subset named by a Pod,
// in a label or annotation of the caller, or empty. fit judges Pods that name no subset, such as Pods older than the
// subsets, by their Nodes, selectors or affinities (package nodefit); with a nil fit such Pods have no subset. The
// error is a reason.List of InvalidSubsets for names empty or given twice.
func NewMatcher(
	subsets []string, named func(*corev1.Pod) string, fit func(pod *corev1.Pod, subset string) Fit,
) (*Matcher, error) {
	if named == nil {
		return nil, errors.New("subsets.NewMatcher: named is required")
	}
	m := &Matcher{names: slices.Clone(subsets), known: make(map[string]bool, len(subsets)), named: named, fit: fit}
	var problems reason.List
	for i, name := range subsets {
		if problem := nameProblem(name, m.known); problem != "" {
			problems = append(problems, misnamed("subsets["+strconv.Itoa(i)+"]", name, problem))
		}
		m.known[name] = true
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return m, nil
}

// Of returns the name of the Pod's subset. A named subset counts, wherever the Pod runs. Of several fitting subsets the
// best fit counts, then the earlier subset. Without a subset the name is empty, and the reason UnknownSubset or
// NoSubsetFits.
func (m *Matcher) Of(pod *corev1.Pod) (string, reason.Reason) {
	if name := m.named(pod); name != "" {
		if m.known[name] {
			return name, reason.Reason{}
		}
		return "", reason.Reason{
			Code: UnknownSubset, Object: reason.ObjectOf("Pod", pod), New: strconv.Quote(reason.Shorten(name, 63)),
			Detail: "no subset has the name", Remedy: "wait for the deletion of the Pod, or bring the subset back",
		}
	}
	best, score := "", 0
	for _, name := range m.names {
		if m.fit == nil {
			break
		}
		if f := m.fit(pod, name); f.Runs && (best == "" || f.score() > score) {
			best, score = name, f.score()
		}
	}
	if best != "" {
		return best, reason.Reason{}
	}
	return "", reason.Reason{
		Code: NoSubsetFits, Object: reason.ObjectOf("Pod", pod),
		Detail: "the Pod names no subset, and fits into none", Remedy: "delete the Pod, or add a subset with its Node",
	}
}
