package sidecarset

import (
	"cmp"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/judge"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/upgrader"
)

// told remembers the last events about a SidecarSet, so that an event is not repeated.
type told struct {
	blocked    int       // number of Pods that must be recreated
	dropped    int       // number of Pods that have the sidecars but are no longer selected
	heldUp     types.UID // the Pod that keeps other Pods from being upgraded
	generation int64     // generation of the SidecarSet when heldUp was reported
	refused    string    // why the API server refuses new Pods
}

// tell sends events about the reasons why some Pods do not get the newest sidecars. A result above zero is the time
// until the next reconciliation.
func (r *Reconciler) tell(v *view, now told, work upgrader.Work) time.Duration {
	worst, wait := heldUp(work, v.Now)
	if worst != nil {
		now.heldUp, now.generation = worst.Pod.UID, v.Owner.Generation
	}
	before := r.told.Of(v.Owner.UID)
	r.told.Change(v.Owner.UID, func(t *told) { *t = now })
	if now.blocked > 0 && now.blocked != before.blocked {
		r.events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventNotUpgradablePods, "%d Pods cannot be upgraded in place: more than images changed, or a sidecar has ended for good. They get the newest sidecars when they are recreated", now.blocked)
	}
	if now.dropped > 0 && now.dropped != before.dropped {
		r.events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventPodsDropped, "%d Pods have its sidecars and are not its Pods any more, among others Pod %s/%s: it does not select them, or has gained a sidecar that they lack. Their sidecars are not upgraded until they are recreated",
			now.dropped, work.Dropped[0].Namespace, work.Dropped[0].Name)
	}
	if now.refused != "" && now.refused != before.refused {
		r.events.Event(v.Owner, corev1.EventTypeWarning, apps.EventPodsRefused, "new Pods may be refused: "+now.refused)
	}
	if worst != nil && (now.heldUp != before.heldUp || now.generation != before.generation) {
		r.events.Eventf(v.Owner, corev1.EventTypeWarning, apps.EventUpgradeHeldUp, "%s; out of service, among others, is Pod %s/%s: %s",
			kruise.Waits(work.Choice.Limits), worst.Pod.Namespace, worst.Pod.Name, whyAway(worst))
	}
	return wait
}

// refusals returns the reasons why admission refuses new Pods, or "".
func (r *Reconciler) refusals(v *view, h *revision.History) string {
	others := slices.SortedFunc(slices.Values(r.Cache.Owners.All()), func(a, b *v1beta1.SidecarSet) int { return cmp.Compare(a.Name, b.Name) })
	problems := judge.Refused(conflicts(v.Owner, others, byName))
	if pin := v.Owner.Spec.InjectionStrategy.Revision; pin != nil && find(h.Revisions, pin) == nil {
		problems = append(problems, reason.Reason{
			Code: sidecarcontrol.PinnedSetMissing, Path: "spec.injectionStrategy.revision", New: cmp.Or(ptr.Deref(pin.RevisionName, ""), ptr.Deref(pin.CustomVersion, "")),
			Detail: "there is no such revision", Remedy: "name another version, or none",
		})
	}
	return problems.Summary(kruise.ReasonsInEvent)
}

// slow is how long a Pod may be unready and keep other Pods from being upgraded before an event is sent.
const slow = 30 * time.Second

// whyAway says why a Pod counts as unavailable.
func whyAway(s *sidecarcontrol.Standing) string {
	switch {
	case len(s.Failing) > 0:
		return s.Failing.Summary(kruise.ReasonsInEvent)
	case len(s.Waiting) > 0:
		return s.Waiting.Summary(kruise.ReasonsInEvent)
	case s.Busy:
		return "another SidecarSet upgrades its sidecars"
	}
	return "it is not Ready, though its sidecars are"
}

// heldUp returns, if unavailable Pods keep other Pods from being upgraded, the Pod that has been unready for the
// longest time. If that Pod became unready less than 30 seconds ago (the constant slow), worst is nil, and wait is
// the rest of the 30 seconds.
func heldUp(work upgrader.Work, now time.Time) (worst *sidecarcontrol.Standing, wait time.Duration) {
	if !errors.Is(work.Choice.Limits.Err(), rollout.UpdateLimited) {
		return nil, 0
	}
	since := now
	for i := range work.Pods {
		s := &work.Pods[i]
		ready := podstate.Condition(s.Pod, corev1.PodReady)
		if s.IsAway() && ready != nil && ready.Status != corev1.ConditionTrue && (worst == nil || ready.LastTransitionTime.Time.Before(since)) {
			worst, since = s, ready.LastTransitionTime.Time
		}
	}
	if worst == nil {
		return nil, 0
	}
	if wait = since.Add(slow).Sub(now); wait > 0 {
		return nil, wait
	}
	return worst, 0
}

// observe converts the upgrader's events to Kubernetes events with the names that OpenKruise uses.
func (r *Reconciler) observe(set *v1beta1.SidecarSet, e upgrader.Event) {
	switch {
	case e.What == upgrader.Upgraded && e.Err == nil:
		r.options.Metrics.UpdatedInPlace()
	case e.What == upgrader.Upgraded && !apierrors.IsConflict(e.Err) && !apierrors.IsNotFound(e.Err):
		r.events.Eventf(set, corev1.EventTypeWarning, apps.EventFailedUpdatePodInPlace, "failed to upgrade Pod %s/%s: %v", e.Pod.Namespace, e.Pod.Name, e.Err)
	case e.What != upgrader.Flipped:
	case e.Err == nil:
		r.events.Event(e.Pod, corev1.EventTypeNormal, apps.EventResetContainerSucceed, "the container that worked before the hot upgrade has the empty image again")
	default:
		r.events.Eventf(e.Pod, corev1.EventTypeWarning, apps.EventResetContainerFailed, "ending the hot upgrade: %v", e.Err)
	}
}
