package sidecarset

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// sight is what a pass decides on: the set and its Pods, before its first write.
type sight struct {
	set      *v1beta1.SidecarSet
	compiled *sidecarcontrol.Set
	pods     map[types.UID]*corev1.Pod
	upgraded map[types.UID]bool
	// looked says that it could see something, and wrote that it has decided.
	looked, wrote bool
	// after is the last write to a Pod before it decided.
	after int
}

func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	v, _ := t.View.(*sight)
	if v == nil {
		v = &sight{upgraded: map[types.UID]bool{}}
		t.View = v
	}
	if v.wrote || t.Controller != "sidecarset" {
		return
	}
	if v.wrote = call != nil && !call.IsRead(); v.wrote && v.looked {
		return // it has decided
	}
	v.looked, v.after = true, w.writes
	set := &v1beta1.SidecarSet{}
	if t.Process.Cache.Get(context.Background(), t.Object, set) != nil {
		v.set = nil
		return
	}
	v.set, v.pods = set, map[types.UID]*corev1.Pod{}
	v.compiled, _ = compile(set, "", nil)
	var pods corev1.PodList
	w.must(t.Process.Cache.List(context.Background(), &pods))
	for i := range pods.Items {
		v.pods[pods.Items[i].UID] = &pods.Items[i]
	}
}

// judge holds each write to a Pod against what the pass saw.
func (w *story) judge(x *chaos.Write) {
	before, _ := x.Before.(*corev1.Pod)
	after, _ := x.After.(*corev1.Pod)
	if x.Call.Resource.Resource != "pods" {
		return
	}
	if before == nil || after == nil {
		w.Failf("stranger", "%s of Pod %s", x.Call.Verb, x.Call.Name)
	}
	v, _ := x.Task.View.(*sight)
	if v == nil || v.set == nil || v.compiled == nil {
		w.Failf("blind", "%s of Pod %s by a pass that has seen no set that makes sense", x.Call.Verb, before.Name)
	}
	own := map[string]bool{}
	for i := range v.set.Spec.Containers {
		c := &v.set.Spec.Containers[i]
		own[c.Name], own[c.Name+"-1"], own[c.Name+"-2"] = true, true, true
	}
	changed := false
	for i := range after.Spec.Containers {
		if b, a := &before.Spec.Containers[i], &after.Spec.Containers[i]; b.Image != a.Image {
			if changed = true; !own[a.Name] {
				w.Failf("touched", "container %s of Pod %s, which is none of set %s", a.Name, after.Name, v.set.Name)
			}
		}
	}
	w.judgeTwins(after)
	if !w.isUpgrade(v, before, after) {
		w.judgeFlip(v, before, after)
	}
	upgrades := w.isUpgrade(v, before, after)
	if upgrades {
		w.judgeUpgrade(v, before, after)
	}
	if changed && !upgrades && v.set.Name != mesh {
		w.Failf("images", "images of Pod %s change without an upgrade", after.Name)
	}
	w.writes++
	if changed && w.serves(before) {
		if seen := v.pods[before.UID]; seen == nil || podstate.IsReady(seen) { // else it was free to take
			w.judgeBudget(v, before)
		}
		w.taken[before.UID] = taking{w.writes, v}
	}
}

// hashIn reports whether a Pod says that it has the newest sidecars.
func hashIn(control *sidecarcontrol.Control, pod *corev1.Pod, set *sidecarcontrol.Set) bool {
	s := control.Read(pod, set, time.Now())
	return s.Injected && s.Updated
}

// isUpgrade reports whether a write makes a Pod say that it has the newest sidecars.
func (w *story) isUpgrade(v *sight, before, after *corev1.Pod) bool {
	return hashIn(w.control, after, v.compiled) && !hashIn(w.control, before, v.compiled)
}

