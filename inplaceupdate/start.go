package inplaceupdate

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Target says to which revision a Pod is updated, and how.
type Target struct {
	// Revision is recorded in the state annotation. Required.
	Revision string
	// Labels are set on the Pod by the change that Start returns, above all the label with which the caller marks the
	// Pod's revision. Keys.Reserved must contain each label. Start refuses nil; a caller that does not record the
	// revision in a label passes an empty map.
	Labels map[string]string
	// GracePeriod is how long the Pod is out of service before its spec changes, if the update takes the Pod out of
	// service. The period is rounded up to whole seconds, and counts from the time when the Pod became unready. The
	// annotation stores the start in whole seconds, so the period may last up to one second longer. Zero means no grace
	// period. Start refuses negative periods.
	GracePeriod time.Duration
	// Unproven names containers whose image the previous update has set, and of which nobody knows whether they run
	// the image, because the annotations of the previous update are lost (see LostImage). The new update is not
	// complete before these containers are known to run their image.
	Unproven []string
}

// maxGracePeriod is the longest grace period that the annotation can store.
const maxGracePeriod = math.MaxInt32 * time.Second

// graceSeconds returns the grace period in whole seconds, rounded up.
func (t *Target) graceSeconds() int32 {
	return int32((t.GracePeriod + time.Second - 1) / time.Second)
}

// relabel adds the labels to a change. The maps of the change may be shared, so relabel copies them.
func (t *Target) relabel(change *podpatch.Change) {
	if len(t.Labels) == 0 {
		return
	}
	labels := make(map[string]*string, len(change.Labels)+len(t.Labels))
	maps.Copy(labels, change.Labels)
	for key, value := range t.Labels {
		labels[key] = &value
	}
	change.Labels = labels
}

// problems lists what is invalid in a target.
func (u *Updater) problems(t *Target) reason.List {
	var list reason.List
	add := func(path, value, detail, remedy string) {
		list = append(list,
			reason.Reason{Code: InvalidArgument, Path: "target." + path, New: value, Detail: detail, Remedy: remedy})
	}
	if t.Revision == "" {
		add("revision", "", "must not be empty", "")
	}
	if t.Labels == nil {
		add("labels", "", "must not be nil", "set the label that names the Pod's revision")
	}
	for _, key := range slices.Sorted(maps.Keys(t.Labels)) {
		if !u.config.Keys.reservesLabel(key) {
			add("labels["+key+"]", t.Labels[key], "templates could change it as well", "name it in Keys.Reserved")
		}
	}
	if t.GracePeriod < 0 || t.GracePeriod > maxGracePeriod {
		add("gracePeriod", t.GracePeriod.String(), "must not be negative or above "+maxGracePeriod.String(), "")
	}
	return list
}

// startReason is the reason in the gate's condition during an update, as in OpenKruise.
const startReason = "StartInPlaceUpdate"

// Start returns the change that begins an update. The change has the labels of the target, and closes the readiness
// gate if the plan requires so. If there is a grace period, the change has an annotation that stores all further
// changes until the end of the period; otherwise the change has the first batch. Start sets the gate's condition even
// if the given Pod has the condition already, because the Pod may come from a stale cache. The caller may merge the
// change with other changes of the Pod.
//
// If the previous update is unfinished, the new update replaces the unfinished update. Start adds changes that the
// unfinished update has not delivered, unless the new plan sets the same field. The new plan lacks such changes,
// because the plan starts from the revision in the Pod's label, the revision of the unfinished update. If a container
// runs an image of the unfinished update, the container does not count as updated.
//
// The error carries the code InvalidConfig, InvalidArgument, UnreadableState or UpdateBlocked. An UpdateBlocked error
// also carries the codes of plan.Blocking, or ContainerEnded.
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

