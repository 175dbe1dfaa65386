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

// Numbered is the Pods of an owner with ordinals, in the form for numbered.Plan. Only Sort modifies a Numbered.
type Numbered struct {
	// Pods are all Pods that hold an ordinal, including terminating, ended and no longer selected Pods.
	Pods []numbered.Pod
	// Unnumbered Pods are controlled by the owner, but have no name of the owner's Pods. No step concerns them.
	Unnumbered []*corev1.Pod
	// NextBroken is the time until a Starting Pod counts as broken, without an event; zero for never.
	NextBroken time.Duration

	byOrdinal map[int]*corev1.Pod
}

// NumberedOptions say how Pods are described. The zero value counts every unready Pod as broken.
type NumberedOptions struct {
	// StartTime is the time for a Pod to become ready, after its creation or the begin of its update in place, before the
	// Pod counts as broken. A Pod ready for less than Want.MinReady is starting, too.
	StartTime time.Duration
	// Rest is as in Orders; nil for none.
	Rest func(*Pod) time.Duration
	// Ended is the remaining time to keep an ended Pod, so that quickly ending Pods are not made in a loop; nil for none.
	// executor.Turn.Numbered sets Ended.
	Ended func(*corev1.Pod) time.Duration
}

// Numbered describes the Pods by their ordinals. owner is the name of the owner, now the time of the Set's read. A Pod
// not matched by the selector counts as terminating: the Pod holds its ordinal, and only somebody else can end the
// hold. O(n).
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

// restOf is for how much longer a Pod rests.
func restOf(p *Pod, rest func(*Pod) time.Duration) time.Duration {
	if rest == nil {
		return 0
	}
	return rest(p)
}

// maxWhy is how many bytes of a Pod's own words are repeated.
const maxWhy = 300

// Explain returns the limits of a step. Explain adds the awaited Pod and the Pod's reason for not being ready to
// OrderedWait.
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

// Of returns the Pods of ordinals, in the order of list, a list of a numbered.Step. Ordinals without a Pod are
// left out.
func (n *Numbered) Of(list []int) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(list))
	for _, ordinal := range list {
		if pod := n.byOrdinal[ordinal]; pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Sort puts the Pods into update order, for numbered.Spec.Unordered: the highest ordinals first, and then as the
// order says.
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

// Order returns the Pods in update order: from the highest ordinal down or, if sorted, as sorted.
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

// IsComplete reports whether every wanted ordinal has an available Pod at the update revision without any begun action.
// Then the update revision becomes the current revision.
func (n *Numbered) IsComplete(wanted ordinals.Set) bool {
	if wanted.IsZero() {
		return false // nobody has computed the wanted ordinals
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
