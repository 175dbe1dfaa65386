package broadcastjob

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// sight is the input of a reconciliation: the objects in the caches before the first call. Calls before the first
// call that only check the result of an earlier write do not count.
type sight struct {
	owner *v1beta1.BroadcastJob
	pods  map[types.UID]*corev1.Pod
	nodes map[string]*corev1.Node
	now   time.Time
}

func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	if call != nil && call.Verb != "get" && call.Verb != "list" {
		return
	}
	v := &sight{pods: map[types.UID]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, now: time.Now()}
	t.View = v
	if v.owner = (&v1beta1.BroadcastJob{}); t.Process.Cache.Get(context.Background(), t.Object, v.owner) != nil {
		v.owner = nil
		return
	}
	var pods corev1.PodList
	var nodes corev1.NodeList
	w.must(t.Process.Cache.List(context.Background(), &pods))
	w.must(t.Process.Cache.List(context.Background(), &nodes))
	for i := range pods.Items {
		if pod := &pods.Items[i]; controls(v.owner, pod) {
			v.pods[pod.UID] = pod
		}
	}
	for i := range nodes.Items {
		v.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
}

func controls(j *v1beta1.BroadcastJob, pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, j) }

func nodeOf(pod *corev1.Pod) string {
	name, _ := nodefit.NodeOf(pod)
	return name
}

// suits reports whether a job must run on a Node. The function compares only the labels, taints and cordons in which
// the test's Nodes differ.
func suits(j *v1beta1.BroadcastJob, n *corev1.Node) bool {
	want, asked := j.Spec.Template.Spec.NodeSelector["pool"]
	return n != nil && len(n.Spec.Taints) == 0 && !n.Spec.Unschedulable && (!asked || n.Labels["pool"] == want)
}

// keeps reports whether a Pod may stay on its Node. A Pod that was created earlier may stay while the Node is not
// ready.
func keeps(j *v1beta1.BroadcastJob, n *corev1.Node, pod *corev1.Pod) bool {
	if n != nil && pod.Spec.NodeName == n.Name {
		n = n.DeepCopy()
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	}
	return suits(j, n)
}

// loops reports whether a Pod's containers restart too often.
func loops(j *v1beta1.BroadcastJob, pod *corev1.Pod) bool {
	n := int32(0)
	for _, s := range pod.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && n > j.Spec.FailurePolicy.RestartLimit
}

// runs reports whether a Pod has not ended and is not being deleted.
func runs(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !podstate.HasEnded(pod) }

func over(s *v1beta1.BroadcastJobStatus) bool {
	return s.Phase == v1beta1.PhaseCompleted || s.Phase == v1beta1.PhaseFailed
}

// limit returns how many Pods of a job may run at the same time, for the given number of Nodes.
func limit(j *v1beta1.BroadcastJob, nodes int) int {
	p := j.Spec.Parallelism
	if p.Type == intstr.Int {
		return int(p.IntVal)
	}
	percent := map[string]float64{"20%": .2, "50%": .5}[p.StrVal]
	return int(math.Ceil(percent * float64(nodes)))
}

func (w *story) judge(x *chaos.Write) {
	v, _ := x.Task.View.(*sight)
	if v == nil || v.owner == nil {
		w.Failf("view", "%s without a job", x.Call)
	}
	before, _ := x.Before.(*corev1.Pod)
	after, _ := x.After.(*corev1.Pod)
	switch x.Call.Resource.Resource {
	case "broadcastjobs":
		w.judgeJob(v, x)
	case "pods":
		if v.owner.Spec.Parallelism.StrVal == "many" {
			w.Failf("invalid", "%s, while the spec makes no sense", x.Call)
		}
		switch {
		case before == nil:
			w.judgeCreation(v, after)
		case x.Call.Verb == "delete":
			w.judgeDeletion(v, before)
		default:
			w.Failf("stranger", "%s", x.Call)
		}
	}
}

