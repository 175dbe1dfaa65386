package subsets

import (
	"errors"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Fit says how well a Pod that names no subset fits a subset.
type Fit struct {
	// Runs says that the Pod's Node belongs to the subset. If false, the Pod does not belong to the subset.
	Runs bool
	// Preferred is the sum of the weights of the preferences that the Pod meets, 0 or more. Same says that the Pod
	// has the fields that Pods created for the subset have. Room says that the subset has fewer Pods than its
	// maximum. Preferred counts most, and Room least.
	Preferred  int
	Same, Room bool
}

// score combines the criteria: Preferred counts ten times as much as Same.
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

// Matcher decides to which subset a Pod belongs. A Matcher is safe for concurrent use if its functions are.
type Matcher struct {
	names []string
	known map[string]bool
	named func(*corev1.Pod) string
	fit   func(pod *corev1.Pod, subset string) Fit
}

// NewMatcher returns a Matcher for the subsets, given in the order of preference. named returns the name of the
// subset in a label or annotation of the Pod, or an empty string. fit says how well a Pod that names no subset, such
// as a Pod created before the subsets, fits a subset, for example by the Pod's Node, selectors or affinities (package
// nodefit). If fit is nil, such Pods belong to no subset. The error is a reason.List of InvalidSubsets for names that
// are empty or occur twice.
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

// Of returns the name of the Pod's subset. If the Pod names a subset, this subset counts, wherever the Pod runs.
// Otherwise the subset that fits best counts, and among equals the earlier subset. If no subset fits, the name is
// empty, and the reason is UnknownSubset or NoSubsetFits.
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
