package cloneset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing/synctest"
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
	"github.com/workloadkit/workloadkit/examples/faultapi"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
)

// history is what the controller has done so far, in all its processes.
type history struct {
	// taken holds, by Pod, the version of the write by which the controller last took it out of service or deleted it.
	taken map[types.UID]int64
}

func (w *world) truth() map[types.UID]*corev1.Pod {
	out := map[types.UID]*corev1.Pod{}
	for _, pod := range faultapi.All[*corev1.Pod](w.server) {
		out[pod.UID] = pod
	}
	return out
}

// harvestDying waits for what a dying process does last.
func (w *world) harvestDying() { synctest.Wait() }

// judge looks at what a call of the controller has done.
func (w *world) judge(t *task, call faultapi.Call, before map[types.UID]*corev1.Pod, version int64) {
	if call.IsRead() || w.server.Version() == version {
		return
	}
	switch call.Resource.Resource {
	case "pods":
		w.judgePod(t, call, named(before, call.Name), named(w.truth(), call.Name))
	case "persistentvolumeclaims":
		if call.Verb == "delete" {
			w.judgeClaim(call)
		}
	}
}

func named(pods map[types.UID]*corev1.Pod, name string) *corev1.Pod {
	for _, pod := range pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// judgePod looks at what a call has made of its Pod; pod is nil when that is gone.
func (w *world) judgePod(t *task, call faultapi.Call, old, pod *corev1.Pod) {
	switch call.Verb {
	case "create":
		w.judgeCreation(t, pod, w.truth())
		return
	case "delete":
		w.judgeDeletion(t, call, old)
	default:
		w.judgeGate(call, old, pod)
	}
	if t.owner == nil {
		return
	}
	now := time.Now()
	if call.Verb == "delete" || (isAvailable(t.owner, old, now) && !isAvailable(t.owner, pod, now)) {
		w.judgeBudget(t, call, old)
		if w.history.taken == nil {
			w.history.taken = map[types.UID]int64{}
		}
		w.history.taken[old.UID] = w.server.Version()
		t.touched[old.UID] = true
	}
}

// judgeCreation: one Pod per instance id, and never more Pods than replicas and surge.
func (w *world) judgeCreation(t *task, pod *corev1.Pod, after map[types.UID]*corev1.Pod) {
	active := 0
	for _, other := range after {
		if !podstate.IsActive(other) || !metav1.IsControlledBy(other, t.owner) {
			continue
		}
		active++
		if other.UID != pod.UID && other.Labels[apps.LabelInstanceID] == pod.Labels[apps.LabelInstanceID] {
			w.failf("Pods %s and %s have one instance id", other.Name, pod.Name)
		}
	}
	ru := t.owner.Spec.UpdateStrategy.RollingUpdate
	if most := int(*t.owner.Spec.Replicas) + ru.MaxSurge.IntValue(); active > most {
		w.failf("creating %s makes %d active Pods, where replicas and surge allow %d", pod.Name, active, most)
	}
	w.judgeFreshness(t, "creates "+pod.Name)
}

// judgeFreshness: the view that a task acts on holds everything that the controller did to Pods' service before.
func (w *world) judgeFreshness(t *task, what string) {
	for _, uid := range slices.Sorted(maps.Keys(w.history.taken)) {
		version := w.history.taken[uid]
		pod, ok := t.pods[uid]
		if t.touched[uid] || !ok || pod.DeletionTimestamp != nil {
			continue
		}
		if seen, err := strconv.ParseInt(pod.ResourceVersion, 10, 64); err != nil || seen < version {
			w.failf("%s %s on a view of Pod %s at %s, which it took out of service at %d", t.name, what, pod.Name, pod.ResourceVersion, version)
		}
	}
}

// judgeDeletion: only what the owner has, and only for a reason (C-16 to C-18, C-45).
func (w *world) judgeDeletion(t *task, call faultapi.Call, pod *corev1.Pod) {
	switch {
	case t.owner == nil || !metav1.IsControlledBy(pod, t.owner):
		w.failf("%s deletes Pod %s, which is not its own", t.name, pod.Name)
	case call.UID != pod.UID:
		w.failf("Pod %s is deleted without its UID", pod.Name)
	}
	seen := t.pods[pod.UID]
	if seen == nil {
		w.failf("Pod %s is deleted, which the view of %s does not hold", pod.Name, t.name)
	}
	_, labelled := seen.Labels[apps.LabelSpecifiedDelete]
	state := lifecycle.State(seen.Labels[apps.LabelLifecycleState])
	if labelled || state == lifecycle.PreparingDelete || slices.Contains(t.owner.Spec.ScaleStrategy.PodsToDelete, pod.Name) || w.outdated(t.owner, seen) {
		return
	}
	active, old := 0, 0
	for _, other := range t.pods {
		if podstate.IsActive(other) {
			active++
			if w.outdated(t.owner, other) {
				old++
			}
		}
	}
	if kept := t.owner.Spec.UpdateStrategy.RollingUpdate.Partition; w.setup.rollback && kept != nil && old < kept.IntValue() {
		return // recreated at the revision that the partition keeps
	}
	if t.gone++; active-t.gone < int(*t.owner.Spec.Replicas) {
		w.failf("Pod %s is deleted for no reason: %d Pods, %d wanted", pod.Name, active, *t.owner.Spec.Replicas)
	}
}

// outdated reports whether a Pod is not at the revision of the owner's template.
func (w *world) outdated(cs *v1beta1.CloneSet, pod *corev1.Pod) bool {
	for _, e := range w.server.Events(&appsv1.ControllerRevision{}) {
		rev := e.Object.(*appsv1.ControllerRevision)
		if !podstate.SameRevision(pod.Labels[apps.LabelRevision], rev.Name) {
			continue
		}
		content, err := revision.Decode(rev)
		return err != nil || !revision.SameTemplate(content.Template, &cs.Spec.Template, nil)
	}
	return true
}

// judgeBudget: judged by the view, which holds all own writes, no action takes available Pods below what is allowed.
func (w *world) judgeBudget(t *task, call faultapi.Call, pod *corev1.Pod) {
	w.judgeFreshness(t, call.Verb+"s "+pod.Name)
	seen := t.pods[pod.UID]
	if seen == nil || t.taken[pod.UID] || !isAvailable(t.owner, seen, t.now) {
		return
	}
	available := 0
	for _, other := range t.pods {
		if isAvailable(t.owner, other, t.now) {
			available++
		}
	}
	t.taken[pod.UID] = true
	least := int(*t.owner.Spec.Replicas) - maxUnavailable(t.owner)
	if left := available - len(t.taken); left < least {
		w.failf("%s of Pod %s leaves %d available Pods of %d, where at least %d must stay", call.Verb, pod.Name, left, available, least)
	}
}

func maxUnavailable(cs *v1beta1.CloneSet) int {
	v := cs.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable
	if v == nil {
		v = ptr.To(intstr.FromString(defaultMaxUnavailable))
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(*cs.Spec.Replicas), true)
	if err != nil {
		return 0
	}
	return n
}

// judgeGate: no image changes under an open gate, and a gate is opened only when no container still runs another image than
// the spec's.
func (w *world) judgeGate(call faultapi.Call, old, pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Image != old.Spec.Containers[i].Image && podstate.IsTrue(pod, apps.ConditionInPlaceUpdateReady) {
			w.failf("%s changes an image of Pod %s under an open gate", call.Verb, pod.Name)
		}
	}
	if podstate.IsTrue(old, apps.ConditionInPlaceUpdateReady) || !podstate.IsTrue(pod, apps.ConditionInPlaceUpdateReady) {
		return
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if runs := w.nodes.Image(pod.UID, c.Name); runs != "" && runs != c.Image {
			w.failf("%s opens the gate of Pod %s, whose container %s runs %s and not %s", call.Verb, pod.Name, c.Name, runs, c.Image)
		}
	}
	if _, ok := pod.Annotations[apps.AnnotationInPlaceUpdateGrace]; ok {
		w.failf("%s opens the gate of Pod %s in its grace period", call.Verb, pod.Name)
	}
}

