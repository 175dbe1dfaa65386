package cloneset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/restart/restarttest"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// taskView is the input of a reconciliation: the owner and its Pods in the cache at the start, and the writes since.
type taskView struct {
	owner   *v1beta1.CloneSet
	pods    map[types.UID]*corev1.Pod
	others  map[types.UID]bool // foreign Pods
	now     time.Time
	taken   map[types.UID]bool // available Pods taken out of service by the task
	touched map[types.UID]bool // Pods in taken, and Pods that were not available
	gone    int                // deleted Pods of the right revision that podsToDelete does not name
	decided bool               // the reconciliation has written, or has sent a dry run
}

// look records the content of the cache from which the reconciliation decides.
func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	v, _ := t.View.(*taskView)
	if v == nil {
		v = &taskView{taken: map[types.UID]bool{}, touched: map[types.UID]bool{}}
		t.View = v
	}
	if v.decided = v.decided || call != nil && (!call.IsRead() || call.DryRun); v.decided {
		return
	}
	var cs v1beta1.CloneSet
	if t.Controller != "cloneset" || t.Process.Cache.Get(context.Background(), t.Object, &cs) != nil {
		return
	}
	// A reconciliation may first have to find out whether an earlier write without a response has succeeded, so the
	// inputs are those at the last read.
	v.now, v.owner, v.pods, v.others = time.Now(), &cs, map[types.UID]*corev1.Pod{}, map[types.UID]bool{}
	var pods corev1.PodList
	if err := t.Process.Cache.List(context.Background(), &pods); err != nil {
		w.Failf("story", "reading the cache: %v", err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; metav1.IsControlledBy(pod, &cs) {
			v.pods[pod.UID] = pod
		} else {
			v.others[pod.UID] = true
		}
	}
}

// judge checks the effect of a controller's call.
func (w *story) judge(write *chaos.Write) {
	call := write.Call
	v, _ := write.Task.View.(*taskView)
	if v == nil {
		v = &taskView{}
	}
	switch call.Resource.Resource {
	case "pods":
		old, _ := write.Before.(*corev1.Pod)
		pod, _ := write.After.(*corev1.Pod)
		w.judgePod(write.Task, v, call, old, pod)
	case "containerrecreaterequests":
		w.judgeRestart(v, write)
	case "imagepulljobs":
		w.judgeDownload(v, write)
	case "persistentvolumeclaims":
		before, existed := write.Before.(*corev1.PersistentVolumeClaim)
		after, exists := write.After.(*corev1.PersistentVolumeClaim)
		switch {
		case existed && call.Verb == "delete":
			w.judgeClaim(v, before)
		case existed && exists:
			w.judgeHandOver(v, after)
		}
	}
}

// judgeRestart checks that a restart of containers stays within the budget of updates.
func (w *story) judgeRestart(v *taskView, write *chaos.Write) {
	if v.owner == nil {
		w.Failf("restart", "%s of %s by another loop", write.Call.Verb, write.Call.Name)
	}
	w.judgeFreshness(write.Task, v, "restarts containers")
	w.agents.Judge(write, restarttest.View{
		Owner: v.owner, Pods: slices.Collect(maps.Values(v.pods)), Least: int(*v.owner.Spec.Replicas) - maxUnavailable(v.owner), Paused: v.owner.Spec.UpdateStrategy.RollingUpdate.Paused,
		IsAvailable: func(pod *corev1.Pod) bool { return !v.taken[pod.UID] && isAvailable(v.owner, pod, v.now) },
	})
}

// judgePod checks the effect of a call on its Pod. pod is nil for a deleted Pod.
func (w *story) judgePod(t *chaos.Task, v *taskView, call faultapi.Call, old, pod *corev1.Pod) {
	switch call.Verb {
	case "create":
		w.judgeCreation(t, v, pod)
		return
	case "delete":
		w.judgeDeletion(t, v, call, old)
	default:
		w.judgeGate(call, old, pod)
		w.judgeGracePeriod(v, call, old, pod)
		w.judgeClaimTemplates(old, pod)
	}
	if v.owner == nil {
		return
	}
	now := time.Now()
	if call.Verb == "delete" || (isAvailable(v.owner, old, now) && !isAvailable(v.owner, pod, now)) {
		w.judgeBudget(t, v, call, old)
		w.taken[old.UID] = w.Server.Version()
		v.touched[old.UID] = true
	}
}