// judgeJob checks that an ended job stays ended, the controller writes no unchanged status, and a job is deleted only
// some time after its end.
func (w *story) judgeJob(v *sight, x *chaos.Write) {
	before, _ := x.Before.(*v1beta1.BroadcastJob)
	after, _ := x.After.(*v1beta1.BroadcastJob)
	if before.UID != v.owner.UID {
		w.Failf("successor", "%s of a job of the same name", x.Call)
	}
	was := &before.Status
	if x.Call.Verb == "delete" {
		ttl := before.Spec.CompletionPolicy.TTLSecondsAfterFinished
		if !over(was) || ttl == nil || v.now.Before(was.CompletionTime.Add(time.Duration(*ttl)*time.Second)) {
			w.Failf("ttl", "the job is deleted: %+v, TTL %v", was, ttl)
		}
		if was.Active > 0 {
			w.Failf("ttl", "the job is deleted before its Pods: %+v", was)
		}
		return
	}
	is := &after.Status
	if was.StartTime != nil && !was.StartTime.Equal(is.StartTime) || over(was) && (is.Phase != was.Phase || !was.CompletionTime.Equal(is.CompletionTime)) {
		w.Failf("history", "status %+v becomes %+v", was, is)
	}
	if seen := &v.owner.Status; is.Phase == v1beta1.PhasePaused && !v.owner.Spec.Paused && v.owner.Spec.Parallelism.StrVal != "many" {
		held := seen.Condition(v1beta1.JobPaused)
		asLeft := held == nil && seen.Phase == v1beta1.PhasePaused // as OpenKruise writes the status
		if v.failures() <= int(seen.Failed) && !asLeft && (held == nil || held.ObservedGeneration != v.owner.Generation) {
			w.Failf("hold", "the job is paused for what is known: %+v becomes %+v", was, is)
		}
	}
	if !over(was) && over(is) {
		w.ended[after.UID] = *is
		w.judgeEnd(v, is)
	}
	if over(was) && is.Active+is.Succeeded+is.Failed != was.Active+was.Succeeded+was.Failed {
		w.Failf("numbers", "status %+v becomes %+v", was, is)
	}
}

// judgeEnd checks that a job ends only for a valid reason.
func (w *story) judgeEnd(v *sight, is *v1beta1.BroadcastJobStatus) {
	failures, undone, fitting := v.failures(), 0, 0
	done := map[string]bool{}
	for _, pod := range v.pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if podstate.HasEnded(pod) || loops(v.owner, pod) {
			done[nodeOf(pod)] = true
		}
	}
	for name, n := range v.nodes {
		if suits(v.owner, n) {
			if fitting++; !done[name] {
				undone++
			}
		}
	}
	for name := range done {
		if _, exists := v.nodes[name]; exists {
			fitting++
		}
	}
	deadline, start := v.owner.Spec.CompletionPolicy.ActiveDeadlineSeconds, v.owner.Status.StartTime
	late := deadline != nil && start != nil && !v.now.Before(start.Add(time.Duration(*deadline)*time.Second))
	policy := v.owner.Spec.FailurePolicy.Type
	switch {
	case v.owner.Spec.Paused:
		w.Failf("pause", "the job ends while it is paused: %+v", is)
	case is.Phase == v1beta1.PhaseFailed && (policy != v1beta1.FailurePolicyTypeFailFast || failures == 0) && !late:
		w.Failf("failed", "the job fails with %d failures, policy %s, deadline %v after %v: %+v", failures, policy, deadline, start, is)
	case is.Phase == v1beta1.PhaseCompleted && (undone > 0 || fitting == 0 || v.owner.Spec.CompletionPolicy.Type == v1beta1.Never):
		w.Failf("complete", "the job completes, and %d Nodes of %d are to do: %+v", undone, fitting, is)
	}
}

