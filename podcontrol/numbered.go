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
)

// Numbered is the Pods of an owner whose Pods have ordinals, as rollout.Numbered takes them. Nothing but Sort modifies it.
type Numbered struct {
	// Pods are all that hold an ordinal, also those that are terminating, have ended or are not selected any more.
	Pods []rollout.NumberedPod
	// Unnumbered Pods are controlled by the owner and do not have the name of one of its Pods. No step concerns them.
	Unnumbered []*corev1.Pod
	// NextBroken is when a Pod that is Starting will count as broken, which no event tells; zero for never.
	NextBroken time.Duration

	byOrdinal map[int]*corev1.Pod
}

// NumberedOptions say how Pods are described. The zero value takes every Pod for broken that is not ready.
type NumberedOptions struct {
	// StartTime is how long a Pod may take to become ready, after it was created or its update in place began, before it is taken
	// for broken. One that is ready for less than Want.MinReady is starting, too.
	StartTime time.Duration
	// Rest is as in Orders; nil for none.
	Rest func(*Pod) time.Duration
	// Ended is for how much longer a Pod that has ended is to stay, so that Pods which end at once are not made in a loop; nil for none.
	Ended func(*corev1.Pod) time.Duration
}

// Numbered describes the Pods by their ordinals. owner is the name of the owner, now the time that the Set was read at. A Pod
// that the selector does not match counts as terminating: it holds its ordinal, and only others can end that. O(n).
func (s *Set) Numbered(owner string, o NumberedOptions, now time.Time) *Numbered {
	n := &Numbered{byOrdinal: make(map[int]*corev1.Pod, len(s.Active)+len(s.Inactive))}
	for i := range s.Active {
		n.add(owner, s.Active[i].Pod, n.describe(&s.Active[i], o, now))
	}
	for _, pod := range s.Inactive {
		described := rollout.NumberedPod{Health: rollout.Ended}
		switch {
		case pod.DeletionTimestamp != nil:
			described.Health = rollout.Terminating
		case o.Ended != nil:
			described.Resting = o.Ended(pod) > 0
		}
		n.add(owner, pod, described)
	}
	for _, pod := range s.NotSelected {
		n.add(owner, pod, rollout.NumberedPod{Health: rollout.Terminating, NotSelected: true})
	}
	return n
}

func (n *Numbered) add(owner string, pod *corev1.Pod, described rollout.NumberedPod) {
	ordinal, ok := ordinals.OfPod(owner, pod)
	if !ok {
		n.Unnumbered = append(n.Unnumbered, pod)
		return
	}
	described.Ordinal, n.byOrdinal[ordinal] = ordinal, pod
	n.Pods = append(n.Pods, described)
}

func (n *Numbered) describe(p *Pod, o NumberedOptions, now time.Time) rollout.NumberedPod {
	described := rollout.NumberedPod{
		Health: rollout.Unavailable, Updated: p.Updated, Specified: p.Marked || p.Named, PreDeleting: p.Leaving,
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

// Explain returns the limits of a step with the name of the Pod that OrderedWait is about, and with what that Pod waits for.
func (n *Numbered) Explain(step *rollout.NumberedStep) reason.List {
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

// Of returns the Pods of ordinals, in their order: those of the lists of a rollout.NumberedStep. Ordinals that no Pod holds are
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

// Sort puts the Pods into the order in which they are updated, for rollout.NumberedSpec.Unordered: those of the highest ordinals first,
// and from there as the order says.
func (n *Numbered) Sort(order podorder.Update) {
	slices.SortFunc(n.Pods, func(a, b rollout.NumberedPod) int { return cmp.Compare(b.Ordinal, a.Ordinal) })
	pods, described := make([]*corev1.Pod, len(n.Pods)), make(map[*corev1.Pod]rollout.NumberedPod, len(n.Pods))
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

// IsComplete reports whether every wanted ordinal has an available Pod at the update revision, and nothing has begun for any of
// them. Then the update revision takes the place of the current one.
func (n *Numbered) IsComplete(wanted ordinals.Set) bool {
	if wanted.IsZero() {
		return false // nobody has computed it
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