// judgeCreation checks that an instance id has at most one Pod, and the number of Pods never exceeds replicas plus
// maxSurge.
func (w *story) judgeCreation(t *chaos.Task, v *taskView, pod *corev1.Pod) {
	active := 0
	for _, other := range faultapi.All[*corev1.Pod](w.Server) {
		if !podstate.IsActive(other) || !metav1.IsControlledBy(other, v.owner) {
			continue
		}
		if other.Labels["app"] == v.owner.Name { // otherwise the Pod will be released, and a policy may delay the release
			active++
		}
		if other.UID != pod.UID && other.Labels[apps.LabelInstanceID] == pod.Labels[apps.LabelInstanceID] {
			w.Failf("creation", "Pods %s and %s have one instance id", other.Name, pod.Name)
		}
	}
	strategy, most := &v.owner.Spec.UpdateStrategy, int(*v.owner.Spec.Replicas)
	if strategy.Type != v1beta1.OnDelete {
		most += strategy.RollingUpdate.MaxSurge.IntValue()
	}
	if active > most {
		w.Failf("creation", "creating %s makes %d active Pods, where replicas and surge of %s allow %d", pod.Name, active, strategy.Type, most)
	}
	for claim := range claimsOf(pod) {
		if other := w.userOf(claim, pod); other != nil {
			w.Failf("claim", "new Pod %s gets claim %s, which Pod %s uses", pod.Name, claim, other.Name)
		}
	}
	w.judgeNewClaims(pod)
	w.judgeFreshness(t, v, "creates "+pod.Name)
}

// judgeNewClaims checks that a new Pod has the claims of its revision, that is, of the claim templates at the time
// when the revision was created.
func (w *story) judgeNewClaims(pod *corev1.Pod) {
	var data string
	for _, rev := range faultapi.All[*appsv1.ControllerRevision](w.Server) {
		if revision.Same(pod.Labels[apps.LabelRevision], rev.Name) && metav1.GetControllerOf(rev).UID == metav1.GetControllerOf(pod).UID {
			data = string(rev.Data.Raw)
		}
	}
	var possible [][]string
	for _, e := range w.Server.Events(&v1beta1.CloneSet{}) {
		cs, ok := e.Object.(*v1beta1.CloneSet)
		if !ok || !metav1.IsControlledBy(pod, cs) {
			continue
		}
		if raw, err := revision.Encode(&cs.Spec.Template); err == nil && string(raw) == data {
			possible = append(possible, claimNames(cs, pod.Name))
		}
	}
	got := slices.Sorted(maps.Keys(claimsOf(pod)))
	if len(possible) > 0 && !slices.ContainsFunc(possible, func(names []string) bool { return slices.Equal(names, got) }) {
		w.Failf("claim templates", "new Pod %s of revision %s uses claims %v, which its template never had: %v", pod.Name, pod.Labels[apps.LabelRevision], got, possible)
	}
}

// claimNames returns the names of the claims that a CloneSet creates for a Pod.
func claimNames(cs *v1beta1.CloneSet, pod string) (names []string) {
	for i := range cs.Spec.VolumeClaimTemplates {
		names = append(names, cs.Spec.VolumeClaimTemplates[i].Name+"-"+pod)
	}
	slices.Sort(names)
	return names
}

// judgeFreshness checks the inputs of a reconciliation that takes a Pod out of service. The inputs must show all
// earlier writes of the controller that took Pods out of service.
func (w *story) judgeFreshness(t *chaos.Task, v *taskView, what string) {
	for _, uid := range slices.Sorted(maps.Keys(w.taken)) {
		version := w.taken[uid]
		pod, ok := v.pods[uid]
		if v.touched[uid] || !ok || pod.DeletionTimestamp != nil {
			continue
		}
		if seen, err := strconv.ParseInt(pod.ResourceVersion, 10, 64); err != nil || seen < version {
			w.Failf("stale view", "%s %s on a view of Pod %s at %s, which it took out of service at %d", t.Name, what, pod.Name, pod.ResourceVersion, version)
		}
	}
}

