package uniteddeployment_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// numbers contains pointers to fields of a workload.
type numbers struct {
	replicas *(*int32)
	pod      *corev1.PodTemplateSpec
	kept     int32
	counts   [3]*int32 // all, ready and updated Pods, in the status
	observed *int64
}

func numbersOf(object client.Object) (n numbers) {
	switch o := object.(type) {
	case *v1beta1.CloneSet:
		n = numbers{&o.Spec.Replicas, &o.Spec.Template, 0, [3]*int32{&o.Status.Replicas, &o.Status.ReadyReplicas, &o.Status.UpdatedReplicas}, &o.Status.ObservedGeneration}
		if ru := o.Spec.UpdateStrategy.RollingUpdate; ru != nil && ru.Partition != nil {
			n.kept = ru.Partition.IntVal
		}
	case *appsv1.Deployment:
		n = numbers{&o.Spec.Replicas, &o.Spec.Template, 0, [3]*int32{&o.Status.Replicas, &o.Status.ReadyReplicas, &o.Status.UpdatedReplicas}, &o.Status.ObservedGeneration}
	case *appsv1.StatefulSet:
		n = numbers{&o.Spec.Replicas, &o.Spec.Template, 0, [3]*int32{&o.Status.Replicas, &o.Status.ReadyReplicas, &o.Status.UpdatedReplicas}, &o.Status.ObservedGeneration}
		if ru := o.Spec.UpdateStrategy.RollingUpdate; ru != nil && ru.Partition != nil {
			n.kept = *ru.Partition
		}
	case *v1beta1.StatefulSet:
		n = numbers{&o.Spec.Replicas, &o.Spec.Template, 0, [3]*int32{&o.Status.Replicas, &o.Status.ReadyReplicas, &o.Status.UpdatedReplicas}, &o.Status.ObservedGeneration}
		if ru := o.Spec.UpdateStrategy.RollingUpdate; ru != nil && ru.Partition != nil {
			n.kept = *ru.Partition
		}
	}
	return n
}

// outside acts as the workloads' controllers, and as a scheduler that finds no Node for some Pods.
func (w *story) outside() (changed bool) {
	for _, object := range w.workloads() {
		changed = object.GetDeletionTimestamp() == nil && w.carry(object) || changed
	}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		changed = w.unschedulable(pod.DeepCopy()) || changed
	}
	return w.Server.CollectGarbage() || changed
}

// gates is the time after which the scheduling gates of Pods are removed.
const gates = 20 * time.Second

// unschedulable sets the condition PodScheduled of a Pod to False with the reason Unschedulable. If the Pod had a
// scheduling gate, the condition has no transition time.
func (w *story) unschedulable(pod *corev1.Pod) bool {
	if podstate.IsScheduled(pod) || !podstate.IsActive(pod) || len(pod.Spec.Volumes) == 0 || podstate.Condition(pod, corev1.PodScheduled) != nil {
		return false
	}
	claim := pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
	if _, there := w.Server.Stored(&corev1.PersistentVolumeClaim{}, client.ObjectKey{Namespace: namespace, Name: claim}).(*corev1.PersistentVolumeClaim); there {
		return false
	}
	if _, known := w.gated[pod.UID]; !known {
		w.gated[pod.UID] = w.Chance(30)
	}
	now := metav1.Now()
	if w.gated[pod.UID] {
		if now.Sub(pod.CreationTimestamp.Time) < gates {
			return false
		}
		now = metav1.Time{}
	}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: now,
	})
	w.Logf("no Node has room for Pod %s", pod.Name)
	if w.User.Status().Update(context.Background(), pod) != nil {
		return false
	}
	w.since[pod.UID] = time.Now()
	return true
}

