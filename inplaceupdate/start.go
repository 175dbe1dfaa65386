package inplaceupdate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// startReason is the reason of the gate's condition while an update runs. It is wire format of OpenKruise.
const startReason = "StartInPlaceUpdate"

// Start returns the change that begins an update: the readiness gate closed where the plan needs that, and either the
// first batch or, with a grace period, the annotation that holds it. Merge it with the caller's own labels and send it.
// The gate's condition is written whatever the Pod in the cache shows. An earlier update that has not completed is
// superseded: what it still had to deliver goes with this one, where the plan does not say otherwise, because the plan
// starts from the revision that the Pod's label says; and its images do not count as done.
//
// The error is a reason.Reason: UpdateBlocked for a plan that is not possible, UnreadableState.
func (u *Updater) Start(pod *corev1.Pod, plan *Plan, target Target, now time.Time) (podpatch.Change, error) {
	if err := u.startable(pod, plan, &target, now); err != nil {
		return podpatch.Change{}, err
	}
	old, err := u.saved(pod)
	if err != nil {
		return podpatch.Change{}, err
	}
	plan, err = u.withUndelivered(pod, old, plan)
	if err != nil {
		return podpatch.Change{}, err
	}
	state := &savedState{
		Revision:        target.Revision,
		UpdateTimestamp: metav1.NewTime(now),
		progress: progress{
			UpdateResources:  len(plan.Resources) > 0,
			UpdateImages:     len(plan.Images) > 0,
			SupersededImages: u.superseded(pod, old.part(), plan, now),
		},
	}
	report := u.needsReport(pod, old.part(), plan, now)
	state.UpdateEnvFromMetadata = report
	u.inherit(pod, old, plan, state, now)
	change := podpatch.Change{UID: pod.UID, Annotations: map[string]*string{}}
	if plan.TrafficOff() && podstate.HasGate(pod, u.config.Keys.Gate) {
		change.Conditions = []corev1.PodCondition{{Type: u.config.Keys.Gate, Status: corev1.ConditionFalse, Reason: startReason}}
		change.ForceConditions = true
	}
	u.drop(pod, &change, u.config.Keys.GraceAnnotation, u.config.Keys.LegacyGraceAnnotation)
	if target.GracePeriod > 0 && plan.TrafficOff() {
		err = u.startGrace(&change, plan, target, report)
	} else {
		change.Labels = maps.Clone(plan.Labels)
		maps.Copy(change.Annotations, plan.Annotations)
		change.AddFinalizers, change.RemoveFinalizers = plan.AddFinalizers, plan.RemoveFinalizers
		work := work{images: plan.Images, refs: plan.RefMetadata, resources: plan.Resources}
		u.batch(pod, state, work, now, &change)
	}
	if err != nil {
		return podpatch.Change{}, err
	}
	target.relabel(&change)
	return change, u.putState(pod, &change, state)
}

// withUndelivered adds to the plan what an earlier update has not delivered: later batches, a resize that was not sent, or
// everything while its grace period runs. The given plan, which others share, is not modified.
func (u *Updater) withUndelivered(pod *corev1.Pod, old *savedState, plan *Plan) (*Plan, error) {
	if old == nil {
		return plan, nil
	}
	grace, err := u.grace(pod)
	if err != nil {
		return nil, err
	}
	unsent := unsent(pod, &old.progress)
	held := grace != nil && grace.Revision == old.Revision
	if len(unsent) == 0 && !old.next() && !held {
		return plan, nil
	}
	out := *plan
	out.undelivered(plan, work{images: old.NextContainerImages, refs: old.NextContainerRefMetadata, resources: old.NextContainerResources})
	out.undelivered(plan, work{resources: unsent})
	if held {
		meta, err := grace.metadata(pod, u.config.Keys.GraceAnnotation)
		if err != nil {
			return nil, err
		}
		out.undelivered(plan, work{images: grace.ContainerImages, refs: grace.ContainerRefMetadata, resources: grace.ContainerResources})
		out.Labels = united(unmentioned(meta.Metadata.Labels, plan.Labels, plan.RefMetadata, labelsOf), plan.Labels)
		out.Annotations = united(unmentioned(meta.Metadata.Annotations, plan.Annotations, plan.RefMetadata, annotationsOf), plan.Annotations)
		out.AddFinalizers = slices.Concat(plan.AddFinalizers, without(meta.Metadata.Finalizers, plan.AddFinalizers, plan.RemoveFinalizers))
		out.RemoveFinalizers = slices.Concat(plan.RemoveFinalizers, without(meta.Metadata.DeleteFinalizers, plan.AddFinalizers, plan.RemoveFinalizers))
	}
	return &out, nil
}

