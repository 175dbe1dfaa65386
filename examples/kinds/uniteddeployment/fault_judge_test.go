package uniteddeployment_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// sight contains the possible inputs of a reconciliation: the caches before each call, up to the first write.
type sight struct {
	moments []moment
	wrote   bool
}

type moment struct {
	owner     *v1beta1.UnitedDeployment
	workloads []client.Object
	pods      []corev1.Pod
}

func (w *story) look(task *chaos.Task, _ *faultapi.Call) {
	s, ok := task.View.(*sight)
	if !ok {
		s = &sight{}
		task.View = s
	}
	owner := &v1beta1.UnitedDeployment{}
	if s.wrote || task.Process.Cache.Get(context.Background(), task.Object, owner) != nil {
		return
	}
	m := moment{owner: owner}
	for _, list := range []client.ObjectList{&v1beta1.CloneSetList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &v1beta1.StatefulSetList{}} {
		w.must(task.Process.Cache.List(context.Background(), list))
		w.must(meta.EachListItem(list, func(object runtime.Object) error {
			m.workloads = append(m.workloads, object.(client.Object))
			return nil
		}))
	}
	pods := &corev1.PodList{}
	w.must(task.Process.Cache.List(context.Background(), pods))
	m.pods = pods.Items
	s.moments = append(s.moments, m)
}

func subset(ud *v1beta1.UnitedDeployment, name string) *v1beta1.Subset {
	for i := range ud.Spec.Topology.Subsets {
		if s := &ud.Spec.Topology.Subsets[i]; s.Name == name {
			return s
		}
	}
	return nil
}

// kindOf returns the Go type of the workloads that a UnitedDeployment wants.
func kindOf(ud *v1beta1.UnitedDeployment) string {
	switch t := &ud.Spec.Template; {
	case t.CloneSetTemplate != nil:
		return fmt.Sprintf("%T", &v1beta1.CloneSet{})
	case t.DeploymentTemplate != nil:
		return fmt.Sprintf("%T", &appsv1.Deployment{})
	case t.StatefulSetTemplate != nil:
		return fmt.Sprintf("%T", &appsv1.StatefulSet{})
	}
	return fmt.Sprintf("%T", &v1beta1.StatefulSet{})
}

// judge checks a write of the controller.
func (w *story) judge(write *chaos.Write) {
	s, ok := write.Task.View.(*sight)
	if !ok || len(s.moments) == 0 {
		w.Failf("view", "%s on nothing", write.Call)
		return
	}
	resource := write.Call.Resource.Resource
	if resource == "events" {
		return
	}
	s.wrote = true
	if write.Before != nil && write.After != nil && cmp.Equal(write.Before, write.After, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields")) {
		w.Failf("idle", "%s changes nothing", write.Call)
	}
	switch {
	case resource == "pods":
		w.judgePod(write)
	case resource == "uniteddeployments" && w.mode == adapts:
		w.judgeLowering(write, s.moments)
	case slices.Contains([]string{"clonesets", "deployments", "statefulsets"}, resource):
		why := ""
		for _, m := range s.moments {
			if why = w.wrong(write, m); why == "" {
				return
			}
		}
		w.Failf("write", "%s: %s", write.Call, why)
	}
}

// ends reports whether a write deletes an object, or begins the deletion.
func ends(write *chaos.Write) bool {
	return write.After == nil || write.Before != nil && write.Before.GetDeletionTimestamp() == nil && write.After.GetDeletionTimestamp() != nil
}

// judgePod checks that Pods are only labelled, or deleted if they block the update of a StatefulSet.
func (w *story) judgePod(write *chaos.Write) {
	pod, ok := write.Before.(*corev1.Pod)
	if !ok {
		w.Failf("pod", "%s creates a Pod", write.Call)
		return
	}
	if ends(write) {
		if ref := metav1.GetControllerOf(pod); ref == nil || ref.Kind != "StatefulSet" || ref.APIVersion != "apps/v1" {
			w.Failf("pod", "%s deletes a Pod of %v", write.Call, ref)
		}
		return
	}
	if label := write.After.GetLabels()[apps.LabelReservedPod]; w.mode != reserves || label == pod.Labels[apps.LabelReservedPod] {
		w.Failf("pod", "%s labels %q", write.Call, label)
	}
}