// start begins an update. changed maps the name of each container whose spec does not have the new image yet to the new
// image.
func (v *view) start(t *todo, target *Target, changed map[string]string) (podpatch.Change, error) {
	if why := v.endedIn(changed); len(why) > 0 {
		return podpatch.Change{}, blocked(v.pod, why)
	}
	unproven := v.toReport(t)
	report := len(unproven) > 0
	state := v.begin(t, target, unproven)
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

// startable returns an error if the update cannot start.
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
	return reason.Reason{
		Code: UpdateBlocked, Object: podObject(pod), Detail: why.String(), Remedy: "recreate the Pod",
	}.With(why)
}

// endedIn names the containers that have ended and that the kubelet never starts again, not even with a new image
// (k8s.io/kubernetes, pkg/kubelet/container/helpers.go, ShouldContainerBeRestarted).
func (v *view) endedIn(images map[string]string) reason.List {
	var list reason.List
	for i := range v.containers {
		c := &v.containers[i]
		if _, updated := images[c.name]; updated && c.hasEnded() {
			list = append(list, reason.Reason{
				Code: ContainerEnded, Object: v.object(),
				Path:   "status.containerStatuses[" + c.name + "].state.terminated",
				Detail: "no new image starts it again", Remedy: "recreate the Pod",
			})
		}
	}
	return list
}

// hasEnded reports whether the container has ended and will not be restarted.
func (c *container) hasEnded() bool {
	return c.spec != nil && c.status != nil && c.status.State.Terminated != nil &&
		!podstate.IsRestarted(c.view.pod, c.spec, c.status.State.Terminated.ExitCode)
}

// callable returns an error if the Updater or the time is invalid.
func (u *Updater) callable(pod *corev1.Pod, now time.Time) error {
	if err := u.ready(); err != nil {
		return err
	}
	if now.IsZero() {
		return reason.Reason{
			Code: InvalidArgument, Object: podObject(pod), Path: "now", Detail: "must not be the zero time",
		}
	}
	return nil
}

func (v *view) closeGate(change *podpatch.Change) {
	if gate := v.config.Keys.Gate; podstate.HasGate(v.pod, gate) {
		change.Conditions = []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse, Reason: startReason}}
		change.ForceConditions = true
	}
}

// holdBack stores all changes in the grace annotation; Next sends the changes at the end of the grace period.
func (v *view) holdBack(t *todo, target *Target, report bool, change *podpatch.Change) error {
	var meta metadataPatch
	meta.Metadata.Labels, meta.Metadata.Annotations = t.labels, t.annotations
	meta.Metadata.Finalizers, meta.Metadata.DeleteFinalizers = t.addFinalizers, t.removeFinalizers
	raw, err := json.Marshal(meta)
	if err != nil {
		return v.unwritable(err)
	}
	text, err := v.encode(&savedGrace{
		Revision: target.Revision, ContainerImages: t.images, ContainerRefMetadata: t.refs,
		ContainerResources: t.resources, MetaDataPatch: raw, UpdateEnvFromMetadata: report,
		GraceSeconds: target.graceSeconds(),
	})
	change.Annotations[v.config.Keys.GraceAnnotation] = text
	return err
}

// begin returns the state of a new update. If the previous update still waits for containers that the new update does
// not change, the new update waits for these containers, too.
//
// report names the containers that a node agent must report.
func (v *view) begin(t *todo, target *Target, report []string) *savedState {
	state := &savedState{Revision: target.Revision, UpdateTimestamp: metav1.NewTime(v.now)}
	state.UpdateResources, state.UpdateImages = len(t.resources) > 0, len(t.images) > 0
	state.UpdateEnvFromMetadata = len(report) > 0
	state.EnvSidecars = v.sidecars(report)
	state.SupersededImages = v.supersede(t.images, target)
	v.learn(t, target, &state.progress)
	for _, name := range target.Unproven {
		if c, changes := v.container(name), t.images[name]; changes == "" && c.spec != nil && c.status != nil {
			put(&state.LastContainerStatuses, name, containerRecord{ImageID: c.status.ImageID})
			state.UpdateImages = true
		}
	}
	if v.state == nil {
		return state
	}
	for _, name := range slices.Sorted(maps.Keys(v.state.LastContainerStatuses)) {
		c := v.container(name)
		if _, changes := t.images[name]; changes || c.settled() {
			continue
		}
		record := v.state.LastContainerStatuses[name]
		record.Since = c.requested()
		put(&state.LastContainerStatuses, name, record)
		state.UpdateImages = true
		if images := c.superseded(); len(images) > 0 {
			put(&state.SupersededImages, name, images)
		}
		if seen := v.state.SeenDigests[name]; len(seen) > 0 {
			put(&state.SeenDigests, name, seen)
		}
	}
	state.UpdateResources = state.UpdateResources || (v.state.UpdateResources && len(v.unresized()) > 0)
	if v.state.UpdateEnvFromMetadata && len(v.envUnreported(t.images)) > 0 {
		state.UpdateEnvFromMetadata = true
		awaited := slices.DeleteFunc(slices.Clone(v.state.EnvSidecars),
			func(name string) bool { return v.container(name).restartsFor(t.images) })
		state.EnvSidecars = sortedSet(state.EnvSidecars, awaited)
	}
	return state
}

