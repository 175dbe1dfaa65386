package cloneset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	expectationsapply "github.com/workloadkit/workloadkit/expectations/apply"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/podpatch"
	podapply "github.com/workloadkit/workloadkit/podpatch/apply"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/slowstart"
)

// refusalRetry is when an update that the API server, a quota or a webhook has refused is tried again although nothing of
// the workload has changed. Each attempt takes a Pod out of service for a moment.
const refusalRetry = 5 * time.Minute

// reasonsInEvent is how many reasons an event or condition names.
const reasonsInEvent = 5

// updatePods takes Pods to the revision they should have, within the budget.
func (r *Reconciler) updatePods(ctx context.Context, v *view) (acted bool, err error) {
	step := v.step(r.planner, false)
	acted, settleErr := r.settle(ctx, v, step)
	if acted || worthTrying(settleErr) || !v.updates || step.Update == 0 {
		return acted, settleErr
	}
	target := v.update
	if step.Update < 0 {
		target = v.current
	}
	chosen := r.chooseUpdates(v, step)
	acted, err = r.each(ctx, v, tryUpdate, chosen, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		return r.updatePod(ctx, v, pod, target)
	})
	return acted, errors.Join(settleErr, err)
}

// settle takes Pods out of PreparingUpdate that are not to be updated any more: after a rollback, or because a partition
// keeps them where they are. While updates are paused only those are settled that are where they should be; where Pods are
// updated by their deletion alone, all are.
func (r *Reconciler) settle(ctx context.Context, v *view, step rollout.Step) (acted bool, err error) {
	preparing := func(m *member) bool { return m.state == lifecycle.PreparingUpdate }
	if len(v.pods(preparing)) == 0 {
		return false, nil
	}
	back := step.Update < 0
	settled := v.pods(func(m *member) bool { return preparing(m) && (m.updated != back || v.onDelete) })
	if v.updates {
		waiting := r.updateOrder(v, back)
		for _, pod := range rollout.Kept(step, waiting) {
			if preparing(v.member(pod)) {
				settled = append(settled, pod)
			}
		}
	}
	return r.each(ctx, v, trySettle, settled, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		return r.transit(ctx, v, pod, v.machine.Next(pod, lifecycle.Want{Settled: true, Complete: true}))
	})
}

// updateOrder returns the Pods that may be updated, or taken back, in order.
func (r *Reconciler) updateOrder(v *view, back bool) []*corev1.Pod {
	waiting := v.pods(func(m *member) bool {
		return m.updated == back && !m.dying && !m.specified && (!r.inPlace.InGracePeriod(m.pod) || r.isHeldUp(m.pod))
	})
	order := podorder.Update{
		Priority: v.priority, Scatter: v.scatter,
		First: func(pod *corev1.Pod) bool { return v.member(pod).state == lifecycle.PreparingUpdate },
		Last:  func(pod *corev1.Pod) bool { return r.isHopeless(v, pod) },
	}
	order.Sort(waiting, v.pods(func(*member) bool { return true }))
	return waiting
}

// isHeldUp reports whether what ends the Pod's update was refused.
func (r *Reconciler) isHeldUp(pod *corev1.Pod) bool { return r.kept.Recent(pod.UID, tryFinish) }

// isHopeless reports whether a Pod's update or deletion was refused the last time, or its state cannot be read.
func (r *Reconciler) isHopeless(v *view, pod *corev1.Pod) bool {
	return v.member(pod).unreadable != nil || r.refusals.Recent(pod.UID, tryUpdate) || r.kept.Recent(pod.UID, tryDelete)
}

// chooseUpdates walks the candidates within the budget.
func (r *Reconciler) chooseUpdates(v *view, step rollout.Step) []*corev1.Pod {
	back := step.Update < 0
	budget := rollout.NewUpdateBudget(step, v.counts(false))
	return rollout.Admitted(budget, r.updateOrder(v, back), func(pod *corev1.Pod) bool { return v.member(pod).available })
}