// undelivered adds earlier work, as far as the newer plan does not say otherwise. Maps of either are not modified.
func (p *Plan) undelivered(newer *Plan, w work) {
	p.Images = united(w.images, p.Images)
	if len(w.resources) > 0 {
		all := maps.Clone(w.resources)
		for name, resources := range p.Resources {
			all[name] = overlaid(all[name], resources)
		}
		p.Resources = all
	}
	if len(w.refs) == 0 {
		return
	}
	all := maps.Clone(p.RefMetadata)
	if all == nil {
		all = make(map[string]RefMetadata)
	}
	for name, refs := range w.refs {
		all[name] = RefMetadata{
			Labels:      united(unmentioned(refs.Labels, newer.Labels, newer.RefMetadata, labelsOf), all[name].Labels),
			Annotations: united(unmentioned(refs.Annotations, newer.Annotations, newer.RefMetadata, annotationsOf), all[name].Annotations),
		}
		if len(all[name].Labels)+len(all[name].Annotations) == 0 {
			delete(all, name)
		}
	}
	p.RefMetadata = all
}

func labelsOf(r RefMetadata) map[string]string { return r.Labels }

func annotationsOf(r RefMetadata) map[string]string { return r.Annotations }

// unmentioned returns the labels or annotations about which a newer plan says nothing, neither plainly nor for a container.
func unmentioned[V any](earlier map[string]V, plain map[string]*string, refs map[string]RefMetadata, kind func(RefMetadata) map[string]string) map[string]V {
	out := maps.Clone(earlier)
	maps.DeleteFunc(out, func(key string, _ V) bool {
		_, mentioned := plain[key]
		for _, r := range refs {
			_, ok := kind(r)[key]
			mentioned = mentioned || ok
		}
		return mentioned
	})
	return out
}

func without(list []string, others ...[]string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		return slices.ContainsFunc(others, func(other []string) bool { return slices.Contains(other, s) })
	})
}

// overlaid returns the quantities of both, those of b where both have one.
func overlaid(a, b corev1.ResourceRequirements) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: united(a.Limits, b.Limits), Requests: united(a.Requests, b.Requests)}
}

func united[M ~map[K]V, K comparable, V any](a, b M) M {
	if len(a) == 0 {
		return b
	}
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func (u *Updater) startGrace(change *podpatch.Change, plan *Plan, target Target, report bool) error {
	var meta metadataPatch
	meta.Metadata.Labels, meta.Metadata.Annotations = plan.Labels, plan.Annotations
	meta.Metadata.Finalizers, meta.Metadata.DeleteFinalizers = plan.AddFinalizers, plan.RemoveFinalizers
	raw, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("encoding the metadata of an update: %w", err)
	}
	encoded, err := encode(&savedGrace{
		Revision: target.Revision, ContainerImages: plan.Images, ContainerRefMetadata: plan.RefMetadata,
		ContainerResources: plan.Resources, MetaDataPatch: raw, UpdateEnvFromMetadata: report,
		GraceSeconds: target.graceSeconds(),
	})
	change.Annotations[u.config.Keys.GraceAnnotation] = encoded
	return err
}

// inherit takes over what an earlier update still waits for in containers that the plan leaves alone, so that this one is
// not complete before they are.
func (u *Updater) inherit(pod *corev1.Pod, old *savedState, plan *Plan, state *savedState, now time.Time) {
	u.inheritImages(pod, old.part(), plan, &state.progress, now)
	if old == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(old.LastContainerStatuses)) {
		record := old.LastContainerStatuses[name]
		if _, changed := plan.Images[name]; changed || u.settled(pod, &old.progress, name, now) {
			continue
		}
		if state.LastContainerStatuses == nil {
			state.LastContainerStatuses = make(map[string]containerRecord)
		}
		state.LastContainerStatuses[name] = record
		state.UpdateImages = true
		if images := old.SupersededImages[name]; len(images) > 0 {
			if state.SupersededImages == nil {
				state.SupersededImages = make(map[string][]string)
			}
			state.SupersededImages[name] = images
		}
	}
	state.UpdateResources = state.UpdateResources || (old.UpdateResources && len(u.unresized(pod)) > 0)
	state.UpdateEnvFromMetadata = state.UpdateEnvFromMetadata || (old.UpdateEnvFromMetadata && len(u.envUnreported(pod)) > 0)
}