// judgeDeletion checks that the controller deletes only the owner's Pods, and only for a valid reason.
func (w *story) judgeDeletion(t *chaos.Task, v *taskView, call faultapi.Call, pod *corev1.Pod) {
	switch {
	case v.owner == nil || !metav1.IsControlledBy(pod, v.owner):
		w.Failf("deletion", "%s deletes Pod %s, which is not its own", t.Name, pod.Name)
	case call.UID != pod.UID:
		w.Failf("deletion", "Pod %s is deleted without its UID", pod.Name)
	}
	seen := v.pods[pod.UID]
	if seen == nil {
		w.Failf("deletion", "Pod %s is deleted, which the view of %s does not hold", pod.Name, t.Name)
	}
	_, labelled := seen.Labels[apps.LabelSpecifiedDelete]
	state := lifecycle.State(seen.Labels[apps.LabelLifecycleState])
	if labelled || state == lifecycle.PreparingDelete || slices.Contains(v.owner.Spec.ScaleStrategy.PodsToDelete, pod.Name) || w.outdated(v.owner, seen) {
		return
	}
	active, old := 0, 0
	for _, other := range v.pods {
		if podstate.IsActive(other) {
			active++
			if w.outdated(v.owner, other) {
				old++
			}
		}
	}
	if w.setup.rollback && old < keptOld(v.owner) {
		return // recreated at the revision that the partition keeps
	}
	if v.gone++; active-v.gone < int(*v.owner.Spec.Replicas) {
		w.Failf("deletion", "Pod %s is deleted for no reason: %d Pods, %d wanted", pod.Name, active, *v.owner.Spec.Replicas)
	}
}

// outdated reports whether a Pod is not at the revision of the owner's template.
func (w *story) outdated(cs *v1beta1.CloneSet, pod *corev1.Pod) bool {
	for _, e := range w.Server.Events(&appsv1.ControllerRevision{}) {
		rev := e.Object.(*appsv1.ControllerRevision)
		if !revision.Same(pod.Labels[apps.LabelRevision], rev.Name) {
			continue
		}
		content, err := revision.Decode(rev)
		return err != nil || !revision.SameTemplate(content.Template, &cs.Spec.Template, nil)
	}
	return true
}

// judgeBudget checks that no write makes fewer Pods available than allowed. The number is counted in the inputs of
// the reconciliation, which include all writes of the reconciliation itself.
func (w *story) judgeBudget(t *chaos.Task, v *taskView, call faultapi.Call, pod *corev1.Pod) {
	w.judgeFreshness(t, v, call.Verb+"s "+pod.Name)
	seen := v.pods[pod.UID]
	if seen == nil || v.taken[pod.UID] || !isAvailable(v.owner, seen, v.now) || w.agents.IsAway(seen) {
		return
	}
	available := 0
	for _, other := range v.pods {
		if isAvailable(v.owner, other, v.now) && !w.agents.IsAway(other) {
			available++
		}
	}
	v.taken[pod.UID] = true
	least := int(*v.owner.Spec.Replicas) - maxUnavailable(v.owner)
	if left := available - len(v.taken); left < least {
		w.Failf("budget", "%s of Pod %s leaves %d available Pods of %d, where at least %d must stay", call.Verb, pod.Name, left, available, least)
	}
}

func maxUnavailable(cs *v1beta1.CloneSet) int {
	v := cs.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable
	if v == nil {
		v = ptr.To(intstr.FromString("20%"))
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(*cs.Spec.Replicas), true)
	if err != nil {
		return 0
	}
	return n
}

// judgeGate checks that no image changes while the readiness gate is open, and the gate is opened only if every
// container runs the image in the spec.
func (w *story) judgeGate(call faultapi.Call, old, pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Image != old.Spec.Containers[i].Image && podstate.IsTrue(pod, apps.ConditionInPlaceUpdateReady) {
			w.Failf("gate", "%s changes an image of Pod %s under an open gate", call.Verb, pod.Name)
		}
	}
	if podstate.IsTrue(old, apps.ConditionInPlaceUpdateReady) || !podstate.IsTrue(pod, apps.ConditionInPlaceUpdateReady) {
		return
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if runs := w.Nodes.Image(pod.UID, c.Name); runs != "" && runs != c.Image {
			w.Failf("gate", "%s opens the gate of Pod %s, whose container %s runs %s and not %s", call.Verb, pod.Name, c.Name, runs, c.Image)
		}
	}
	w.judgeEnv(pod)
	if _, ok := pod.Annotations[apps.AnnotationInPlaceUpdateGrace]; ok {
		w.Failf("gate", "%s opens the gate of Pod %s in its grace period", call.Verb, pod.Name)
	}
}

