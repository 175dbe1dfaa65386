package cloneset

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	expectationsapply "github.com/workloadkit/workloadkit/expectations/apply"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podpatch"
	podapply "github.com/workloadkit/workloadkit/podpatch/apply"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
)

const (
	// settleTime is how long a new Pod's containers may take to become ready before its gates are opened without waiting
	// for them. Opening them in the moment they become ready spares a conflict with the kubelet, which writes until then.
	settleTime = 10 * time.Second
	// busyRetry is when to look again at a Pod that the other loop is writing to. Its own events come sooner unless the start
	// failed in the middle.
	busyRetry = 2 * time.Second
)

// Finisher takes single Pods of CloneSets through what needs no budget. It shares caches with the Reconciler it was made
// with and never waits for it.
type Finisher struct{ *Reconciler }

// Reconcile looks at one Pod. All writes demand the Pod as it was decided on: a conflict means that something newer is on
// its way, and its event will bring the Pod back here.
func (f *Finisher) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod, _ := f.unfinished(req)
	if pod == nil {
		return ctrl.Result{}, nil
	}
	done, ok := f.take(pod.UID)
	if !ok {
		return ctrl.Result{RequeueAfter: busyRetry}, nil
	}
	defer done()
	defer f.forgetIfGone(pod.UID)
	// A notification may come before the cache shows what was written last; deciding on that would only earn a conflict.
	if pending, err := f.client.Check(ctx, pod); pending != nil || err != nil {
		return ctrl.Result{RequeueAfter: busyRetry}, err
	}
	pod, ref := f.unfinished(req)
	if pod == nil {
		return ctrl.Result{}, nil
	}
	cs, ok := f.owners.Get(req.Namespace, ref.Name)
	if !ok || cs.UID != ref.UID {
		return ctrl.Result{}, nil
	}
	changes, again, err := f.decide(pod, cs, metav1.NewTime(f.options.Clock.Now()))
	if err != nil {
		// Unreadable annotations: the owner reports them; the Pod is left alone until they are mended.
		f.events.Event(cs, corev1.EventTypeWarning, apps.EventFailedUpdate, err.Error())
		return ctrl.Result{}, nil
	}
	return f.send(ctx, cs, pod, changes, again)
}

// unfinished returns the Pod as the cache shows it, if it may need something, and its owner.
func (f *Finisher) unfinished(req ctrl.Request) (*corev1.Pod, *metav1.OwnerReference) {
	pod, ok := f.pods.Get(req.Namespace, req.Name)
	if !ok || !podstate.IsActive(pod) {
		return nil, nil
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != kind().Kind {
		return nil, nil
	}
	return pod, ref
}

func (f *Finisher) send(ctx context.Context, cs *v1beta1.CloneSet, pod *corev1.Pod, changes []podpatch.Change, again time.Duration) (ctrl.Result, error) {
	patches, err := podpatch.Merge(pod, metav1.NewTime(f.options.Clock.Now()), changes...)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("finishing Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	attempt := finishOf(pod, cs)
	if wait, err := f.kept.Of(attempt, f.options.Clock.Now()); err != nil && !patches.IsEmpty() {
		return ctrl.Result{RequeueAfter: wait}, nil // its events must not lead to the next attempt
	}
	_, err = podapply.Apply(expectationsapply.For(ctx, pod.UID), f.client, patches)
	if apierrors.IsConflict(err) || errors.Is(err, podapply.Replaced) {
		f.log(ctx).V(5).Info("Pod has changed meanwhile", "pod", client.ObjectKeyFromObject(pod))
		// Its event brings it back here, unless it was an admission plugin that had the conflict.
		return ctrl.Result{RequeueAfter: f.kept.Add(conflictOf(pod), f.options.Clock.Now(), err)}, nil
	}
	if errors.Is(err, podapply.Refused) {
		wait := f.kept.Add(attempt, f.options.Clock.Now(), err)
		f.events.Eventf(cs, corev1.EventTypeWarning, apps.EventFailedUpdatePodInPlace, "failed to go on with the update of Pod %s: %v", pod.Name, err)
		f.wakeOwner(cs)
		return ctrl.Result{RequeueAfter: wait}, nil // not an error: it is reported, and trying at once would only make noise
	}
	if err == nil && !patches.IsEmpty() {
		f.kept.Succeeded(pod.UID, tryFinish)
		f.kept.Succeeded(pod.UID, tryThisVersion)
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// decide is the pure half: what to write for a Pod now, and when to look again.
func (f *Finisher) decide(pod *corev1.Pod, cs *v1beta1.CloneSet, now metav1.Time) (changes []podpatch.Change, again time.Duration, err error) {
	step, err := f.inPlace.Next(pod, now)
	if err != nil {
		return nil, 0, err
	}
	if isNew(pod) {
		if wait := settling(pod, now.Time); wait != 0 {
			return nil, max(wait, 0), nil
		}
	}
	machine := kruise.Lifecycle(cs.Spec.Lifecycle)
	t := machine.Next(pod, lifecycle.Want{Complete: step.Complete})
	if t.Act == lifecycle.DeletePod {
		return nil, 0, nil // the owner deletes, within its budget
	}
	moves, err := transition(machine, pod, t, now, podreadiness.EditOrInitialize)
	if err != nil {
		return nil, 0, err
	}
	changes = append(moves, step.Change, shortHash(pod))
	for i := range changes {
		if !changes[i].IsEmpty() {
			changes[i].ResourceVersion = pod.ResourceVersion
		}
	}
	return changes, step.RequeueAfter, nil
}

// isNew reports whether the Pod waits for its first conditions.
func isNew(pod *corev1.Pod) bool {
	return podstate.HasGate(pod, apps.ConditionInPlaceUpdateReady) && podstate.Condition(pod, apps.ConditionInPlaceUpdateReady) == nil
}

// settling returns how long to wait before a new Pod's gates are opened: zero for not at all, negative for until an event
// brings the Pod back.
func settling(pod *corev1.Pod, now time.Time) time.Duration {
	scheduled := podstate.Condition(pod, corev1.PodScheduled)
	switch {
	case !podstate.IsScheduled(pod), !podstate.IsReported(pod): // nor would inplaceupdate.Next open the gate
		return -1
	case podstate.IsTrue(pod, corev1.ContainersReady), scheduled == nil:
		return 0
	default:
		return max(scheduled.LastTransitionTime.Add(settleTime).Sub(now), 0)
	}
}

// shortHash adds the label that older controllers did not write.
func shortHash(pod *corev1.Pod) podpatch.Change {
	label := pod.Labels[apps.LabelRevision]
	if label == "" || pod.Labels[apps.LabelPodTemplateHash] != "" {
		return podpatch.Change{}
	}
	hash := podstate.ShortRevision(label)
	return podpatch.Change{Labels: map[string]*string{apps.LabelPodTemplateHash: &hash}}
}
