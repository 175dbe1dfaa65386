package containerrecreaterequest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// judge checks a write of the controller.
func (w *story) judge(write *chaos.Write) {
	before, ok := write.Before.(*object)
	after, _ := write.After.(*object)
	switch pod, isPod := write.Before.(*corev1.Pod); {
	case isPod:
		is, _ := write.After.(*corev1.Pod)
		w.judgePod(write, pod, is)
	case !ok:
		w.Failf("stranger", "%s", write.Call)
	case write.Call.Verb == "delete":
		w.judgeDeletion(write, before)
	case write.Call.Subresource == "status":
		w.judgeStatus(write, before, after)
	default:
		w.judgeMetadata(write, before, after)
	}
}

// judgePod checks the controller's writes to a Pod. For a request, the controller changes only the request's own
// entry in the readiness gate of the request's Pod.
func (w *story) judgePod(write *chaos.Write, before, after *corev1.Pod) {
	obj, _ := w.Server.Stored(&object{}, write.Task.Object).(*object)
	if obj == nil || after == nil || before.Name != obj.Spec.PodName || string(before.UID) != obj.Labels[apps.LabelRequestPodUID] {
		w.Failf("stranger", "%s by %s", write.Call, write.Task.Object)
	}
	was, is := before.DeepCopy(), after.DeepCopy()
	for _, pod := range []*corev1.Pod{was, is} {
		pod.ResourceVersion = ""
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == apps.ConditionKruisePodReady || c.Type == corev1.PodReady
		})
	}
	if diff := cmp.Diff(was, is, cmpopts.EquateEmpty()); diff != "" {
		w.Failf("stranger", "%s (-before +after):\n%s", write.Call, diff)
	}
	old, err := podreadiness.Holders(before, apps.ConditionKruisePodReady)
	w.must(err)
	now, err := podreadiness.Holders(after, apps.ConditionKruisePodReady)
	w.must(err)
	own := func(h podreadiness.Holder) bool { return h == holder(obj) }
	if !cmp.Equal(slices.DeleteFunc(slices.Clone(old), own), slices.DeleteFunc(slices.Clone(now), own), cmpopts.EquateEmpty()) {
		w.Failf("others", "holders %v become %v", old, now)
	}
	if c := podstate.Condition(after, apps.ConditionKruisePodReady); c == nil || (c.Status == corev1.ConditionTrue) != (len(now) == 0) || c.Status == "" {
		w.Failf("gate", "%+v", c)
	}
	if slices.ContainsFunc(now, own) && (obj.Spec.Strategy.UnreadyGracePeriodSeconds == nil || !slices.Contains(obj.Finalizers, apps.FinalizerRequestUnreadyAcquired)) {
		w.Failf("finalizer", "Pod %s is held for %s, with finalizers %v", after.Name, obj.Name, obj.Finalizers)
	}
	if !slices.ContainsFunc(old, own) && slices.ContainsFunc(now, own) && obj.Status.Phase == "Pending" && !w.lied[obj.UID] {
		w.Failf("turn", "Pod %s is held for %s, whose turn has not come", after.Name, obj.Name)
	}
	if slices.ContainsFunc(old, own) && !slices.ContainsFunc(now, own) && !api.HasEnded(&obj.Status) && obj.DeletionTimestamp == nil && !w.lied[obj.UID] {
		w.Failf("early", "Pod %s is let go, and %s is under way", after.Name, obj.Name)
	}
}

// judgeStop checks that if a request wants its Pod out of service, the agent stops no container while the Pod is
// ready.
func (w *story) judgeStop(pod *corev1.Pod, obj *object) {
	current, _ := w.Server.Stored(obj, client.ObjectKeyFromObject(obj)).(*object)
	if current == nil || current.UID != obj.UID || api.HasEnded(&current.Status) || current.DeletionTimestamp != nil || w.lied[obj.UID] {
		return // the agent acts on an old version of the request
	}
	if held, needless := w.holds(obj); obj.Spec.Strategy.UnreadyGracePeriodSeconds != nil && !held && !needless {
		w.Failf("served", "Pod %s serves, conditions %v", pod.Name, pod.Status.Conditions)
	}
}

// judgeDeletion checks that the controller deletes a request only after its TTL.
func (w *story) judgeDeletion(write *chaos.Write, before *object) {
	ttl, end := completion.Seconds(before.Spec.TTLSecondsAfterFinished), before.Status.CompletionTime
	if ttl == nil || end == nil || !api.HasEnded(&before.Status) || time.Since(end.Time) < *ttl || len(before.Finalizers) > 0 {
		w.Failf("deleted", "%s: ttl %v, status %+v, finalizers %v", write.Call, ttl, before.Status, before.Finalizers)
	}
}

