package sidecarcontrol

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// NotUpgradable means that the Pod's sidecars differ from the set in more than images. The Pod must be recreated to get
// the newest sidecars.
const NotUpgradable reason.Code = "NotUpgradable"

// FlipPending means that a hot upgrade is not finished: the earlier working container becomes idle when all other
// containers are ready.
const FlipPending reason.Code = "FlipPending"

// SidecarNotReady means that a sidecar of a Pod is not ready, for example after an upgrade to an image that does not
// work.
const SidecarNotReady reason.Code = "SidecarNotReady"

// Standing compares a Pod with a set; do not modify a Standing. Make a Standing with Control.Read.
type Standing struct {
	// Pod is the Pod given to Read.
	Pod *corev1.Pod
	// Injected says that the Pod has all sidecars of the set and names the set in its annotation. The set ignores all
	// other Pods.
	Injected bool
	// Updated says that the Pod's spec has the newest version of the set's containers. The containers may not have
	// started yet: see Waiting. Volumes, annotations and pull secrets are not compared. If only these change in the
	// set, running Pods keep their old volumes, annotations and pull secrets.
	Updated bool
	// Blocked says why the Pod cannot be upgraded in place: NotUpgradable, UnreadableRecord, or
	// inplaceupdate.ContainerEnded if a sidecar has ended for good. If the Pod can be upgraded, Blocked is empty.
	Blocked reason.List
	// Waiting says why an upgrade that has begun is not complete: containers not known to run their image, or a hot
	// upgrade not finished.
	Waiting reason.List
	// Failing names the sidecars of the Pod that are not ready, of all sets. Idle containers count, because a Pod is
	// Ready only if all its containers are ready. Containers that have ended for good do not count.
	Failing reason.List
	// Ready says that the Pod is in service: the Pod is Ready, and no hot upgrade is in progress.
	Ready bool
	// Flip says that the hot upgrade can be finished now: see Control.Flip.
	Flip bool
	// Busy says that another set's upgrade of the Pod is in progress.
	Busy bool
	// Shared says that the Pod also has sidecars of other sets.
	Shared bool
	// RequeueAfter, if positive, is the time after which the Pod must be read again, because no event will start a
	// reconcile.
	RequeueAfter time.Duration
	// Note is a change of annotations that the caller must write during an upgrade; often empty.
	Note podpatch.Change

	pairs []pair
	// set is the set given to Read.
	set *Set
	// upgraded says that the set has upgraded, or is upgrading, the Pod in place.
	upgraded bool
	// unproven are the containers that do not run their image, if the state of their upgrade was lost.
	unproven []string
	// ended says that a container of the Pod has ended for good, so the Pod can never be Ready again.
	ended bool
}

// Serves reports whether the Pod is in service and runs the sidecars in its spec.
func (s *Standing) Serves() bool { return s.Ready && len(s.Waiting) == 0 }

// Settled reports whether the Standing cannot change while neither the Pod nor the set changes, because no upgrade is
// in progress.
func (s *Standing) Settled() bool {
	return len(s.Waiting) == 0 && s.RequeueAfter <= 0 && s.Note.IsEmpty() && !s.Busy && !s.Flip
}

// Read compares a Pod with a set. Read does not modify the Pod. If annotations of the Pod cannot be parsed, Blocked
// says so.
func (c *Control) Read(pod *corev1.Pod, set *Set, now time.Time) Standing {
	s := Standing{Pod: pod}
	if pod == nil || set == nil {
		return s
	}
	injected := c.Injected(pod)
	if !slices.Contains(injected, set.spec.Name) || !set.isIn(pod) {
		return s
	}
	s.Shared = len(injected) > 1
	g := &given{}
	states, err := readRecords(pod.Annotations, c.keys.StateAnnotation)
	s.Blocked.Add(UnreadableRecord, err)
	waits := c.wait(&s, set, states, g, now)
	settled := func(container *corev1.Container) bool {
		status := podstate.ContainerStatus(pod, container.Name)
		// If the kubelet has not observed the spec yet, only the containers that wait count as not ready. A container that
		// does not wait, such as the other twin of a pair, may count as ready.
		return status != nil && status.Ready && !waits.Has(container.Name)
	}
	var known bool
	if s.pairs, known, err = c.pairs(pod, set, settled); err != nil {
		s.Blocked.Add(UnreadableRecord, err)
	} else if !known {
		return Standing{Pod: pod}
	}
	s.Injected, s.set, s.upgraded = true, set, len(states[set.spec.Name]) > 0
	s.Busy = c.isBusy(&s, set, states, g, now)
	s.Failing = c.failing(pod)
	s.Ready = pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && podstate.IsReady(pod)
	if len(s.Blocked) == 0 {
		s.flip(waits) // a hot upgrade that has begun is finished even if the upgrade to a newer set is impossible
	}
	c.compare(&s, set)
	s.end()
	return s
}

