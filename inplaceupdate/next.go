package inplaceupdate

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Step is the state of a Pod's update and the next action of the controller.
type Step struct {
	// Complete is set when nothing is left to do or to wait for. Change then opens the gate if the gate is still
	// closed. A Pod with an incomplete update must not count as available in a budget, ready or not: its revision label
	// names the new revision from the first write on, while its containers may still run the old revision.
	Complete bool
	// Change is the patch to send now, possibly empty. A change that opens the gate has the resourceVersion of the
	// Pod that was passed to Next, so the write fails if the Pod has changed since. After a conflict, call Next again
	// with the Pod's new version.
	Change podpatch.Change
	// Waiting lists the reasons why the update waits, in the order found.
	Waiting reason.List
	// RequeueAfter, if positive, is the time after which the caller must call Next again, because no event will occur
	// at this time. The end of a grace period is rounded up to whole seconds.
	RequeueAfter time.Duration
}

// Next decides the next action for a Pod: to wait for the grace period, to send the next batch, or to open the gate. A
// Pod that was never updated is complete. If the gate of such a Pod has no condition yet, Next opens the gate after the
// node has reported the containers. A write before the node's report would have no effect, and would conflict with the
// writes of scheduler and kubelet.
//
// The error carries the code UnreadableState, InvalidConfig or InvalidArgument. Do not update or delete a Pod
// automatically if Next returns an error.
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

// skew is the largest expected difference between two clocks.
const skew = time.Minute

// inGracePeriod waits for the end of the grace period, then sends the changes stored in the grace annotation.
func (v *view) inGracePeriod() (Step, error) {
	change := v.change(true)
	v.drop(&change, v.config.Keys.GraceAnnotation, v.config.Keys.LegacyGraceAnnotation)
	if v.saved == nil {
		return Step{}, reason.Reason{
			Code: UnreadableState, Object: v.object(),
			Path:   "metadata.annotations[" + v.config.Keys.StateAnnotation + "]",
			Detail: "missing beside " + v.config.Keys.GraceAnnotation, Remedy: "remove the grace annotation",
		}
	}
	if v.saved.Revision != v.grace.Revision {
		return Step{Change: change}, nil // the grace annotation belongs to a superseded update
	}
	held, err := v.heldMetadata()
	if err != nil {
		return Step{}, err
	}
	ends, known := v.graceEnds()
	waiting := reason.Reason{
		Code: GracePeriodRunning, Object: v.object(), Detail: "starts when the node reports the Pod as not ready",
	}
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
	// OpenKruise asks for a report even if the restart for a new image gives the container the new metadata.
	v.saved.UpdateEnvFromMetadata = (v.saved.UpdateEnvFromMetadata || v.grace.UpdateEnvFromMetadata) &&
		!v.deliversEnv(v.grace.ContainerImages)
	v.relearn(v.grace.ContainerImages)
	v.deliver(v.grace.work(), v.saved, &change)
	return Step{Change: change}, v.putState(&change, v.saved)
}

