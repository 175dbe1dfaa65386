package sidecarset

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// end counts the Pods of a set in the final state, as their containers show.
type end struct {
	all []sidecarcontrol.Standing
	// waiting counts Pods that could be upgraded now. idle counts the Pods in waiting that are out of service. away
	// counts all Pods that are out of service.
	waiting, idle, away                 int
	updated, serving, updatedAndServing int
}

// converged checks that all Pods have the newest possible sidecars, no hot upgrade is in progress, and the numbers in
// the status are right.
func (w *story) converged() {
	team := w.Server.Stored(&corev1.Namespace{}, client.ObjectKey{Name: namespace}).(*corev1.Namespace).Labels["team"]
	for _, name := range []string{mesh, logs} {
		set := w.set(name)
		compiled, err := Compile(set, "", nil)
		w.must(err)
		for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
			if podstate.IsActive(pod) && w.control.Read(pod, compiled, time.Now()).Flip {
				w.Failf("flip", "the hot upgrade of Pod %s was not ended", pod.Name) // even if the Pod no longer belongs to the set
			}
		}
		e := w.end(&sight{set: set, compiled: compiled, team: team})
		u := &set.Spec.UpdateStrategy
		settings, problems, _ := resolve(set, byIndex)
		w.must(problems.Reasons().Err())
		limits := settings.of(e.all)
		if !u.Paused && u.Type != pub.SidecarSetNotUpdate && e.waiting > limits.Partition && (e.away < limits.MaxUnavailable || e.idle > 0) {
			w.Failf("stuck", "%d Pods wait for set %s, %d of them out of service, with a partition of %d", e.waiting, name, e.idle, limits.Partition)
		}
		s := &set.Status
		got := [5]int{int(s.ObservedGeneration), int(s.MatchedPods), int(s.UpdatedPods), int(s.ReadyPods), int(s.UpdatedReadyPods)}
		if want := [5]int{int(set.Generation), len(e.all), e.updated, e.serving, e.updatedAndServing}; got != want {
			w.Failf("status", "set %s has generation, matched, updated, ready and updated ready Pods %v, not %v", name, got, want)
		}
	}
}

// end reads the Pods of a set.
func (w *story) end(v *sight) (e end) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		s := w.standing(v, pod)
		if !s.Injected {
			continue
		}
		e.all = append(e.all, s)
		flipping := isFlipping(pod)
		if flipping && slices.Contains(ownNames(v.set), "hot-1") && (s.Flip || podstate.IsReady(pod)) {
			w.Failf("flip", "the hot upgrade of Pod %s was not ended", pod.Name)
		}
		serves := podstate.IsReady(pod) && (!flipping || v.set.Name != mesh)
		updated, _ := hasVersion(pod, v.set)
		upgradable, _ := hasEnv(pod, v.set)
		if said := saidOf(pod, v.set.Name); said == "true" && !upgradable || said == "false" && upgradable || said == "" && !upgradable {
			w.Failf("told", "Pod %s says %q of set %s", pod.Name, said, v.set.Name)
		}
		if serves {
			e.serving++
		}
		if !serves || flipping { // any SidecarSet may have begun the hot upgrade
			e.away++
		}
		switch {
		case updated && serves:
			e.updated++
			e.updatedAndServing++
		case updated:
			e.updated++
		case upgradable && (v.set.Spec.UpdateStrategy.Selector == nil || pod.Labels["wave"] == "a"):
			if e.waiting++; !serves {
				e.idle++
			}
		}
	}
	return e
}

// isFlipping reports whether both containers of the hot sidecar run a real image.
func isFlipping(pod *corev1.Pod) bool {
	one, two := container(pod, "hot-1"), container(pod, "hot-2")
	return one != nil && two != nil && one.Image != "empty:v1" && two.Image != "empty:v1" &&
		pod.Annotations[apps.AnnotationSidecarSetWorking] != ""
}
