package uniteddeployment_test

import (
	"context"
	"fmt"
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
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// judgeLowering checks each write that lowers the replicas of a closed subset (a subset that gets no further Pods).
// If no edit of the spec has lowered the replicas, no running Pod may be deleted before its substitute is ready.
func (w *story) judgeLowering(write *chaos.Write, moments []moment) {
	before, ok := write.Before.(*v1beta1.UnitedDeployment)
	after, is := write.After.(*v1beta1.UnitedDeployment)
	if !ok || !is || before.Status.ObservedGeneration != before.Generation || after.Generation != before.Generation {
		return
	}
	for i := range after.Status.SubsetStatuses {
		s := &after.Status.SubsetStatuses[i]
		was := statusOf(before, s.Name)
		if was != nil && isClosed(s) && !isClosed(was) && !slices.ContainsFunc(moments, func(m moment) bool { return w.isStuck(m, s.Name) }) {
			w.Failf("closing", "subset %s is closed, and no Pod was unschedulable for long", s.Name)
		}
		if was == nil || !isClosed(s) || s.Replicas >= was.Replicas {
			continue
		}
		why := ""
		for _, m := range moments {
			if why = wrongLowering(m, before, s); why == "" {
				break
			}
		}
		if why != "" {
			w.Failf("lowering", "subset %s from %d to %d: %s", s.Name, was.Replicas, s.Replicas, why)
		}
	}
}

// isStuck reports whether a Pod of a subset has been unschedulable for 5 s. Times in API objects are in whole
// seconds.
func (w *story) isStuck(m moment, name string) bool {
	return slices.ContainsFunc(m.pods, func(pod corev1.Pod) bool {
		since, is := w.since[pod.UID]
		return is && pod.Labels[apps.LabelSubsetName] == name && time.Since(since) >= 4*time.Second
	})
}

func statusOf(ud *v1beta1.UnitedDeployment, name string) *v1beta1.UnitedDeploymentSubsetStatus {
	for i := range ud.Status.SubsetStatuses {
		if s := &ud.Status.SubsetStatuses[i]; s.Name == name {
			return s
		}
	}
	return nil
}

func isClosed(s *v1beta1.UnitedDeploymentSubsetStatus) bool {
	c := s.Conditions.Find(apps.ConditionSubsetSchedulable)
	return c != nil && c.Status == corev1.ConditionFalse
}

// wrongLowering returns the reason why a possible input of the reconciliation does not justify the lower number of
// replicas, or "". If a user has changed the replicas of a workload, any number is right.
func wrongLowering(m moment, before *v1beta1.UnitedDeployment, to *v1beta1.UnitedDeploymentSubsetStatus) (why string) {
	if m.owner.Generation != before.Generation || m.owner.Status.ObservedGeneration != before.Generation {
		return ""
	}
	for i := range before.Status.SubsetStatuses {
		s := &before.Status.SubsetStatuses[i]
		seen := m.of(s.Name)
		if seen == nil || **numbersOf(seen.workload).replicas != s.Replicas {
			return ""
		}
		ready := int32(0)
		for _, pod := range seen.pods {
			if podstate.IsReady(pod) {
				ready++
			}
		}
		switch {
		case s.Name == to.Name && seen.lastSettled() >= int(to.Replicas):
			why = fmt.Sprintf("Pod %d has a Node", seen.lastSettled())
		case isClosed(statusOf(before, to.Name)) && !isClosed(s) && ready < s.Replicas:
			why = fmt.Sprintf("%d of %d Pods are ready in subset %s", ready, s.Replicas, s.Name)
		}
	}
	return why
}

// seenSubset is a subset as a reconciliation may have read it.
type seenSubset struct {
	workload client.Object
	pods     []*corev1.Pod
}

// of returns the subset if it has a single workload of the wanted kind, otherwise nil.
func (m *moment) of(name string) (found *seenSubset) {
	for _, object := range m.workloads {
		if object.GetLabels()[apps.LabelSubsetName] != name {
			continue
		}
		if found != nil || fmt.Sprintf("%T", object) != kindOf(m.owner) || !metav1.IsControlledBy(object, m.owner) || object.GetDeletionTimestamp() != nil {
			return nil
		}
		found = &seenSubset{workload: object}
		for i := range m.pods {
			if pod := &m.pods[i]; podstate.IsActive(pod) && isBelow(pod, object) {
				found.pods = append(found.pods, pod)
			}
		}
	}
	return found
}

// isBelow reports whether a Pod belongs to a workload. The ReplicaSet of a Deployment has a name made from the
// Deployment's name.
func isBelow(pod *corev1.Pod, object client.Object) bool {
	ref := metav1.GetControllerOf(pod)
	return ref != nil && (ref.UID == object.GetUID() || ref.Kind == "ReplicaSet" && ref.Name == object.GetName()+"-rs")
}

// lastSettled returns the highest ordinal of a scheduled Pod, or -1 if no Pod is scheduled.
func (s *seenSubset) lastSettled() int {
	last := -1
	for _, pod := range s.pods {
		if n, ok := ordinals.OfPod(s.workload.GetName(), pod); ok && isNumbered(s.workload) && podstate.IsScheduled(pod) {
			last = max(last, n)
		}
	}
	return last
}

func isNumbered(object client.Object) bool {
	switch object.(type) {
	case *appsv1.StatefulSet, *v1beta1.StatefulSet:
		return true
	}
	return false
}

// outgrow takes away the capacity of a subset in the middle of a rollout, or after the deletion of a Pod, so that new
// Pods cannot be scheduled.
func (w *story) outgrow() {
	ud := &v1beta1.UnitedDeployment{}
	if w.User.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: "web"}, ud) != nil {
		return
	}
	w.closeRoom("a")
	if w.Chance(50) { // the substitutes do not become ready
		w.closeRoom("b")
		w.closeRoom("c")
	}
	if w.waits = 10; w.Chance(50) {
		w.Logf("user: a rollout finds no room in subset a")
		w.retemplate(ud)
		w.must(w.User.Update(context.Background(), ud))
		return
	}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if pod.Labels[apps.LabelSubsetName] == "a" && podstate.IsActive(pod) && podstate.IsScheduled(pod) {
			w.Logf("user: Pod %s is lost, and subset a has no room for another", pod.Name)
			w.must(w.User.Delete(context.Background(), pod.DeepCopy()))
			return
		}
	}
}