// carry takes the next step of a workload's controller.
func (w *story) carry(object client.Object) bool {
	owner, n := w.direct(object), numbersOf(object)
	if owner == nil {
		return true // the ReplicaSet was created
	}
	var pods, old []*corev1.Pod
	ready := int32(0)
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if !metav1.IsControlledBy(pod, owner) {
			continue
		}
		if !podstate.IsActive(pod) {
			if isNumbered(object) && pod.DeletionTimestamp == nil { // the next Pod needs the name
				return w.User.Delete(context.Background(), pod.DeepCopy()) == nil
			}
			continue
		}
		if pods = append(pods, pod); podstate.IsReady(pod) {
			ready++
		}
		if pod.Labels[apps.LabelSubsetRevision] != n.pod.Labels[apps.LabelSubsetRevision] {
			old = append(old, pod)
		}
	}
	want := int32(1)
	if *n.replicas != nil {
		want = **n.replicas
	}
	order(object, pods, old)
	switch have := int32(len(pods)); {
	case have > want:
		return w.User.Delete(context.Background(), pods[0].DeepCopy()) == nil
	case have < want:
		return w.makePod(object, owner, n.pod, pods)
	case int32(len(old)) > n.kept && mayGo(object, old[0], ready == want):
		return w.User.Delete(context.Background(), old[0].DeepCopy()) == nil
	}
	now := [3]int32{int32(len(pods)), ready, int32(len(pods) - len(old))}
	if now == [3]int32{*n.counts[0], *n.counts[1], *n.counts[2]} && *n.observed == object.GetGeneration() {
		return false
	}
	*n.counts[0], *n.counts[1], *n.counts[2], *n.observed = now[0], now[1], now[2], object.GetGeneration()
	return w.User.Status().Update(context.Background(), object) == nil
}

// order sorts Pods in the order in which they are deleted. Pods without a Node come first. Pods with ordinals follow
// from the highest ordinal down. A Deployment is scaled down in proportion over its revisions: a Pod of the revision
// with more Pods is deleted, or of the older revision if both are equal.
func order(object client.Object, pods, old []*corev1.Pod) {
	number := func(pod *corev1.Pod) int {
		n, _ := ordinals.OfPod(object.GetName(), pod)
		return n
	}
	_, isDeployment := object.(*appsv1.Deployment)
	rank := func(pod *corev1.Pod) (n int) {
		if podstate.IsScheduled(pod) {
			n++
		}
		if isDeployment && slices.Contains(old, pod) != (2*len(old) >= len(pods)) {
			n += 2
		}
		return n
	}
	before := func(a, b *corev1.Pod) int {
		if isNumbered(object) {
			return number(b) - number(a)
		}
		return rank(a) - rank(b)
	}
	slices.SortStableFunc(pods, before)
	slices.SortStableFunc(old, before)
}

// mayGo reports whether an update may delete an old Pod. A Deployment must keep all but one Pod ready.
func mayGo(object client.Object, pod *corev1.Pod, allReady bool) bool {
	_, isDeployment := object.(*appsv1.Deployment)
	return !isDeployment || allReady || !podstate.IsReady(pod)
}

// direct returns the direct controller of a workload's Pods, or nil if this controller was only now created.
func (w *story) direct(object client.Object) client.Object {
	if _, ok := object.(*appsv1.Deployment); !ok {
		return object
	}
	for _, set := range faultapi.All[*appsv1.ReplicaSet](w.Server) {
		if metav1.IsControlledBy(set, object) {
			return set
		}
	}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: object.GetName() + "-rs", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(object, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		Labels: maps.Clone(object.GetLabels()),
	}}
	_ = w.User.Create(context.Background(), set)
	return nil
}

func (w *story) makePod(object, owner client.Object, template *corev1.PodTemplateSpec, pods []*corev1.Pod) bool {
	kind, err := w.User.GroupVersionKindFor(owner)
	w.must(err)
	w.created++
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = namespace, fmt.Sprintf("%s-%d", object.GetName(), w.created)
	for n := 0; isNumbered(object); n++ { // the lowest free number
		if pod.Name = ordinals.Name(object.GetName(), n); !slices.ContainsFunc(pods, func(other *corev1.Pod) bool { return other.Name == pod.Name }) {
			break
		}
	}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
	return w.User.Create(context.Background(), pod) == nil
}
