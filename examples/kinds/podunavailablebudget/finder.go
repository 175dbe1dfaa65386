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

// nameIn returns the first budget name in the Pod's annotations, or "" if the annotations name no budget.
func nameIn(pod *corev1.Pod) string {
	return cmp.Or(pod.Annotations[policy.AnnotationRelatedBudget], pod.Annotations[policy.AnnotationRelatedBudgetOld])
}

// mostOfPod is the largest number of budgets that a Pod may have. If a Pod has more budgets, no deletion or change of
// the Pod is admitted, because each budget would have to decide, and its status would have to be written.
const mostOfPod = 10

// mostNames is the largest length in bytes of the annotation with budget names.
const mostNames = mostOfPod * (validation.DNS1123SubdomainMaxLength + 1)

// NamesIn returns the names of all budgets in the Pod's annotations, without duplicates. NamesIn returns at most
// mostOfPod names.
func NamesIn(pod *corev1.Pod) (names []string) {
	if first := nameIn(pod); first != "" {
		names = append(names, first)
	}
	others := pod.Annotations[policy.AnnotationOtherBudgets]
	if len(others) > mostNames {
		return names // no controller of this project writes a value of this length
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

// marks returns the annotations in which a Pod names its budgets. A nil value means that the annotation must be
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

// finder finds the budgets that protect a Pod. A finder is safe for concurrent use. Make a finder with newFinder.
type finder struct {
	budgets   *ownercache.Index[*v1beta1.PodUnavailableBudget]
	workloads *workloads.Owners

	mu      sync.Mutex
	specs   map[types.UID]spec
	sweepAt int // number of specs at which specs of deleted budgets are removed
}

// spec is the parsed spec of a budget, and the generation of the spec.
type spec struct {
	*settings

	generation int64
	problems   judge.Faults
}

// fewSpecs is the number of specs below which specs of deleted budgets stay in memory.
const fewSpecs = 100

// specOf returns the parsed spec of a budget; each generation is parsed once.
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

// newFinder returns a finder that reads from the caches. Call newFinder before the caches start.
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

// byPods is the name of the index of budgets by their target workload or a label of their selector. With the index, a
// Pod need not be compared with all budgets of the namespace.
const byPods = "budgets.pods"

// whoseBudget returns the index keys of a budget: the key of its target workload, the key of a label in its selector,
// or the key for any Pod.
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

// No two of these functions can return the same key, because namespaces contain no slash, and label keys contain no
// space.
func anyKey(namespace string) string               { return namespace }
func labelKey(namespace, key, value string) string { return namespace + "/" + key + "=" + value }
func workloadKey(namespace string, ref workloads.Ref) string {
	return namespace + "/ " + ref.Group + "/" + ref.Kind + "/" + ref.Name
}

// candidates yields, once each, the budgets that may protect a Pod. chain contains the Pod's controller, the
// controller's controller, and so on.
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

// For returns the budgets whose target is one of the workloads, without duplicates; do not modify the budgets.
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

// Of returns the budgets that protect a Pod; do not modify the budgets. The first element is the budget that the
// Pod's annotations name first, if the budget exists and protects the Pod. All other budgets of the Pod follow, the
// oldest first.
func (f *finder) Of(pod *corev1.Pod) []*v1beta1.PodUnavailableBudget {
	chain, known := f.workloads.Above(pod)
	return f.among(f.candidates(pod, chain), func(name string) *v1beta1.PodUnavailableBudget {
		budget, _ := f.budgets.Get(pod.Namespace, name)
		return budget
	}, pod, chain, known)
}

// among returns the given budgets that protect a Pod with the given controllers, at most mostOfPod+1 budgets. The
// first element is the budget that the Pod's annotations name first. If the Pod's controller is unknown, the budgets
// that the Pod's annotations name count as well.
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

// IsFor reports whether a budget that a Pod's annotations name protects the Pod. If the Pod's controller is unknown,
// the name in the annotation is enough.
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

// isFor reports whether a budget protects a Pod with the given controllers.
func (f *finder) isFor(budget *v1beta1.PodUnavailableBudget, pod *corev1.Pod, chain []workloads.Ref) bool {
	s := f.specOf(budget)
	if s.target != nil {
		return slices.ContainsFunc(chain, s.target.Is)
	}
	return s.selector.Matches(labels.Set(pod.Labels))
}