// judgeClaim: no claim is deleted while its instance has an active Pod.
func (w *world) judgeClaim(call faultapi.Call) {
	for _, claim := range faultapi.All[*corev1.PersistentVolumeClaim](w.server) {
		if claim.Name != call.Name || claim.DeletionTimestamp == nil {
			continue
		}
		for _, pod := range faultapi.All[*corev1.Pod](w.server) {
			if podstate.IsActive(pod) && pod.Labels[apps.LabelInstanceID] == claim.Labels[apps.LabelInstanceID] {
				w.failf("claim %s is deleted, which Pod %s needs", claim.Name, pod.Name)
			}
		}
	}
}

// checkState holds what must be true of the server at any time.
func (w *world) checkState() {
	ids := map[string]string{}
	for _, pod := range faultapi.All[*corev1.Pod](w.server) {
		if !podstate.IsActive(pod) {
			continue
		}
		id := pod.Labels[apps.LabelInstanceID]
		if other := ids[id]; other != "" && id != "" {
			w.failf("Pods %s and %s have one instance id", other, pod.Name)
		}
		ids[id] = pod.Name
	}
}

// rounds is how often quiesce goes around before a schedule counts as never coming to rest.
const rounds = 400

// quiesce stops all faults and lets everything come to rest.
func (w *world) quiesce() {
	w.calm = true
	w.logf("faults stop")
	w.settleSpec()
	for range rounds {
		before := w.server.Version()
		w.settleOutside()
		w.settleCaches()
		w.settleController()
		if w.server.Version() != before || len(w.process.gate.Waiting()) > 0 || len(w.process.dirty) > 0 {
			continue
		}
		if len(w.process.timers) == 0 && len(w.process.running) == 0 {
			return
		}
		w.sleep(time.Second)
	}
	w.failf("still busy after %d rounds: dirty %v, timers %v, waiting %v", rounds, w.process.dirty, w.process.timers, w.process.gate.Waiting())
}

