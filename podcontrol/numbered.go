package podcontrol

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// Numbered describes the Pods of an owner by ordinal, for numbered.Plan. Only Sort modifies a Numbered.
type Numbered struct {
	// Pods are all Pods that occupy an ordinal, including terminating and ended Pods and Pods that the selector no
	// longer matches.
	Pods []numbered.Pod
	// Unnumbered Pods are controlled by the owner, but their names have no ordinal of the owner. No plan creates,
	// updates or deletes these Pods.
	Unnumbered []*corev1.Pod
	// NextBroken is the time until the next Starting Pod counts as broken, if no event occurs before; zero for never.
	NextBroken time.Duration

	byOrdinal map[int]*corev1.Pod
}

// NumberedOptions are the options of Set.Numbered. The zero value counts every unready Pod as broken.
type NumberedOptions struct {
	// StartTime is how long a Pod may take to become ready, after its creation or the start of its in-place update,
	// before the Pod counts as broken. A Pod that has been ready for less than Want.MinReady also counts as starting.
	StartTime time.Duration
	// Rest returns how long a Pod must still wait, as in Orders; nil for none.
	Rest func(*Pod) time.Duration
	// Ended returns how long an ended Pod must still be kept, so that Pods that end quickly are not recreated in a fast
	// loop; nil for none. executor.Turn.Numbered sets Ended.
	Ended func(*corev1.Pod) time.Duration
}

// Numbered describes the Pods by their ordinals. owner is the name of the owner, and now the time at which the Set was
// read. A Pod that the selector does not match counts as terminating: the Pod occupies its ordinal, and only somebody
// else can delete the Pod. Numbered takes O(n) time.
func (s *Set) Numbered(owner string, o NumberedOptions, now time.Time) *Numbered {
	n := &Numbered{byOrdinal: make(map[int]*corev1.Pod, len(s.Active)+len(s.Inactive))}
	for i := range s.Active {
		n.add(owner, s.Active[i].Pod, n.describe(&s.Active[i], o, now))
	}
	for _, pod := range s.Inactive {
		described := numbered.Pod{Health: rollout.Ended}
		switch {
		case pod.DeletionTimestamp != nil:
			described.Health = rollout.Terminating
		case o.Ended != nil:
			described.Resting = o.Ended(pod) > 0
		}
		n.add(owner, pod, described)
	}
	for _, pod := range s.NotSelected {
		n.add(owner, pod, numbered.Pod{Health: rollout.Terminating, NotSelected: true})
	}
	return n
}

func (n *Numbered) add(owner string, pod *corev1.Pod, described numbered.Pod) {
	ordinal, ok := ordinals.OfPod(owner, pod)
	if !ok {
		n.Unnumbered = append(n.Unnumbered, pod)
		return
	}
	described.Ordinal, n.byOrdinal[ordinal] = ordinal, pod
	n.Pods = append(n.Pods, described)
}

func (n *Numbered) describe(p *Pod, o NumberedOptions, now time.Time) numbered.Pod {
	described := numbered.Pod{
		Health: rollout.Unavailable, Updated: p.Updated, Specified: p.Marked && !p.Recreated || p.Named, PreDeleting: p.Leaving,
		PreUpdating: p.State == lifecycle.PreparingUpdate, Rest: restOf(p, o.Rest),
	}
	left := p.Began.Add(o.StartTime).Sub(now)
	switch {
	case p.Available:
		described.Health = rollout.Available
	case p.Serves():
		described.Starting = true
	case left > 0:
		described.Starting = true
		if n.NextBroken == 0 || left < n.NextBroken {
			n.NextBroken = left
		}
	}
	return described
}

// restOf returns how long a Pod's back-off still lasts.
func restOf(p *Pod, rest func(*Pod) time.Duration) time.Duration {
	if rest == nil {
		return 0
	}
	return rest(p)
}

// maxWhy limits the number of bytes that Explain copies from a Pod's own message.
const maxWhy = 300

// Explain returns the reasons why a step is not larger. To a reason with the code OrderedWait, Explain adds the Pod
// for which the step waits, and why the Pod is not ready.
func (n *Numbered) Explain(step *numbered.Step) reason.List {
	limits := slices.Clone(step.Limits)
	if step.Awaited == nil || n.byOrdinal[*step.Awaited] == nil {
		return limits
	}
	pod := n.byOrdinal[*step.Awaited]
	for i := range limits {
		if limits[i].Code != rollout.OrderedWait {
			continue
		}
		limits[i].Object = reason.ObjectOf("Pod", pod)
		if why := podstate.WhyNotReady(pod); why != "" {
			limits[i].Detail += " (" + reason.Shorten(why, maxWhy) + ")"
		}
	}
	return limits
}

// Of returns the Pods with the given ordinals, in the order of list, such as a list in a numbered.Step. Ordinals
// without a Pod are left out.
func (n *Numbered) Of(list []int) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(list))
	for _, ordinal := range list {
		if pod := n.byOrdinal[ordinal]; pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Sort puts the Pods into update order, for numbered.Spec.Unordered: by the given order, and Pods that the order
// considers equal by descending ordinals.
func (n *Numbered) Sort(order podorder.Update) {
	slices.SortFunc(n.Pods, func(a, b numbered.Pod) int { return cmp.Compare(b.Ordinal, a.Ordinal) })
	pods, described := make([]*corev1.Pod, len(n.Pods)), make(map[*corev1.Pod]numbered.Pod, len(n.Pods))
	for i, p := range n.Pods {
		pods[i] = n.byOrdinal[p.Ordinal]
		described[pods[i]] = p
	}
	order.AsGiven = true
	order.Sort(pods, pods)
	for i, pod := range pods {
		n.Pods[i] = described[pod]
	}
}

// Order returns the Pods in update order: in the order made by Sort if sorted is true, otherwise from the highest
// ordinal down.
func (n *Numbered) Order(sorted bool) []*corev1.Pod {
	list := make([]int, len(n.Pods))
	for i := range n.Pods {
		list[i] = n.Pods[i].Ordinal
	}
	if !sorted {
		slices.SortFunc(list, func(a, b int) int { return cmp.Compare(b, a) })
	}
	return n.Of(list)
}

// IsComplete reports whether every wanted ordinal has an available Pod at the update revision, and no deletion or
// update of these Pods has begun. If so, the update revision becomes the current revision.
func (n *Numbered) IsComplete(wanted ordinals.Set) bool {
	if wanted.IsZero() {
		return false // wanted was never computed
	}
	complete := 0
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.Health == rollout.Available && p.Updated && !p.PreDeleting && !p.PreUpdating && wanted.Contains(p.Ordinal) {
			complete++
		}
	}
	return complete == wanted.Len()
}
