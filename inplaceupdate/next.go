package inplaceupdate

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Step is where a Pod's update stands and what to do about it.
type Step struct {
	// Complete is set when nothing of the update is left to do or to wait for. Change then opens the gate, if it is not
	// open already. A Pod whose update is not complete must not count as available in a budget, ready or not: its revision
	// label is that of the new revision from the first write on, while its containers may be the old ones.
	Complete bool
	// Change is what to write now; it may be empty. A change that opens the gate demands the exact Pod it was decided on
	// and must not be retried on another one.
	Change podpatch.Change
	// Waiting says what the update waits for, in the order it was found.
	Waiting reason.List
	// RequeueAfter, when positive, is when to look again; nothing else will wake the caller.
	RequeueAfter time.Duration
}

// Next decides what a Pod needs: the end of a grace period, the next batch, or the gate opened. A Pod that was never
// updated is complete, and its gate, which has no condition yet, is opened the same way, once its node has
// reported its containers: nobody misses the gate before, and the write would collide with those of scheduler and kubelet.
// The error is a reason.Reason with code UnreadableState; such a Pod is to be left alone.
func (u *Updater) Next(pod *corev1.Pod, now time.Time) (Step, error) {
	if err := u.callable(pod, now); err != nil {
		return Step{}, err
	}
	grace, err := u.grace(pod)
	if err != nil {
		return Step{}, err
	}
	if grace != nil {
		return u.nextAfterGrace(pod, grace, now)
	}
	state, err := u.lean(pod)
	if err != nil {
		return Step{}, err
	}
	step := Step{Complete: true}
	if state != nil {
		if resources := unsent(pod, state); len(resources) > 0 {
			return Step{Waiting: u.unresized(pod), Change: podpatch.Change{
				UID: pod.UID, ResourceVersion: pod.ResourceVersion, Resources: resources,
			}}, nil
		}
		if waiting, fresh, wait := u.unfinished(pod, state, now); len(waiting) > 0 {
			step := Step{Waiting: waiting, RequeueAfter: wait}
			if fresh {
				step.Change, err = u.note(pod, state, now)
			}
			return step, err
		}
		if state.next() {
			return u.nextBatch(pod, now)
		}
		if step.Change, err = u.conclude(pod, state); err != nil {
			return Step{}, err
		}
	}
	gate := podstate.Condition(pod, u.config.Keys.Gate)
	if podstate.HasGate(pod, u.config.Keys.Gate) && !isOpen(gate) && (gate != nil || podstate.IsReported(pod)) {
		step.Change.UID, step.Change.ResourceVersion = pod.UID, pod.ResourceVersion
		step.Change.Conditions = []corev1.PodCondition{{Type: u.config.Keys.Gate, Status: corev1.ConditionTrue}}
	}
	return step, nil
}

// unsent returns the resources that the current batch gives and that the Pod's spec does not have: pods/resize comes after
// the write that begins the batch, and whoever sent that may have died in between.
func unsent(pod *corev1.Pod, state *progress) map[string]corev1.ResourceRequirements {
	var out map[string]corev1.ResourceRequirements
	for name, want := range state.BatchResources {
		spec := podstate.Container(pod, name)
		if spec == nil || (hasQuantities(spec.Resources.Limits, want.Limits) && hasQuantities(spec.Resources.Requests, want.Requests)) {
			continue
		}
		if out == nil {
			out = make(map[string]corev1.ResourceRequirements)
		}
		out[name] = want
	}
	return out
}