// sidecars returns the native sidecars among the names.
func (v *view) sidecars(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !v.container(name).init })
}

// sortedSet returns all names of two lists, sorted, each once.
func sortedSet(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// supersede returns, for the containers whose image changes, the images of earlier, unfinished updates. If the node has
// not reported a container, the container's present image is such an image: the node may be about to start the
// container, and no report says with which image. The new image may be in the list too, because another update could
// replace the new image before the patch is sent.
func (v *view) supersede(images map[string]string, target *Target) map[string][]string {
	var out map[string][]string
	for name := range images {
		c := v.container(name)
		if c.spec == nil {
			continue
		}
		if c.settled() && !v.lost && !slices.Contains(target.Unproven, name) {
			if _, sameImage := c.certain(); sameImage {
				continue
			}
		}
		earlier := slices.DeleteFunc(slices.Clone(c.superseded()),
			func(image string) bool { return image == c.spec.Image })
		put(&out, name, append(earlier, c.spec.Image))
	}
	return out
}

// learn copies the known images of the previous state, and adds the images that the containers to be changed run now.
// learn also records which containers get their new env because an image of the new update, or of the previous,
// unfinished update, restarts the container.
func (v *view) learn(t *todo, target *Target, into *progress) {
	if v.state != nil {
		into.KnownImages = maps.Clone(v.state.KnownImages)
		into.EnvByImage = slices.DeleteFunc(slices.Clone(v.state.EnvByImage),
			func(name string) bool { return v.container(name).settled() })
	}
	for _, name := range slices.Sorted(maps.Keys(t.images)) {
		if fact, ok := v.container(name).learn(); ok && !v.lost && !slices.Contains(target.Unproven, name) {
			into.know(name, fact)
		}
		if _, ok := t.refs[name]; ok && !slices.Contains(into.EnvByImage, name) {
			into.EnvByImage = append(into.EnvByImage, name)
		}
	}
}

// toReport returns the sorted names of the containers whose restart for a new env must be reported by a node agent. If
// the same patch changes the container's image, the kubelet restarts the container with the new metadata, so the
// reported image is proof enough.
func (v *view) toReport(t *todo) []string {
	var names []string
	for name := range t.refs {
		if !v.container(name).restartsFor(t.images) {
			names = append(names, name)
		}
	}
	if v.state == nil {
		return sortedSet(names, nil)
	}
	for _, name := range v.state.EnvByImage {
		c := v.container(name)
		if image, changes := t.images[name]; changes && !c.settled() && c.mayStay(image) {
			names = append(names, name)
		}
	}
	return sortedSet(names, nil)
}

// todo is everything that a new update must deliver: the changes of its plan, and changes that the previous, unfinished
// update has not delivered. The maps and slices of a todo may belong to the plan, which several Pods share, so they
// must not be modified.
type todo struct {
	work

	labels, annotations             map[string]*string
	addFinalizers, removeFinalizers []string
	resizeRestarts                  bool
}

// trafficOff reports whether the update restarts containers, as Plan.TrafficOff does for a plan.
func (t *todo) trafficOff() bool { return len(t.images) > 0 || len(t.refs) > 0 || t.resizeRestarts }

// putMetadata adds the changes of metadata that need no restart of a container.
func (t *todo) putMetadata(change *podpatch.Change) {
	change.Labels = maps.Clone(t.labels)
	maps.Copy(change.Annotations, t.annotations)
	change.AddFinalizers, change.RemoveFinalizers = t.addFinalizers, t.removeFinalizers
}

// todo combines a plan with the undelivered changes of the previous, unfinished update: later batches, a resize not
// sent yet, and everything that waits for the end of a grace period.
func (v *view) todo(plan *Plan) (todo, error) {
	t := todo{
		work:   work{images: plan.Images, refs: plan.RefMetadata, resources: plan.Resources},
		labels: plan.Labels, annotations: plan.Annotations,
		addFinalizers: plan.AddFinalizers, removeFinalizers: plan.RemoveFinalizers,
		resizeRestarts: plan.ResizeRestarts,
	}
	if v.state == nil {
		return t, nil
	}
	t.addEarlier(v.state.next(), plan)
	t.addEarlier(work{resources: v.unsent()}, plan)
	if v.grace == nil || v.grace.Revision != v.saved.Revision {
		return t, nil
	}
	held, err := v.heldMetadata()
	if err != nil {
		return t, err
	}
	meta := &held.Metadata
	t.addEarlier(v.grace.work(), plan)
	t.labels = united(unmentioned(meta.Labels, plan.Labels, plan.RefMetadata, labelsOf), plan.Labels)
	t.annotations = united(unmentioned(meta.Annotations, plan.Annotations, plan.RefMetadata, annotationsOf),
		plan.Annotations)
	t.addFinalizers = slices.Concat(plan.AddFinalizers,
		without(meta.Finalizers, plan.AddFinalizers, plan.RemoveFinalizers))
	t.removeFinalizers = slices.Concat(plan.RemoveFinalizers,
		without(meta.DeleteFinalizers, plan.AddFinalizers, plan.RemoveFinalizers))
	return t, nil
}

// addEarlier adds changes of the previous, unfinished update, unless the newer plan sets the same field. addEarlier
// modifies no map of its arguments.
func (w *work) addEarlier(earlier work, newer *Plan) {
	w.images = united(earlier.images, w.images)
	if len(earlier.resources) > 0 {
		all := maps.Clone(earlier.resources)
		for name, resources := range w.resources {
			all[name] = overlaid(all[name], resources)
		}
		w.resources = all
	}
	if len(earlier.refs) == 0 {
		return
	}
	all := maps.Clone(w.refs)
	for name, refs := range earlier.refs {
		ref := RefMetadata{
			Labels: united(unmentioned(refs.Labels, newer.Labels, newer.RefMetadata, labelsOf), all[name].Labels),
			Annotations: united(unmentioned(refs.Annotations, newer.Annotations, newer.RefMetadata, annotationsOf),
				all[name].Annotations),
		}
		if put(&all, name, ref); len(ref.Labels)+len(ref.Annotations) == 0 {
			delete(all, name)
		}
	}
	w.refs = all
}

// overlaid returns the quantities of both a and b. If both have a quantity, the quantity of b counts.
func overlaid(a, b corev1.ResourceRequirements) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: united(a.Limits, b.Limits), Requests: united(a.Requests, b.Requests)}
}

func labelsOf(r RefMetadata) map[string]string { return r.Labels }

func annotationsOf(r RefMetadata) map[string]string { return r.Annotations }

// unmentioned returns the labels or annotations that the newer plan sets neither for the Pod nor for the env of a
// container.
func unmentioned[V any](
	earlier map[string]V, plain map[string]*string, refs map[string]RefMetadata,
	kind func(RefMetadata) map[string]string,
) map[string]V {
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

// without returns the entries of list that are in none of the other lists.
func without(list []string, others ...[]string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		return slices.ContainsFunc(others, func(other []string) bool { return slices.Contains(other, s) })
	})
}
