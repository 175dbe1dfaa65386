package inplaceupdate

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// startReason is the reason of the gate's condition during an update, as in the wire format of OpenKruise.
const startReason = "StartInPlaceUpdate"

// Start returns the change to begin an update: the labels of the target, the closed readiness gate if the plan needs a
// closed gate, and either the first batch or, with a grace period, the annotation with the held-back changes. Start
// always sends the gate's condition, even if the Pod shows the condition already, because the Pod may come from a stale
// cache. The caller may merge the change with its own changes.
//
// An unfinished earlier update is superseded. Start adds its undelivered changes, unless the new plan sets the same
// field, because the plan starts from the revision of the Pod's label: the earlier update's revision. The earlier
// update's images no longer count as success.
//
// The error carries the code InvalidConfig, InvalidArgument, UnreadableState, or UpdateBlocked and the codes of
// plan.Blocking or ContainerEnded.
func (u *Updater) Start(pod *corev1.Pod, plan *Plan, target Target, now time.Time) (podpatch.Change, error) {
	if err := u.startable(pod, plan, &target, now); err != nil {
		return podpatch.Change{}, err
	}
	v, err := u.readToStart(pod, now)
	if err != nil {
		return podpatch.Change{}, err
	}
	t, err := v.todo(plan)
	if err != nil {
		return podpatch.Change{}, err
	}
	return v.start(&t, &target, t.images)
}

// start begins an update. changed are the images not yet in the containers' specs.
func (v *view) start(t *todo, target *Target, changed map[string]string) (podpatch.Change, error) {
	if why := v.endedIn(changed); len(why) > 0 {
		return podpatch.Change{}, blocked(v.pod, why)
	}
	report := v.needsReport(t)
	state := v.begin(t, target.Revision, report)
	change := v.change(false)
	if t.trafficOff() {
		v.closeGate(&change)
	}
	v.drop(&change, v.config.Keys.GraceAnnotation, v.config.Keys.LegacyGraceAnnotation)
	var err error
	if target.GracePeriod > 0 && t.trafficOff() {
		err = v.holdBack(t, target, report, &change)
	} else {
		t.putMetadata(&change)
		v.deliver(t.work, state, &change)
	}
	if err != nil {
		return podpatch.Change{}, err
	}
	target.relabel(&change)
	return change, v.putState(&change, state)
}

// startable returns an error for an update that cannot start.
func (u *Updater) startable(pod *corev1.Pod, plan *Plan, target *Target, now time.Time) error {
	if err := u.callable(pod, now); err != nil {
		return err
	}
	if plan == nil {
		return reason.Reason{Code: InvalidArgument, Object: podObject(pod), Path: "plan", Detail: "must not be nil"}
	}
	if problems := u.problems(target); len(problems) > 0 {
		for i := range problems {
			problems[i].Object = podObject(pod)
		}
		return problems
	}
	if !plan.Possible() {
		return blocked(pod, plan.Blocking)
	}
	return nil
}

func blocked(pod *corev1.Pod, why reason.List) error {
	return reason.Reason{Code: UpdateBlocked, Object: podObject(pod), Detail: why.String(), Remedy: "recreate the Pod"}.With(why)
}

// endedIn names the containers that have ended and never start again on the node, whatever the image
// (k8s.io/kubernetes, pkg/kubelet/container/helpers.go, ShouldContainerBeRestarted).
func (v *view) endedIn(images map[string]string) reason.List {
	var list reason.List
	for i := range v.containers {
		c := &v.containers[i]
		if _, updated := images[c.name]; updated && c.hasEnded() {
			list = append(list, reason.Reason{
				Code: ContainerEnded, Object: v.object(), Path: "status.containerStatuses[" + c.name + "].state.terminated",
				Detail: "no new image starts it again", Remedy: "recreate the Pod",
			})
		}
	}
	return list
}

// hasEnded reports whether the container has ended for good.
func (c *container) hasEnded() bool {
	return c.spec != nil && c.status != nil && c.status.State.Terminated != nil &&
		!podstate.IsRestarted(c.view.pod, c.spec, c.status.State.Terminated.ExitCode)
}

// callable returns an error if the Updater can make no decision at the given time.
func (u *Updater) callable(pod *corev1.Pod, now time.Time) error {
	if err := u.ready(); err != nil {
		return err
	}
	if now.IsZero() {
		return reason.Reason{Code: InvalidArgument, Object: podObject(pod), Path: "now", Detail: "must not be the zero time"}
	}
	return nil
}