// updatePod takes one Pod to the target in place, or recreates it where the policy allows and the change demands it.
func (r *Reconciler) updatePod(ctx context.Context, v *view, pod *corev1.Pod, target *appsv1.ControllerRevision) (acted bool, err error) {
	if v.policy == v1beta1.ReCreate {
		return r.recreate(ctx, v, pod, nil)
	}
	plan := r.planner.Plan(v.revisionOf(pod), target)
	if plan.Possible() {
		if err := v.member(pod).unreadable; err != nil { // or it would leave service for a hook, and stay there
			return false, verdict{err}
		}
		refused := updateOf(pod, podstate.ShortRevision(target.Name))
		wait, err := r.refusals.Of(refused, v.now)
		if err == nil {
			acted, err = r.startInPlace(ctx, v, pod, plan, target)
			if err == nil {
				r.refusals.Succeeded(pod.UID, tryUpdate)
			}
			if !errors.Is(err, podapply.Refused) {
				return acted, err
			}
			// The API server, a quota or a webhook says no to this Pod. Trying the same again would close its gate for nothing.
			wait = r.refusals.Add(refused, v.now, err)
		}
		v.wake.in(wait)
		if v.policy == v1beta1.InPlaceOnly {
			return acted, verdict{err}
		}
		return r.recreate(ctx, v, pod, reason.From(err))
	}
	if v.policy == v1beta1.InPlaceOnly {
		err := verdict{fmt.Errorf("Pod %s cannot be updated in place: %w", pod.Name, plan.Blocking)}
		r.events.Eventf(v.cs, corev1.EventTypeWarning, apps.EventFailedUpdatePodInPlace,
			"Pod %s cannot be updated in place: %s", pod.Name, plan.Blocking.Summary(reasonsInEvent))
		return false, err
	}
	return r.recreate(ctx, v, pod, plan.Blocking)
}

func updateOf(pod *corev1.Pod, revision string) podapply.Attempt {
	return podapply.Attempt{Object: pod.UID, Action: tryUpdate, Target: revision}
}

// finishOf is what the Pod's own loop tries. Where the Pod has moved on, or the CloneSet wants something else, it is another attempt.
func finishOf(pod *corev1.Pod, cs *v1beta1.CloneSet) podapply.Attempt {
	return podapply.Attempt{
		Object: pod.UID, Action: tryFinish,
		Target: fmt.Sprintf("%s/%s/%d", podstate.ShortRevision(pod.Labels[apps.LabelRevision]), pod.Labels[apps.LabelLifecycleState], cs.Generation),
	}
}

// conflictOf is a write that demands the Pod as it is now.
func conflictOf(pod *corev1.Pod) podapply.Attempt {
	return podapply.Attempt{Object: pod.UID, Action: tryThisVersion, Target: pod.ResourceVersion}
}

// refused says which Pods are in the middle of an update that was refused on the way: at a later batch, at the end of a
// grace period, or in the last of several writes. The Pods' own loop tries again. It leaves those alone that cannot be read.
func (r *Reconciler) refused(v *view) error {
	var errs []error
	for i := range v.members {
		m := &v.members[i]
		if m.state != lifecycle.Updating {
			continue
		}
		started := updateOf(m.pod, podstate.ShortRevision(m.pod.Labels[apps.LabelRevision]))
		_, err := r.refusals.Of(started, v.now)
		if err == nil {
			_, err = r.kept.Of(finishOf(m.pod, v.cs), v.now)
		}
		if err == nil {
			err = m.unreadable
		}
		if err != nil {
			errs = append(errs, verdict{err})
		}
	}
	return errors.Join(errs...)
}

