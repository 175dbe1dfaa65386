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

// ReasonStart is the reason of the gate's condition while an update runs. It is wire format.
const ReasonStart = "StartInPlaceUpdate"

// Target says which revision a Pod is taken to, and how.
type Target struct {
	// Revision is written to the state annotation. The caller changes its revision label in the same patch.
	Revision string
	// GraceSeconds, when positive, keeps the Pod out of service that long before its spec changes.
	GraceSeconds int32
}

// Start returns the change that begins an update: the readiness gate closed where the plan needs that, and either the
// first batch or, with a grace period, the annotation that holds it. Merge it with the caller's own labels and send it.
// The gate's condition is written whatever the Pod in the cache shows. An earlier update that has not completed is
// superseded: what it still had to deliver goes with this one, where the plan does not say otherwise, because the plan
// starts from the revision that the Pod's label says; and its images do not count as done.
//
// The error is a reason.Reason: UpdateBlocked for a plan that is not possible, UnreadableState.
func (c *Config) Start(pod *corev1.Pod, plan *Plan, target Target, now metav1.Time) (podpatch.Change, error) {
	if !plan.Possible() {
		return podpatch.Change{}, reason.Reason{Code: UpdateBlocked, Object: podObject(pod), Detail: plan.Blocking.String(), Remedy: "recreate the Pod"}
	}
	old, err := c.State(pod)
	if err != nil {
		return podpatch.Change{}, err
	}
	plan, err = c.withUndelivered(pod, old, plan)
	if err != nil {
		return podpatch.Change{}, err
	}
	state := &State{
		Revision:        target.Revision,
		UpdateTimestamp: now,
		Progress: Progress{
			UpdateResources:  len(plan.Resources) > 0,
			UpdateImages:     len(plan.Images) > 0,
			SupersededImages: c.superseded(pod, old.progress(), plan, now.Time),
		},
	}
	report := c.needsReport(pod, old.progress(), plan, now.Time)
	state.UpdateEnvFromMetadata = report
	c.inherit(pod, old, plan, state, now.Time)
	change := podpatch.Change{UID: pod.UID, Annotations: map[string]*string{}}
	if plan.TrafficOff() && podstate.HasGate(pod, c.Keys.Gate) {
		change.Conditions = []corev1.PodCondition{{Type: c.Keys.Gate, Status: corev1.ConditionFalse, Reason: ReasonStart}}
		change.ForceConditions = true
	}
	c.drop(pod, &change, c.Keys.GraceAnnotation, c.Keys.LegacyGraceAnnotation)
	if target.GraceSeconds > 0 && plan.TrafficOff() {
		err = c.startGrace(&change, plan, target, report)
	} else {
		change.Labels = maps.Clone(plan.Labels)
		maps.Copy(change.Annotations, plan.Annotations)
		change.AddFinalizers, change.RemoveFinalizers = plan.AddFinalizers, plan.RemoveFinalizers
		work := work{images: plan.Images, refs: plan.RefMetadata, resources: plan.Resources}
		c.batch(pod, state, work, now, &change)
	}
	if err != nil {
		return podpatch.Change{}, err
	}
	return change, c.putState(pod, &change, state)
}

