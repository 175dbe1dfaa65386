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

// NotUpgradable means that the Pod's sidecars and the set differ in more than images. Recreate the Pod.
const NotUpgradable reason.Code = "NotUpgradable"

// FlipPending means that a hot upgrade goes on: the earlier working container becomes idle when all remaining
// containers are ready.
const FlipPending reason.Code = "FlipPending"

// SidecarNotReady means that a sidecar of a Pod is not ready, for example after an upgrade to a bad image.
const SidecarNotReady reason.Code = "SidecarNotReady"

// Standing is a Pod's standing with a set: read only. Make a Standing with Control.Read.
type Standing struct {
	// Pod is the Pod given to Read.
	Pod *corev1.Pod
	// Injected says that the Pod has all sidecars of the set and names the set in its annotation. A set ignores all other
	// Pods.
	Injected bool
	// Updated says that the Pod has the newest version of the set's containers in its spec. The containers may still have
	// to start: see Waiting. Volumes, annotations and pull secrets are not part of the hash. If only such parts change,
	// running Pods keep the old parts.
	Updated bool
	// Blocked says why the Pod cannot be upgraded in place: NotUpgradable, UnreadableRecord, or
	// inplaceupdate.ContainerEnded if a sidecar never starts again. Blocked is empty for an upgradable Pod.
	Blocked reason.List
	// Waiting says why a begun upgrade is not done: containers without a running instance of their image, or the end of a
	// hot upgrade.
	Waiting reason.List
	// Failing names the unready sidecars of the Pod, of any set. Idle containers count, because a Pod is Ready only if all
	// its containers are ready. Containers ended for good do not count.
	Failing reason.List
	// Ready says that the Pod serves: the Pod is Ready, and no hot upgrade goes on.
	Ready bool
	// Flip says that the hot upgrade can end now: see Control.Flip.
	Flip bool
	// Busy says that another set upgrades the Pod at the moment.
	Busy bool
	// Shared says that the Pod has sidecars of further sets.
	Shared bool
	// RequeueAfter, when positive, is when to look again: no event will wake the caller.
	RequeueAfter time.Duration
	// Note is a change to write during an upgrade, often empty.
	Note podpatch.Change

	pairs []pair
	// set is the set given to Read.
	set *Set
	// upgraded says that the set has upgraded the Pod in place, now or before.
	upgraded bool
	// unproven are the containers of an upgrade with a lost state that do not run their image.
	unproven []string
	// ended says that a container of the Pod has ended for good, so the Pod can never be Ready again.
	ended bool
}

// Serves reports whether the Pod is in service with the sidecars of its spec.
func (s *Standing) Serves() bool { return s.Ready && len(s.Waiting) == 0 }

// Settled reports whether the Standing stays the same over time while neither the Pod nor the set changes: no upgrade
// goes on.
func (s *Standing) Settled() bool {
	return len(s.Waiting) == 0 && s.RequeueAfter <= 0 && s.Note.IsEmpty() && !s.Busy && !s.Flip
}

// Read returns a Pod's standing with a set. Read does not modify the Pod. Blocked reports annotations of the Pod
// without meaning.
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
		// A spec not yet seen by the node delays only the waiting containers. The second twin of a pair goes on.
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
		s.flip(waits) // even if the upgrade to a newer set is blocked, the begun hot upgrade ends
	}
	c.compare(&s, set)
	s.end()
	return s
}

// end finds containers ended for good. An ended sidecar of the set cannot be upgraded any more.
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

// hasEnded reports whether a container has ended and is not started again.
func hasEnded(pod *corev1.Pod, container *corev1.Container) bool {
	status := podstate.ContainerStatus(pod, container.Name)
	return status != nil && status.State.Terminated != nil && !podstate.IsRestarted(pod, container, status.State.Terminated.ExitCode)
}

// isIn reports whether a Pod has all upgradable sidecars of the set, hot sidecars aside.
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

// failing returns the unready sidecars of a Pod.
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

// compare compares the Pod's records with the set.
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

// wait finds the containers of the set without a running instance of their image, and returns the names. An empty name
// stands for all containers.
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
	if waits.Has("") { // the node's report may be older than the change, even if a changed container has the reported image again
		waits.Insert(startedIn(states[set.spec.Name])...)
	}
	return waits
}