// recreate deletes the Pod within the budget that chose it; the next pass creates its successor. A Pod that a hook holds is
// marked as specified for deletion, as OpenKruise does, so that nobody takes the deletion for one to cancel.
func (r *Reconciler) recreate(ctx context.Context, v *view, pod *corev1.Pod, why reason.List) (acted bool, err error) {
	mark := "true"
	if wait, err := r.kept.Of(podapply.Attempt{Object: pod.UID, Action: tryDelete}, v.now); err != nil {
		v.wake.in(wait)
		return false, verdict{err}
	}
	acted, err = r.deletePod(ctx, v, pod, &podpatch.Change{Labels: map[string]*string{apps.LabelSpecifiedDelete: &mark}})
	if err != nil {
		r.events.Eventf(v.cs, corev1.EventTypeWarning, apps.EventFailedUpdatePodReCreate, "failed to recreate Pod %s: %v", pod.Name, err)
		return acted, err
	}
	if acted {
		text := "recreating Pod " + pod.Name + " for revision " + v.update.Name
		if len(why) > 0 {
			text += ", not in place: " + why.Summary(reasonsInEvent)
			r.log(ctx).Info("Pod is recreated, not updated in place", "pod", pod.Name, "reasons", why.String())
		}
		r.events.Event(v.cs, corev1.EventTypeNormal, apps.EventSuccessfulUpdatePodReCreate, text)
		r.options.Metrics.recreated(why)
	}
	return acted, nil
}

// startInPlace moves the Pod towards its update: into PreparingUpdate while a hook holds it, otherwise gate, spec, revision
// and state in one go.
func (r *Reconciler) startInPlace(ctx context.Context, v *view, pod *corev1.Pod, plan *inplaceupdate.Plan, target *appsv1.ControllerRevision) (acted bool, err error) {
	t := v.machine.Next(pod, lifecycle.Want{Intent: lifecycle.Update})
	if t.Act != lifecycle.StartUpdate {
		return r.transit(ctx, v, pod, t)
	}
	now := metav1.NewTime(v.now)
	name := r.revisionLabels(target.Name)
	change, err := r.inPlace.Start(pod, plan, inplaceupdate.Target{Revision: target.Name, GraceSeconds: v.graceSeconds}, now)
	if err != nil {
		return false, verdict{err}
	}
	relabel := podpatch.Change{Labels: map[string]*string{}}
	for key, value := range name {
		relabel.Labels[key] = &value
	}
	changes := []podpatch.Change{change, relabel}
	if !plan.Immediate() || v.machine.Hooks().InPlaceUpdate != nil {
		changes = append(changes, v.machine.Change(pod, t, v.now))
	}
	done, ok := r.takeUnchanged(ctx, pod)
	if !ok {
		v.wake.in(conflictRetry)
		return false, nil
	}
	defer done()
	acted, err = r.write(ctx, v, pod, changes...)
	if err != nil {
		r.events.Eventf(v.cs, corev1.EventTypeWarning, apps.EventFailedUpdatePodInPlace, "failed to update Pod %s in place: %v", pod.Name, err)
		return acted, err
	}
	r.events.Eventf(v.cs, corev1.EventTypeNormal, apps.EventSuccessfulUpdatePodInPlace, "updating Pod %s in place to revision %s", pod.Name, target.Name)
	r.options.Metrics.updatedInPlace()
	return true, nil
}

// transit writes a lifecycle transition with the readiness writers it demands, and whatever else is given.
func (r *Reconciler) transit(ctx context.Context, v *view, pod *corev1.Pod, t lifecycle.Transition, more ...podpatch.Change) (acted bool, err error) {
	changes, err := transition(v.machine, pod, t, metav1.NewTime(v.now), podreadiness.Edit)
	if err != nil {
		return false, verdict{err}
	}
	return r.write(ctx, v, pod, append(changes, more...)...)
}

// editGate is how the writers of a readiness gate are added and removed: podreadiness.Edit, or EditOrInitialize.
type editGate func(pod *corev1.Pod, gate corev1.PodConditionType, hold, release []podreadiness.Writer) (podpatch.Change, error)