// wrong returns the reason why a possible input of the reconciliation does not justify a write to a workload, or "".
func (w *story) wrong(write *chaos.Write, m moment) string {
	if ends(write) {
		return w.wrongEnd(write.Before, m)
	}
	after, name := write.After, write.After.GetLabels()[apps.LabelSubsetName]
	if write.Before != nil && !cmp.Equal(write.Before.GetOwnerReferences(), after.GetOwnerReferences()) {
		return "" // adopted or released
	}
	for _, seen := range m.workloads {
		if seen.GetUID() != after.GetUID() {
			continue
		}
		if seen.GetDeletionTimestamp() != nil {
			return "a workload on its way out is written"
		}
		name = seen.GetLabels()[apps.LabelSubsetName] // a user may have removed the label since
	}
	s := subset(m.owner, name)
	if s == nil || fmt.Sprintf("%T", after) != kindOf(m.owner) {
		return "no workload of the kind is wanted in subset " + name
	}
	changed := write.Before == nil || !cmp.Equal(*numbersOf(write.Before).replicas, *numbersOf(after).replicas) // users also scale workloads
	if n := **numbersOf(after).replicas; changed && (n < 0 || s.MaxReplicas != nil && n > int32(s.MaxReplicas.IntValue())) {
		return fmt.Sprintf("%d replicas, of at most %v", n, s.MaxReplicas)
	}
	if write.Before == nil {
		for _, other := range w.workloads() {
			if other.GetUID() != after.GetUID() && other.GetLabels()[apps.LabelSubsetName] == name && other.GetLabels()["theirs"] == "" && other.GetLabels()["app"] == "web" &&
				fmt.Sprintf("%T", other) == kindOf(m.owner) && metav1.IsControlledBy(other, m.owner) && other.GetDeletionTimestamp() == nil {
				return "a second workload beside " + other.GetName()
			}
		}
		return ""
	}
	if was := statusOf(m.owner, name); changed && w.mode == adapts && was != nil && isClosed(was) && !mayOpen(m.owner, was) && **numbersOf(after).replicas < min(was.Replicas, **numbersOf(write.Before).replicas) {
		return fmt.Sprintf("a closed subset is lowered below the stored number of %d", was.Replicas)
	}
	if write.Before.GetLabels()["theirs"] != after.GetLabels()["theirs"] {
		return "somebody else's label is changed"
	}
	if before := numbersOf(write.Before).pod; after.GetLabels()[apps.LabelSubsetRevision] == write.Before.GetLabels()[apps.LabelSubsetRevision] &&
		sameAnnotation(write.Before, after) && !cmp.Equal(before, numbersOf(after).pod) {
		return "the template changes without a revision"
	}
	return ""
}

// mayOpen reports whether a closed subset has been closed for long enough to be opened again. The replicas of an open
// subset may be lowered at once after an edit of the spec.
func mayOpen(ud *v1beta1.UnitedDeployment, s *v1beta1.UnitedDeploymentSubsetStatus) bool {
	closed := time.Duration(*ud.Spec.Topology.ScheduleStrategy.Adaptive.UnschedulableDuration) * time.Second
	return time.Since(s.Conditions.Find(apps.ConditionSubsetSchedulable).LastTransitionTime.Time) >= closed
}

func sameAnnotation(a, b client.Object) bool {
	return a.GetAnnotations()[apps.AnnotationSubsetPatch] == b.GetAnnotations()[apps.AnnotationSubsetPatch]
}

// wrongEnd returns the reason why a workload must not be deleted, or "".
func (w *story) wrongEnd(before client.Object, m moment) string {
	name := before.GetLabels()[apps.LabelSubsetName]
	if subset(m.owner, name) == nil || fmt.Sprintf("%T", before) != kindOf(m.owner) {
		return ""
	}
	ready := int32(0)
	for _, object := range m.workloads {
		if object.GetUID() == before.GetUID() {
			ready = *numbersOf(object).counts[1]
		}
	}
	for _, other := range m.workloads { // another workload of the subset with as many ready Pods
		if other.GetUID() != before.GetUID() && other.GetLabels()[apps.LabelSubsetName] == name && fmt.Sprintf("%T", other) == kindOf(m.owner) &&
			other.GetDeletionTimestamp() == nil && *numbersOf(other).counts[1] >= ready {
			return ""
		}
	}
	return fmt.Sprintf("a wanted workload with %d ready Pods is deleted", ready)
}

// converged checks that each subset has a workload at the newest revision, and the numbers add up.
func (w *story) converged() {
	uids := map[types.UID]bool{}
	for _, ud := range faultapi.All[*v1beta1.UnitedDeployment](w.Server) {
		uids[ud.UID] = true
		w.convergedOne(ud)
	}
	for _, object := range w.workloads() {
		if ref := metav1.GetControllerOf(object); ref != nil && !uids[ref.UID] {
			w.Failf("converged", "%s is of a UnitedDeployment that is gone", object.GetName())
		}
	}
}

