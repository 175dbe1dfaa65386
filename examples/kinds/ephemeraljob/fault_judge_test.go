package ephemeraljob

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// sight is the input of a reconciliation: the objects in the caches before the first call. Calls before the first
// call that only check the result of an earlier write do not count.
type sight struct {
	owner *v1alpha1.EphemeralJob
	pods  map[types.UID]*corev1.Pod
	now   time.Time
}

func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	if call != nil && call.Verb != "get" && call.Verb != "list" {
		return
	}
	v := &sight{pods: map[types.UID]*corev1.Pod{}, now: time.Now()}
	t.View = v
	if v.owner = (&v1alpha1.EphemeralJob{}); t.Process.Cache.Get(context.Background(), t.Object, v.owner) != nil {
		v.owner = nil
		return
	}
	var pods corev1.PodList
	w.must(t.Process.Cache.List(context.Background(), &pods))
	for i := range pods.Items {
		v.pods[pods.Items[i].UID] = &pods.Items[i]
	}
}

// The next functions read Pods without the controller's code. All Pods of a story have the label of the job, or
// another label.

func wants(pod *corev1.Pod) bool {
	return pod.Labels["app"] == "web" && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func inTemplate(j *v1alpha1.EphemeralJob, name string) bool {
	for i := range j.Spec.Template.EphemeralContainers {
		if j.Spec.Template.EphemeralContainers[i].Name == name {
			return true
		}
	}
	return false
}

func markOf(c *corev1.EphemeralContainer) string {
	for _, e := range c.Env {
		if e.Name == apps.EnvEphemeralJobID {
			return e.Value
		}
	}
	return ""
}

// stand returns the state of a Pod for a job: "open" for a Pod without the containers, "taken" if another client has
// used a container name, "busy", "well" or "failed".
func stand(j *v1alpha1.EphemeralJob, pod *corev1.Pod) string {
	own, taken, ended, failed := 0, false, 0, false
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if !inTemplate(j, c.Name) {
			continue
		}
		if markOf(c) != string(j.UID) {
			taken = true
			continue
		}
		own++
		for k := range pod.Status.EphemeralContainerStatuses {
			if s := &pod.Status.EphemeralContainerStatuses[k]; s.Name == c.Name && s.State.Terminated != nil {
				ended++
				failed = failed || s.State.Terminated.ExitCode != 0
			}
		}
	}
	switch {
	case own == 0 && taken:
		return "taken"
	case own == 0:
		return "open"
	case failed:
		return "failed"
	case ended == own:
		return "well"
	}
	return "busy"
}

// sorted returns the Pods of a view that count for the job, by the result of stand, the oldest first.
func (v *sight) sorted() map[string][]*corev1.Pod { return sorted(v.owner, mapValues(v.pods)) }

func mapValues(m map[types.UID]*corev1.Pod) (out []*corev1.Pod) {
	for _, pod := range m {
		out = append(out, pod)
	}
	return out
}

func sorted(j *v1alpha1.EphemeralJob, pods []*corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if wants(pod) {
			out[stand(j, pod)] = append(out[stand(j, pod)], pod)
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
		})
	}
	return out
}

func isOver(s *v1alpha1.EphemeralJobStatus) bool {
	return s.Phase == v1alpha1.EphemeralJobSucceeded || s.Phase == v1alpha1.EphemeralJobFailed
}

func (w *story) judge(x *chaos.Write) {
	v, _ := x.Task.View.(*sight)
	if v == nil || v.owner == nil {
		w.Failf("view", "%s without a job", x.Call)
	}
	switch x.Call.Resource.Resource {
	case "ephemeraljobs":
		w.judgeJob(v, x)
	case "pods":
		before, _ := x.Before.(*corev1.Pod)
		after, _ := x.After.(*corev1.Pod)
		if x.Call.Verb != "patch" || x.Call.Subresource != "ephemeralcontainers" || before == nil || after == nil {
			w.Failf("stranger", "%s", x.Call)
		}
		w.judgeAddition(v, before, after)
	}
}