// transition turns a lifecycle transition into changes.
func transition(m lifecycle.Machine, pod *corev1.Pod, t lifecycle.Transition, now metav1.Time, edit editGate) ([]podpatch.Change, error) {
	var hold, release []podreadiness.Writer
	if t.Hold != "" {
		hold = append(hold, kruise.Writer(t.Hold))
	}
	if t.ReleaseDelete {
		release = append(release, kruise.Writer(lifecycle.PreDelete))
	}
	if t.ReleaseUpdate {
		release = append(release, kruise.Writer(lifecycle.InPlaceUpdate))
	}
	readiness, err := edit(pod, apps.ConditionKruisePodReady, hold, release)
	if err != nil {
		return nil, err
	}
	return []podpatch.Change{m.Change(pod, t, now.Time), readiness}, nil
}

// write merges the changes and sends them. It reports whether anything was written, and has the cache awaited then.
func (r *Reconciler) write(ctx context.Context, v *view, pod *corev1.Pod, changes ...podpatch.Change) (acted bool, err error) {
	patches, err := podpatch.Merge(pod, metav1.NewTime(r.options.Clock.Now()), changes...)
	if err != nil {
		return false, verdict{err}
	}
	// Awaited by the owner before its next decision, and by the Pod's own loop before it looks at the Pod again.
	result, err := podapply.Apply(expectationsapply.For(ctx, v.cs.UID, pod.UID), r.client, patches)
	r.forgetIfGone(pod.UID)
	if podapply.IsLasting(err) && !errors.Is(err, podapply.Replaced) {
		v.refused.Add(1)
		err = verdict{err}
	}
	return result.Sent > 0, err
}

// podsPerPass bounds the Pods written to in one pass, so that the status of a CloneSet with thousands of them does not stay
// behind for as long as a whole budget takes. The next pass goes on.
const podsPerPass = slowstart.MaxBatch

// each works on several Pods side by side. One Pod's failure does not keep the others from being worked on, unless it is a
// refusal before anything has succeeded: where a policy refuses all of them, a few requests find out, and one at a time
// afterwards. A Pod that is gone by now is no failure.
func (r *Reconciler) each(ctx context.Context, v *view, action string, pods []*corev1.Pod, do func(context.Context, *corev1.Pod) (bool, error)) (acted bool, err error) {
	if len(pods) == 0 {
		return false, nil
	}
	if wait, err := r.memory(action).Of(attemptOf(v, action), v.now); err != nil {
		v.wake.in(wait)
		return false, verdict{err}
	}
	calls := max(r.options.Calls/int(r.writers.Add(1)), min(r.options.Calls, 2))
	defer r.writers.Add(-1)
	if r.memory(action).Recent(v.cs.UID, action) {
		calls, pods = 1, r.leastRefusedFirst(pods)
	}
	if len(pods) > podsPerPass {
		pods = pods[:podsPerPass]
		v.wake.in(conflictRetry)
	}
	before := v.refused.Load()
	var changed atomic.Bool
	errs := make([]error, len(pods))
	workqueue.ParallelizeUntil(ctx, min(calls, len(pods)), len(pods), func(i int) {
		if v.refused.Load() > before && !changed.Load() {
			return
		}
		did, err := do(ctx, pods[i])
		if did {
			changed.Store(true)
		}
		if !errors.Is(err, podapply.Replaced) {
			errs[i] = err
		}
	})
	if err = errors.Join(errs...); err != nil {
		err = fmt.Errorf("CloneSet %s/%s: %w", v.cs.Namespace, v.cs.Name, err)
	}
	switch {
	case changed.Load():
		r.memory(action).Succeeded(v.cs.UID, action)
	case err != nil && v.refused.Load() > before:
		r.backOffFrom(ctx, v, action, err)
	}
	return changed.Load(), cmp.Or(err, ctx.Err())
}

// leastRefusedFirst puts the Pods of which nothing was refused before the others, which could hide them for ever otherwise.
func (r *Reconciler) leastRefusedFirst(pods []*corev1.Pod) []*corev1.Pod {
	refused := func(pod *corev1.Pod) bool {
		return r.kept.Recent(pod.UID, tryDelete) || r.refusals.Recent(pod.UID, tryUpdate)
	}
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(pods), refused),
		slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !refused(pod) }),
	)
}
