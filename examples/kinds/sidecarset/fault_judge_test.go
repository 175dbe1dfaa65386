package sidecarset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// sight is the input of a reconciliation: the set and its Pods, before the reconciliation's first write.
type sight struct {
	set      *v1beta1.SidecarSet
	compiled *sidecarcontrol.Set
	pods     map[types.UID]*corev1.Pod
	team     string // of the namespace
	upgraded map[types.UID]bool
	// looked is true after the first read from the cache, wrote is true after the first write, and touched is true
	// after the first write to a Pod.
	looked, wrote, touched bool
	// after is the number of the last write to a Pod before the reconciliation decided.
	after int
}

func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	v, _ := t.View.(*sight)
	if v == nil {
		v = &sight{upgraded: map[types.UID]bool{}}
		t.View = v
	}
	if t.Controller != "sidecarset" {
		return
	}
	// The reconciliation reads the namespace only when it decides about writes to Pods. Before this decision, the
	// reconciliation may write a revision, and may read a Pod whose last write has got no response.
	if v.touched = v.touched || call != nil && call.Resource.Resource == "pods" && !call.IsRead(); !v.touched {
		seen := &corev1.Namespace{}
		_ = t.Process.Cache.Get(context.Background(), client.ObjectKey{Name: namespace}, seen) // a namespace that the cache does not show matches nothing
		v.team = seen.Labels["team"]
	}
	if v.wrote {
		return
	}
	if v.wrote = call != nil && !call.IsRead(); v.wrote && v.looked {
		return // the reconciliation has decided
	}
	v.looked, v.after = true, w.writes
	set := &v1beta1.SidecarSet{}
	if t.Process.Cache.Get(context.Background(), t.Object, set) != nil {
		v.set = nil
		return
	}
	v.set, v.pods = set, map[types.UID]*corev1.Pod{}
	v.compiled, _ = Compile(set, "", nil)
	var pods corev1.PodList
	w.must(t.Process.Cache.List(context.Background(), &pods))
	for i := range pods.Items {
		v.pods[pods.Items[i].UID] = &pods.Items[i]
	}
}

// matches reports whether a Pod belongs to the set.
func (v *sight) matches(pod *corev1.Pod) bool {
	return pod != nil && pod.Labels["app"] == "web" && (v.set.Spec.NamespaceSelector == nil || v.team == "a") &&
		slices.Contains(strings.Split(pod.Annotations[apps.AnnotationSidecarSetInjected], ","), v.set.Name)
}

