package podunavailablebudget

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/ownercache"
)

// nameIn returns the first budget name in the Pod's annotations, or "" if there is none.
func nameIn(pod *corev1.Pod) string {
	return cmp.Or(pod.Annotations[policy.AnnotationRelatedBudget], pod.Annotations[policy.AnnotationRelatedBudgetOld])
}

// mostOfPod is the largest number of budgets of a Pod. No deletion or change of a Pod with more budgets is admitted:
// Ask would have to ask each budget, and each budget would have to record the Pod.
const mostOfPod = 10

// mostNames is the largest length of the budget names with separators, in bytes.
const mostNames = mostOfPod * (validation.DNS1123SubdomainMaxLength + 1)

// NamesIn returns the names of all budgets in the Pod's annotations, without duplicates, and at most mostOfPod.
func NamesIn(pod *corev1.Pod) (names []string) {
	if first := nameIn(pod); first != "" {
		names = append(names, first)
	}
	others := pod.Annotations[policy.AnnotationOtherBudgets]
	if len(others) > mostNames {
		return names // no controller of the project writes such a long value
	}
	for name := range strings.SplitSeq(others, ",") {
		if len(names) == mostOfPod {
			break
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// marks returns the annotations by which a Pod names its budgets. A nil value means that the annotation must be
// removed.
func marks(of []*v1beta1.PodUnavailableBudget) map[string]*string {
	marks := map[string]*string{policy.AnnotationOtherBudgets: nil}
	var others []string
	for i, budget := range of[:min(len(of), mostOfPod)] {
		if i == 0 {
			marks[policy.AnnotationRelatedBudget], marks[policy.AnnotationRelatedBudgetOld] = &budget.Name, &budget.Name
		} else {
			others = append(others, budget.Name)
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		marks[policy.AnnotationOtherBudgets] = ptr.To(strings.Join(others, ","))
	}
	return marks
}

// finder finds the budgets of a Pod. A finder is safe for concurrent use. Make a finder with newFinder.
type finder struct {
	budgets   *ownercache.Index[*v1beta1.PodUnavailableBudget]
	workloads *workloads.Owners

	mu      sync.Mutex
	specs   map[types.UID]spec
	sweepAt int // the number of specs at which specs of deleted budgets are dropped
}

// spec is a budget's parsed spec of a given generation.
type spec struct {
	*settings

	generation int64
	problems   judge.Faults
}

// fewSpecs is the number of specs below which a sweep would not pay.
const fewSpecs = 100

// specOf parses the spec of a budget, once per generation.
func (f *finder) specOf(budget *v1beta1.PodUnavailableBudget) spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.specs[budget.UID]; ok && known.generation == budget.Generation {
		return known
	}
	if len(f.specs) >= max(f.sweepAt, fewSpecs) {
		maps.DeleteFunc(f.specs, func(uid types.UID, _ spec) bool { return !f.budgets.IsPresent(uid) })
		f.sweepAt = 2 * len(f.specs)
	}
	s, problems, _ := resolve(&budget.Spec)
	f.specs[budget.UID] = spec{s, budget.Generation, problems}
	return f.specs[budget.UID]
}

// newFinder returns a finder reading from the caches. Call newFinder before the caches start.
func newFinder(ctx context.Context, informers cache.Informers, workloads *workloads.Owners) (*finder, error) {
	index, err := ownercache.NewIndex(ctx, informers, &v1beta1.PodUnavailableBudget{})
	if err != nil {
		return nil, err
	}
	if err := index.Ensure(byPods, whoseBudget); err != nil {
		return nil, err
	}
	return &finder{budgets: index, workloads: workloads, specs: map[types.UID]spec{}}, nil
}

// byPods is the index of budgets by a property of their Pods. With the index, a Pod is not compared with all budgets of
// the namespace.
const byPods = "budgets.pods"

// whoseBudget returns the index keys of a budget: its target workload, a label of its selector, or the key for any Pod.
func whoseBudget(budget *v1beta1.PodUnavailableBudget) []string {
	if target := targetOf(&budget.Spec); target != nil {
		return []string{workloadKey(budget.Namespace, *target)}
	}
	selector := budget.Spec.Selector
	if selector == nil || len(selector.MatchLabels) == 0 {
		return []string{anyKey(budget.Namespace)}
	}
	key := slices.Min(slices.Collect(maps.Keys(selector.MatchLabels)))
	return []string{labelKey(budget.Namespace, key, selector.MatchLabels[key])}
}

// The keys cannot collide: namespaces contain no slash, and label keys no space.
func anyKey(namespace string) string               { return namespace }
func labelKey(namespace, key, value string) string { return namespace + "/" + key + "=" + value }
func workloadKey(namespace string, ref workloads.Ref) string {
	return namespace + "/ " + ref.Group + "/" + ref.Kind + "/" + ref.Name
}

// candidates yields each budget that may be for a Pod with the given chain of controllers, once.
func (f *finder) candidates(pod *corev1.Pod, chain []workloads.Ref) iter.Seq[*v1beta1.PodUnavailableBudget] {
	return func(yield func(*v1beta1.PodUnavailableBudget) bool) {
		keys := make([]string, 0, 1+len(pod.Labels)+len(chain))
		keys = append(keys, anyKey(pod.Namespace))
		for key, value := range pod.Labels {
			keys = append(keys, labelKey(pod.Namespace, key, value))
		}
		for _, ref := range chain {
			keys = append(keys, workloadKey(pod.Namespace, ref))
		}
		for _, key := range keys {
			for _, budget := range f.budgets.By(byPods, key) {
				if !yield(budget) {
					return
				}
			}
		}
	}
}

// Named returns the budget with this name; do not modify the budget.
func (f *finder) Named(namespace, name string) (*v1beta1.PodUnavailableBudget, bool) {
	return f.budgets.Get(namespace, name)
}

// For returns the budgets whose target is among the workloads, without duplicates; do not modify the budgets.
func (f *finder) For(namespace string, of ...workloads.Ref) (found []*v1beta1.PodUnavailableBudget) {
	seen := map[string]bool{}
	for _, ref := range of {
		if key := workloadKey(namespace, ref); !seen[key] {
			seen[key] = true
			found = append(found, f.budgets.By(byPods, key)...)
		}
	}
	return found
}

// Of returns the budgets of a Pod; do not modify the budgets. The budget that the Pod names first is first, if it
// exists and is for the Pod. All other budgets for the Pod follow, the oldest first.
func (f *finder) Of(pod *corev1.Pod) []*v1beta1.PodUnavailableBudget {
	chain, known := f.workloads.Above(pod)
	return f.among(f.candidates(pod, chain), func(name string) *v1beta1.PodUnavailableBudget {
		budget, _ := f.budgets.Get(pod.Namespace, name)
		return budget
	}, pod, chain, known)
}

// among returns those of the given budgets that are for a Pod with the given controllers, at most mostOfPod+1. The
// budget that the Pod names first is first. If the Pod's controller is unknown, budgets that the Pod names count, too.
func (f *finder) among(
	some iter.Seq[*v1beta1.PodUnavailableBudget], get func(name string) *v1beta1.PodUnavailableBudget, pod *corev1.Pod, chain []workloads.Ref, known bool,
) (found []*v1beta1.PodUnavailableBudget) {
	var first *v1beta1.PodUnavailableBudget
	for i, name := range NamesIn(pod) {
		budget := get(name)
		if budget == nil || !f.isFor(budget, pod, chain) && (known || f.specOf(budget).target == nil) {
			continue
		}
		if i == 0 {
			first = budget
		}
		found = append(found, budget)
	}
	for budget := range some {
		if len(found) > mostOfPod {
			break
		}
		if budget.DeletionTimestamp == nil && !has(found, budget) && f.isFor(budget, pod, chain) {
			found = append(found, budget)
		}
	}
	slices.SortFunc(found, func(a, b *v1beta1.PodUnavailableBudget) int {
		switch first {
		case a:
			return -1
		case b:
			return 1
		}
		return order(a, b)
	})
	return found
}

// has reports whether budgets contains the budget.
func has(budgets []*v1beta1.PodUnavailableBudget, budget *v1beta1.PodUnavailableBudget) bool {
	return slices.ContainsFunc(budgets, func(b *v1beta1.PodUnavailableBudget) bool { return b.UID == budget.UID })
}

// IsFor reports whether a budget that a Pod names is for this Pod. If the Pod's controller is unknown, the name in the
// Pod's annotation is enough.
func (f *finder) IsFor(budget *v1beta1.PodUnavailableBudget, pod *corev1.Pod) bool {
	if f.specOf(budget).target == nil {
		return f.isFor(budget, pod, nil)
	}
	chain, known := f.workloads.Above(pod)
	return !known || f.isFor(budget, pod, chain)
}

// order compares budgets by age, the oldest first.
func order(a, b *v1beta1.PodUnavailableBudget) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// isFor reports whether a budget is for a Pod with the given controllers.
func (f *finder) isFor(budget *v1beta1.PodUnavailableBudget, pod *corev1.Pod, chain []workloads.Ref) bool {
	s := f.specOf(budget)
	if s.target != nil {
		return slices.ContainsFunc(chain, s.target.Is)
	}
	return s.selector.Matches(labels.Set(pod.Labels))
}