// settleSpec makes the last spec one that can be reached.
func (w *world) settleSpec() {
	var cs v1beta1.CloneSet
	if err := w.user.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: cloneSetName}, &cs); err != nil {
		w.createOwner()
		w.settleSpec()
		return
	}
	ru := cs.Spec.UpdateStrategy.RollingUpdate
	ru.Paused = false
	ru.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	if ru.PodUpdatePolicy == v1beta1.InPlaceOnly {
		ru.PodUpdatePolicy = v1beta1.InPlaceIfPossible
	}
	if err := w.user.Update(context.Background(), &cs); err != nil {
		w.failf("the last edit: %v", err)
	}
}

func (w *world) settleOutside() {
	for range 20 {
		busy := w.nodes.Settle()
		for _, pod := range faultapi.All[*corev1.Pod](w.server) {
			busy = w.honour(pod) || busy
		}
		busy = w.server.CollectGarbage() || busy
		if !busy {
			return
		}
	}
	w.failf("nodes, hooks and garbage collection do not come to rest")
}

func (w *world) settleCaches() {
	for _, resource := range w.process.cache.Resources() {
		w.wake(resource, w.process.cache.Deliver(resource, w.process.cache.Behind(resource)))
		w.process.cache.Bookmark(resource)
	}
}

func (w *world) settleController() {
	for range rounds {
		if waiting := w.process.gate.Waiting(); len(waiting) > 0 {
			w.let(waiting[0], faultapi.Fate{})
			continue
		}
		due := w.due()
		if len(due) == 0 {
			return
		}
		w.work(due[0])
	}
}

// checkConverged holds what must be true once everything has come to rest.
func (w *world) checkConverged() {
	var cs v1beta1.CloneSet
	if err := w.user.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: cloneSetName}, &cs); err != nil {
		w.failf("reading the CloneSet: %v", err)
	}
	revisions := map[string]*appsv1.ControllerRevision{}
	for _, rev := range faultapi.All[*appsv1.ControllerRevision](w.server) {
		if metav1.IsControlledBy(rev, &cs) {
			revisions[rev.Name] = rev
		}
	}
	replicas := int(*cs.Spec.Replicas)
	pods, old := 0, 0
	for _, pod := range faultapi.All[*corev1.Pod](w.server) {
		if !metav1.IsControlledBy(pod, &cs) || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		pods++
		if !podstate.SameRevision(pod.Labels[apps.LabelRevision], cs.Status.UpdateRevision) {
			old++
		}
		w.checkPod(&cs, pod, revisions)
	}
	part := cs.Spec.UpdateStrategy.RollingUpdate.Partition
	kept := 0
	if part != nil {
		kept = min(part.IntValue(), replicas)
	}
	if pods != replicas || old > kept {
		w.failf("%d Pods, %d of them old, where %d are wanted and %d kept old", pods, old, replicas, kept)
	}
	w.checkStatus(&cs, pods, pods-old, replicas-kept)
	w.checkClaims(&cs)
	if limit := int(*cs.Spec.RevisionHistoryLimit); len(revisions) > limit+2+old {
		w.failf("%d revisions, limit %d: %v", len(revisions), limit, slices.Sorted(maps.Keys(revisions)))
	}
	if n := w.process.reconciler.client.Tracker().Len(); n > 1 {
		w.logf("tracker still holds %d owners", n)
	}
}