// judgeGracePeriod checks that a delayed update changes the spec of a Pod only after the Pod was out of service for
// the grace period.
func (w *story) judgeGracePeriod(v *taskView, call faultapi.Call, old, pod *corev1.Pod) {
	before, after := old.Annotations[apps.AnnotationInPlaceUpdateGrace], pod.Annotations[apps.AnnotationInPlaceUpdateGrace]
	if after != "" {
		if before == "" {
			w.held[pod.UID] = v.now
		}
		return
	}
	var grace struct {
		Revision     string
		GraceSeconds int
	}
	var saved struct{ Revision string }
	if json.Unmarshal([]byte(before), &grace) != nil || grace.Revision == "" ||
		json.Unmarshal([]byte(pod.Annotations[apps.AnnotationInPlaceUpdateState]), &saved) != nil || grace.Revision != saved.Revision {
		return
	}
	held, ok := w.held[pod.UID]
	delete(w.held, pod.UID)
	for i := range pod.Spec.Containers {
		out := time.Since(held)
		if ok && pod.Spec.Containers[i].Image != old.Spec.Containers[i].Image && out < time.Duration(grace.GraceSeconds)*time.Second {
			w.Failf("gate", "%s changes an image of Pod %s after %v out of service, and not after %d s", call.Verb, pod.Name, out, grace.GraceSeconds)
		}
	}
}

// judgeClaimTemplates checks that if the gate is on and the policy may recreate Pods, no Pod keeps its claims in an
// update between revisions with different claim templates.
func (w *story) judgeClaimTemplates(old, pod *corev1.Pod) {
	from, to := old.Labels[apps.LabelRevision], pod.Labels[apps.LabelRevision]
	if !w.setup.recreateForClaims || from == to || w.setup.policy == 1 {
		return
	}
	hashes := map[string]string{}
	for _, rev := range faultapi.All[*appsv1.ControllerRevision](w.Server) {
		if hash, ok := rev.Annotations[apps.AnnotationClaimTemplateHash]; ok {
			hashes[revision.ShortName(rev.Name)] = hash
		}
	}
	was, known := hashes[revision.ShortName(from)]
	is, alsoKnown := hashes[revision.ShortName(to)]
	if known && alsoKnown && was != is {
		w.Failf("claim templates", "Pod %s goes in place from %s to %s, which has other claim templates", pod.Name, from, to)
	}
}

// judgeClaim checks that the controller deletes no claim of an existing Pod, of any owner, and no claim of an
// instance id for which the CloneSet has an active Pod.
func (w *story) judgeClaim(v *taskView, claim *corev1.PersistentVolumeClaim) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if pod.Labels[isDebug] != "" && v.others[pod.UID] && pod.DeletionTimestamp == nil && claimsOf(pod)[claim.Name] {
			w.Failf("claim", "claim %s is deleted, which Pod %s uses", claim.Name, pod.Name)
		}
	}
	if pod := w.userOf(claim.Name, nil); pod != nil {
		owner := "nobody"
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			owner = ref.Name
		}
		w.Failf("claim", "claim %s is deleted, which Pod %s of %s uses", claim.Name, pod.Name, owner)
	}
	ref := metav1.GetControllerOfNoCopy(claim)
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		own := metav1.GetControllerOfNoCopy(pod)
		if podstate.IsActive(pod) && own != nil && ref != nil && own.UID == ref.UID && pod.Labels[apps.LabelInstanceID] == claim.Labels[apps.LabelInstanceID] {
			w.Failf("claim", "claim %s is deleted, which Pod %s needs", claim.Name, pod.Name)
		}
	}
}

