package budgets

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/ownercache"
)

// NameIn returns the name of the budget that a Pod says it has, of several the first; empty for none.
func NameIn(pod *corev1.Pod) string {
	return cmp.Or(pod.Annotations[policy.AnnotationRelatedBudget], pod.Annotations[policy.AnnotationRelatedBudgetOld])
}

// MostOfPod is how many budgets a Pod can have. A Pod with more is not let go: each is asked, and remembers the Pod.
const MostOfPod = 10

// mostNames is how many bytes the names of budgets have at most, with what stands between them.
const mostNames = MostOfPod * (validation.DNS1123SubdomainMaxLength + 1)

// NamesIn returns the names of all budgets that a Pod says it has, each once, and no more than MostOfPod.
func NamesIn(pod *corev1.Pod) (names []string) {
	if first := NameIn(pod); first != "" {
		names = append(names, first)
	}
	others := pod.Annotations[policy.AnnotationOtherBudgets]
	if len(others) > mostNames {
		return names // nobody here has written that
	}
	for name := range strings.SplitSeq(others, ",") {
		if len(names) == MostOfPod {
			break
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Marks are the annotations by which a Pod names its budgets. A nil value stands for an annotation that is not there.
func Marks(of []*v1beta1.PodUnavailableBudget) map[string]*string {
	marks := map[string]*string{policy.AnnotationOtherBudgets: nil}
	var others []string
	for i, budget := range of[:min(len(of), MostOfPod)] {
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

// Finder finds the budget of a Pod. It is safe for concurrent use. Make it with NewFinder.
type Finder struct {
	budgets   *ownercache.Index[*v1beta1.PodUnavailableBudget]
	workloads *Workloads

	mu       sync.Mutex
	compiled map[types.UID]compiled
	sweepAt  int // how many are compiled when those of budgets that are gone are forgotten
}

// compiled is the selector of a budget, as of a generation.
type compiled struct {
	generation int64
	selector   labels.Selector
}

// fewCompiled are not worth looking through.
const fewCompiled = 100

// selectorOf compiles the selector of a budget once for each of its generations.
func (f *Finder) selectorOf(budget *v1beta1.PodUnavailableBudget) labels.Selector {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.compiled[budget.UID]; ok && known.generation == budget.Generation {
		return known.selector
	}
	if len(f.compiled) >= max(f.sweepAt, fewCompiled) {
		maps.DeleteFunc(f.compiled, func(uid types.UID, _ compiled) bool { return !f.budgets.IsPresent(uid) })
		f.sweepAt = 2 * len(f.compiled)
	}
	selector := compile(budget.Spec.Selector)
	f.compiled[budget.UID] = compiled{budget.Generation, selector}
	return selector
}

// NewFinder returns a Finder that reads from the caches. Call it before they start.
func NewFinder(ctx context.Context, informers cache.Informers, workloads *Workloads) (*Finder, error) {
	index, err := ownercache.NewIndex(ctx, informers, &v1beta1.PodUnavailableBudget{})
	if err != nil {
		return nil, err
	}
	if err := index.Ensure(byPods, whoseBudget); err != nil {
		return nil, err
	}
	return &Finder{budgets: index, workloads: workloads, compiled: map[types.UID]compiled{}}, nil
}

// byPods is the index of budgets by what the Pods have that they are for, so that a Pod is not compared with all of its namespace.
const byPods = "budgets.pods"

// whoseBudget returns the key of a budget: its workload, or one of the labels that it asks for, or that it may be for any Pod.
func whoseBudget(budget *v1beta1.PodUnavailableBudget) []string {
	if target := budget.Spec.TargetReference; target != nil {
		return []string{workloadKey(budget.Namespace, RefOf(target.APIVersion, target.Kind, target.Name))}
	}
	selector := budget.Spec.Selector
	if selector == nil || len(selector.MatchLabels) == 0 {
		return []string{anyKey(budget.Namespace)}
	}
	key := slices.Min(slices.Collect(maps.Keys(selector.MatchLabels)))
	return []string{labelKey(budget.Namespace, key, selector.MatchLabels[key])}
}

// A namespace has no slash in its name, and a label no space in its key.
func anyKey(namespace string) string               { return namespace }
func labelKey(namespace, key, value string) string { return namespace + "/" + key + "=" + value }
func workloadKey(namespace string, ref Ref) string {
	return namespace + "/ " + ref.Group + "/" + ref.Kind + "/" + ref.Name
}

// candidates yields the budgets that may be for a Pod with these controllers, each once.
func (f *Finder) candidates(pod *corev1.Pod, chain []Ref) iter.Seq[*v1beta1.PodUnavailableBudget] {
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

// Named returns the budget of a name: read only.
func (f *Finder) Named(namespace, name string) (*v1beta1.PodUnavailableBudget, bool) {
	return f.budgets.Get(namespace, name)
}

// For returns the budgets whose target one of the workloads is, each once: read only.
func (f *Finder) For(namespace string, workloads ...Ref) (found []*v1beta1.PodUnavailableBudget) {
	seen := map[string]bool{}
	for _, ref := range workloads {
		if key := workloadKey(namespace, ref); !seen[key] {
			seen[key] = true
			found = append(found, f.budgets.By(byPods, key)...)
		}
	}
	return found
}

// Of returns the budgets of a Pod: first the one that the Pod names first, if there is one of that name and it is for the Pod, and then all others that
// are, the oldest first: read only.
func (f *Finder) Of(pod *corev1.Pod) []*v1beta1.PodUnavailableBudget {
	chain, known := f.workloads.Above(pod)
	return f.among(f.candidates(pod, chain), func(name string) *v1beta1.PodUnavailableBudget {
		budget, _ := f.budgets.Get(pod.Namespace, name)
		return budget
	}, pod, chain, known)
}

// among returns those of some budgets that are for a Pod with these controllers, no more than one above MostOfPod, first the one that the Pod names
// first. Where it is not known who controls the Pod, those that the Pod names count, too.
func (f *Finder) among(
	some iter.Seq[*v1beta1.PodUnavailableBudget], get func(name string) *v1beta1.PodUnavailableBudget, pod *corev1.Pod, chain []Ref, known bool,
) (found []*v1beta1.PodUnavailableBudget) {
	var first *v1beta1.PodUnavailableBudget
	for i, name := range NamesIn(pod) {
		budget := get(name)
		if budget == nil || !f.isFor(budget, pod, chain) && (known || budget.Spec.TargetReference == nil) {
			continue
		}
		if i == 0 {
			first = budget
		}
		found = append(found, budget)
	}
	for budget := range some {
		if len(found) > MostOfPod {
			break
		}
		if budget.DeletionTimestamp == nil && !Has(found, budget) && f.isFor(budget, pod, chain) {
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

// Has reports whether a budget is one of those.
func Has(budgets []*v1beta1.PodUnavailableBudget, budget *v1beta1.PodUnavailableBudget) bool {
	return slices.ContainsFunc(budgets, func(b *v1beta1.PodUnavailableBudget) bool { return b.UID == budget.UID })
}

// IsFor reports whether a budget that a Pod names is for it. Where nobody knows who controls the Pod, what the Pod says counts.
func (f *Finder) IsFor(budget *v1beta1.PodUnavailableBudget, pod *corev1.Pod) bool {
	if budget.Spec.TargetReference == nil {
		return f.isFor(budget, pod, nil)
	}
	chain, known := f.workloads.Above(pod)
	return !known || f.isFor(budget, pod, chain)
}

// order puts the oldest first.
func order(a, b *v1beta1.PodUnavailableBudget) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// isFor reports whether a budget is for a Pod with these controllers.
func (f *Finder) isFor(budget *v1beta1.PodUnavailableBudget, pod *corev1.Pod, chain []Ref) bool {
	if target := budget.Spec.TargetReference; target != nil {
		ref := RefOf(target.APIVersion, target.Kind, target.Name)
		return slices.ContainsFunc(chain, ref.Is)
	}
	return f.selects(budget, pod.Labels)
}

// selects reports whether the selector of a budget matches.
func (f *Finder) selects(budget *v1beta1.PodUnavailableBudget, set labels.Set) bool {
	return matches(budget.Spec.Selector, set, func() labels.Selector { return f.selectorOf(budget) })
}

// selects reports whether a selector matches.
func selects(selector *metav1.LabelSelector, set labels.Set) bool {
	return matches(selector, set, func() labels.Selector { return compile(selector) })
}

// matches reports whether a selector that is not empty matches. Most name labels and nothing else, which needs no preparation.
func matches(selector *metav1.LabelSelector, set labels.Set, prepare func() labels.Selector) bool {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return false
	}
	for key, value := range selector.MatchLabels {
		if got, ok := set[key]; !ok || got != value {
			return false
		}
	}
	if len(selector.MatchExpressions) == 0 {
		return true
	}
	prepared := prepare()
	return prepared != nil && prepared.Matches(set)
}

// compile returns nil for a selector that makes no sense.
func compile(selector *metav1.LabelSelector) labels.Selector {
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	return compiled
}
