package inplaceupdate

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// Lost says whether somebody has removed or replaced the annotations that Start wrote for the Pod's update to the given
// revision (Target.Revision). Without these annotations, nobody knows which part of the update was delivered. Lost
// returns nil if the Pod has no update: Start has not closed the gate, and updating is false. The argument updating
// says whether the Pod is being updated as far as the caller knows, for example from the state of the Pod's lifecycle.
// The error carries the code StateLost, UnreadableState or InvalidConfig.
func (u *Updater) Lost(pod *corev1.Pod, to string, updating bool) error {
	if err := u.ready(); err != nil {
		return err
	}
	if !updating && !u.closedByStart(pod) {
		return nil
	}
	saved, err := u.config.Keys.readState(pod)
	switch {
	case err != nil:
		return err
	case saved == nil:
		return u.lost(pod, "", "was removed while the Pod was updated")
	case to != "" && !revision.Same(saved.Revision, to):
		return u.lost(pod, saved.Revision, "is not that of the update to "+to)
	case saved.isUndelivered() && !u.InGracePeriod(pod):
		return u.lost(pod, saved.Revision, "has lost the change that a grace period held back")
	}
	return nil
}

// LostImage returns an error if the node's report shows that a container does not run the spec's image. Call LostImage
// for an update whose state is lost, if the caller knows from another source that the update changed the image.
// LostImage returns nil if the report proves nothing: the container was never started, or the spec names a tag and the
// node reports an ID. The code is StateLost.
func (u *Updater) LostImage(pod *corev1.Pod, container string) error {
	c := u.newView(pod, time.Time{}).container(container)
	c.status = c.shown
	if c.spec == nil || c.status == nil || neverStarted(c.status) || named(c.spec.Image, c.status) {
		return nil
	}
	if askedDigest(c.spec.Image) == "" && !isName(c.status.Image) {
		return nil
	}
	why := c.notRunning()
	why.Code = StateLost
	why.Remedy = "recreate the Pod, or wait for its node; what the update knew was removed from its annotations"
	return why
}

// closedByStart reports whether the gate's condition shows that Start has begun an update.
func (u *Updater) closedByStart(pod *corev1.Pod) bool {
	gate := podstate.Condition(pod, u.config.Keys.Gate)
	return gate != nil && gate.Status == corev1.ConditionFalse && gate.Reason == startReason &&
		podstate.HasGate(pod, u.config.Keys.Gate)
}

func (u *Updater) lost(pod *corev1.Pod, value, detail string) error {
	return reason.Reason{
		Code: StateLost, Object: podObject(pod), Path: "metadata.annotations[" + u.config.Keys.StateAnnotation + "]",
		New: shorten(value), Detail: detail, Remedy: "begin the update anew, or recreate the Pod",
	}
}

// isUndelivered reports whether none of the update's changes to containers was written into the Pod's spec. Changes of
// env do not count, because a state that only continues to wait for the previous update's report has the same fields.
func (s *savedState) isUndelivered() bool {
	next := s.next()
	delivered := len(s.LastContainerStatuses)+len(s.ContainerBatchesRecord) > 0 || !next.isEmpty()
	return !delivered && (s.UpdateImages || s.UpdateResources && !s.UpdateEnvFromMetadata)
}

// Redo returns the change that restarts an update whose state was lost (see Lost). Redo compares the Pod itself with
// the revision's template, ignores which images were reported as running, and discards the contents of the Pod's
// state annotation. If somebody has changed an image of the Pod, Redo sets the template's image again. An open gate
// means that the update changed only cpu and memory, so the gate stays open.
//
// The error carries the code InvalidConfig, InvalidArgument or UpdateBlocked. An UpdateBlocked error also carries
// RevisionMissing, ContainersChanged or ContainerEnded.
func (u *Updater) Redo(
	pod *corev1.Pod, template *corev1.PodTemplateSpec, target Target, now time.Time,
) (podpatch.Change, error) {
	plan := &Plan{Blocking: unknownRevision()}
	if template != nil && len(template.Spec.Containers) > 0 {
		plan = u.restore(pod, template)
	}
	if err := u.startable(pod, plan, &target, now); err != nil {
		return podpatch.Change{}, err
	}
	v := u.newView(pod, now)
	v.lost = true
	t := todo{
		work:   work{images: plan.Images, refs: plan.RefMetadata, resources: plan.Resources},
		labels: plan.Labels, annotations: plan.Annotations, resizeRestarts: plan.ResizeRestarts,
	}
	changed := maps.Clone(t.images)
	maps.DeleteFunc(changed, func(name, image string) bool { return v.container(name).spec.Image == image })
	if len(changed)+len(t.refs)+len(t.resources) == 0 {
		target.GracePeriod = 0 // the grace period was over already
	}
	return v.start(&t, &target, changed)
}