// judgeHandOver checks that a claim is handed over only to the Pod of its instance id, and not while a Pod of another
// owner uses it.
func (w *story) judgeHandOver(v *taskView, claim *corev1.PersistentVolumeClaim) {
	for _, ref := range claim.OwnerReferences {
		if ref.Kind != "Pod" {
			continue
		}
		if !strings.HasSuffix(ref.Name, "-"+claim.Labels[apps.LabelInstanceID]) {
			w.Failf("claim", "claim %s is handed over to Pod %s of another instance", claim.Name, ref.Name)
		}
		for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
			if pod.UID == ref.UID && v.others[pod.UID] && !claimsOf(pod)[claim.Name] {
				w.Failf("claim", "claim %s is handed over to Pod %s, which was released and does not use it", claim.Name, ref.Name)
			}
			if pod.UID != ref.UID && pod.Labels[isDebug] != "" && v.others[pod.UID] && pod.DeletionTimestamp == nil && claimsOf(pod)[claim.Name] {
				w.Failf("claim", "claim %s is handed over to Pod %s, while Pod %s uses it", claim.Name, ref.Name, pod.Name)
			}
		}
	}
}

// userOf returns a Pod, except the Pod but, that uses a claim and is not being deleted. Pods that users have created
// are skipped, because a controller may see such Pods too late.
func (w *story) userOf(claim string, but *corev1.Pod) *corev1.Pod {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if pod.DeletionTimestamp == nil && pod.Labels[isDebug] == "" && (but == nil || pod.UID != but.UID) && claimsOf(pod)[claim] {
			return pod
		}
	}
	return nil
}

// claimsOf returns the names of the claims used by a Pod.
func claimsOf(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			names[source.ClaimName] = true
		}
	}
	return names
}

// checkState checks the invariants that hold at every moment.
func (w *story) checkState() {
	ids := map[string]string{}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if !podstate.IsActive(pod) {
			continue
		}
		if _, ok := w.held[pod.UID]; ok && podstate.IsReady(pod) {
			w.held[pod.UID] = time.Now()
		}
		id := pod.Labels[apps.LabelInstanceID]
		if id == "" {
			continue
		}
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			id = string(ref.UID) + "/" + id
		}
		if other := ids[id]; other != "" {
			w.Failf("instance id", "Pods %s and %s have one instance id", other, pod.Name)
		}
		ids[id] = pod.Name
	}
}

// checkConverged checks the final state, when no loop has work to do any more.
func (w *story) checkConverged() {
	if w.senseless {
		for _, name := range w.setup.owners {
			cs := w.cloneSet(name)
			if !faulttest.IsTold(cs, cs.Status.ObservedGeneration, cs.Status.Conditions) {
				w.Failf("told", "nobody is told of the senseless spec of generation %d: %+v", cs.Generation, cs.Status)
			}
		}
		return
	}
	for _, name := range w.setup.owners {
		w.checkOwner(w.cloneSet(name))
	}
	w.checkClaims()
	w.checkImages()
	w.checkMemory()
}

func (w *story) checkOwner(cs *v1beta1.CloneSet) {
	revisions := map[string]*appsv1.ControllerRevision{}
	for _, rev := range faultapi.All[*appsv1.ControllerRevision](w.Server) {
		if metav1.IsControlledBy(rev, cs) {
			revisions[rev.Name] = rev
		}
	}
	replicas := int(*cs.Spec.Replicas)
	pods, old, held, sound := 0, 0, 0, true // held counts old Pods that are ready for an update
	var active []*corev1.Pod
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if !metav1.IsControlledBy(pod, cs) || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		pods++
		active = append(active, pod)
		outdated := !revision.Same(pod.Labels[apps.LabelRevision], cs.Status.UpdateRevision)
		old += ord(outdated)
		if isMangled(pod) {
			if sound = false; lifecycle.State(pod.Labels[apps.LabelLifecycleState]) == lifecycle.PreparingUpdate {
				w.Failf("converged Pod", "Pod %s waits for an update that cannot begin", pod.Name)
			}
			continue
		}
		held += ord(outdated)
		w.checkPod(cs, pod, revisions)
	}
	kept := keptOld(cs)
	if pods != replicas || old > kept && held > 0 {
		w.Failf("converged", "%d Pods, %d of them old, where %d are wanted and %d kept old", pods, old, replicas, kept)
	}
	if sound {
		w.checkStatus(cs, pods, pods-old, replicas-kept)
	}
	w.agents.Converged(cs, cs.Status.Conditions, active, sound && kept == 0)
	w.checkDownloads(cs, active, revisions)
	if limit := int(*cs.Spec.RevisionHistoryLimit); len(revisions) > limit+2+old {
		w.Failf("converged", "%d revisions, limit %d: %v", len(revisions), limit, slices.Sorted(maps.Keys(revisions)))
	}
}

