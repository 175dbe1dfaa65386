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

// Lost says why the annotations of a Pod cannot be the annotations written by Start for the Pod's update to a revision,
// the Target.Revision. Somebody has removed or replaced the annotations, so the delivered part of the update is
// unknown. Lost returns nil for a Pod without an update: Start has not closed the gate, and updating is false. updating
// is the caller's own knowledge, such as the state of the Pod's lifecycle. The error carries the code StateLost,
// UnreadableState or InvalidConfig.
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

// LostImage says why a container does not run the spec's image, judged by the node's report. LostImage is for updates
// with lost state if the caller knows from elsewhere that the update changed the image. LostImage returns nil if the
// report decides nothing: the container was never started, or the spec asks for a tag and the node reports an ID. The
// code is StateLost.
func (u *Updater) LostImage(pod *corev1.Pod, container string) error {
	c := u.newView(pod, time.Time{}).container(container)
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

// closedByStart reports whether the gate shows a running update.
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

// isUndelivered reports whether no change of the update to containers was delivered. A state with only an inherited
// wait for a report looks the same, so isUndelivered ignores env.
func (s *savedState) isUndelivered() bool {
	next := s.next()
	delivered := len(s.LastContainerStatuses)+len(s.ContainerBatchesRecord) > 0 || !next.isEmpty()
	return !delivered && (s.UpdateImages || s.UpdateResources && !s.UpdateEnvFromMetadata)
}

// Redo returns the change to begin a Lost update anew. Redo compares the Pod itself with the revision's template, takes
// no report about running images for known, and drops the Pod's record of an update. Images written by somebody else
// over the template's images are replaced. If the gate is open, the update was of cpu and memory alone.
//
// The error carries the code InvalidConfig, InvalidArgument, or UpdateBlocked and the codes RevisionMissing,
// ContainersChanged or ContainerEnded.
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
		target.GracePeriod = 0 // the grace period was over
	}
	return v.start(&t, &target, changed)
}

// restore plans all parts of a template that the Pod may lack. The plan has every image of the template, because
// containers with the image in their spec may not run the image yet.
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

// restoreEnv plans all metadata of a template read by containers through env. The Pod may have the new values, and the
// containers the old values.
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

// restoreContainer plans the image and the resources of a container. all adds the resources already in the spec,
// because the node may not have granted them.
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

// lackedQuantities returns the wanted cpu and memory with another value in the container. all adds the wanted
// quantities with the same value. A quantity without a value in the container is never returned.
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

// lackedKeys returns the wanted labels or annotations missing on the Pod.
func lackedKeys(have, want map[string]string) map[string]*string {
	changed := changedKeys(have, want)
	maps.DeleteFunc(changed, func(_ string, value *string) bool { return value == nil })
	return changed
}