// restore returns a plan for all parts of a template that the Pod may lack. The plan has every image of the template,
// because containers with the image in their spec may not run the image yet.
func (u *Updater) restore(pod *corev1.Pod, template *corev1.PodTemplateSpec) *Plan {
	p := &Plan{}
	resized := podstate.HasGate(pod, u.config.Keys.Gate) && !u.closedByStart(pod)
	for i := range template.Spec.Containers {
		u.restoreContainer(p, pod, "spec.containers", &template.Spec.Containers[i], resized)
	}
	for i := range template.Spec.InitContainers {
		if podstate.IsNativeSidecar(&template.Spec.InitContainers[i]) {
			u.restoreContainer(p, pod, "spec.initContainers", &template.Spec.InitContainers[i], resized)
		}
	}
	if resized {
		p.Images, p.ResizeRestarts = nil, false
		return p
	}
	p.Labels, p.Annotations = lackedKeys(pod.Labels, template.Labels), lackedKeys(pod.Annotations, template.Annotations)
	u.config.Keys.withoutReserved(p)
	if u.config.EnvFromMetadata {
		u.restoreEnv(p, template)
	}
	return p
}

// restoreEnv plans the delivery of all labels and annotations of a template that containers read through env. The Pod
// may have the new values already while the containers still run with the old values.
func (u *Updater) restoreEnv(p *Plan, template *corev1.PodTemplateSpec) {
	all := &Plan{Labels: lackedKeys(nil, template.Labels), Annotations: lackedKeys(nil, template.Annotations)}
	u.config.Keys.withoutReserved(all)
	u.planRefMetadata(all, &template.Spec)
	p.RefMetadata = all.RefMetadata
	isPlain := func(of map[string]*string) func(string, *string) bool {
		return func(key string, _ *string) bool { _, plain := of[key]; return !plain }
	}
	maps.DeleteFunc(p.Labels, isPlain(all.Labels))
	maps.DeleteFunc(p.Annotations, isPlain(all.Annotations))
}

// restoreContainer plans the image and the resources of a container. If all is true, the plan includes resources that
// the spec has already, because the node may not have granted these resources.
func (u *Updater) restoreContainer(p *Plan, pod *corev1.Pod, path string, want *corev1.Container, all bool) {
	have := podstate.Container(pod, want.Name)
	if have == nil {
		p.block(ContainersChanged, path+"["+want.Name+"]", "", want.Name, "the Pod has no such container",
			"recreate the Pod")
		return
	}
	put(&p.Images, want.Name, want.Image)
	if !u.config.AllowResize {
		return
	}
	changed := corev1.ResourceRequirements{
		Limits:   lackedQuantities(have.Resources.Limits, want.Resources.Limits, all),
		Requests: lackedQuantities(have.Resources.Requests, want.Resources.Requests, all),
	}
	followLimits(&changed, &want.Resources, &want.Resources)
	if len(changed.Limits)+len(changed.Requests) > 0 {
		put(&p.Resources, want.Name, changed)
		p.ResizeRestarts = p.ResizeRestarts || resizeRestarts(want, changed)
	}
}

// lackedQuantities returns the wanted cpu and memory values that differ from the container's values. If all is true,
// the result includes wanted values that do not differ. A resource for which the container has no value is never
// returned.
func lackedQuantities(have, want corev1.ResourceList, all bool) corev1.ResourceList {
	var out corev1.ResourceList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		is, wanted := want[name]
		if was, ok := have[name]; wanted && ok && (all || was.Cmp(is) != 0) {
			put(&out, name, is)
		}
	}
	return out
}

// lackedKeys returns the wanted labels or annotations that the Pod lacks.
func lackedKeys(have, want map[string]string) map[string]*string {
	changed := changedKeys(have, want)
	maps.DeleteFunc(changed, func(_ string, value *string) bool { return value == nil })
	return changed
}