// addContainers adds the names of the containers in the paths of reasons.
func addContainers(names sets.Set[string], waiting reason.List) {
	for _, why := range waiting {
		_, rest, _ := strings.Cut(why.Path, "[")
		name, _, _ := strings.Cut(rest, "]")
		names.Insert(name)
	}
}

// startedIn returns the names of the containers changed in an upgrade.
func startedIn(state json.RawMessage) []string {
	var started struct {
		Containers map[string]json.RawMessage `json:"lastContainerStatuses"`
	}
	_ = json.Unmarshal(state, &started) // the state was read before
	return slices.Collect(maps.Keys(started.Containers))
}

// isForSidecars reports whether upgrades of sidecars use the field of a saved update state. Such upgrades change all
// images in a single step. A state with batches, resources or env asks for changes wanted by no set, and for changes of
// foreign containers.
func isForSidecars(field string) bool {
	switch field {
	case "revision", "updateTimestamp", "lastContainerStatuses", "updateImages", "containerBatchesRecord", "supersededImages", "seen", "seenDigests",
		"knownImages":
		return true
	}
	return false
}

// viewOf returns the Pod with the state of a single set, in the form for package inplaceupdate. viewOf returns nil for
// a missing state or a state without a revision.
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

// inSet puts the state of a change into the annotation of all sets.
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
		return podpatch.Change{} // JSON that was read, or written a moment ago, can be written
	}
	change.Annotations = map[string]*string{c.keys.StateAnnotation: &text}
	return change
}

// flipPatience is the time, from the beginning of another set's upgrade, to wait for the flip of a hot upgrade, or for
// a proof by time, if nothing else is left. The other set may be gone by then, or have another shape.
const flipPatience = 10 * time.Minute

// isBusy reports whether another set's upgrade of the Pod goes on.
func (c *Control) isBusy(s *Standing, set *Set, states records, g *given, now time.Time) bool {
	var begun time.Time // the last upgrade of another set
	for _, name := range c.Injected(s.Pod) {
		if name == set.spec.Name {
			continue
		}
		waiting, left, at := c.another(s.Pod, name, states[name], g, now)
		if len(waiting) > 0 {
			s.requeue(left)
			return true
		}
		if at.After(begun) && at.Before(now.Add(time.Minute)) { // clocks differ by less
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

// another returns the reasons for waiting of another set's upgrade, the time after which no event tells of the end, and
// the begin of the upgrade. A state that somebody has removed leaves the begin in the record of the upgrade.
func (c *Control) another(pod *corev1.Pod, set string, state json.RawMessage, g *given, now time.Time,
) (waiting reason.List, left time.Duration, begun time.Time) {
	if view := c.viewOf(pod, state); view != nil {
		waiting, left = c.goesOn(view, state, now)
		return waiting, left, begunAt(state)
	}
	waiting, left = c.lost(pod, set, g, now)
	return waiting, left, g.upgradedAt(set)
}

// goesOn returns the reasons for waiting of another set's upgrade. If time could prove an image, and nobody has noted
// the begin of the proof, the set may be gone: such an upgrade counts until flipPatience after its begin. left, if
// positive, is the time after which no event tells of the end.
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

// requeue asks the caller to look again after a time at the latest.
func (s *Standing) requeue(after time.Duration) {
	if after > 0 && (s.RequeueAfter <= 0 || after < s.RequeueAfter) {
		s.RequeueAfter = after
	}
}

// Unfinished lists the reasons for waiting of all upgrades in place begun in a Pod, for any sets: containers without a
// running instance of their image. A caller that asks whether a Pod serves need not know the sets. Unfinished ignores
// annotations without meaning.
func (c *Control) Unfinished(pod *corev1.Pod, now time.Time) (waiting reason.List) {
	states, _ := readRecords(pod.Annotations, c.keys.StateAnnotation)
	g := &given{}
	for _, name := range c.Injected(pod) {
		upgrade, _, _ := c.another(pod, name, states[name], g, now)
		waiting = append(waiting, upgrade...)
	}
	return waiting
}

// begunAt returns the begin of an upgrade according to its state.
func begunAt(state json.RawMessage) time.Time {
	var begun struct {
		At time.Time `json:"updateTimestamp"`
	}
	_ = json.Unmarshal(state, &begun) // nothing waits for an unreadable state
	return begun.At
}

// flip finds out whether a hot upgrade goes on, and whether the upgrade can end.
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
