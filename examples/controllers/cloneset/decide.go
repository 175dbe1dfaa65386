package cloneset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// observation is everything that a pass is decided on.
type observation struct {
	cs              *v1beta1.CloneSet
	settings        *settings
	pods            *podcontrol.Set
	claims          []*corev1.PersistentVolumeClaim
	history         *revision.History
	current, update *appsv1.ControllerRevision
	// unborn are the names of Pods whose claims wait for them, because they could not be created.
	unborn sets.Set[string]
	world  world
}

// world answers about what the CloneSet does not own. Its answers do not change during a decision.
type world struct {
	pod        func(name string) (*corev1.Pod, bool)
	claim      func(name string) (*corev1.PersistentVolumeClaim, bool)
	users      func(*corev1.PersistentVolumeClaim) []*corev1.Pod
	nodeLabels func(node string) (map[string]string, bool)
	plan       func(from, to *appsv1.ControllerRevision) *inplaceupdate.Plan
	// hopeless Pods have refused what was tried last. busy ones are about to be updated already.
	hopeless func(*podcontrol.Pod) bool
	busy     func(*corev1.Pod) bool
	newID    func() string
}

// todo is a whole pass as data. What comes first is done first, and what comes after it only if that has changed nothing.
type todo struct {
	handOver     []pvc.Transfer
	deleteClaims []*corev1.PersistentVolumeClaim
	cancel       []*corev1.Pod
	// createOld and create are the instance ids of new Pods at the current and the update revision.
	createOld, create []string
	leaving, remove   []*corev1.Pod
	settle, update    []*corev1.Pod
	// target is the revision that Pods are updated to.
	target *appsv1.ControllerRevision
	// limits say what keeps Pods from being created; enough says that none are missing.
	limits reason.List
	enough bool
}

// decide decides a whole pass. It depends on its argument alone.
func decide(o *observation) *todo {
	t := &todo{target: o.update}
	o.decideClaims(t)
	t.cancel = o.cancel()
	scale := o.step(o.settings.preparingIsUpdated)
	for _, limit := range scale.Limits {
		if limit.Code == rollout.ScaleUpLimited {
			t.limits = append(t.limits, limit)
		}
	}
	t.enough = scale.Create == 0 && len(t.limits) == 0
	if scale.Create > 0 {
		ids := o.instanceIDs(scale.Create)
		t.createOld, t.create = ids[:min(scale.CreateOld, len(ids))], ids[min(scale.CreateOld, len(ids)):]
	}
	o.decideDeletions(t, scale)
	o.decideUpdates(t, o.step(false))
	return t
}

// step asks what to do next.
func (o *observation) step(preparingIsUpdated bool) rollout.Step {
	spec := o.settings.rollout
	spec.OneRevision = o.current == o.update
	spec.InPlace = spec.MaxSurge > 0 && o.whollyInPlace()
	return rollout.Plan(spec, o.pods.Counts(preparingIsUpdated))
}

// whollyInPlace reports whether every Pod that is not at the update revision can be taken there in place.
func (o *observation) whollyInPlace() bool {
	if rules(o.cs).Policy == podcontrol.Recreate {
		return false
	}
	possible := map[string]bool{}
	for i := range o.pods.Active {
		pod := &o.pods.Active[i]
		if pod.Updated || pod.Leaving || pod.Specified {
			continue
		}
		if _, known := possible[pod.Revision]; !known {
			possible[pod.Revision] = o.world.plan(o.history.Find(pod.Revision), o.update).Possible()
		}
		if !possible[pod.Revision] {
			return false
		}
	}
	return true
}

// cancel returns the Pods that wait for a hook before they are deleted and are wanted again.
func (o *observation) cancel() []*corev1.Pod {
	condemned := 0
	for i := range o.pods.Active {
		if o.pods.Active[i].Leaving || o.pods.Active[i].Specified {
			condemned++
		}
	}
	if condemned == 0 {
		return nil
	}
	cancellable := o.pods.Select(func(pod *podcontrol.Pod) bool {
		return pod.Leaving && !pod.Marked && !slices.Contains(o.cs.Spec.ScaleStrategy.PodsToDelete, pod.Name)
	})
	n := lifecycle.CancelDeletions(o.settings.rollout.Replicas, len(o.pods.Active), condemned, len(cancellable), rules(o.cs).Hooks)
	return cancellable[:n]
}