// end finds the containers of the Pod that have ended and that the kubelet never restarts. If a sidecar of the set
// has ended, the Pod cannot be upgraded.
func (s *Standing) end() {
	for i := range s.Pod.Spec.Containers {
		container := &s.Pod.Spec.Containers[i]
		if !hasEnded(s.Pod, container) {
			continue
		}
		s.ended = true
		if slices.Contains(s.set.names, container.Name) {
			s.Blocked = append(s.Blocked, reason.Reason{
				Code: inplaceupdate.ContainerEnded, Object: reason.ObjectOf("Pod", s.Pod), Path: "status.containerStatuses[" + container.Name + "].state.terminated",
				Detail: "no new image starts it again", Remedy: "recreate the Pod",
			})
		}
	}
}

// hasEnded reports whether a container has ended and will not be restarted.
func hasEnded(pod *corev1.Pod, container *corev1.Container) bool {
	status := podstate.ContainerStatus(pod, container.Name)
	return status != nil && status.State.Terminated != nil && !podstate.IsRestarted(pod, container, status.State.Terminated.ExitCode)
}

// isIn reports whether a Pod has all sidecars of the set that can be upgraded; isIn does not check hot sidecars.
func (s *Set) isIn(pod *corev1.Pod) bool {
	for i := range s.containers {
		c := &s.containers[i]
		if c.Hot == nil && !slices.ContainsFunc(pod.Spec.Containers, func(o corev1.Container) bool { return o.Name == c.Name }) {
			return false
		}
	}
	for i := range s.init {
		c := &s.init[i]
		if c.upgraded && !slices.ContainsFunc(pod.Spec.InitContainers, func(o corev1.Container) bool { return o.Name == c.Name && podstate.IsNativeSidecar(&o) }) {
			return false
		}
	}
	return true
}

func (c *Control) failing(pod *corev1.Pod) (out reason.List) {
	look := func(list string, container *corev1.Container) {
		status := podstate.ContainerStatus(pod, container.Name)
		if status == nil || status.Ready || !c.isMarked(container) || hasEnded(pod, container) {
			return
		}
		why := reason.Reason{
			Code: SidecarNotReady, Object: reason.ObjectOf("Pod", pod), Path: list + "[" + container.Name + "]", Detail: "it is not ready",
		}
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "" {
			why.Detail = "it waits: " + waiting.Reason
		}
		out = append(out, why)
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podstate.IsNativeSidecar(c) {
			look("spec.initContainers", c)
		}
	}
	for i := range pod.Spec.Containers {
		look("spec.containers", &pod.Spec.Containers[i])
	}
	return out
}

// compare compares the hashes recorded on the Pod with the hashes of the set.
func (c *Control) compare(s *Standing, set *Set) {
	hashes, err := readRecords(s.Pod.Annotations, c.keys.HashAnnotation)
	s.Blocked.Add(UnreadableRecord, err)
	withoutImages, err := readRecords(s.Pod.Annotations, c.keys.HashWithoutImagesAnnotation)
	s.Blocked.Add(UnreadableRecord, err)
	s.Updated = hashes.of(set.spec.Name).Hash == set.spec.Hash
	if err == nil && withoutImages.of(set.spec.Name).Hash != set.spec.HashWithoutImages {
		s.Blocked = append(s.Blocked, reason.Reason{
			Code: NotUpgradable, Object: reason.ObjectOf("Pod", s.Pod), Path: "metadata.annotations[" + c.keys.HashWithoutImagesAnnotation + "]",
			Detail: "more than images changed in the set " + set.spec.Name + " since it was injected", Remedy: "recreate the Pod",
		})
	}
}

