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

// Orders say which Pods are deleted or updated first. The zero value means the default order of package podorder.
type Orders struct {
	// Priority and Scatter refine the order of updates: see package podorder. The zero values do not affect the
	// order.
	Priority podorder.Priority
	Scatter  podorder.Scatter
	// Constraints are the topology spread constraints of the Pods' template, and NodeLabels returns the labels of a
	// node: deletions prefer Pods in crowded topology domains. Both may be nil.
	Constraints []corev1.TopologySpreadConstraint
	NodeLabels  func(node string) (labels map[string]string, ok bool)
	// Busy reports whether a Pod must not be updated now, because a different update of the Pod is about to start. Nil
	// means that no Pod is busy.
	Busy func(*corev1.Pod) bool
	// Rest returns how long a Pod must still wait because an attempt was refused or because the Pod's state cannot be
	// read. Pods that must wait are updated last, so that they do not use up the budget of other Pods. Nil means that
	// no Pod must wait. See executor.Executor.Rest.
	Rest func(*Pod) time.Duration
}

// Choice lists the Pods for the actions of a rollout.Step. Process each list in its order.
type Choice struct {
	// Leaving are Pods that wait for their lifecycle hook before their deletion. Call executor.Turn.Delete for these
	// Pods first: the call deletes a Pod whose hook has released the Pod. Leaving is empty if owners have no hooks.
	Leaving []*corev1.Pod
	// Delete are the Pods to delete now, within the budget: Pods whose deletion a user has requested or, if there are
	// neither such Pods nor Leaving Pods, surplus Pods.
	Delete []*corev1.Pod
	// Settle are the Pods that wait for their hook before an update that is no longer wanted: cancel the update
	// (executor.Turn.Settle).
	Settle []*corev1.Pod
	// Update lists the Pods to bring to the new revision or, if Back is set, to the earlier revision. The list has no
	// more Pods than the step allows.
	Update []*corev1.Pod
	// Back says that Update takes Pods back to the earlier revision.
	Back bool
}

// ChooseDeletions returns the Pods to delete in a step, as Leaving and Delete of the choice. Among the surplus Pods,
// Pods of the old revision come first, up to Step.DeleteOld, whether available or not: if a user reduces the replicas
// during a rollout, the deleted Pods are Pods that the rollout would have replaced. Within a revision, unready Pods
// and young Pods come first, see podorder.Deletion.
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
				order.Sort(pods) // sort even if all Pods are to be deleted: the budget may not allow all deletions now
			}
			return pods[:n]
		}
		chosen = slices.Concat(first(false, step.DeleteOld), first(true, step.Delete-step.DeleteOld))
	}
	c.Delete = rollout.ToDelete(step, chosen, func(pod *corev1.Pod) bool { return s.Of(pod).Serves() })
	return c
}

// ChooseUpdates returns the Pods to update in a step, as Settle, Update and Back of the choice. Pods in
// PreparingUpdate, unavailable Pods, and Pods that have waited longest come first, see podorder. ChooseUpdates puts a
// Pod in PreparingUpdate into Settle if the Pod has its wanted revision, or if a partition keeps the Pod at its
// revision.
func (s *Set) ChooseUpdates(step rollout.Step, o Orders) (c Choice) {
	c.Back = step.Back
	preparing := func(p *Pod) bool { return p.State == lifecycle.PreparingUpdate }
	c.Settle = s.Select(func(p *Pod) bool { return preparing(p) && p.Updated != c.Back })
	if step.Candidates == 0 && !slices.ContainsFunc(s.Active, func(p Pod) bool { return preparing(&p) }) {
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

// updateOrder returns, in order, the Pods that may be updated or, if back is true, taken back to the earlier revision.
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

// Order returns the active Pods in the order of updates, for an action on Pods other than an update.
func (s *Set) Order(priority podorder.Priority, scatter podorder.Scatter) []*corev1.Pod {
	pods := s.Select(func(*Pod) bool { return true })
	podorder.Update{Priority: priority, Scatter: scatter}.Sort(pods, slices.Clone(pods))
	return pods
}

// ChooseCancellations returns the Pods that wait for their hook before a deletion, but are wanted again: the workload
// was scaled up, or their revision has too few Pods. Pods with a deletion requested by users, by label or in
// Want.Delete, are excluded, and so are Pods with an Unreadable state: no loop can bring such a Pod back into
// service.
func (s *Set) ChooseCancellations(spec rollout.Spec, hooks lifecycle.Hooks) []*corev1.Pod {
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
	old, updated := spec.Missing(s.Counts(false))
	cancellable := s.Select(func(p *Pod) bool {
		if !p.Leaving || p.Named || p.Unreadable != nil || !p.Recreated {
			return p.Leaving && !p.Named && p.Unreadable == nil && !p.Marked
		}
		if spec.OneRevision {
			return p.Updated // a Pod of any other revision still has to be recreated
		}
		// A Pod that waits for its recreation by an update is kept only if more Pods of its revision are wanted.
		missing := &old
		if p.Updated {
			missing = &updated
		}
		*missing--
		return *missing >= 0
	})
	return cancellable[:hooks.CancelDeletions(spec.Replicas, staying, len(cancellable))]
}

// WhollyInPlace reports whether every outdated Pod can be updated in place: a rollout then needs no surge Pods. plan
// returns the plan for the Pods whose label names the given revision.
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