func (w *story) judgeCreation(v *sight, pod *corev1.Pod) {
	name, j := nodeOf(pod), v.owner
	if !controls(j, pod) || pod.Labels[apps.LabelBroadcastJobName] != j.Name || pod.Labels[apps.LabelBroadcastJobUID] != string(j.UID) || !strings.HasPrefix(pod.Name, j.Name+"-") {
		w.Failf("pod", "Pod %s with labels %v", pod.Name, pod.Labels)
	}
	if is := pod.Spec.NodeName != ""; is != w.binds {
		w.Failf("binding", "Pod %s is bound to a Node: %t, want %t", pod.Name, is, w.binds)
	}
	if !suits(j, v.nodes[name]) {
		w.Failf("fit", "Pod %s is created for Node %q, which is not to have one", pod.Name, name)
	}
	if j.Spec.Paused || over(&j.Status) {
		w.Failf("pause", "Pod %s is created: paused %t, status %+v", pod.Name, j.Spec.Paused, j.Status)
	}
	failures, active := v.failures(), 0
	held := j.Status.Condition(v1beta1.JobPaused)
	switch policy := j.Spec.FailurePolicy.Type; {
	case failures == 0:
	case policy == v1beta1.FailurePolicyTypeFailFast:
		w.Failf("fail fast", "Pod %s is created after %d failures", pod.Name, failures)
	case policy == v1beta1.FailurePolicyTypePause && (failures > int(j.Status.Failed) || held != nil && held.ObservedGeneration == j.Generation):
		w.Failf("hold", "Pod %s is created after %d failures, %d are known, %+v", pod.Name, failures, j.Status.Failed, held)
	}
	for _, other := range faultapi.All[*corev1.Pod](w.Server) {
		if other.UID == pod.UID || !controls(j, other) || v.pods[other.UID] == nil && strings.HasPrefix(other.Name, "extra") {
			continue
		}
		if nodeOf(other) == name {
			// No second Pod may be created, even if the response to the first creation was lost.
			w.Failf("twins", "Pod %s is created on Node %s beside %s", pod.Name, name, other.Name)
		}
		if runs(other) && !loops(j, other) {
			active++
		}
	}
	if most := limit(j, v.wanted()); active+1 > most {
		w.Failf("parallelism", "Pod %s is created beside %d active ones, %d may run", pod.Name, active, most)
	}
}

// failures counts failed Pods.
func (v *sight) failures() (n int) {
	for _, pod := range v.pods {
		if pod.DeletionTimestamp == nil && (pod.Status.Phase == corev1.PodFailed || !podstate.HasEnded(pod) && loops(v.owner, pod)) {
			n++
		}
	}
	return n
}

// wanted returns the number of Nodes to which a percentage refers.
func (v *sight) wanted() (n int) {
	counts := map[string]bool{}
	for _, pod := range v.pods {
		if pod.DeletionTimestamp == nil && (podstate.HasEnded(pod) || loops(v.owner, pod) || keeps(v.owner, v.nodes[nodeOf(pod)], pod)) {
			counts[nodeOf(pod)] = true
		}
	}
	for name, node := range v.nodes {
		if suits(v.owner, node) || counts[name] {
			n++
		}
	}
	return n
}

// judgeDeletion checks that only unfinished Pods are deleted, because the Node does not fit or the job is over.
func (w *story) judgeDeletion(v *sight, pod *corev1.Pod) {
	j := w.owner()
	if !controls(v.owner, pod) {
		w.Failf("stranger", "Pod %s is deleted, which is somebody else's", pod.Name)
	}
	if podstate.HasEnded(pod) {
		w.Failf("ended", "Pod %s is deleted, which has ended", pod.Name)
	}
	if j == nil || j.UID != v.owner.UID || over(&j.Status) { // the garbage collector deletes Pods whose job is gone
		return
	}
	if seen := v.pods[pod.UID]; seen == nil || v.owner.Spec.Paused || keeps(v.owner, v.nodes[nodeOf(pod)], pod) {
		w.Failf("deletion", "Pod %s of Node %q is deleted without need", pod.Name, nodeOf(pod))
	}
}

