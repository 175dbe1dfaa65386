package podcontrol

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/rollout"
)

// Orders say which Pods come first. The zero value takes the order of package podorder alone.
type Orders struct {
	// Priority and Scatter refine the order of updates; the zero values leave it as it is.
	Priority podorder.Priority
	Scatter  podorder.Scatter
	// Constraints are the topology spread constraints of the Pods' template, and NodeLabels finds the labels of a node: Pods are
	// deleted where there are too many of them. Both may be nil.
	Constraints []corev1.TopologySpreadConstraint
	NodeLabels  func(node string) (labels map[string]string, ok bool)
	// Busy reports Pods that are not to be updated now, because an update of theirs is about to start; nil for none.
	Busy func(*corev1.Pod) bool
	// Rest is for how much longer a Pod is to be left alone, because an attempt was refused or its state cannot be read: such Pods are
	// updated last, so that they do not use up the budget of others; nil for none. See executor.Executor.Rest.
	Rest func(*Pod) time.Duration
}

// Choice is which Pods a step concerns. Each list is in the order in which it is to be worked on.
type Choice struct {
	// Leaving Pods wait for their hook before they are deleted. Call executor.Pods.Delete for them too, before the others: it deletes
	// those whose hook has ended. There are none where owners have no hooks.
	Leaving []*corev1.Pod
	// Delete Pods that somebody has asked for or, where there are none and none is Leaving, that are too many. Their number is
	// within the budget.
	Delete []*corev1.Pod
	// Settle Pods that wait for an update which is not wanted any more.
	Settle []*corev1.Pod
	// Update Pods to the update revision or, with Back, to the one before. Their number is within the budget.
	Update []*corev1.Pod
	// Back says that Pods are taken back to the revision before.
	Back bool
}

// ChooseDeletions returns which Pods to delete in a step, as Leaving and Delete of the choice. Of those that are too many, old ones come
// first, as many as Step.DeleteOld says, whether they serve or not: a scale-in in the middle of a rollout takes what the rollout would
// have replaced. Within a revision unready and young ones come first, see podorder.Deletion.
func (s *Set) ChooseDeletions(step rollout.Step, o Orders) (c Choice) {
	c.Leaving = s.Select(func(p *Pod) bool { return p.Leaving })
	order := podorder.Deletion{
		Available:   func(pod *corev1.Pod) bool { return s.Of(pod).Available },
		Constraints: o.Constraints, NodeLabels: o.NodeLabels,
	}
	chosen := s.Select(func(p *Pod) bool { return p.Specified })
	if len(chosen) > 0 {
		order.Sort(chosen)
	} else if len(c.Leaving) == 0 && step.Delete > 0 {
		first := func(updated bool, n int) []*corev1.Pod {
			pods := s.Select(func(p *Pod) bool { return p.Updated == updated })
			if n = min(max(n, 0), len(pods)); n > 0 {
				order.Sort(pods) // also where all go: the budget may not have room for all of them now
			}
			return pods[:n]
		}
		chosen = slices.Concat(first(false, step.DeleteOld), first(true, step.Delete-step.DeleteOld))
	}
	c.Delete = rollout.ToDelete(step, chosen, func(pod *corev1.Pod) bool { return s.Of(pod).Serves() })
	return c
}

// ChooseUpdates returns which Pods to update in a step, as Settle, Update and Back of the choice. Pods that are prepared already,
// are not available or have waited longest come first, see podorder. Pods in PreparingUpdate that have the revision they are to
// have, or that a partition keeps where they are, are settled.
func (s *Set) ChooseUpdates(step rollout.Step, o Orders) (c Choice) {
	c.Back = step.Back
	preparing := func(p *Pod) bool { return p.State == lifecycle.PreparingUpdate }
	c.Settle = s.Select(func(p *Pod) bool { return preparing(p) && p.Updated != c.Back })
	if step.Update == 0 && !slices.ContainsFunc(s.Active, func(p Pod) bool { return preparing(&p) }) {
		return c
	}
	waiting := s.updateOrder(c.Back, o)
	for _, pod := range rollout.ToKeep(step, waiting) {
		if preparing(s.Of(pod)) {
			c.Settle = append(c.Settle, pod)
		}
	}
	c.Update = rollout.ToUpdate(step, s.Counts(false), waiting, func(pod *corev1.Pod) bool { return s.Of(pod).Available })
	return c
}

// updateOrder returns the Pods that may be updated, or taken back, in order.
func (s *Set) updateOrder(back bool, o Orders) []*corev1.Pod {
	waiting := s.Select(func(p *Pod) bool {
		return p.Updated == back && !p.Leaving && !p.Specified && (o.Busy == nil || !o.Busy(p.Pod))
	})
	order := podorder.Update{
		Priority: o.Priority, Scatter: o.Scatter, First: func(pod *corev1.Pod) bool { return s.Of(pod).State == lifecycle.PreparingUpdate },
	}
	if o.Rest != nil {
		order.Rest = func(pod *corev1.Pod) time.Duration { return o.Rest(s.Of(pod)) }
	}
	order.Sort(waiting, s.Select(func(*Pod) bool { return true }))
	return waiting
}

// ChooseCancellations returns which Pods to take back that wait for their hook before they are deleted, because the workload was
// scaled up again. Pods that somebody has asked to be deleted, by label or in Want.Delete, are none.
func (s *Set) ChooseCancellations(replicas int, hooks lifecycle.Hooks) []*corev1.Pod {
	staying, leaving := 0, false
	for i := range s.Active {
		if !s.Active[i].Leaving && !s.Active[i].Specified {
			staying++
		}
		leaving = leaving || s.Active[i].Leaving
	}
	if !leaving {
		return nil
	}
	cancellable := s.Select(func(p *Pod) bool { return p.Leaving && !p.Marked && !p.Named })
	return cancellable[:hooks.CancelDeletions(replicas, staying, len(cancellable))]
}

// WhollyInPlace reports whether every Pod that is not at the update revision can be taken there in place: a rollout has no use for
// surge Pods then. plan returns the plan for the Pods whose revision label is as given.
func (s *Set) WhollyInPlace(plan func(revision string) *inplaceupdate.Plan) bool {
	possible := map[string]bool{}
	for i := range s.Active {
		p := &s.Active[i]
		if p.Updated || p.Leaving || p.Specified {
			continue
		}
		if _, known := possible[p.Revision]; !known {
			possible[p.Revision] = plan(p.Revision).Possible()
		}
		if !possible[p.Revision] {
			return false
		}
	}
	return true
}