// checkPod checks that the Pod is in service, settled, and matches the content of its revision label.
func (w *story) checkPod(cs *v1beta1.CloneSet, pod *corev1.Pod, revisions map[string]*appsv1.ControllerRevision) {
	state := lifecycle.State(pod.Labels[apps.LabelLifecycleState])
	switch {
	case pod.DeletionTimestamp != nil:
		w.Failf("converged Pod", "Pod %s is still terminating", pod.Name)
	case state != lifecycle.Normal:
		w.Failf("converged Pod", "Pod %s is in state %q", pod.Name, state)
	case !isAvailable(cs, pod, time.Now()):
		w.Failf("converged Pod", "Pod %s is not available: %s", pod.Name, asJSON(pod.Status.Conditions))
	case !podstate.IsTrue(pod, apps.ConditionInPlaceUpdateReady):
		w.Failf("converged Pod", "Pod %s has a closed gate", pod.Name)
	case w.setup.gate && !podstate.IsTrue(pod, apps.ConditionKruisePodReady):
		w.Failf("converged Pod", "Pod %s is held by %s", pod.Name, asJSON(podstate.Condition(pod, apps.ConditionKruisePodReady)))
	case pod.Annotations[apps.AnnotationInPlaceUpdateGrace] != "":
		w.Failf("converged Pod", "Pod %s is still in its grace period", pod.Name)
	}
	var rev *appsv1.ControllerRevision
	for _, r := range revisions {
		if revision.Same(pod.Labels[apps.LabelRevision], r.Name) {
			rev = r
		}
	}
	if rev == nil {
		w.Failf("converged Pod", "revision %s of Pod %s is not in the history", pod.Labels[apps.LabelRevision], pod.Name)
	}
	content, err := revision.Decode(rev)
	if err != nil {
		w.Failf("converged Pod", "revision %s: %v", rev.Name, err)
	}
	if got, want := pod.Labels[templateLabel], content.Template.Labels[templateLabel]; got != want {
		w.Failf("converged Pod", "Pod %s of revision %s has label %q, not %q", pod.Name, rev.Name, got, want)
	}
	for i := range content.Template.Spec.Containers {
		want, got := &content.Template.Spec.Containers[i], &pod.Spec.Containers[i]
		if got.Image != want.Image || !equality.Semantic.DeepEqual(got.Resources, defaulted(want.Resources)) || !equality.Semantic.DeepEqual(got.Env, want.Env) {
			w.Failf("converged Pod", "container %s of Pod %s is not as in revision %s: %s", got.Name, pod.Name, rev.Name, asJSON(got))
		}
	}
}

// defaulted returns resources with the defaults of the API server: limits without requests are copied to requests.
func defaulted(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := *r.DeepCopy()
	for name, quantity := range r.Limits {
		if _, ok := out.Requests[name]; ok {
			continue
		}
		if out.Requests == nil {
			out.Requests = corev1.ResourceList{}
		}
		out.Requests[name] = quantity
	}
	return out
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// lacksClaims reports whether a Pod at the update revision must be recreated because the Pod was created without a
// claim of the present claim templates.
func (w *story) lacksClaims(cs *v1beta1.CloneSet) bool {
	if !w.setup.recreateForClaims || cs.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy == v1beta1.InPlaceOnly {
		return false
	}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if podstate.IsActive(pod) && metav1.IsControlledBy(pod, cs) && revision.Same(pod.Labels[apps.LabelRevision], cs.Status.UpdateRevision) &&
			slices.ContainsFunc(claimNames(cs, pod.Name), func(name string) bool { return !claimsOf(pod)[name] }) {
			return true
		}
	}
	return false
}