func hasQuantities(have, want corev1.ResourceList) bool {
	for name, quantity := range want {
		if is, ok := have[name]; !ok || is.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}

// conclude ends the claim on the Pod's resources, which others may change once the update is complete, and keeps what time has
// proven.
func (u *Updater) conclude(pod *corev1.Pod, progress *progress) (podpatch.Change, error) {
	if len(progress.BatchResources)+len(progress.Seen) == 0 {
		return podpatch.Change{}, nil
	}
	state, err := u.saved(pod)
	if err != nil {
		return podpatch.Change{}, err
	}
	state.BatchResources = nil
	state.remember(pod)
	change := podpatch.Change{UID: pod.UID, ResourceVersion: pod.ResourceVersion, Annotations: map[string]*string{}}
	return change, u.putState(pod, &change, state)
}

func isOpen(c *corev1.PodCondition) bool {
	return c != nil && c.Status == corev1.ConditionTrue && c.Reason == "" && c.Message == ""
}

func (u *Updater) nextAfterGrace(pod *corev1.Pod, grace *savedGrace, now time.Time) (Step, error) {
	state, err := u.saved(pod)
	if err != nil {
		return Step{}, err
	}
	change := podpatch.Change{UID: pod.UID, ResourceVersion: pod.ResourceVersion, Annotations: map[string]*string{}}
	u.drop(pod, &change, u.config.Keys.GraceAnnotation, u.config.Keys.LegacyGraceAnnotation)
	if state == nil {
		return Step{}, reason.Reason{
			Code: UnreadableState, Object: podObject(pod), Path: "metadata.annotations[" + u.config.Keys.StateAnnotation + "]",
			Detail: "missing beside " + u.config.Keys.GraceAnnotation, Remedy: "remove the grace annotation",
		}
	}
	if state.Revision != grace.Revision {
		return Step{Change: change}, nil // of an update that another one has replaced
	}
	ends := state.UpdateTimestamp.Add(time.Duration(grace.GraceSeconds) * time.Second)
	if left := ends.Sub(now); left > 0 {
		return Step{
			Waiting: reason.List{{Code: GracePeriodRunning, Object: podObject(pod), Detail: "ends " + ends.UTC().Format(time.RFC3339)}},
			// Whole seconds, rounded up.
			RequeueAfter: (left + time.Second - 1).Truncate(time.Second),
		}, nil
	}
	meta, err := grace.metadata(pod, u.config.Keys.GraceAnnotation)
	if err != nil {
		return Step{}, err
	}
	change.Labels = meta.Metadata.Labels
	maps.Copy(change.Annotations, meta.Metadata.Annotations)
	change.AddFinalizers, change.RemoveFinalizers = meta.Metadata.Finalizers, meta.Metadata.DeleteFinalizers
	state.UpdateEnvFromMetadata = state.UpdateEnvFromMetadata || grace.UpdateEnvFromMetadata
	u.relearn(pod, state, grace.ContainerImages, now)
	w := work{images: grace.ContainerImages, refs: grace.ContainerRefMetadata, resources: grace.ContainerResources}
	u.batch(pod, state, w, now, &change)
	return Step{Change: change}, u.putState(pod, &change, state)
}

func (u *Updater) nextBatch(pod *corev1.Pod, now time.Time) (Step, error) {
	state, err := u.saved(pod)
	if err != nil {
		return Step{}, err
	}
	change := podpatch.Change{UID: pod.UID, ResourceVersion: pod.ResourceVersion, Annotations: map[string]*string{}}
	state.remember(pod)
	u.relearn(pod, state, state.NextContainerImages, now)
	w := work{images: state.NextContainerImages, refs: state.NextContainerRefMetadata, resources: state.NextContainerResources}
	u.batch(pod, state, w, now, &change)
	return Step{Change: change}, u.putState(pod, &change, state)
}

// unfinished says what the current batch still waits for. wait is when time alone may end that, zero if it will not, and fresh
// whether the state has to be written for that.
func (u *Updater) unfinished(pod *corev1.Pod, state *progress, now time.Time) (waiting reason.List, fresh bool, wait time.Duration) {
	// Reported since Kubernetes 1.34. State and spec were written together, so the Pod's own generation is the one to reach.
	if seen := pod.Status.ObservedGeneration; seen != 0 && seen < pod.Generation && touchesContainers(state) {
		waiting = append(waiting, reason.Reason{
			Code: NotObserved, Object: podObject(pod), Path: "status.observedGeneration",
			Detail: "node " + pod.Spec.NodeName + " has not seen the newest spec",
		})
	}
	if state.UpdateEnvFromMetadata {
		waiting = append(waiting, u.envUnreported(pod)...)
	}
	if state.UpdateResources {
		waiting = append(waiting, u.unresized(pod)...)
	}
	if len(state.LastContainerStatuses) > 0 {
		var images reason.List
		images, fresh, wait = u.imagesUnfinished(pod, state, now)
		waiting = append(waiting, images...)
	}
	if state.next() && state.PreCheckBeforeNext != nil {
		waiting = append(waiting, batchUnready(pod, state.PreCheckBeforeNext.ContainersRequiredReady)...)
	}
	return waiting, fresh, wait
}

func touchesContainers(state *progress) bool {
	return len(state.LastContainerStatuses) > 0 || state.UpdateResources
}

func batchUnready(pod *corev1.Pod, required []string) reason.List {
	var waiting reason.List
	for _, name := range required {
		if status := podstate.ContainerStatus(pod, name); status == nil || !status.Ready {
			waiting = append(waiting, reason.Reason{
				Code: BatchNotReady, Object: podObject(pod), Path: "status.containerStatuses[" + name + "].ready",
				Detail: "containers of lower launch priority wait for it",
			})
		}
	}
	return waiting
}
