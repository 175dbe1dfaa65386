package inplaceupdate

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Step is the state of a Pod's update and the next action.
type Step struct {
	// Complete is set when the update has nothing left to do or to wait for. Change then opens a gate not yet open. A Pod
	// with an incomplete update must not count as available in a budget, ready or not: its revision label names the new
	// revision from the first write on, while its containers may still run the old revision.
	Complete bool
	// Change is the write to send now, possibly empty. A change to open the gate demands the Pod as read, by its
	// resourceVersion. After a conflict, call Next again with the fresh Pod.
	Change podpatch.Change
	// Waiting lists the reasons for waiting, in the order found.
	Waiting reason.List
	// RequeueAfter, when positive, is when to look again: no event will wake the caller. The end of a grace period is
	// rounded up to whole seconds.
	RequeueAfter time.Duration
}

// Next decides the next action for a Pod: the end of a grace period, the next batch, or opening the gate. A Pod without
// any earlier update is complete. Next opens the gate of such a Pod, which has no condition yet, after the node has
// reported the containers. An earlier write would be useless and would conflict with writes of scheduler and kubelet.
//
// The error carries the code UnreadableState, InvalidConfig or InvalidArgument. Leave such a Pod alone.
func (u *Updater) Next(pod *corev1.Pod, now time.Time) (Step, error) {
	if err := u.callable(pod, now); err != nil {
		return Step{}, err
	}
	v, err := u.readToContinue(pod, now)
	switch {
	case err != nil:
		return Step{}, err
	case v.grace != nil:
		return v.inGracePeriod()
	case v.state == nil:
		return v.finish()
	}
	if resources := v.unsent(); len(resources) > 0 {
		change := podpatch.Change{UID: pod.UID, ResourceVersion: pod.ResourceVersion, Resources: resources}
		return Step{Waiting: v.unresized(), Change: change}, nil
	}
	if w := v.unfinished(); len(w.reasons) > 0 {
		return w.step(v)
	}
	if next := v.state.next(); !next.isEmpty() {
		return v.nextBatch()
	}
	return v.finish()
}

// skew is the largest difference of two clocks.
const skew = time.Minute

// inGracePeriod waits for the end of the grace period, then delivers the held-back change.
func (v *view) inGracePeriod() (Step, error) {
	change := v.change(true)
	v.drop(&change, v.config.Keys.GraceAnnotation, v.config.Keys.LegacyGraceAnnotation)
	if v.saved == nil {
		return Step{}, reason.Reason{
			Code: UnreadableState, Object: v.object(), Path: "metadata.annotations[" + v.config.Keys.StateAnnotation + "]",
			Detail: "missing beside " + v.config.Keys.GraceAnnotation, Remedy: "remove the grace annotation",
		}
	}
	if v.saved.Revision != v.grace.Revision {
		return Step{Change: change}, nil // of a superseded update
	}
	held, err := v.heldMetadata()
	if err != nil {
		return Step{}, err
	}
	ends, known := v.graceEnds()
	waiting := reason.Reason{Code: GracePeriodRunning, Object: v.object(), Detail: "starts when the node reports the Pod as not ready"}
	switch left := ends.Sub(v.now); {
	case !known:
		return Step{Waiting: reason.List{waiting}}, nil
	case left > 0:
		waiting.Detail = "ends " + ends.UTC().Format(time.RFC3339)
		return Step{Waiting: reason.List{waiting}, RequeueAfter: left}, nil
	}
	change.Labels = held.Metadata.Labels
	maps.Copy(change.Annotations, held.Metadata.Annotations)
	change.AddFinalizers, change.RemoveFinalizers = held.Metadata.Finalizers, held.Metadata.DeleteFinalizers
	// OpenKruise asks for a report also where the restart for an image delivers the metadata.
	v.saved.UpdateEnvFromMetadata = (v.saved.UpdateEnvFromMetadata || v.grace.UpdateEnvFromMetadata) && !v.deliversEnv(v.grace.ContainerImages)
	v.relearn(v.grace.ContainerImages)
	v.deliver(v.grace.work(), v.saved, &change)
	return Step{Change: change}, v.putState(&change, v.saved)
}

// graceEnds returns the end of the grace period. The period counts from the start of the update, or from the end of the
// Pod's readiness if that is later: a kubelet may have reported the Pod as ready before seeing the closed gate. known is
// false while the Pod is ready in spite of the gate. Both times have whole seconds and stand for up to a second later.
func (v *view) graceEnds() (ends time.Time, known bool) {
	begun := v.saved.UpdateTimestamp.Time
	if begun.After(v.now.Add(skew)) { // by a clock that was wrong, and nobody knows how much of the period is over
		begun = time.Time{}
	}
	gate, ready := podstate.Condition(v.pod, v.config.Keys.Gate), podstate.Condition(v.pod, corev1.PodReady)
	closed := podstate.HasGate(v.pod, v.config.Keys.Gate) && gate != nil && gate.Status == corev1.ConditionFalse
	if closed && ready != nil {
		if ready.Status == corev1.ConditionTrue {
			return time.Time{}, false
		}
		if since := ready.LastTransitionTime.Time; since.After(begun) && !since.After(v.now.Add(skew)) {
			begun = since
		}
	}
	return begun.Truncate(time.Second).Add(time.Duration(v.grace.GraceSeconds)*time.Second + time.Second), true
}

// nextBatch delivers the next batch after the previous batch is done.
func (v *view) nextBatch() (Step, error) {
	saved, err := v.whole()
	if err != nil {
		return Step{}, err
	}
	v.remember()
	v.relearn(saved.NextContainerImages)
	change := v.change(true)
	v.deliver(saved.next(), saved, &change)
	return Step{Change: change}, v.putState(&change, saved)
}

// finish opens the gate and ends the update's hold on the Pod's resources. Other writers may change the resources from
// now on.
func (v *view) finish() (Step, error) {
	step := Step{Complete: true}
	if v.state != nil && len(v.state.BatchResources)+len(v.state.Seen)+len(v.state.SeenDigests) > 0 {
		saved, err := v.whole()
		if err != nil {
			return Step{}, err
		}
		saved.BatchResources = nil
		v.remember()
		step.Change = v.change(true)
		if err := v.putState(&step.Change, saved); err != nil {
			return Step{}, err
		}
	}
	key := v.config.Keys.Gate
	gate := podstate.Condition(v.pod, key)
	if podstate.HasGate(v.pod, key) && !isOpen(gate) && (gate != nil || podstate.IsReported(v.pod)) {
		step.Change.UID, step.Change.ResourceVersion = v.pod.UID, v.pod.ResourceVersion
		step.Change.Conditions = []corev1.PodCondition{{Type: key, Status: corev1.ConditionTrue}}
	}
	return step, nil
}

func isOpen(c *corev1.PodCondition) bool {
	return c != nil && c.Status == corev1.ConditionTrue && c.Reason == "" && c.Message == ""
}