// judgeStatus checks that an end is never overwritten, the controller does not change the agent's fields, and the
// controller's fields are true.
func (w *story) judgeStatus(write *chaos.Write, before, after *object) {
	was, is := &before.Status, &after.Status
	kept := slices.DeleteFunc(slices.Clone(was.ContainerRecreateStates), func(s state) bool { return s.Name == "" && len(is.ContainerRecreateStates) < 100 }) // written by a lying agent
	if diff := cmp.Diff(kept, is.ContainerRecreateStates, cmpopts.EquateEmpty()); diff != "" {
		w.Failf("agent", "%s changes the states of containers (-before +after):\n%s", before.Name, diff)
	}
	if before.DeletionTimestamp != nil {
		w.Failf("late", "%s", write.Call)
	}
	switch {
	case api.HasEnded(was):
		if was.Phase != is.Phase || was.Message != is.Message || was.CompletionTime != nil && time.Until(was.CompletionTime.Time) < time.Minute && !is.CompletionTime.Equal(was.CompletionTime) {
			w.Failf("end", "%s: %+v becomes %+v", before.Name, was, is)
		}
	case was.Phase != is.Phase:
		w.judgeEnd(before, after)
	}
	for _, c := range was.Conditions {
		if c.Type == apps.ConditionPreRecreateGrace && c.Status == metav1.ConditionTrue && !slices.Contains(is.Conditions, c) {
			w.Failf("moved", "%s: %+v becomes %+v", before.Name, c, is.Conditions)
		}
	}
	if held, needless := w.holds(after); hasGrace(is) && !hasGrace(was) && !held && !needless {
		w.Failf("grace", "%s says that its Pod is not ready", after.Name)
	}
	for _, s := range is.ContainerStatusSnapshot {
		if !slices.Contains(was.ContainerStatusSnapshot, s) && !w.ran[after.Labels[apps.LabelRequestPodUID]+s.Name+s.ContainerID] {
			w.Failf("snapshot", "%s: %+v never ran", after.Name, s)
		}
	}
}

// judgeEnd checks that the controller completes a request only for a valid reason.
func (w *story) judgeEnd(before, after *object) {
	pod, age := w.pod(before.Spec.PodName), time.Since(before.CreationTimestamp.Time)
	limit := completion.Seconds(before.Spec.ActiveDeadlineSeconds)
	ok := false
	switch after.Status.Message {
	case apps.RequestPodGone:
		ok = !isOf(before, pod)
	case apps.RequestPodEnded:
		ok = pod == nil || string(pod.UID) != before.Labels[apps.LabelRequestPodUID] || podstate.HasEnded(pod)
	case apps.RequestAgentSilent:
		ok = before.Status.Phase == "" && age >= time.Minute || before.Labels[apps.LabelRequestActive] == ""
	case apps.RequestDeadlineExceeded:
		ok = limit != nil && age >= *limit
	}
	if !ok || after.Status.Phase != "Completed" || after.Status.CompletionTime == nil {
		w.Failf("completed", "%s after %v: %+v becomes %+v", before.Name, age, before.Status, after.Status)
	}
}

// judgeMetadata checks that the finalizer is removed only after the entry in the readiness gate, and the label for
// agents only when the request has ended.
func (w *story) judgeMetadata(write *chaos.Write, before, after *object) {
	over := api.HasEnded(&before.Status) || before.DeletionTimestamp != nil
	held, _ := w.holds(before)
	drops := slices.Contains(before.Finalizers, apps.FinalizerRequestUnreadyAcquired) && (after == nil || !slices.Contains(after.Finalizers, apps.FinalizerRequestUnreadyAcquired))
	switch {
	case drops && held:
		w.Failf("left", "%s drops its finalizer, and holds its Pod", before.Name)
	case after == nil:
	case !cmp.Equal(before.Spec, after.Spec), !cmp.Equal(before.Status, after.Status):
		w.Failf("spec", "%s", write.Call)
	case !over && (drops || after.Labels[apps.LabelRequestActive] != before.Labels[apps.LabelRequestActive]):
		w.Failf("early", "%s of a request under way", write.Call)
	}
}

// converged checks that every request has ended, and has left nothing on its Pod.
func (w *story) converged() {
	for _, obj := range w.requests() {
		if !api.HasEnded(&obj.Status) {
			w.Failf("stuck", "%s: %+v, labels %v", obj.Name, obj.Status, obj.Labels)
		}
		_, active := obj.Labels[apps.LabelRequestActive]
		waits := slices.ContainsFunc(obj.Status.Conditions, func(c metav1.Condition) bool { return c.Type == apps.ConditionWaiting })
		if active || len(obj.Finalizers) > 0 || obj.DeletionTimestamp != nil || obj.Status.CompletionTime == nil || waits || obj.Spec.TTLSecondsAfterFinished != nil {
			w.Failf("left", "%s: labels %v, finalizers %v, %+v", obj.Name, obj.Labels, obj.Finalizers, obj.Status)
		}
	}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		holders, err := podreadiness.Holders(pod, apps.ConditionKruisePodReady)
		w.must(err)
		if slices.ContainsFunc(holders, func(h podreadiness.Holder) bool { return h.UserAgent == apps.NotReadyUserAgentRequest }) {
			w.Failf("left", "Pod %s has holders %v", pod.Name, holders)
		}
	}
}
