package daemon_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

func hasEnded(r *request) bool {
	return r.Status.CompletionTime != nil || r.Status.Phase == v1beta1.ContainerRecreateRequestCompleted
}

func isUpdating(pod *corev1.Pod) bool {
	c := podstate.Condition(pod, apps.ConditionInPlaceUpdateReady)
	return c != nil && c.Status == corev1.ConditionFalse
}

// idOf returns a container ID from a status without the name of the runtime.
func idOf(id string) string { return strings.TrimPrefix(id, "containerd://") }

func stateOf(r *request, name string) (state v1beta1.ContainerRecreateRequestContainerRecreateState) {
	for _, s := range r.Status.ContainerRecreateStates {
		if s.Name == name {
			return s
		}
	}
	return state
}

// stoppedBy returns the ID of the container instance that a request stops. The ID is in the message about the container
// in the status of the request.
func stoppedBy(r *request, name string) string {
	id, _ := strings.CutPrefix(stateOf(r, name).Message, "stopping ")
	return idOf(id)
}

// judge checks a write of the agent. The tests of package containerrecreaterequest check the manager's writes.
func (w *story) judge(write *chaos.Write) {
	if write.Task == nil || write.Task.Controller != agentName {
		return
	}
	w.record()
	if bytes.Contains(write.Call.Body, []byte(password)) {
		w.Failf("secret", "%s", write.Call)
	}
	switch before := write.Before.(type) {
	case *request:
		after, ok := write.After.(*request)
		if !ok || write.Call.Subresource != "status" {
			w.Failf("stranger", "%s", write.Call)
		}
		w.judgeStatus(before, after)
	case *corev1.Pod:
		after, ok := write.After.(*corev1.Pod)
		if !ok || write.Call.Subresource != "status" {
			w.Failf("stranger", "%s", write.Call)
		}
		w.judgeReport(before, after)
	default:
		w.Failf("stranger", "%s", write.Call)
	}
}

// judgeStatus checks a write to the status of a request: an ended request stays ended, and a container counts as
// restarted only if a newer instance has run for long enough.
func (w *story) judgeStatus(before, after *request) {
	if hasEnded(before) {
		w.Failf("end", "%s: %+v becomes %+v", before.Name, before.Status, after.Status)
	}
	if before.Labels[apps.LabelRequestNodeName] != home || !cmp.Equal(before.Status.Conditions, after.Status.Conditions) ||
		!cmp.Equal(before.Status.ContainerStatusSnapshot, after.Status.ContainerStatusSnapshot) {
		w.Failf("stranger", "%s: %+v becomes %+v", before.Name, before.Status, after.Status)
	}
	all := true
	for _, c := range after.Spec.Containers {
		was, is := stateOf(before, c.Name), stateOf(after, c.Name)
		if is.Phase == v1beta1.ContainerRecreateRequestSucceeded && was.Phase != is.Phase && !w.hasReturned(before, &c) {
			w.Failf("succeeded", "%s: container %s has no new instance in the history of its Pod: %+v", after.Name, c.Name, before.Status)
		}
		all = all && is.Phase == v1beta1.ContainerRecreateRequestSucceeded
	}
	if hasEnded(after) && after.Status.Message == "" && !all && after.Spec.Strategy.FailurePolicy != v1beta1.ContainerRecreateRequestFailurePolicyIgnore {
		w.Failf("complete", "%s: %+v", after.Name, after.Status)
	}
}

// hasReturned reports whether any past version of the Pod's status shows a new instance of the container that was
// ready.
func (w *story) hasReturned(r *request, c *v1beta1.ContainerRecreateRequestContainer) bool {
	return slices.ContainsFunc(w.Server.Events(&corev1.Pod{}), func(e faultapi.Event) bool {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || string(pod.UID) != r.Labels[apps.LabelRequestPodUID] {
			return false
		}
		s := podstate.ContainerStatus(pod, c.Name)
		return s != nil && s.Ready && s.State.Running != nil && s.ContainerID != c.StatusContext.ContainerID && idOf(s.ContainerID) != stoppedBy(r, c.Name) &&
			time.Since(s.State.Running.StartedAt.Time) >= time.Duration(r.Spec.Strategy.MinStartedSeconds)*time.Second
	})
}

// judgeReport checks the write of a report about the environments of containers: the report describes the container
// instances correctly, and no other field of the Pod changes.
func (w *story) judgeReport(before, after *corev1.Pod) {
	report, err := runtimemeta.Decode(after.Annotations[apps.AnnotationRuntimeContainersMeta])
	w.must(err)
	for _, entry := range report.Containers {
		instance, known := w.ran[idOf(entry.ContainerID)]
		spec := podstate.Container(after, entry.Name)
		if !known || spec == nil || instance.Pod.UID != after.UID || instance.Name != entry.Name {
			w.Failf("report", "Pod %s: nobody knows of %+v", after.Name, entry)
		}
		var env []string
		for _, v := range instance.Env {
			env = append(env, v.Name+"="+v.Value)
		}
		if hash := runtimemeta.CurrentHash(after, spec, runtimemeta.EnvironmentOf(env), nil); entry.Hashes.ExtractedEnvFromMetadataHash != hash && entry.Hashes.ExtractedEnvFromMetadataHash != 0 {
			w.Failf("report", "Pod %s: %+v, and the environment is %v with hash %d", after.Name, entry, env, hash)
		}
	}
	was, is := before.DeepCopy(), after.DeepCopy()
	for _, pod := range []*corev1.Pod{was, is} {
		pod.ResourceVersion = ""
		delete(pod.Annotations, apps.AnnotationRuntimeContainersMeta)
	}
	if diff := cmp.Diff(was, is, cmpopts.EquateEmpty()); diff != "" {
		w.Failf("stranger", "Pod %s (-before +after):\n%s", after.Name, diff)
	}
}