func (w *story) checkStatus(cs *v1beta1.CloneSet, pods, updated, expected int) {
	s := cs.Status.DeepCopy()
	want := v1beta1.CloneSetStatus{
		ObservedGeneration: cs.Generation, Replicas: int32(pods), ReadyReplicas: int32(pods), AvailableReplicas: int32(pods),
		UpdatedReplicas: int32(updated), UpdatedReadyReplicas: int32(updated), UpdatedAvailableReplicas: int32(updated),
		ExpectedUpdatedReplicas: int32(expected),
	}
	got := *s
	waiting := s.Conditions.Find(apps.ConditionWaiting)
	if lacking := w.lacksClaims(cs); (waiting != nil) != lacking {
		w.Failf("converged status", "condition %+v, Pods lack claims: %t", waiting, lacking)
	}
	odd := s.Conditions.Find(apps.ConditionOddSpec)
	if reserved := len(validation.Reserved(&cs.Spec.Template, apps.ReservedPodLabels(), nil)) > 0; (odd != nil) != reserved {
		w.Failf("converged status", "condition %+v, the template has reserved keys: %t", odd, reserved)
	}
	got.Conditions.Drop(apps.ConditionWaiting)
	got.Conditions.Drop(apps.ConditionOddSpec)
	got.Conditions.Drop(apps.ConditionContainersRestarted)
	got.UpdateRevision, got.CurrentRevision, got.CollisionCount, got.LabelSelector = "", "", nil, ""
	if !equality.Semantic.DeepEqual(got, want) {
		w.Failf("converged status", "status is %s, want %s", asJSON(got), asJSON(want))
	}
}

// mostWanted is the largest number of Pods that a CloneSet can have: the largest replicas plus the largest surge.
const mostWanted = 5 + 2

// checkClaims checks that every Pod of a CloneSet has its claims. Without reuse, no claim of a deleted Pod is left.
// With reuse, few claims exist that never had a Pod, because the next Pods use the claims of failed creations.
func (w *story) checkClaims() {
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for _, claim := range faultapi.All[*corev1.PersistentVolumeClaim](w.Server) {
		claims[claim.Name] = claim
	}
	needed, alive := map[string]bool{}, map[string]bool{}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		alive[pod.Labels[apps.LabelInstanceID]] = true
		for name := range claimsOf(pod) {
			needed[name] = true
			claim := claims[name]
			if podstate.IsActive(pod) && pod.Labels["app"] != released && (claim == nil || claim.DeletionTimestamp != nil) {
				w.Failf("converged claims", "Pod %s lacks claim %s", pod.Name, name)
			}
		}
	}
	had := map[string]bool{}
	for _, e := range w.Server.Events(&corev1.Pod{}) {
		had[e.Object.GetLabels()[apps.LabelInstanceID]] = true
	}
	vain := map[types.UID]map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		claim := claims[name]
		id := claim.Labels[apps.LabelInstanceID]
		if needed[name] || alive[id] { // claims of earlier claim templates are deleted together with the instance
			continue
		}
		if !w.reuses(claim) {
			w.Failf("converged claims", "claim %s is left of a Pod that is gone", name)
		}
		if had[id] {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(claim).UID
		if vain[owner] == nil {
			vain[owner] = map[string]bool{}
		}
		if vain[owner][id] = true; len(vain[owner]) > mostWanted {
			w.Failf("converged claims", "claims of %d instances are left that never had a Pod", len(vain[owner]))
		}
	}
}

// reuses reports whether the owner of a claim may keep the claim.
func (w *story) reuses(claim *corev1.PersistentVolumeClaim) bool {
	for _, name := range w.setup.owners {
		if cs := w.cloneSet(name); metav1.IsControlledBy(claim, cs) {
			return cs.Spec.ScaleStrategy.EnablePVCReuse
		}
	}
	return false
}

// keptOld returns the number of Pods that the partition keeps at the old revision.
func keptOld(cs *v1beta1.CloneSet) int {
	replicas, value := int(*cs.Spec.Replicas), cs.Spec.UpdateStrategy.RollingUpdate.Partition
	if value == nil {
		return 0
	}
	kept := value.IntValue()
	if value.Type == intstr.String {
		percent, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
		if err != nil {
			return 0
		}
		if kept = (percent*replicas + 99) / 100; percent != 100 && replicas > 1 && kept == replicas {
			kept = replicas - 1
		}
	}
	return min(kept, replicas)
}