func (v *view) closeGate(change *podpatch.Change) {
	if gate := v.config.Keys.Gate; podstate.HasGate(v.pod, gate) {
		change.Conditions = []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse, Reason: startReason}}
		change.ForceConditions = true
	}
}

// holdBack puts everything into the grace annotation.
func (v *view) holdBack(t *todo, target *Target, report bool, change *podpatch.Change) error {
	var meta metadataPatch
	meta.Metadata.Labels, meta.Metadata.Annotations = t.labels, t.annotations
	meta.Metadata.Finalizers, meta.Metadata.DeleteFinalizers = t.addFinalizers, t.removeFinalizers
	raw, err := json.Marshal(meta)
	if err != nil {
		return v.unwritable(err)
	}
	text, err := v.encode(&savedGrace{
		Revision: target.Revision, ContainerImages: t.images, ContainerRefMetadata: t.refs, ContainerResources: t.resources,
		MetaDataPatch: raw, UpdateEnvFromMetadata: report, GraceSeconds: target.graceSeconds(),
	})
	change.Annotations[v.config.Keys.GraceAnnotation] = text
	return err
}

// begin returns the state of a new update. In containers left alone by the new update, begin takes over the unfinished
// waits of an earlier update, so the new update is not complete before them.
func (v *view) begin(t *todo, revision string, report bool) *savedState {
	state := &savedState{Revision: revision, UpdateTimestamp: metav1.NewTime(v.now)}
	state.UpdateResources, state.UpdateImages = len(t.resources) > 0, len(t.images) > 0
	state.UpdateEnvFromMetadata = report
	state.SupersededImages = v.supersede(t.images)
	v.learn(t, &state.progress)
	if v.state == nil {
		return state
	}
	for _, name := range slices.Sorted(maps.Keys(v.state.LastContainerStatuses)) {
		c := v.container(name)
		if _, changes := t.images[name]; changes || c.settled() {
			continue
		}
		put(&state.LastContainerStatuses, name, v.state.LastContainerStatuses[name])
		state.UpdateImages = true
		if images := c.superseded(); len(images) > 0 {
			put(&state.SupersededImages, name, images)
		}
		if seen := v.state.SeenDigests[name]; len(seen) > 0 {
			put(&state.SeenDigests, name, seen)
		}
	}
	state.UpdateResources = state.UpdateResources || (v.state.UpdateResources && len(v.unresized()) > 0)
	state.UpdateEnvFromMetadata = state.UpdateEnvFromMetadata || (v.state.UpdateEnvFromMetadata && len(v.envUnreported(t.images)) > 0)
	return state
}

// supersede returns, for the containers with a changing image, the images of incomplete updates. The present image of
// an unreported container is such an image: the node may be about to start the container, and nothing says which image
// runs. The new image may be in the list too, because another update could supersede the new image before the sender
// sends the change.
func (v *view) supersede(images map[string]string) map[string][]string {
	var out map[string][]string
	for name := range images {
		c := v.container(name)
		if c.spec == nil {
			continue
		}
		if c.settled() && !v.lost {
			if _, sameImage := c.certain(); sameImage {
				continue
			}
		}
		earlier := slices.DeleteFunc(slices.Clone(c.superseded()), func(image string) bool { return image == c.spec.Image })
		put(&out, name, append(earlier, c.spec.Image))
	}
	return out
}

// learn takes over the known images, adds the running images of the changing containers, and notes the containers that
// get new env by the restart for an image of the present or an earlier update.
func (v *view) learn(t *todo, into *progress) {
	if v.state != nil {
		into.KnownImages = maps.Clone(v.state.KnownImages)
		into.EnvByImage = slices.DeleteFunc(slices.Clone(v.state.EnvByImage), func(name string) bool { return v.container(name).settled() })
	}
	for _, name := range slices.Sorted(maps.Keys(t.images)) {
		if fact, ok := v.container(name).learn(); ok && !v.lost {
			into.know(name, fact)
		}
		if _, ok := t.refs[name]; ok && !slices.Contains(into.EnvByImage, name) {
			into.EnvByImage = append(into.EnvByImage, name)
		}
	}
}

// needsReport reports whether a node agent must report the restart of a container for its env. If the same patch
// changes the container's image, the kubelet restarts the container with the new metadata, so the image proves enough.
func (v *view) needsReport(t *todo) bool {
	for name := range t.refs {
		if image, changes := t.images[name]; !changes || v.container(name).mayStay(image) {
			return true
		}
	}
	if v.state == nil {
		return false
	}
	for _, name := range v.state.EnvByImage {
		c := v.container(name)
		if image, changes := t.images[name]; changes && !c.settled() && c.mayStay(image) {
			return true
		}
	}
	return false
}