// judgeEnv checks an in-place update that has ended: all containers in the Pod's status run with the new label value.
// Instances that are not in the status are not checked, because a second change of the label may concern these
// instances.
func (w *story) judgeEnv(pod *corev1.Pod) {
	for _, i := range w.Nodes.Instances() {
		s := podstate.ContainerStatus(pod, i.Name)
		if i.Pod.UID == pod.UID && s != nil && idOf(s.ContainerID) == i.ID && i.Exit == nil && len(i.Env) > 0 && i.Env[0].Value != pod.Labels[zone] {
			w.Failf("env", "the update of Pod %s is over, and %s runs with %v and not %s", pod.Name, i.ID, i.Env, pod.Labels[zone])
		}
	}
}

// record collects the container instances, and the stops of containers that are recorded in the statuses of requests.
func (w *story) record() {
	for _, i := range w.Nodes.Instances() {
		w.ran[i.ID] = i
	}
	for _, r := range w.requests() {
		for _, c := range r.Spec.Containers {
			id, o := stoppedBy(r, c.Name), order{r.UID, c.Name}
			if id != "" && !slices.Contains(w.ordered[id], o) {
				w.ordered[id] = append(w.ordered[id], o)
			}
		}
	}
}

// check checks the stops of containers, and the agent's events, since the last call.
func (w *story) check() {
	w.record()
	var stops []faultapi.Instance
	var told, late []string
	w.note(func() {
		stops, told, late = w.stops, w.told, w.late
		w.stops, w.told, w.late = nil, nil, nil
	})
	for _, i := range stops {
		w.Logf("the runtime has stopped %s of Pod %s", i.ID, i.Pod.Name)
		w.judgeStop(i)
	}
	for _, text := range told {
		if strings.Contains(text, password) {
			w.Failf("secret", "%s", text)
		}
	}
	if len(late) > 0 {
		w.Failf("late", "the agent has seen that nobody wants a stop, and begins %v", late)
	}
	if n := w.runtime.Connections(); n > 1 {
		w.Failf("leak", "the agent has %d connections", n)
	}
}

// judgeStop checks a stop of a container: a reason was recorded before, each request stops an instance only once and
// in the right order, and the Pod is not ready if the request has an unreadyGracePeriodSeconds.
func (w *story) judgeStop(i faultapi.Instance) {
	orders := w.ordered[i.ID]
	if len(orders) == 0 && !w.wasOutdated(i) {
		w.Failf("unasked", "container %s of Pod %s is stopped: %s", i.Name, i.Pod.Name, i.ID)
	}
	for _, o := range orders {
		if w.stopped[o]++; w.stopped[o] > 1 {
			w.Failf("twice", "container %s of Pod %s is stopped a second time for a request: %s", i.Name, i.Pod.Name, i.ID)
		}
		for _, r := range w.requests() {
			if r.UID == o.request {
				w.judgeOrder(r, o, i, len(orders) == 1 && !w.wasOutdated(i))
			}
		}
	}
}

// judgeOrder checks a stop of a container for a request. isCause is false if the stop was already in progress for
// another reason.
func (w *story) judgeOrder(r *request, o order, i faultapi.Instance, isCause bool) {
	if r.Labels[apps.LabelRequestPodUID] != string(i.Pod.UID) || o.container != i.Name {
		w.Failf("other", "%s is stopped for request %s, which is for Pod %s", i.ID, r.Name, r.Labels[apps.LabelRequestPodUID])
	}
	if !isCause || hasEnded(r) || r.DeletionTimestamp != nil {
		return // the agent may have acted on an older version of the request
	}
	if r.Spec.Strategy.OrderedRecreate {
		for _, c := range r.Spec.Containers[:slices.IndexFunc(r.Spec.Containers, func(c v1beta1.ContainerRecreateRequestContainer) bool { return c.Name == o.container })] {
			if phase := stateOf(r, c.Name).Phase; phase != v1beta1.ContainerRecreateRequestSucceeded && phase != v1beta1.ContainerRecreateRequestFailed {
				w.Failf("order", "container %s is stopped, and %s is %s: request %s", o.container, c.Name, phase, r.Name)
			}
		}
	}
	pod := w.pod(r.Spec.PodName)
	if r.Spec.Strategy.UnreadyGracePeriodSeconds == nil || pod == nil || pod.UID != i.Pod.UID || !podstate.HasGate(pod, apps.ConditionKruisePodReady) {
		return
	}
	if !slices.Contains(w.holders(pod), r.Namespace+"/"+r.Name) {
		w.Failf("served", "container %s of Pod %s is stopped for request %s, and the Pod serves", i.Name, pod.Name, r.Name)
	}
}

