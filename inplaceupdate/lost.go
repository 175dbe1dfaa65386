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

// Lost says why the annotations of a Pod cannot be what Start has written for its update to a revision, the Target.Revision: somebody has
// removed or replaced them, and nobody knows what of the update was delivered. It returns nil for a Pod that is not being updated: the gate
// of such a Pod is not closed by Start, and updating is false, which is what else the caller knows of it, such as the state of its
// lifecycle. The error carries the code StateLost, UnreadableState or InvalidConfig.
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

// LostImage says that a container does not run the image of its spec, as its node reports it. It is for updates whose state is lost, and of which
// the caller knows otherwise that they changed the image. It returns nil where nothing can be told: the container was not started yet, or an image
// that was asked for by its tag is reported by an ID. The code is StateLost.
func (u *Updater) LostImage(pod *corev1.Pod, container string) error {
	c := u.newView(pod, time.Time{}).container(container)
	if c.spec == nil || c.status == nil || neverStarted(c.status) || named(c.spec.Image, c.status) {
		return nil
	}
	if askedDigest(c.spec.Image) == "" && !isName(c.status.Image) {
		return nil
	}
	why := c.notRunning()
	why.Code, why.Remedy = StateLost, "recreate the Pod, or wait for its node; what the update knew was removed from its annotations"
	return why
}

// closedByStart reports whether the gate says that an update goes on.
func (u *Updater) closedByStart(pod *corev1.Pod) bool {
	gate := podstate.Condition(pod, u.config.Keys.Gate)
	return gate != nil && gate.Status == corev1.ConditionFalse && gate.Reason == startReason && podstate.HasGate(pod, u.config.Keys.Gate)
}

func (u *Updater) lost(pod *corev1.Pod, value, detail string) error {
	return reason.Reason{
		Code: StateLost, Object: podObject(pod), Path: "metadata.annotations[" + u.config.Keys.StateAnnotation + "]", New: shorten(value),
		Detail: detail, Remedy: "begin the update anew, or recreate the Pod",
	}
}

// isUndelivered reports whether nothing was delivered of what the update changes in containers. A state that has only taken over the report
// that an earlier update waits for looks the same, so env is left out.
func (s *savedState) isUndelivered() bool {
	next := s.next()
	delivered := len(s.LastContainerStatuses)+len(s.ContainerBatchesRecord) > 0 || !next.isEmpty()
	return !delivered && (s.UpdateImages || s.UpdateResources && !s.UpdateEnvFromMetadata)
}

// Redo returns the change that begins an update anew that is Lost: it compares the Pod itself with the template of the revision, and takes
// nothing of what the Pod runs for known. It does not keep what is written in the Pod about an update. What others have written over images
// of the template is replaced. Where the gate is open the update was of cpu and memory alone.
//
// The error carries the code InvalidConfig, InvalidArgument, or UpdateBlocked and the codes RevisionMissing, ContainersChanged or
// ContainerEnded.
func (u *Updater) Redo(pod *corev1.Pod, template *corev1.PodTemplateSpec, target Target, now time.Time) (podpatch.Change, error) {
	plan := &Plan{Blocking: unknownRevision()}
	if template != nil {
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
		target.GracePeriod = 0 // it was over
	}
	return v.start(&t, &target, changed)
}

// restore plans what the Pod may lack of a template. Its images are all of the template, because the containers that have them may not run
// them yet.
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

// restoreEnv plans all metadata of a template that containers read through env. The Pod may have the new values, and the containers the old ones.
func (u *Updater) restoreEnv(p *Plan, template *corev1.PodTemplateSpec) {
	all := &Plan{Labels: lackedKeys(nil, template.Labels), Annotations: lackedKeys(nil, template.Annotations)}
	u.config.Keys.withoutReserved(all)
	u.planRefMetadata(all, template.Spec.Containers)
	p.RefMetadata = all.RefMetadata
	isPlain := func(of map[string]*string) func(string, *string) bool {
		return func(key string, _ *string) bool { _, plain := of[key]; return !plain }
	}
	maps.DeleteFunc(p.Labels, isPlain(all.Labels))
	maps.DeleteFunc(p.Annotations, isPlain(all.Annotations))
}

// restoreContainer plans the image and the resources of one container. all takes the resources that it has, too: its node may not have
// given them to it.
func (u *Updater) restoreContainer(p *Plan, pod *corev1.Pod, path string, want *corev1.Container, all bool) {
	have := podstate.Container(pod, want.Name)
	if have == nil {
		p.block(ContainersChanged, path+"["+want.Name+"]", "", want.Name, "the Pod has no such container", "recreate the Pod")
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

// lackedQuantities returns the wanted cpu and memory that a container has another value of, or all that it has any value of.
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

// lackedKeys returns the wanted labels or annotations that are not there.
func lackedKeys(have, want map[string]string) map[string]*string {
	changed := changedKeys(have, want)
	maps.DeleteFunc(changed, func(_ string, value *string) bool { return value == nil })
	return changed
}