// judgeFlip: a container of a hot upgrade becomes idle when the other one works, as far as the pass could see.
func (w *story) judgeFlip(v *sight, before, after *corev1.Pod) {
	for name, other := range map[string]string{"hot-1": "hot-2", "hot-2": "hot-1"} {
		was, is := podstate.Container(before, name), podstate.Container(after, name)
		if is == nil || was.Image == is.Image || is.Image != "empty:v1" {
			continue
		}
		seen := v.pods[before.UID]
		if seen == nil {
			w.Failf("flip", "container %s of Pod %s becomes idle, which the pass has not seen", name, after.Name)
		}
		works, status := podstate.Container(seen, other), podstate.ContainerStatus(seen, other)
		if status == nil || !status.Ready || !strings.HasSuffix(status.Image, "/"+works.Image) || works.Image == "empty:v1" {
			w.Failf("flip", "container %s of Pod %s becomes idle, and %s is as good as gone: %+v", name, after.Name, other, status)
		}
	}
}

// judgeTwins: the two containers of a hot upgrade never have the same image.
func (w *story) judgeTwins(pod *corev1.Pod) {
	one, two := podstate.Container(pod, "hot-1"), podstate.Container(pod, "hot-2")
	if one != nil && two != nil && one.Image == two.Image {
		w.Failf("twins", "both containers of Pod %s have %s", pod.Name, one.Image)
	}
}

// judgeUpgrade: a Pod that is said to have the newest sidecars has all of their images, and was to be upgraded.
func (w *story) judgeUpgrade(v *sight, before, after *corev1.Pod) {
	for i := range v.set.Spec.Containers {
		c := &v.set.Spec.Containers[i]
		if c.UpgradeStrategy.UpgradeType == pub.SidecarHotUpgrade {
			one, two := podstate.Container(after, c.Name+"-1"), podstate.Container(after, c.Name+"-2")
			if one.Image != c.Image && two.Image != c.Image {
				w.Failf("half", "Pod %s runs %s and %s, not %s", after.Name, one.Image, two.Image, c.Image)
			}
			continue
		}
		if got := podstate.Container(after, c.Name); got.Image != c.Image {
			w.Failf("half", "container %s of Pod %s has %s, not %s", c.Name, after.Name, got.Image, c.Image)
		}
	}
	u := &v.set.Spec.UpdateStrategy
	seen := v.pods[before.UID]
	if seen == nil || u.Paused || u.Type == pub.SidecarSetNotUpdate {
		w.Failf("paused", "Pod %s is upgraded, which nobody wants", before.Name)
	}
	if u.Selector != nil && seen.Labels["wave"] != "a" {
		w.Failf("selector", "Pod %s is upgraded, which %v excludes", before.Name, u.Selector)
	}
	if seen.Labels["app"] != "web" {
		w.Failf("stranger", "Pod %s is upgraded, which is %s", before.Name, seen.Labels["app"])
	}
	for i := range v.set.Spec.Containers {
		c := &v.set.Spec.Containers[i]
		if has := podstate.Container(seen, c.Name); has != nil && envA(has.Env) != envA(c.Env) {
			w.Failf("blocked", "Pod %s is upgraded, whose container %s has A=%s and not %s", before.Name, c.Name, envA(has.Env), envA(c.Env))
		}
	}
	v.upgraded[before.UID] = true
	waiting := 0
	var all []sidecarcontrol.Standing
	for _, pod := range v.pods {
		s := w.standing(v, pod)
		if !s.Injected {
			continue
		}
		all = append(all, s)
		if !s.Updated && len(s.Blocked) == 0 && (u.Selector == nil || pod.Labels["wave"] == "a") {
			waiting++
		}
	}
	s, err := resolve(v.set)
	if err != nil {
		w.Failf("invalid", "Pod %s is upgraded, while the spec makes no sense", before.Name)
	}
	if kept := s.of(all).Partition; len(v.upgraded) > waiting-kept {
		w.Failf("partition", "Pod %s is the %d. that is upgraded, of %d that wait with a partition of %d", before.Name, len(v.upgraded), waiting, kept)
	}
}

// envA is what users change that no upgrade can bring.
func envA(env []corev1.EnvVar) string {
	for _, e := range env {
		if e.Name == "A" {
			return e.Value
		}
	}
	return ""
}

// standing is how a Pod stood with the set that the pass saw.
func (w *story) standing(v *sight, pod *corev1.Pod) sidecarcontrol.Standing {
	if pod.Labels["app"] != "web" || !podstate.IsActive(pod) {
		return sidecarcontrol.Standing{}
	}
	return w.control.Read(pod, v.compiled, time.Now())
}