// graceEnds returns the end of the grace period. The period counts from the start of the update, or from the time when
// the Pod became unready if this is later: a kubelet may have reported the Pod as ready before seeing the closed gate.
// known is false while the Pod is ready although the gate is closed. Both times are stored in whole seconds, so each
// may be up to a second later than stored.
func (v *view) graceEnds() (ends time.Time, known bool) {
	begun := v.saved.UpdateTimestamp.Time
	// A start time in the future comes from a wrong clock, so nobody knows how much of the period is over.
	if begun.After(v.now.Add(skew)) {
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

// nextBatch sends the next batch once the previous batch is complete.
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

// finish opens the gate and completes the update. From then on, the update no longer restores its cpu and memory
// values, so other controllers may change the values.
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

// waiting says why the current batch is not complete.
type waiting struct {
	reasons reason.List
	// proofBegins is true if the state must be written now, because a proof by waiting or by a later image can begin.
	proofBegins bool
	// wait is the time after which the batch may be complete even if no event occurs; zero for never.
	wait time.Duration
}

func (w *waiting) step(v *view) (Step, error) {
	step := Step{Waiting: w.reasons, RequeueAfter: w.wait}
	var err error
	if w.proofBegins {
		step.Change, err = v.beginProof()
	}
	return step, err
}

// unfinished collects the reasons why the current batch is not complete.
func (v *view) unfinished() waiting {
	var w waiting
	// State and spec were written in the same patch: the update is complete only after the kubelet has observed the Pod's
	// present generation.
	if v.nodeIsBehind() && (len(v.state.LastContainerStatuses) > 0 || v.state.UpdateResources) {
		w.reasons = append(w.reasons, reason.Reason{
			Code: NotObserved, Object: v.object(), Path: "status.observedGeneration",
			Detail: "node " + v.pod.Spec.NodeName + " has not seen the newest spec",
		})
	}
	if v.state.UpdateEnvFromMetadata {
		w.reasons = append(w.reasons, v.envUnreported(nil)...)
	}
	if v.state.UpdateResources {
		w.reasons = append(w.reasons, v.unresized()...)
	}
	v.waitForImages(&w)
	v.waitForStarts(&w)
	if next := v.state.next(); !next.isEmpty() && v.state.PreCheckBeforeNext != nil {
		w.reasons = append(w.reasons, v.batchUnready()...)
	}
	return w
}

// waitForImages adds to w a reason for each container that is not known to run its new image.
func (v *view) waitForImages(w *waiting) {
	if len(v.state.LastContainerStatuses) == 0 {
		return
	}
	report := v.report()
	confirmed := report != nil && v.confirmsAll(report)
	for i := range v.containers {
		c := &v.containers[i]
		// Some node agents do not report native sidecars, so each sidecar must be confirmed separately.
		if _, recorded := c.record(); !recorded || (confirmed && !c.init) || (c.init && c.confirms(report)) || c.runs() {
			continue
		}
		proven, begins, left := c.timeToProof()
		if proven {
			continue
		}
		_, passes := c.passing()
		w.proofBegins = w.proofBegins || begins || passes
		if left > 0 && (w.wait == 0 || left < w.wait) {
			w.wait = left
		}
		w.reasons = append(w.reasons, c.notRunning())
	}
}

// batchUnready names the containers that must be ready before the next batch and are not.
func (v *view) batchUnready() reason.List {
	var list reason.List
	for _, name := range v.state.PreCheckBeforeNext.ContainersRequiredReady {
		if status := v.container(name).status; status == nil || !status.Ready {
			list = append(list, reason.Reason{
				Code: BatchNotReady, Object: v.object(), Path: "status.containerStatuses[" + name + "].ready",
				Detail: "containers of lower launch priority wait for it",
			})
		}
	}
	return list
}

// work holds changes of containers, by container name.
type work struct {
	images    map[string]string
	refs      map[string]RefMetadata
	resources map[string]corev1.ResourceRequirements
}

func (w *work) isEmpty() bool { return len(w.images)+len(w.refs)+len(w.resources) == 0 }

// containers returns the sorted names of all containers that have changes.
func (w *work) containers() []string {
	names := slices.Concat(slices.Collect(maps.Keys(w.images)), slices.Collect(maps.Keys(w.refs)),
		slices.Collect(maps.Keys(w.resources)))
	slices.Sort(names)
	return slices.Compact(names)
}

// deliver puts the first batch of the work into change, the patch to send now, and later batches into the state
// annotation.
func (v *view) deliver(w work, state *savedState, change *podpatch.Change) {
	state.NextContainerImages, state.NextContainerRefMetadata, state.NextContainerResources = nil, nil, nil
	state.PreCheckBeforeNext, state.BatchResources = nil, nil
	if w.isEmpty() {
		return
	}
	first := v.firstBatch(&w)
	for _, name := range w.containers() {
		if slices.Contains(first, name) {
			v.give(name, &w, state, change)
		} else {
			state.postpone(name, &w)
		}
	}
	if next := state.next(); !next.isEmpty() {
		state.PreCheckBeforeNext = &preCheck{ContainersRequiredReady: first}
	}
	state.ContainerBatchesRecord = append(state.ContainerBatchesRecord,
		savedBatch{Timestamp: metav1.NewTime(v.now), Containers: first})
}

// give adds a container's changes to change, the patch to send. give also records these changes in the state, because
// the update is complete only when they have taken effect.
func (v *view) give(name string, w *work, state *savedState, change *podpatch.Change) {
	if image, ok := w.images[name]; ok {
		put(&change.Images, name, image)
		var record containerRecord
		if status := v.container(name).shown; status != nil {
			record.ImageID = status.ImageID
		}
		put(&state.LastContainerStatuses, name, record)
	}
	if resources, ok := w.resources[name]; ok {
		put(&change.Resources, name, resources)
		put(&state.BatchResources, name, resources)
	}
	for key, value := range w.refs[name].Labels {
		put(&change.Labels, key, &value)
	}
	for key, value := range w.refs[name].Annotations {
		put(&change.Annotations, key, &value)
	}
}

// postpone records a container's changes in the state, for a later batch.
func (p *progress) postpone(name string, w *work) {
	if image, ok := w.images[name]; ok {
		put(&p.NextContainerImages, name, image)
	}
	if ref, ok := w.refs[name]; ok {
		put(&p.NextContainerRefMetadata, name, ref)
	}
	if resources, ok := w.resources[name]; ok {
		put(&p.NextContainerResources, name, resources)
	}
}

// firstBatch returns the sorted names of the first batch: all containers without a launch priority, all with the
// highest priority, and every container that reads, through env, a changed label or annotation also read by a container
// of the batch.
func (v *view) firstBatch(w *work) []string {
	all := w.containers()
	priorities, highest := v.priorities(all)
	first := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		p, ok := priorities[name]
		return ok && p < highest
	})
	for grown := true; grown; {
		grown = false
		for _, name := range all {
			if !slices.Contains(first, name) && sharesKey(w.refs, name, first) {
				first = append(first, name)
				grown = true
			}
		}
	}
	slices.SortFunc(first, strings.Compare)
	return first
}

// priorities returns the launch priorities of those named containers that have a priority, and the highest of these
// priorities.
func (v *view) priorities(names []string) (priorities map[string]int, highest int) {
	highest = math.MinInt
	for _, name := range names {
		spec := v.container(name).spec
		if spec == nil || v.config.Priority == nil {
			continue
		}
		if p, ok := v.config.Priority(spec); ok {
			put(&priorities, name, p)
			highest = max(highest, p)
		}
	}
	return priorities, highest
}

// sharesKey reports whether a container reads a label or annotation that a container in the list also reads.
func sharesKey(refs map[string]RefMetadata, name string, with []string) bool {
	mine := refs[name]
	for _, other := range with {
		for key := range mine.Labels {
			if _, ok := refs[other].Labels[key]; ok {
				return true
			}
		}
		for key := range mine.Annotations {
			if _, ok := refs[other].Annotations[key]; ok {
				return true
			}
		}
	}
	return false
}