// judgeAddition checks that a wanted Pod gets exactly the containers of the template, and no other field changes.
func (w *story) judgeAddition(v *sight, before, after *corev1.Pod) {
	j, name := v.owner, before.Name
	if j.Spec.Paused || isOver(&j.Status) || j.DeletionTimestamp != nil || len(j.Spec.Template.EphemeralContainers) == 0 {
		w.Failf("rest", "Pod %s gets containers of a job that rests: %+v", name, j)
	}
	rest := after.DeepCopy()
	rest.Spec.EphemeralContainers, rest.ResourceVersion, rest.Generation = before.Spec.EphemeralContainers, before.ResourceVersion, before.Generation
	if !equality.Semantic.DeepEqual(rest, before) {
		w.Failf("pod", "more of Pod %s changes than its ephemeral containers", name)
	}
	added := 0
	for i := range after.Spec.EphemeralContainers {
		c := &after.Spec.EphemeralContainers[i]
		if slices.ContainsFunc(before.Spec.EphemeralContainers, func(old corev1.EphemeralContainer) bool { return old.Name == c.Name }) {
			continue
		}
		if added++; !inTemplate(j, c.Name) || markOf(c) != string(j.UID) || c.Image != "tool:v1" {
			w.Failf("container", "Pod %s gets %+v", name, c)
		}
	}
	if seen := v.pods[before.UID]; seen == nil || seen.ResourceVersion != before.ResourceVersion || !wants(before) || stand(j, before) != "open" || added != len(j.Spec.Template.EphemeralContainers) {
		w.Failf("twice", "Pod %s gets %d containers: %s, labels %v", name, added, stand(j, before), before.Labels)
	}
	groups := v.sorted()
	have := len(groups["busy"]) + len(groups["well"]) + len(groups["failed"])
	place := slices.IndexFunc(groups["open"], func(p *corev1.Pod) bool { return p.UID == before.UID })
	if n := j.Spec.Replicas; n != nil && have+place >= int(*n) {
		w.Failf("replicas", "Pod %s gets containers, place %d behind %d of %d", name, place, have, *n)
	}
	w.judgeNumbers(v, name)
}

// judgeNumbers compares the number of Pods that have containers now with the limits. Only Pods that the controller
// could know count.
func (w *story) judgeNumbers(v *sight, name string) {
	busy, have := 0, 0
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if seen := v.pods[pod.UID]; seen == nil || !wants(seen) {
			continue
		}
		switch stand(v.owner, pod) {
		case "busy":
			busy++
			have++
		case "well", "failed":
			have++
		}
	}
	if most := int(ptr.Deref(v.owner.Spec.Parallelism, 1)); busy > most {
		w.Failf("parallelism", "Pod %s gets containers, and %d Pods are busy, %d may be", name, busy, most)
	}
	if n := v.owner.Spec.Replicas; n != nil && have > int(*n) {
		w.Failf("replicas", "Pod %s gets containers, and %d Pods have containers, %d are wanted", name, have, *n)
	}
}

// judgeJob checks that an ended job stays ended, and is deleted only after its TTL. Otherwise only the finalizer
// changes.
func (w *story) judgeJob(v *sight, x *chaos.Write) {
	before, _ := x.Before.(*v1alpha1.EphemeralJob)
	after, _ := x.After.(*v1alpha1.EphemeralJob)
	if before == nil || before.UID != v.owner.UID {
		w.Failf("successor", "%s of a job of the same name", x.Call)
	}
	was := &before.Status
	switch {
	case x.Call.Verb == "delete":
		after := time.Duration(ptr.Deref(before.Spec.TTLSecondsAfterFinished, 1800)) * time.Second
		if !isOver(was) || v.now.Before(was.CompletionTime.Add(after)) {
			w.Failf("ttl", "the job is deleted: %+v, TTL %s", was, after)
		}
	case x.Call.Subresource == "":
		w.judgeFinalizers(before, after)
	default:
		is := &after.Status
		if was.StartTime != nil && !was.StartTime.Equal(is.StartTime) || isOver(was) && !equality.Semantic.DeepEqual(was, is) {
			w.Failf("history", "status %+v becomes %+v", was, is)
		}
		if !isOver(was) && isOver(is) {
			w.judgeEnd(v, is)
		}
	}
}