// withUndelivered adds to the plan what an earlier update has not delivered: later batches, a resize that was not sent, or
// everything while its grace period runs. The given plan, which others share, is not modified.
func (c *Config) withUndelivered(pod *corev1.Pod, old *State, plan *Plan) (*Plan, error) {
	if old == nil {
		return plan, nil
	}
	grace, err := c.grace(pod)
	if err != nil {
		return nil, err
	}
	unsent := unsent(pod, &old.Progress)
	held := grace != nil && grace.Revision == old.Revision
	if len(unsent) == 0 && !old.next() && !held {
		return plan, nil
	}
	out := *plan
	out.undelivered(plan, work{images: old.NextContainerImages, refs: old.NextContainerRefMetadata, resources: old.NextContainerResources})
	out.undelivered(plan, work{resources: unsent})
	if held {
		meta, err := grace.metadata(pod, c.Keys.GraceAnnotation)
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

func (c *Config) startGrace(change *podpatch.Change, plan *Plan, target Target, report bool) error {
	var meta metadataPatch
	meta.Metadata.Labels, meta.Metadata.Annotations = plan.Labels, plan.Annotations
	meta.Metadata.Finalizers, meta.Metadata.DeleteFinalizers = plan.AddFinalizers, plan.RemoveFinalizers
	raw, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("encoding the metadata of an update: %w", err)
	}
	encoded, err := encode(&Grace{
		Revision: target.Revision, ContainerImages: plan.Images, ContainerRefMetadata: plan.RefMetadata,
		ContainerResources: plan.Resources, MetaDataPatch: raw, UpdateEnvFromMetadata: report,
		GraceSeconds: target.GraceSeconds,
	})
	change.Annotations[c.Keys.GraceAnnotation] = encoded
	return err
}

// inherit takes over what an earlier update still waits for in containers that the plan leaves alone, so that this one is
// not complete before they are.
func (c *Config) inherit(pod *corev1.Pod, old *State, plan *Plan, state *State, now time.Time) {
	c.inheritImages(pod, old.progress(), plan, &state.Progress, now)
	if old == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(old.LastContainerStatuses)) {
		record := old.LastContainerStatuses[name]
		if _, changed := plan.Images[name]; changed || c.settled(pod, &old.Progress, name, now) {
			continue
		}
		if state.LastContainerStatuses == nil {
			state.LastContainerStatuses = make(map[string]ContainerRecord)
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
	state.UpdateResources = state.UpdateResources || (old.UpdateResources && len(c.unresized(pod)) > 0)
	state.UpdateEnvFromMetadata = state.UpdateEnvFromMetadata || (old.UpdateEnvFromMetadata && len(c.envUnreported(pod)) > 0)
}

// inheritImages takes over which images are known, and learns what the containers run whose image changes now. It also
// notes which containers get new env by the restart for an image, this update's or an earlier one's.
func (c *Config) inheritImages(pod *corev1.Pod, old *Progress, plan *Plan, state *Progress, now time.Time) {
	var env []string
	if old != nil {
		state.KnownImages = maps.Clone(old.KnownImages)
		env = slices.DeleteFunc(slices.Clone(old.EnvByImage), func(name string) bool { return c.settled(pod, old, name, now) })
	}
	for _, name := range slices.Sorted(maps.Keys(plan.Images)) {
		c.learn(pod, old, name, state, now)
		if _, ok := plan.RefMetadata[name]; ok && !slices.Contains(env, name) {
			env = append(env, name)
		}
	}
	state.EnvByImage = env
}

// needsReport reports whether somebody must tell that a container was restarted for its env. A container that its kubelet
// restarts for another image in the same patch reads the new metadata then, so its image says enough.
func (c *Config) needsReport(pod *corev1.Pod, old *Progress, plan *Plan, now time.Time) bool {
	for name := range plan.RefMetadata {
		if image, changes := plan.Images[name]; !changes || c.mayStay(pod, old, name, image, now) {
			return true
		}
	}
	if old == nil {
		return false
	}
	for _, name := range old.EnvByImage {
		if image, changes := plan.Images[name]; changes && !c.settled(pod, old, name, now) && c.mayStay(pod, old, name, image, now) {
			return true
		}
	}
	return false
}

// mayStay reports whether the instance of a container that runs now may be one of the asked image already, so that its
// kubelet would leave it alone: an image that is taken back before the kubelet has looked.
func (c *Config) mayStay(pod *corev1.Pod, old *Progress, name, asked string, now time.Time) bool {
	spec, status := podstate.Container(pod, name), podstate.ContainerStatus(pod, name)
	switch {
	case spec == nil || spec.Image == asked:
		return true
	case c.settled(pod, old, name, now) && old.surely(name, spec.Image, status):
		return false
	case old != nil && (slices.Contains(old.SupersededImages[name], asked) || knownDigest(old.KnownImages[name], asked) != ""):
		return true
	}
	return status != nil && isImage(status.Image, asked)
}

// superseded collects, for the containers whose image the plan changes, the images of updates that are not complete yet,
// and the present image of a container that is not reported: its node may be about to start that one, and the record of
// what it runs is empty. The image that is asked for now may be among them: it could be overtaken again before it is sent.
func (c *Config) superseded(pod *corev1.Pod, old *Progress, plan *Plan, now time.Time) map[string][]string {
	var out map[string][]string
	for name := range plan.Images {
		spec := podstate.Container(pod, name)
		if spec == nil {
			continue
		}
		if c.settled(pod, old, name, now) {
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

func (c *Config) putState(pod *corev1.Pod, change *podpatch.Change, state *State) error {
	encoded, err := encodeState(state)
	if err != nil {
		return err
	}
	change.Annotations[c.Keys.StateAnnotation] = encoded
	if legacy := c.Keys.LegacyStateAnnotation; legacy != "" {
		if _, ok := pod.Annotations[legacy]; ok {
			change.Annotations[legacy] = nil
		}
	}
	return nil
}

// drop removes annotations that the Pod has.
func (c *Config) drop(pod *corev1.Pod, change *podpatch.Change, keys ...string) {
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
func (c *Config) batch(pod *corev1.Pod, state *State, w work, now metav1.Time, change *podpatch.Change) {
	state.NextContainerImages, state.NextContainerRefMetadata, state.NextContainerResources = nil, nil, nil
	state.PreCheckBeforeNext, state.BatchResources = nil, nil
	all := w.containers()
	if len(all) == 0 {
		return
	}
	first := c.firstBatch(pod, all, w.refs)
	for _, name := range all {
		if slices.Contains(first, name) {
			w.deliver(pod, state, name, change)
		} else {
			w.postpone(state, name)
		}
	}
	if state.next() {
		state.PreCheckBeforeNext = &PreCheck{ContainersRequiredReady: first}
	}
	state.ContainerBatchesRecord = append(state.ContainerBatchesRecord, Batch{Timestamp: now, Containers: first})
}

func (w *work) deliver(pod *corev1.Pod, state *State, name string, change *podpatch.Change) {
	if image, ok := w.images[name]; ok {
		if change.Images == nil {
			change.Images = make(map[string]string)
		}
		change.Images[name] = image
		if state.LastContainerStatuses == nil {
			state.LastContainerStatuses = make(map[string]ContainerRecord)
		}
		var record ContainerRecord
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

func (w *work) postpone(state *State, name string) {
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
func (c *Config) firstBatch(pod *corev1.Pod, all []string, refs map[string]RefMetadata) []string {
	priorities := make(map[string]int, len(all))
	highest, found := 0, false
	if c.Priority != nil {
		for _, name := range all {
			container := podstate.Container(pod, name)
			if container == nil {
				continue
			}
			if p, ok := c.Priority(container); ok {
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