// wait finds the containers of the set that are not known to run their image, and returns their names. An empty name
// in the result means that every changed container waits.
func (c *Control) wait(s *Standing, set *Set, states records, g *given, now time.Time) sets.Set[string] {
	waits := sets.Set[string]{}
	view := c.viewOf(s.Pod, states[set.spec.Name])
	if view == nil {
		s.Waiting, s.RequeueAfter = c.lost(s.Pod, set.spec.Name, g, now)
		addContainers(waits, s.Waiting)
		s.unproven = sets.List(waits)
		return waits
	}
	step, err := c.updater.Next(view, now)
	if err != nil {
		s.Blocked.Add(UnreadableRecord, err)
		return waits
	}
	s.Waiting, s.RequeueAfter = append(s.Waiting, step.Waiting...), step.RequeueAfter
	s.Note = c.inSet(step.Change, states, set)
	addContainers(waits, step.Waiting)
	// The node's report may be older than the change, even if the report shows the new image: the container may have
	// run this image before.
	if waits.Has("") {
		waits.Insert(startedIn(states[set.spec.Name])...)
	}
	return waits
}

// addContainers adds the container names found in the paths of reasons.
func addContainers(names sets.Set[string], waiting reason.List) {
	for _, why := range waiting {
		_, rest, _ := strings.Cut(why.Path, "[")
		name, _, _ := strings.Cut(rest, "]")
		names.Insert(name)
	}
}

// startedIn returns the names of the containers that an upgrade has changed.
func startedIn(state json.RawMessage) []string {
	var started struct {
		Containers map[string]json.RawMessage `json:"lastContainerStatuses"`
	}
	_ = json.Unmarshal(state, &started) // the state was parsed before
	return slices.Collect(maps.Keys(started.Containers))
}

// isForSidecars reports whether upgrades of sidecars use a given field of the update state. An upgrade of sidecars
// changes all images in a single step. A state with batches, resources or env was not written by such an upgrade, and
// would make inplaceupdate change other containers.
func isForSidecars(field string) bool {
	switch field {
	case "revision", "updateTimestamp", "lastContainerStatuses", "updateImages", "containerBatchesRecord", "supersededImages", "seen", "seenDigests",
		"knownImages":
		return true
	}
	return false
}

// viewOf returns a copy of the Pod with the state of a single set in the annotation, in the form that package
// inplaceupdate expects. If the state is missing or has no revision, viewOf returns nil.
func (c *Control) viewOf(pod *corev1.Pod, state json.RawMessage) *corev1.Pod {
	if len(state) == 0 {
		return nil
	}
	if fields := (records{}); json.Unmarshal(state, &fields) == nil {
		if len(fields["revision"]) == 0 {
			return nil
		}
		had := len(fields)
		maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return !isForSidecars(name) })
		if text, err := fields.String(); err == nil && len(fields) < had {
			state = json.RawMessage(text)
		}
	}
	view := *pod
	view.Annotations = map[string]string{c.keys.StateAnnotation: string(state)}
	if meta, ok := pod.Annotations[c.keys.RuntimeMetaAnnotation]; ok {
		view.Annotations[c.keys.RuntimeMetaAnnotation] = meta
	}
	return &view
}

// inSet moves the state that a change writes into the annotation with the states of all sets.
func (c *Control) inSet(change podpatch.Change, states records, set *Set) podpatch.Change {
	state, ok := change.Annotations[c.keys.StateAnnotation]
	if !ok || state == nil {
		return podpatch.Change{}
	}
	all := records{}
	maps.Copy(all, states)
	all[set.spec.Name] = json.RawMessage(*state)
	text, err := all.String()
	if err != nil {
		return podpatch.Change{} // JSON that was just parsed or written can be encoded again
	}
	change.Annotations = map[string]*string{c.keys.StateAnnotation: &text}
	return change
}

// flipPatience limits how long another set's upgrade counts as in progress if the upgrade only waits for the end of a
// hot upgrade, or for a proof by waiting that a new image runs. The time counts from the start of the upgrade. An
// upgrade that takes longer may belong to a set that was deleted or changed.
const flipPatience = 10 * time.Minute