// isNote reports whether a write changes only the annotation with the progress of upgrades.
func isNote(before, after *corev1.Pod) bool {
	noted := before.DeepCopy()
	noted.Annotations[apps.AnnotationSidecarSetInPlaceState] = after.Annotations[apps.AnnotationSidecarSetInPlaceState]
	return equality.Semantic.DeepEqual(noted.Annotations, after.Annotations) && equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// judge compares each write to a Pod with the objects that the reconciliation has seen.
func (w *story) judge(x *chaos.Write) {
	v, _ := x.Task.View.(*sight)
	if rev, ok := x.Before.(*appsv1.ControllerRevision); ok && x.After == nil {
		w.judgeTruncation(v, rev)
	}
	if x.Call.Resource.Resource != "pods" {
		return
	}
	before, _ := x.Before.(*corev1.Pod)
	after, _ := x.After.(*corev1.Pod)
	if before == nil || after == nil {
		w.Failf("stranger", "%s of Pod %s", x.Call.Verb, x.Call.Name)
	}
	if v == nil || v.set == nil || v.compiled == nil {
		w.Failf("blind", "%s of Pod %s by a pass that has seen no set that makes sense", x.Call.Verb, before.Name)
	}
	if seen := v.pods[before.UID]; !v.matches(seen) && (seen == nil || !isFlipping(seen) && !isNote(before, after) || hashIn(w.control, after, v.compiled) != hashIn(w.control, before, v.compiled)) {
		w.Failf("stranger", "%s of Pod %s, which is none of set %s", x.Call.Verb, before.Name, v.set.Name)
	}
	changed := w.judgeTouch(v, before, after)
	w.judgeTold(v, before, after)
	w.judgeTwins(after)
	upgrades := hashIn(w.control, after, v.compiled) && !hashIn(w.control, before, v.compiled)
	switch {
	case upgrades:
		w.judgeUpgrade(v, before, after)
	case changed:
		w.judgeFlip(before, after)
	}
	w.writes++
	if changed && w.serves(before) {
		w.judgeBudget(v, before)
		w.taken[before.UID] = taking{w.writes, v}
	}
}

// judgeTouch checks that only annotations and images of the set's sidecars change. judgeTouch reports whether an
// image changed.
func (w *story) judgeTouch(v *sight, before, after *corev1.Pod) (changed bool) {
	own, rest := ownNames(v.set), after.Spec.DeepCopy()
	for _, lists := range [][2][]corev1.Container{{before.Spec.InitContainers, rest.InitContainers}, {before.Spec.Containers, rest.Containers}} {
		for i := range lists[1] {
			if b, a := &lists[0][i], &lists[1][i]; b.Image != a.Image && slices.Contains(own, a.Name) {
				a.Image, changed = b.Image, true
			}
		}
	}
	if !equality.Semantic.DeepEqual(&before.Spec, rest) || !equality.Semantic.DeepEqual(before.Labels, after.Labels) {
		w.Failf("touched", "more of Pod %s changes than the sidecars of set %s", after.Name, v.set.Name)
	}
	for key := range before.Annotations {
		if _, kept := after.Annotations[key]; !kept {
			w.Failf("touched", "Pod %s loses its annotation %s", after.Name, key)
		}
	}
	return changed
}

// judgeTold checks that the Pod's condition about upgrades is right: whether the sidecars of the SidecarSet can be
// upgraded in place.
func (w *story) judgeTold(v *sight, before, after *corev1.Pod) {
	was, is := saidOf(before, v.set.Name), saidOf(after, v.set.Name)
	if upgradable, _ := hasEnv(after, v.set); is != was && is != fmt.Sprint(upgradable) {
		w.Failf("told", "Pod %s says %s of set %s", after.Name, is, v.set.Name)
	}
	for _, other := range []string{mesh, logs} {
		if other != v.set.Name && saidOf(before, other) != saidOf(after, other) {
			w.Failf("told", "a pass of set %s changes what Pod %s says of %s", v.set.Name, after.Name, other)
		}
	}
}

// saidOf returns the entry for a set in a Pod's condition, or "".
func saidOf(pod *corev1.Pod, set string) string {
	said := map[string]bool{}
	if c := podstate.Condition(pod, apps.ConditionSidecarSetUpgradable); c != nil {
		_ = json.Unmarshal([]byte(c.Message), &said)
	}
	if upgradable, told := said[set]; told {
		return fmt.Sprint(upgradable)
	}
	return ""
}

// judgeTruncation checks that the controller deletes neither pinned revisions nor revisions of existing Pods.
func (w *story) judgeTruncation(v *sight, rev *appsv1.ControllerRevision) {
	if v == nil || v.set == nil {
		w.Failf("blind", "revision %s is deleted by a pass that has seen no set", rev.Name)
	}
	if pin := v.set.Spec.InjectionStrategy.Revision; pin != nil && *pin.RevisionName == rev.Name {
		w.Failf("truncated", "revision %s is deleted, which new Pods are to get", rev.Name)
	}
	for _, pod := range v.pods {
		if v.matches(pod) && w.control.RevisionOf(pod, v.set.Name) == rev.Name {
			w.Failf("truncated", "revision %s is deleted, which Pod %s has", rev.Name, pod.Name)
		}
	}
}

// judgeFlip checks a change of images outside an upgrade. Such a change is allowed only at the end of a hot upgrade.
// One container then becomes idle, and the working container runs the image in its spec.
func (w *story) judgeFlip(before, after *corev1.Pod) {
	works := worksIn(after, "hot")
	for i := range after.Spec.Containers {
		b, a := &before.Spec.Containers[i], &after.Spec.Containers[i]
		if b.Image != a.Image && (a.Image != "empty:v1" || a.Name == works) {
			w.Failf("images", "container %s of Pod %s gets %s without an upgrade", a.Name, after.Name, a.Image)
		}
	}
	for i := range after.Spec.InitContainers {
		if before.Spec.InitContainers[i].Image != after.Spec.InitContainers[i].Image {
			w.Failf("images", "a native sidecar of Pod %s changes without an upgrade", after.Name)
		}
	}
	want, runs := container(after, works).Image, w.Nodes.Image(after.UID, works)
	if evicted := runs == "" && want != "hot:broken"; runs != want && !evicted { // the eviction may still be unknown
		w.Failf("gap", "a container of Pod %s becomes idle while %s runs %q, not %s", after.Name, works, runs, want)
	}
}

// hashIn reports whether the annotations of a Pod record the hash of the newest sidecars.
func hashIn(control *sidecarcontrol.Control, pod *corev1.Pod, set *sidecarcontrol.Set) bool {
	s := control.Read(pod, set, time.Now())
	return s.Injected && s.Updated
}

// judgeTwins checks that the two containers of a hot upgrade never have the same image.
func (w *story) judgeTwins(pod *corev1.Pod) {
	one, two := podstate.Container(pod, "hot-1"), podstate.Container(pod, "hot-2")
	if one != nil && two != nil && one.Image == two.Image {
		w.Failf("twins", "both containers of Pod %s have %s", pod.Name, one.Image)
	}
}

// judgeUpgrade checks that a Pod whose annotations say that it was upgraded has all images of the newest sidecars,
// and had to be upgraded.
func (w *story) judgeUpgrade(v *sight, before, after *corev1.Pod) {
	if has, why := hasVersion(after, v.set); !has {
		w.Failf("half", "Pod %s is upgraded, and has not the version of set %s: %s", after.Name, v.set.Name, why)
	}
	w.judgeGap(v, before, after)
	w.judgePatches(v, before, after)
	w.judgeWanted(v, before)
}

// judgeGap checks that an upgrade never changes the only ready container of a hot sidecar.
func (w *story) judgeGap(v *sight, before, after *corev1.Pod) {
	served, kept := 0, 0
	for _, name := range []string{"hot-1", "hot-2"} {
		b, status := container(before, name), podstate.ContainerStatus(v.pods[before.UID], name)
		if b == nil || b.Image == "empty:v1" || w.Nodes.Image(before.UID, name) != b.Image || status == nil || !status.Ready {
			continue
		}
		if served++; container(after, name).Image == b.Image {
			kept++
		}
	}
	if served > 0 && kept == 0 {
		w.Failf("gap", "the hot sidecar of Pod %s served, and does not while it is upgraded", before.Name)
	}
}

// judgePatches checks that an upgrade also writes the annotations of the set.
func (w *story) judgePatches(v *sight, before, after *corev1.Pod) {
	for i := range v.set.Spec.PatchPodMetadata {
		p := &v.set.Spec.PatchPodMetadata[i]
		for key, value := range p.Annotations {
			if was, there := before.Annotations[key]; there && p.PatchPolicy == pub.SidecarSetRetain {
				value = was
			}
			if got := after.Annotations[key]; got != value {
				w.Failf("annotations", "Pod %s is upgraded, and its annotation %s is %q, not %q", after.Name, key, got, value)
			}
		}
	}
}

// judgeWanted checks that the update strategy of the set allows the upgrade of this Pod.
func (w *story) judgeWanted(v *sight, before *corev1.Pod) {
	u := &v.set.Spec.UpdateStrategy
	seen := v.pods[before.UID]
	if seen == nil || u.Paused || u.Type == pub.SidecarSetNotUpdate {
		w.Failf("paused", "Pod %s is upgraded, which nobody wants", before.Name)
	}
	if u.Selector != nil && seen.Labels["wave"] != "a" {
		w.Failf("selector", "Pod %s is upgraded, which %v excludes", before.Name, u.Selector)
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
	s, problems, _ := resolve(v.set, byIndex)
	if problems != nil {
		w.Failf("invalid", "Pod %s is upgraded, while the spec makes no sense", before.Name)
	}
	if kept := s.of(all).Partition; len(v.upgraded) > waiting-kept {
		w.Failf("partition", "Pod %s is the %d. that is upgraded, of %d that wait with a partition of %d", before.Name, len(v.upgraded), waiting, kept)
	}
}

// standing returns a Pod's Standing with the set, from the Pod that the reconciliation has read.
func (w *story) standing(v *sight, pod *corev1.Pod) sidecarcontrol.Standing {
	if !podstate.IsActive(pod) || !v.matches(pod) {
		return sidecarcontrol.Standing{}
	}
	return w.control.Read(pod, v.compiled, time.Now())
}

// serves reports whether a Pod is in service, and none of its sidecars is being upgraded.
func (w *story) serves(pod *corev1.Pod) bool {
	if !podstate.IsActive(pod) || !podstate.IsReady(pod) {
		return false
	}
	for _, name := range w.control.Injected(pod) {
		if set, ok := w.Server.Stored(&v1beta1.SidecarSet{}, client.ObjectKey{Name: name}).(*v1beta1.SidecarSet); ok {
			compiled, err := Compile(set, "", nil)
			if err != nil {
				continue
			}
			s := w.control.Read(pod, compiled, time.Now())
			if s.Injected && len(s.Waiting) > 0 {
				return false
			}
			if s.Injected && saysUpgraded(pod, set.Name) {
				w.judgeServing(pod, set)
			}
		}
	}
	return true
}

// saysUpgraded reports whether the annotations of a Pod record a recent upgrade since the injection.
func saysUpgraded(pod *corev1.Pod, set string) bool {
	at := func(key string) time.Time {
		recorded := map[string]struct {
			UpdateTimestamp metav1.Time `json:"updateTimestamp"`
		}{}
		_ = json.Unmarshal([]byte(pod.Annotations[key]), &recorded)
		return recorded[set].UpdateTimestamp.Time
	}
	upgraded := at(apps.AnnotationSidecarSetHash)
	return upgraded.After(at(apps.AnnotationSidecarSetHashWithoutImage)) && time.Since(upgraded) < 10*time.Minute
}

// judgeServing checks that a Pod that counts as in service runs the images of all sidecars in its spec.
func (w *story) judgeServing(pod *corev1.Pod, set *v1beta1.SidecarSet) {
	for _, name := range ownNames(set) {
		if c := container(pod, name); c != nil {
			if runs := w.Nodes.Image(pod.UID, name); runs != "" && runs != c.Image {
				w.Failf("serves", "container %s of Pod %s runs %s, not %s, and nothing is waited for", name, pod.Name, runs, c.Image)
			}
		}
	}
}

// judgeBudget checks that the number of the set's Pods that upgrades keep out of service, including this Pod, stays
// within the budget.
func (w *story) judgeBudget(v *sight, pod *corev1.Pod) {
	var all []sidecarcontrol.Standing
	away := 0
	for _, seen := range v.pods {
		if s := w.standing(v, seen); s.Injected {
			all = append(all, s)
			// Pods that another reconciliation took out of service after this reconciliation had decided do not count
			// here, but count for the other SidecarSet.
			if t, ok := w.taken[seen.UID]; ok && seen.UID != pod.UID && (t.pass == v || t.write <= v.after) {
				away++
			}
		}
	}
	s, problems, _ := resolve(v.set, byIndex)
	if problems != nil {
		return
	}
	if most := s.of(all).MaxUnavailable; away+1 > most {
		w.Failf("budget", "Pod %s of set %s is taken out of service beside %d others, of %d that may be", pod.Name, v.set.Name, away, most)
	}
}

// check forgets Pods that are in service again, or were deleted.
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