// inheritImages takes over which images are known, and learns what the containers run whose image changes now. It also
// notes which containers get new env by the restart for an image, this update's or an earlier one's.
func (u *Updater) inheritImages(pod *corev1.Pod, old *progress, plan *Plan, state *progress, now time.Time) {
	var env []string
	if old != nil {
		state.KnownImages = maps.Clone(old.KnownImages)
		env = slices.DeleteFunc(slices.Clone(old.EnvByImage), func(name string) bool { return u.settled(pod, old, name, now) })
	}
	for _, name := range slices.Sorted(maps.Keys(plan.Images)) {
		u.learn(pod, old, name, state, now)
		if _, ok := plan.RefMetadata[name]; ok && !slices.Contains(env, name) {
			env = append(env, name)
		}
	}
	state.EnvByImage = env
}

// needsReport reports whether somebody must tell that a container was restarted for its env. A container that its kubelet
// restarts for another image in the same patch reads the new metadata then, so its image says enough.
func (u *Updater) needsReport(pod *corev1.Pod, old *progress, plan *Plan, now time.Time) bool {
	for name := range plan.RefMetadata {
		if image, changes := plan.Images[name]; !changes || u.mayStay(pod, old, name, image, now) {
			return true
		}
	}
	if old == nil {
		return false
	}
	for _, name := range old.EnvByImage {
		if image, changes := plan.Images[name]; changes && !u.settled(pod, old, name, now) && u.mayStay(pod, old, name, image, now) {
			return true
		}
	}
	return false
}

// mayStay reports whether the instance of a container that runs now may be one of the asked image already, so that its
// kubelet would leave it alone: an image that is taken back before the kubelet has looked.
func (u *Updater) mayStay(pod *corev1.Pod, old *progress, name, asked string, now time.Time) bool {
	spec, status := podstate.Container(pod, name), podstate.ContainerStatus(pod, name)
	switch {
	case spec == nil || spec.Image == asked:
		return true
	case u.settled(pod, old, name, now) && old.surely(name, spec.Image, status):
		return false
	case old != nil && (slices.Contains(old.SupersededImages[name], asked) || knownDigest(old.KnownImages[name], asked) != ""):
		return true
	}
	return status != nil && isImage(status.Image, asked)
}

// superseded collects, for the containers whose image the plan changes, the images of updates that are not complete yet,
// and the present image of a container that is not reported: its node may be about to start that one, and the record of
// what it runs is empty. The image that is asked for now may be among them: it could be overtaken again before it is sent.
func (u *Updater) superseded(pod *corev1.Pod, old *progress, plan *Plan, now time.Time) map[string][]string {
	var out map[string][]string
	for name := range plan.Images {
		spec := podstate.Container(pod, name)
		if spec == nil {
			continue
		}
		if u.settled(pod, old, name, now) {
			if _, sure := old.sure(name, spec.Image, podstate.ContainerStatus(pod, name)); sure {
				continue
			}
		}
		var images []string
		if old != nil {
			images = slices.Clone(old.SupersededImages[name])
		}
		images = append(slices.DeleteFunc(images, func(image string) bool { return image == spec.Image }), spec.Image)
		if out == nil {
			out = make(map[string][]string)
		}
		out[name] = images
	}
	return out
}

func (u *Updater) putState(pod *corev1.Pod, change *podpatch.Change, state *savedState) error {
	encoded, err := encodeState(state)
	if err != nil {
		return err
	}
	change.Annotations[u.config.Keys.StateAnnotation] = encoded
	if legacy := u.config.Keys.LegacyStateAnnotation; legacy != "" {
		if _, ok := pod.Annotations[legacy]; ok {
			change.Annotations[legacy] = nil
		}
	}
	return nil
}

// drop removes annotations that the Pod has.
func (u *Updater) drop(pod *corev1.Pod, change *podpatch.Change, keys ...string) {
	for _, key := range keys {
		if _, ok := pod.Annotations[key]; ok {
			change.Annotations[key] = nil
		}
	}
}