// judgeFinalizers checks that a job in progress gets the finalizer, and a job that is being deleted loses the
// finalizer. after is nil if the job was deleted with the finalizer's removal.
func (w *story) judgeFinalizers(before, after *v1alpha1.EphemeralJob) {
	had := slices.Contains(before.Finalizers, apps.FinalizerEphemeralJob)
	if had != (before.DeletionTimestamp != nil) {
		w.Failf("finalizer", "finalizers %v of a job deleted at %v", before.Finalizers, before.DeletionTimestamp)
	}
	if after == nil {
		return
	}
	rest := after.DeepCopy()
	rest.Finalizers, rest.ResourceVersion = before.Finalizers, before.ResourceVersion
	if !equality.Semantic.DeepEqual(rest, before) || had == slices.Contains(after.Finalizers, apps.FinalizerEphemeralJob) {
		w.Failf("finalizer", "%+v becomes %+v", before.ObjectMeta, after.ObjectMeta)
	}
}

// judgeEnd checks that a job ends only for a valid reason.
func (w *story) judgeEnd(v *sight, is *v1alpha1.EphemeralJobStatus) {
	groups, j := v.sorted(), v.owner
	well, failed := len(groups["well"]), len(groups["failed"])
	wanted := well + failed + len(groups["busy"]) + len(groups["open"])
	if j.Spec.Replicas != nil {
		wanted = int(*j.Spec.Replicas)
	}
	late := j.Spec.ActiveDeadlineSeconds != nil && j.Status.StartTime != nil && !v.now.Before(j.Status.StartTime.Add(time.Duration(*j.Spec.ActiveDeadlineSeconds)*time.Second))
	switch {
	case j.Spec.Paused:
		w.Failf("pause", "the job ends while it is paused: %+v", is)
	case is.Phase == v1alpha1.EphemeralJobSucceeded && (wanted == 0 || well < wanted):
		w.Failf("succeeded", "the job succeeds with %d of %d: %+v", well, wanted, is)
	case is.Phase == v1alpha1.EphemeralJobFailed && !late && (wanted == 0 || well+failed < wanted || failed == 0):
		w.Failf("failed", "the job fails with %d and %d of %d: %+v", well, failed, wanted, is)
	}
}

// converged checks that each job that can end has ended, the numbers are right, and a job that has not ended says
// why.
func (w *story) converged() {
	j := w.owner()
	if j == nil {
		return // the deletion was checked when it happened
	}
	s := &j.Status
	if j.DeletionTimestamp != nil {
		w.Failf("converged", "the job is deleted, and stays: %v", j.Finalizers)
	}
	if isOver(s) {
		if j.Spec.TTLSecondsAfterFinished != nil {
			w.Failf("converged", "the job is there, its TTL has passed: %+v", s)
		}
		return
	}
	groups := sorted(j, faultapi.All[*corev1.Pod](w.Server))
	well, failed, busy, open := len(groups["well"]), len(groups["failed"]), len(groups["busy"]), len(groups["open"])
	matches := well + failed + busy + open
	wanted := matches
	if j.Spec.Replicas != nil {
		wanted = int(*j.Spec.Replicas)
	}
	c := s.Conditions.Get(v1alpha1.EJobWaiting)
	switch {
	case int(s.Matches) != matches || well+failed <= wanted && (int(s.Succeeded) != well || int(s.Failed) != failed):
		w.Failf("converged", "status %+v; %d match, %d succeeded, %d failed", s, matches, well, failed)
	case busy > 0:
		w.Failf("converged", "containers go on in %d Pods", busy)
	case j.Spec.ActiveDeadlineSeconds != nil:
		w.Failf("converged", "the deadline has passed: %+v", s)
	case open > 0 && well+failed < wanted:
		w.Failf("converged", "%d Pods have no containers: %+v", open, s)
	case wanted > 0 && well+failed >= wanted:
		w.Failf("converged", "all is done, and the job goes on: %+v", s)
	case s.Phase != v1alpha1.EphemeralJobWaiting, matches == 0 && s.Conditions.Get(v1alpha1.EJobMatchedEmpty) == nil, matches > 0 && c == nil:
		w.Failf("converged", "the job waits without a reason: %+v", s)
	case s.Conditions.Get(v1alpha1.EJobInjectionFailed) != nil:
		w.Failf("converged", "Pods are said to refuse containers: %+v", s)
	}
}