// holders returns the keys of the requests with an entry in the readiness gate of a Pod, which keeps the Pod unready.
func (w *story) holders(pod *corev1.Pod) (keys []string) {
	all, err := podreadiness.Holders(pod, apps.ConditionKruisePodReady)
	w.must(err)
	for _, h := range all {
		if h.UserAgent == apps.NotReadyUserAgentRequest {
			keys = append(keys, h.Key)
		}
	}
	return keys
}

// wasOutdated reports whether, in some version of the Pod during an update, the instance was in the status and its
// environment had an older label value.
func (w *story) wasOutdated(i faultapi.Instance) bool {
	return len(i.Env) > 0 && slices.ContainsFunc(w.Server.Events(&corev1.Pod{}), func(e faultapi.Event) bool {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || pod.UID != i.Pod.UID || !isUpdating(pod) || pod.Labels[zone] == i.Env[0].Value {
			return false
		}
		s := podstate.ContainerStatus(pod, i.Name)
		return s != nil && idOf(s.ContainerID) == i.ID
	})
}

// converged checks the final state: every request has ended, unless a container never becomes ready again; the
// requests that wait for it then name the request in progress. No request and no agent keeps a Pod unready. The agent
// makes no more calls to the container runtime except the regular check.
func (w *story) converged() {
	stands := map[types.UID]string{}
	for _, r := range w.requests() {
		if !hasEnded(r) && r.Status.Phase == v1beta1.ContainerRecreateRequestRecreating {
			if !w.isSick(r) || stands[types.UID(r.Labels[apps.LabelRequestPodUID])] != "" {
				w.Failf("stuck", "%s: %+v, labels %v", r.Name, r.Status, r.Labels)
			}
			stands[types.UID(r.Labels[apps.LabelRequestPodUID])] = r.Name
		}
	}
	for _, r := range w.requests() {
		first := stands[types.UID(r.Labels[apps.LabelRequestPodUID])]
		if !hasEnded(r) && first != r.Name {
			w.judgeWait(r, first)
		}
	}
	for _, pod := range w.pods() {
		if isUpdating(pod) && podstate.IsActive(pod) {
			w.Failf("update", "the update of Pod %s stands still: %v, %v", pod.Name, pod.Labels, pod.Annotations)
		}
		w.judgeReported(pod)
		for _, key := range w.holders(pod) {
			if key != space+"/"+stands[pod.UID] {
				w.Failf("left", "Pod %s is held by %s", pod.Name, key)
			}
		}
	}
	if len(stands) == 0 {
		w.judgeIdle()
	}
}

// judgeReported checks that a report has an entry about each container with a label in its environment.
func (w *story) judgeReported(pod *corev1.Pod) {
	report, err := runtimemeta.Decode(pod.Annotations[apps.AnnotationRuntimeContainersMeta])
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		s := podstate.ContainerStatus(pod, c.Name)
		if !podstate.IsActive(pod) || !runtimemeta.ReadsMetadata(c, nil) || s == nil || s.State.Running == nil {
			continue
		}
		if entry := report.Instance(c.Name, s.ContainerID); err != nil || entry == nil || entry.Hashes.ExtractedEnvFromMetadataHash == 0 {
			w.Failf("unreported", "Pod %s runs %s, and has report %+v: %v", pod.Name, s.ContainerID, report, err)
		}
	}
}

// isSick reports whether a request is for a container that never becomes ready.
func (w *story) isSick(r *request) bool {
	pod := w.pod(r.Spec.PodName)
	return pod != nil && slices.ContainsFunc(r.Spec.Containers, func(c v1beta1.ContainerRecreateRequestContainer) bool {
		return podstate.Container(pod, c.Name).Image == sick
	})
}

// judgeWait checks that a waiting request names the request that it waits for.
func (w *story) judgeWait(r *request, first string) {
	for _, c := range r.Status.Conditions {
		if c.Type == apps.ConditionWaiting && c.Status == "True" && first != "" && strings.Contains(c.Message, space+"/"+first) {
			return
		}
	}
	w.Failf("stuck", "%s, behind %q: %+v", r.Name, first, r.Status)
}

// judgeIdle checks that an idle agent calls only the Version method of the container runtime, once a minute.
func (w *story) judgeIdle() {
	before := w.runtime.Calls()
	for range 12 {
		w.Sleep(10 * time.Second)
		w.CatchUp()
	}
	after := w.runtime.Calls()
	names := after["Version"] - before["Version"]
	delete(before, "Version")
	delete(after, "Version")
	if diff := cmp.Diff(before, after); diff != "" || names > 3 {
		w.Failf("leak", "%s", fmt.Sprintf("the agent asks for the name %d times, and (-before +after)\n%s", names, diff))
	}
}