// work is what is left to deliver to containers.
type work struct {
	images    map[string]string
	refs      map[string]RefMetadata
	resources map[string]corev1.ResourceRequirements
}

func (w *work) containers() []string {
	return (&Plan{Images: w.images, RefMetadata: w.refs, Resources: w.resources}).containers()
}

// batch moves the first batch of the work into the change and the rest into the state.
func (u *Updater) batch(pod *corev1.Pod, state *savedState, w work, now time.Time, change *podpatch.Change) {
	state.NextContainerImages, state.NextContainerRefMetadata, state.NextContainerResources = nil, nil, nil
	state.PreCheckBeforeNext, state.BatchResources = nil, nil
	all := w.containers()
	if len(all) == 0 {
		return
	}
	first := u.firstBatch(pod, all, w.refs)
	for _, name := range all {
		if slices.Contains(first, name) {
			w.deliver(pod, state, name, change)
		} else {
			w.postpone(state, name)
		}
	}
	if state.next() {
		state.PreCheckBeforeNext = &preCheck{ContainersRequiredReady: first}
	}
	state.ContainerBatchesRecord = append(state.ContainerBatchesRecord, savedBatch{Timestamp: metav1.NewTime(now), Containers: first})
}

func (w *work) deliver(pod *corev1.Pod, state *savedState, name string, change *podpatch.Change) {
	if image, ok := w.images[name]; ok {
		if change.Images == nil {
			change.Images = make(map[string]string)
		}
		change.Images[name] = image
		if state.LastContainerStatuses == nil {
			state.LastContainerStatuses = make(map[string]containerRecord)
		}
		var record containerRecord
		if status := podstate.ContainerStatus(pod, name); status != nil {
			record.ImageID = status.ImageID
		}
		state.LastContainerStatuses[name] = record
	}
	if resources, ok := w.resources[name]; ok {
		if change.Resources == nil {
			change.Resources = make(map[string]corev1.ResourceRequirements)
		}
		change.Resources[name] = resources
		if state.BatchResources == nil {
			state.BatchResources = make(map[string]corev1.ResourceRequirements)
		}
		state.BatchResources[name] = resources
	}
	for key, value := range w.refs[name].Labels {
		if change.Labels == nil {
			change.Labels = make(map[string]*string)
		}
		change.Labels[key] = &value
	}
	for key, value := range w.refs[name].Annotations {
		change.Annotations[key] = &value
	}
}

func (w *work) postpone(state *savedState, name string) {
	if image, ok := w.images[name]; ok {
		if state.NextContainerImages == nil {
			state.NextContainerImages = make(map[string]string)
		}
		state.NextContainerImages[name] = image
	}
	if ref, ok := w.refs[name]; ok {
		if state.NextContainerRefMetadata == nil {
			state.NextContainerRefMetadata = make(map[string]RefMetadata)
		}
		state.NextContainerRefMetadata[name] = ref
	}
	if resources, ok := w.resources[name]; ok {
		if state.NextContainerResources == nil {
			state.NextContainerResources = make(map[string]corev1.ResourceRequirements)
		}
		state.NextContainerResources[name] = resources
	}
}

// firstBatch returns, sorted, the containers without a launch priority and those of the highest one, and whoever reads a
// metadata key that goes out with them.
func (u *Updater) firstBatch(pod *corev1.Pod, all []string, refs map[string]RefMetadata) []string {
	priorities := make(map[string]int, len(all))
	highest, found := 0, false
	if u.config.Priority != nil {
		for _, name := range all {
			container := podstate.Container(pod, name)
			if container == nil {
				continue
			}
			if p, ok := u.config.Priority(container); ok {
				priorities[name] = p
				if !found || p > highest {
					highest, found = p, true
				}
			}
		}
	}
	first := make([]string, 0, len(all))
	for _, name := range all {
		if p, ok := priorities[name]; !ok || p == highest {
			first = append(first, name)
		}
	}
	for grown := true; grown; {
		grown = false
		for _, name := range all {
			if !slices.Contains(first, name) && sharesKey(refs, name, first) {
				first = append(first, name)
				grown = true
			}
		}
	}
	slices.SortFunc(first, strings.Compare)
	return first
}

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

func podObject(pod *corev1.Pod) reason.Object {
	return reason.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