// serves reports whether a Pod is in service, with all upgrades of its sidecars done.
func (w *story) serves(pod *corev1.Pod) bool {
	if !podstate.IsActive(pod) || !podstate.IsReady(pod) {
		return false
	}
	for _, name := range w.control.Injected(pod) {
		if set, ok := w.Server.Stored(&v1beta1.SidecarSet{}, client.ObjectKey{Name: name}).(*v1beta1.SidecarSet); ok {
			compiled, err := compile(set, "", nil)
			if err != nil {
				continue
			}
			if s := w.control.Read(pod, compiled, time.Now()); s.Injected && len(s.Waiting) > 0 {
				return false
			}
		}
	}
	return true
}

// judgeBudget: with this Pod, no more Pods of the set are away through upgrades than its budget says.
func (w *story) judgeBudget(v *sight, pod *corev1.Pod) {
	var all []sidecarcontrol.Standing
	away := 0
	for _, seen := range v.pods {
		if s := w.standing(v, seen); s.Injected {
			all = append(all, s)
			// What another set has taken since this pass decided is for that set to answer for.
			if t, ok := w.taken[seen.UID]; ok && seen.UID != pod.UID && (t.pass == v || t.write <= v.after) {
				away++
			}
		}
	}
	s, err := resolve(v.set)
	if err != nil {
		return
	}
	if most := s.of(all).MaxUnavailable; away+1 > most {
		w.Failf("budget", "Pod %s of set %s is taken out of service beside %d others, of %d that may be", pod.Name, v.set.Name, away, most)
	}
}

// check forgets Pods that serve again, or are gone.
func (w *story) check() {
	there := map[types.UID]bool{}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if there[pod.UID] = true; w.serves(pod) {
			delete(w.taken, pod.UID)
		}
	}
	for uid := range w.taken {
		if !there[uid] {
			delete(w.taken, uid)
		}
	}
}

// converged: all Pods have what they can have, no hot upgrade goes on, and the status says so.
func (w *story) converged() {
	team := w.Server.Stored(&corev1.Namespace{}, client.ObjectKey{Name: namespace}).(*corev1.Namespace).Labels["team"]
	for _, name := range []string{mesh, logs} {
		set := w.set(name)
		compiled, err := compile(set, "", nil)
		w.must(err)
		v := &sight{set: set, compiled: compiled}
		var all []sidecarcontrol.Standing
		updated, waiting, away, serving, updatedServing := 0, 0, 0, 0, 0
		for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
			s := w.standing(v, pod)
			if !s.Injected || set.Spec.NamespaceSelector != nil && team != "a" {
				continue
			}
			all = append(all, s)
			if s.Busy || len(s.Waiting) > 0 || !s.Ready {
				away++ // for good: a sidecar that cannot be upgraded has a bad image
			}
			if s.Serves() {
				serving++
			}
			if s.Updated && s.Serves() {
				updatedServing++
			}
			if s.Updated {
				updated++
			} else if len(s.Blocked) == 0 && (set.Spec.UpdateStrategy.Selector == nil || pod.Labels["wave"] == "a") {
				waiting++
			}
			if s.Flip {
				w.Failf("flip", "the hot upgrade of Pod %s was not ended", pod.Name)
			}
		}
		u := &set.Spec.UpdateStrategy
		settings, err := resolve(set)
		w.must(err)
		if !u.Paused && u.Type != pub.SidecarSetNotUpdate && waiting > settings.of(all).Partition && away < settings.of(all).MaxUnavailable {
			w.Failf("stuck", "%d Pods wait for set %s, with a partition of %d", waiting, name, settings.of(all).Partition)
		}
		if s := &set.Status; s.ObservedGeneration != set.Generation || int(s.MatchedPods) != len(all) || int(s.UpdatedPods) != updated ||
			int(s.ReadyPods) != serving || int(s.UpdatedReadyPods) != updatedServing {
			w.Failf("status", "set %s of generation %d has the status %+v, and %d Pods, %d updated, %d serving, %d both",
				name, set.Generation, *s, len(all), updated, serving, updatedServing)
		}
	}
}