// isBusy reports whether another set's upgrade of the Pod is in progress.
func (c *Control) isBusy(s *Standing, set *Set, states records, g *given, now time.Time) bool {
	var begun time.Time // when the last upgrade of another set began
	for _, name := range c.Injected(s.Pod) {
		if name == set.spec.Name {
			continue
		}
		waiting, left, at := c.another(s.Pod, name, states[name], g, now)
		if len(waiting) > 0 {
			s.requeue(left)
			return true
		}
		if at.After(begun) && at.Before(now.Add(time.Minute)) { // two clocks may differ by up to a minute
			begun = at
		}
	}
	left := begun.Add(flipPatience).Sub(now)
	if left <= 0 || !c.othersFlip(s.Pod, set) {
		return false
	}
	s.requeue(left)
	return true
}

// another returns the reasons why another set's upgrade waits, the time after which the caller must call again
// although no event occurs, and when the upgrade began. If somebody has removed the upgrade's state, the start is the
// time in the set's hash record.
func (c *Control) another(pod *corev1.Pod, set string, state json.RawMessage, g *given, now time.Time,
) (waiting reason.List, left time.Duration, begun time.Time) {
	if view := c.viewOf(pod, state); view != nil {
		waiting, left = c.goesOn(view, state, now)
		return waiting, left, begunAt(state)
	}
	waiting, left = c.lost(pod, set, g, now)
	return waiting, left, g.upgradedAt(set)
}

// goesOn returns the reasons why another set's upgrade waits. If only waiting can prove an image, and the state does
// not record when the wait began, the set may have been deleted: such an upgrade counts only until flipPatience after
// its begin. left, if positive, is the time after which the caller must call again although no event occurs.
func (c *Control) goesOn(view *corev1.Pod, state json.RawMessage, now time.Time) (waiting reason.List, left time.Duration) {
	step, err := c.updater.Next(view, now)
	if err != nil || step.Change.IsEmpty() {
		return step.Waiting, step.RequeueAfter
	}
	begun := begunAt(state)
	if left = begun.Add(flipPatience).Sub(now); left <= 0 || begun.After(now.Add(time.Minute)) {
		return nil, 0
	}
	return step.Waiting, left
}

// requeue asks the caller to read the Pod again after the given time, or earlier.
func (s *Standing) requeue(after time.Duration) {
	if after > 0 && (s.RequeueAfter <= 0 || after < s.RequeueAfter) {
		s.RequeueAfter = after
	}
}

// Unfinished lists the reasons why upgrades that have begun in a Pod are not complete, for all sets: containers not
// known to run their image. With Unfinished, a caller that knows no Sets can find out whether a Pod is in service.
// Annotations that cannot be parsed are ignored.
func (c *Control) Unfinished(pod *corev1.Pod, now time.Time) (waiting reason.List) {
	states, _ := readRecords(pod.Annotations, c.keys.StateAnnotation)
	g := &given{}
	for _, name := range c.Injected(pod) {
		upgrade, _, _ := c.another(pod, name, states[name], g, now)
		waiting = append(waiting, upgrade...)
	}
	return waiting
}

// begunAt returns when an upgrade began, according to its state.
func begunAt(state json.RawMessage) time.Time {
	var begun struct {
		At time.Time `json:"updateTimestamp"`
	}
	_ = json.Unmarshal(state, &begun) // a state that cannot be parsed counts as no upgrade
	return begun.At
}

// flip finds out whether a hot upgrade is in progress, and whether the upgrade can be finished.
func (s *Standing) flip(waits sets.Set[string]) {
	flipping := slices.ContainsFunc(s.pairs, func(p pair) bool { return p.isFlipping() })
	if !flipping {
		return
	}
	ready := s.Ready
	s.Ready = false
	others := func(name string) bool { return !isIdle(s.pairs, name) }
	s.Flip = !waits.Has("") && !slices.ContainsFunc(waits.UnsortedList(), others) &&
		(ready || len(s.Pod.Status.ContainerStatuses) == len(s.Pod.Spec.Containers) &&
			!slices.ContainsFunc(s.Pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool { return others(status.Name) && !status.Ready }))
	for i := range s.pairs {
		if p := &s.pairs[i]; p.isFlipping() {
			s.Waiting = append(s.Waiting, reason.Reason{
				Code: FlipPending, Object: reason.ObjectOf("Pod", s.Pod), Path: "spec.containers[" + p.idle().name + "].image", Old: p.idle().image, New: p.s.Hot.EmptyImage,
				Detail: "becomes idle when " + p.twins[p.working].name + " and all others are ready",
			})
		}
	}
}