// checkPod: in service, settled, and with the content that its revision label says.
func (w *world) checkPod(cs *v1beta1.CloneSet, pod *corev1.Pod, revisions map[string]*appsv1.ControllerRevision) {
	state := lifecycle.State(pod.Labels[apps.LabelLifecycleState])
	switch {
	case pod.DeletionTimestamp != nil:
		w.failf("Pod %s is still terminating", pod.Name)
	case state != lifecycle.Normal:
		w.failf("Pod %s is in state %q", pod.Name, state)
	case !isAvailable(cs, pod, time.Now()):
		w.failf("Pod %s is not available: %s", pod.Name, asJSON(pod.Status.Conditions))
	case !podstate.IsTrue(pod, apps.ConditionInPlaceUpdateReady):
		w.failf("Pod %s has a closed gate", pod.Name)
	case w.setup.gate && !podstate.IsTrue(pod, apps.ConditionKruisePodReady):
		w.failf("Pod %s is held by %s", pod.Name, asJSON(podstate.Condition(pod, apps.ConditionKruisePodReady)))
	case pod.Annotations[apps.AnnotationInPlaceUpdateGrace] != "":
		w.failf("Pod %s is still in its grace period", pod.Name)
	}
	rev := revision.Find(slices.Collect(maps.Values(revisions)), pod.Labels[apps.LabelRevision])
	if rev == nil {
		w.failf("revision %s of Pod %s is not in the history", pod.Labels[apps.LabelRevision], pod.Name)
	}
	content, err := revision.Decode(rev)
	if err != nil {
		w.failf("revision %s: %v", rev.Name, err)
	}
	if got, want := pod.Labels[templateLabel], content.Template.Labels[templateLabel]; got != want {
		w.failf("Pod %s of revision %s has label %q, not %q", pod.Name, rev.Name, got, want)
	}
	for i := range content.Template.Spec.Containers {
		want, got := &content.Template.Spec.Containers[i], &pod.Spec.Containers[i]
		if got.Image != want.Image || !equality.Semantic.DeepEqual(got.Resources.Requests, want.Resources.Requests) || !equality.Semantic.DeepEqual(got.Env, want.Env) {
			w.failf("container %s of Pod %s is not as in revision %s: %s", got.Name, pod.Name, rev.Name, asJSON(got))
		}
	}
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

func (w *world) checkStatus(cs *v1beta1.CloneSet, pods, updated, expected int) {
	s := cs.Status.DeepCopy()
	want := v1beta1.CloneSetStatus{
		ObservedGeneration: cs.Generation, Replicas: int32(pods), ReadyReplicas: int32(pods), AvailableReplicas: int32(pods),
		UpdatedReplicas: int32(updated), UpdatedReadyReplicas: int32(updated), UpdatedAvailableReplicas: int32(updated),
		ExpectedUpdatedReplicas: int32(expected),
	}
	got := *s
	got.UpdateRevision, got.CurrentRevision, got.CollisionCount, got.LabelSelector = "", "", nil, ""
	if !equality.Semantic.DeepEqual(got, want) {
		w.failf("status is %s, want %s", asJSON(got), asJSON(want))
	}
}

// checkClaims: every Pod has its claims, and none is left of Pods that are gone unless it may be reused.
func (w *world) checkClaims(cs *v1beta1.CloneSet) {
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for _, claim := range faultapi.All[*corev1.PersistentVolumeClaim](w.server) {
		claims[claim.Name] = claim
	}
	needed := map[string]bool{}
	for _, pod := range faultapi.All[*corev1.Pod](w.server) {
		if !metav1.IsControlledBy(pod, cs) {
			continue
		}
		for i := range pod.Spec.Volumes {
			source := pod.Spec.Volumes[i].PersistentVolumeClaim
			if source == nil {
				continue
			}
			needed[source.ClaimName] = true
			if claim := claims[source.ClaimName]; podstate.IsActive(pod) && (claim == nil || claim.DeletionTimestamp != nil) {
				w.failf("Pod %s lacks claim %s", pod.Name, source.ClaimName)
			}
		}
	}
	for name := range claims {
		if !needed[name] && !cs.Spec.ScaleStrategy.EnablePVCReuse {
			w.failf("claim %s is left of a Pod that is gone", name)
		}
	}
}

// checkIdle: a settled CloneSet causes no request, however often it is looked at.
func (w *world) checkIdle() {
	calls := w.calls
	for _, pod := range faultapi.All[*corev1.Pod](w.server) {
		w.process.dirty["pod "+pod.Name] = true
	}
	w.process.dirty["owner "+cloneSetName] = true
	w.logf("one more round")
	w.settleController()
	if w.calls != calls {
		w.failf("%d requests although nothing changed", w.calls-calls)
	}
	if name := w.process.cache.Altered(); name != "" {
		w.failf("%s was modified in the cache", name)
	}
}