// converged checks that each job that can end has ended, none of its Pods runs, and the numbers in the status are
// right.
func (w *story) converged() {
	j := w.owner()
	if j == nil {
		return // the deletion was checked when it happened
	}
	s := &j.Status
	var active, succeeded, failed, missing, wanted int32
	on, counts := map[string]bool{}, map[string]bool{}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if !controls(j, pod) {
			continue
		}
		on[nodeOf(pod)] = true
		switch {
		case pod.DeletionTimestamp != nil:
			w.Failf("converged", "Pod %s terminates", pod.Name)
		case pod.Status.Phase == corev1.PodSucceeded:
			succeeded++
			counts[nodeOf(pod)] = true
		case pod.Status.Phase == corev1.PodFailed, loops(j, pod):
			failed++
			counts[nodeOf(pod)] = true
		default:
			stays := keeps(j, w.node(nodeOf(pod)), pod)
			counts[nodeOf(pod)] = counts[nodeOf(pod)] || stays
			if active++; s.Phase == v1beta1.PhaseRunning && !stays {
				w.Failf("converged", "Pod %s is on Node %q, which is not to have one", pod.Name, nodeOf(pod))
			}
		}
		if over(&j.Status) && !podstate.HasEnded(pod) {
			w.Failf("converged", "the job is over, and Pod %s runs", pod.Name)
		}
	}
	for _, n := range faultapi.All[*corev1.Node](w.Server) {
		fit := suits(j, n)
		if fit || counts[n.Name] {
			wanted++
		}
		if fit && !on[n.Name] {
			missing++
		}
	}
	if over(s) {
		if was := w.ended[j.UID]; s.Active != 0 || s.Succeeded+s.Failed != was.Active+was.Succeeded+was.Failed {
			w.Failf("converged", "the job ended with %+v, and is %+v", was, s)
		}
		if j.Spec.CompletionPolicy.TTLSecondsAfterFinished != nil {
			w.Failf("converged", "the job is there, its TTL has passed: %+v", s)
		}
		return
	}
	if s.Active != active || s.Succeeded != succeeded || s.Failed != failed || s.Desired != wanted {
		w.Failf("converged", "status %+v; %d active, %d succeeded, %d failed, %d wanted", s, active, succeeded, failed, wanted)
	}
	w.convergedOpen(j, missing, wanted)
}

func (w *story) node(name string) *corev1.Node {
	n, _ := w.Server.Stored(&corev1.Node{}, client.ObjectKey{Name: name}).(*corev1.Node)
	return n
}

// convergedOpen checks that a job that has not ended has a reason not to end.
func (w *story) convergedOpen(j *v1beta1.BroadcastJob, missing, wanted int32) {
	s := &j.Status
	if s.Phase == v1beta1.PhasePaused {
		if c := s.Condition(v1beta1.JobPaused); c == nil || s.Failed == 0 || j.Spec.FailurePolicy.Type != v1beta1.FailurePolicyTypePause {
			w.Failf("converged", "the job is paused: %+v", s)
		}
		return
	}
	room := limit(j, int(wanted)) - int(s.Active)
	endless := j.Spec.CompletionPolicy.Type == v1beta1.Never
	switch {
	case s.Phase != v1beta1.PhaseRunning, !endless && j.Spec.CompletionPolicy.ActiveDeadlineSeconds != nil:
		w.Failf("converged", "the job has not ended: %+v", s)
	case missing > 0 && room > 0:
		w.Failf("converged", "%d Nodes have no Pod, and %d more may run: %+v", missing, room, s)
	case !endless && wanted > 0 && missing == 0 && s.Active == 0:
		w.Failf("converged", "all is done, and the job goes on: %+v", s)
	case len(s.Conditions) > 0:
		w.Failf("converged", "conditions %+v", s.Conditions)
	}
}