// decideDeletions finishes deletions that waited for a hook, then deletes what was asked for, then what is too many.
func (o *observation) decideDeletions(t *todo, step rollout.Step) {
	t.leaving = o.pods.Select(func(pod *podcontrol.Pod) bool { return pod.Leaving })
	chosen := o.pods.Select(func(pod *podcontrol.Pod) bool { return pod.Specified })
	order := podorder.Deletion{
		Available:   func(pod *corev1.Pod) bool { return o.pods.Of(pod).Available },
		Constraints: o.cs.Spec.Template.Spec.TopologySpreadConstraints, NodeLabels: o.world.nodeLabels,
	}
	if len(chosen) > 0 {
		order.Sort(chosen)
	} else if len(t.leaving) == 0 && step.Delete > 0 {
		first := func(updated bool, n int) []*corev1.Pod {
			pods := o.pods.Select(func(pod *podcontrol.Pod) bool { return pod.Updated == updated })
			if n = min(max(n, 0), len(pods)); n < len(pods) {
				order.Sort(pods)
			}
			return pods[:n]
		}
		chosen = slices.Concat(first(false, step.DeleteOld), first(true, step.Delete-step.DeleteOld))
	}
	t.remove = rollout.Affordable(step, chosen, func(pod *corev1.Pod) bool { return o.pods.Of(pod).Serves() })
}

// decideUpdates takes Pods to the revision they should have, within the budget, and those out of PreparingUpdate that are not to be
// updated any more: after a rollback, or because a partition keeps them where they are. While updates are paused only those are
// taken out that are where they should be; where Pods are updated by their deletion alone, all are.
func (o *observation) decideUpdates(t *todo, step rollout.Step) {
	back := step.Update < 0
	if back {
		t.target = o.current
	}
	preparing := func(pod *podcontrol.Pod) bool { return pod.State == lifecycle.PreparingUpdate }
	t.settle = o.pods.Select(func(pod *podcontrol.Pod) bool { return preparing(pod) && (pod.Updated != back || o.settings.onDelete) })
	if !o.settings.updates || step.Update == 0 && !slices.ContainsFunc(o.pods.Active, func(pod podcontrol.Pod) bool { return preparing(&pod) }) {
		return
	}
	waiting := o.updateOrder(back)
	for _, pod := range rollout.Kept(step, waiting) {
		if preparing(o.pods.Of(pod)) {
			t.settle = append(t.settle, pod)
		}
	}
	if step.Update != 0 {
		budget := rollout.NewUpdateBudget(step, o.pods.Counts(false))
		t.update = rollout.Admitted(budget, waiting, func(pod *corev1.Pod) bool { return o.pods.Of(pod).Available })
	}
}

// updateOrder returns the Pods that may be updated, or taken back, in order.
func (o *observation) updateOrder(back bool) []*corev1.Pod {
	waiting := o.pods.Select(func(pod *podcontrol.Pod) bool {
		return pod.Updated == back && !pod.Leaving && !pod.Specified && !o.world.busy(pod.Pod)
	})
	podorder.SortForUpdate(waiting)
	o.settings.priority.Sort(waiting)
	o.settings.scatter.Apply(waiting, o.pods.Select(func(*podcontrol.Pod) bool { return true }))
	podorder.Front(waiting, func(pod *corev1.Pod) bool { return o.pods.Of(pod).State == lifecycle.PreparingUpdate })
	// What cannot be done now must not use up the budget of what can.
	podorder.Front(waiting, func(pod *corev1.Pod) bool { return !o.world.hopeless(o.pods.Of(pod)) })
	return waiting
}

// claimsOf is what is known about the Pods of the CloneSet's claims.
func (o *observation) claimsOf() pvc.Known {
	return pvc.Known{Users: o.world.users, PodOf: func(claim *corev1.PersistentVolumeClaim) string { return podOf(o.cs, claim) }}
}

// decideClaims decides about claims whose Pod was released before they could follow it, and about those whose Pod was lost, where
// they are not to be reused.
func (o *observation) decideClaims(t *todo) {
	if len(o.claims) == 0 {
		return
	}
	known := o.claimsOf()
	released := map[string]*corev1.Pod{}
	for _, claim := range o.claims {
		if pod, ok := o.world.pod(known.PodOf(claim)); ok && !isOwned(pod, o.cs) {
			released[pod.Name] = pod
		}
	}
	t.handOver = known.Release(o.claims, sortedPods(released))
	if len(t.handOver) > 0 || o.cs.Spec.ScaleStrategy.EnablePVCReuse {
		return
	}
	active := sets.New[string]()
	for i := range o.pods.Active {
		active.Insert(podName(o.cs, o.pods.Active[i].Labels[apps.LabelInstanceID]))
	}
	t.handOver, t.deleteClaims = known.Lost(o.claims, active.Has, o.pods.Inactive, o.unborn.Has)
	if n := len(t.handOver) + len(t.deleteClaims); n > fanout.PerPass {
		t.handOver = t.handOver[:min(len(t.handOver), fanout.PerPass)]
		t.deleteClaims = t.deleteClaims[:min(len(t.deleteClaims), fanout.PerPass)]
	}
}