func (w *story) convergedOne(ud *v1beta1.UnitedDeployment) {
	bySubset := map[string]client.Object{}
	for _, object := range w.workloads() {
		name := object.GetLabels()[apps.LabelSubsetName]
		switch {
		case !metav1.IsControlledBy(object, ud):
			if name != "" && object.GetLabels()["app"] == "web" && metav1.GetControllerOf(object) == nil {
				w.Failf("converged", "%s is not adopted", object.GetName())
			}
		case subset(ud, name) == nil, fmt.Sprintf("%T", object) != kindOf(ud), bySubset[name] != nil, object.GetLabels()["app"] != "web":
			w.Failf("converged", "%s is left, of subset %s", object.GetName(), name)
		default:
			bySubset[name] = object
		}
	}
	sum, reserved, status := int32(0), int32(0), &ud.Status
	for i := range ud.Spec.Topology.Subsets {
		s := &ud.Spec.Topology.Subsets[i]
		object := bySubset[s.Name]
		if object == nil {
			w.Failf("converged", "subset %s has no workload", s.Name)
			return
		}
		n := **numbersOf(object).replicas
		if manual, kept := ud.Spec.UpdateStrategy.ManualUpdate, numbersOf(object).kept; manual != nil && fmt.Sprintf("%T", object) != fmt.Sprintf("%T", &appsv1.Deployment{}) && kept != min(manual.Partitions[s.Name], n) {
			w.Failf("converged", "subset %s keeps %d Pods at an older revision, want %d of %d", s.Name, kept, manual.Partitions[s.Name], n)
		}
		sum += n
		reserved += w.reservedOf(object)
		if of := object.GetLabels()[apps.LabelSubsetRevision]; of != status.UpdatedRevision || numbersOf(object).pod.Labels[apps.LabelSubsetRevision] != of {
			w.Failf("converged", "subset %s is at revision %s, want %s", s.Name, of, status.UpdatedRevision)
		}
		if s.MinReplicas != nil && *ud.Spec.Replicas >= 2 && n < int32(s.MinReplicas.IntValue()) || s.MaxReplicas != nil && n > int32(s.MaxReplicas.IntValue()) || s.Replicas != nil && n != int32(s.Replicas.IntValue()) {
			w.Failf("converged", "subset %s has %d Pods: %s", s.Name, n, shown(ud))
		}
		if i >= len(status.SubsetStatuses) || status.SubsetStatuses[i].Name != s.Name || status.SubsetStatuses[i].Replicas != n {
			w.Failf("converged", "subset %s has %d Pods, status %+v", s.Name, n, status.SubsetStatuses)
		}
	}
	if sum-reserved != *ud.Spec.Replicas || status.ReservedPods != reserved || status.Replicas != *ud.Spec.Replicas || status.ObservedGeneration != ud.Generation {
		w.Failf("converged", "%d Pods and %d reserved, status %+v, %s", sum, reserved, status, shown(ud))
	}
	w.convergedHistory(ud)
	w.convergedRoom(ud)
}

// convergedRoom checks that no subset is closed and no Pod is reserved if every subset can run all Pods.
func (w *story) convergedRoom(ud *v1beta1.UnitedDeployment) {
	for _, s := range ud.Status.SubsetStatuses {
		if _, room := w.Server.Stored(&corev1.PersistentVolumeClaim{}, client.ObjectKey{Namespace: namespace, Name: "room-" + s.Name}).(*corev1.PersistentVolumeClaim); !room {
			return
		}
	}
	for _, s := range ud.Status.SubsetStatuses {
		if c := s.Conditions.Find(apps.ConditionSubsetSchedulable); s.ReservedPods > 0 || c != nil && c.Status == corev1.ConditionFalse {
			w.Failf("converged", "subset %s has room, status %+v", s.Name, s)
		}
	}
}

func (w *story) reservedOf(object client.Object) (n int32) {
	owner := w.direct(object)
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if owner != nil && metav1.IsControlledBy(pod, owner) && podstate.IsActive(pod) && pod.Labels[apps.LabelReservedPod] == "true" && w.mode == reserves {
			n++
		}
	}
	return n
}

// convergedUpdate checks the condition UnitedDeploymentUpdated: the condition is True if nothing is left to do, and
// is not True while Pods are outdated.
func (w *story) convergedUpdate(ud *v1beta1.UnitedDeployment) {
	outdated, pending := int32(0), int32(0)
	for _, object := range w.workloads() {
		if n := numbersOf(object); metav1.IsControlledBy(object, ud) {
			outdated, pending = outdated+*n.counts[0]-*n.counts[2], pending+*n.counts[0]-*n.counts[1]
		}
	}
	c := ud.Status.Conditions.Find(apps.ConditionUnitedDeploymentUpdated)
	if c == nil || c.Status == corev1.ConditionTrue && outdated > 0 || c.Reason == apps.ReasonSubsetsUpdating && outdated+pending == 0 {
		w.Failf("updated", "%d Pods are outdated, and %d not ready: %+v", outdated, pending, c)
	}
}

// convergedHistory checks that the number of unused revisions is within the limit, and the conditions report no
// failure.
func (w *story) convergedHistory(ud *v1beta1.UnitedDeployment) {
	unused := 0
	for _, rev := range faultapi.All[*appsv1.ControllerRevision](w.Server) {
		used := rev.Name == ud.Status.CurrentRevision || rev.Name == ud.Status.UpdatedRevision
		for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
			used = used || pod.Labels[apps.LabelSubsetRevision] == rev.Name
		}
		if metav1.IsControlledBy(rev, ud) && !used {
			unused++
		}
	}
	if unused > int(*ud.Spec.RevisionHistoryLimit) {
		w.Failf("converged", "%d unused revisions of at most %d", unused, *ud.Spec.RevisionHistoryLimit)
	}
	w.convergedUpdate(ud)
	for _, c := range ud.Status.Conditions {
		if failed := strings.HasPrefix(c.Type, "Subset") && c.Status == corev1.ConditionFalse; failed {
			w.Failf("converged", "%+v", c)
		}
	}
}
