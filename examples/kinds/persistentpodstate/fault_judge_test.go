package persistentpodstate_test

import (
	"context"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// sight records when a reconciliation has begun: the lengths of the workloads' histories at the first read.
type sight struct {
	lengths map[string]int
	uids    map[types.UID]bool // UIDs of the PersistentPodStates of this name in the reconciliation's cache
}

func (w *story) look(task *chaos.Task, _ *faultapi.Call) {
	s, ok := task.View.(*sight)
	if !ok {
		s = &sight{map[string]int{}, map[types.UID]bool{}}
		for _, name := range workloadNames() {
			s.lengths[name] = len(w.history[name])
		}
		task.View = s
	}
	state := &v1beta1.PersistentPodState{}
	if task.Process.Cache.Get(context.Background(), task.Object, state) == nil {
		s.uids[state.UID] = true
	}
}

// since returns the states of a workload that a reconciliation may have read from the API server.
func (w *story) since(task *chaos.Task, name string) []moment {
	s, ok := task.View.(*sight)
	if !ok {
		w.Failf("view", "%s has seen nothing", task.Name)
		return nil
	}
	return w.history[name][max(s.lengths[name]-1, 0):]
}

// judge checks a write of the controller.
func (w *story) judge(write *chaos.Write) {
	if write.Call.Resource.Resource != "persistentpodstates" {
		return
	}
	before, _ := write.Before.(*v1beta1.PersistentPodState)
	after, _ := write.After.(*v1beta1.PersistentPodState)
	if write.Call.Subresource == "status" {
		w.judgeRecords(write, before, after)
		return
	}
	moments := w.since(write.Task, "gen")
	if before != nil && after != nil && before.Spec.PersistentPodStateRetentionPolicy != after.Spec.PersistentPodStateRetentionPolicy {
		w.Failf("edited", "%s: a user has written policy %q", write.Call, before.Spec.PersistentPodStateRetentionPolicy)
	}
	switch {
	case write.Call.Name != "gen" && (after == nil || after.Name != "gen"):
		w.Failf("foreign", "%s: nobody asks for it", write.Call)
	case before == nil:
		if !slices.ContainsFunc(w.history["gen"], func(m moment) bool { return m.asks && isControlledBy(after, m) }) {
			w.Failf("generated", "%s is made, and nobody has asked for it", write.Call)
		}
	case isAdopted(before, after) && slices.ContainsFunc(moments, func(m moment) bool { return m.asks && isControlledBy(after, m) }):
	case !slices.ContainsFunc(w.history["gen"], func(m moment) bool { return m.uid != "" && isControlledBy(before, m) }):
		w.Failf("foreign", "%s is a user's", write.Call)
	case after == nil || after.DeletionTimestamp != nil:
		if !slices.ContainsFunc(moments, func(m moment) bool { return !m.asks && isControlledBy(before, m) }) {
			w.Failf("generated", "%s is deleted, and is asked for", write.Call)
		}
	}
}

// isAdopted reports whether a PersistentPodState has got a controller, without any further change.
func isAdopted(before, after *v1beta1.PersistentPodState) bool {
	return after != nil && after.DeletionTimestamp == nil && metav1.GetControllerOf(before) == nil && cmp.Equal(before.Spec, after.Spec)
}

func isControlledBy(state *v1beta1.PersistentPodState, m moment) bool {
	ref := metav1.GetControllerOf(state)
	return ref != nil && string(ref.UID) == m.uid
}

// judgeRecords checks that the controller has removed only records that are not needed, and that new records are
// true.
func (w *story) judgeRecords(write *chaos.Write, before, after *v1beta1.PersistentPodState) {
	name := after.Name
	moments := w.since(write.Task, name)
	if s, ok := write.Task.View.(*sight); ok && !s.uids[after.UID] {
		w.Failf("successor", "%s is written to, and nobody has looked at it", name)
	}
	for pod := range before.Status.PodStates {
		if _, ok := after.Status.PodStates[pod]; ok {
			continue
		}
		if !slices.ContainsFunc(moments, func(m moment) bool { return !m.there || !m.wanted[pod] }) {
			w.Failf("lost", "the record of %s, which is wanted", pod)
		}
	}
	for pod, state := range after.Status.PodStates {
		if cmp.Equal(before.Status.PodStates[pod], state) {
			continue
		}
		zone, hasZone := state.NodeTopologyLabels["zone"]
		host, hasHost := state.NodeTopologyLabels["host"]
		switch {
		case !w.ran[pod][state.NodeName]:
			w.Failf("untrue", "%s was never ready on %s", pod, state.NodeName)
		case hasZone && !w.labels[state.NodeName][zone], hasHost && host != state.NodeName:
			w.Failf("untrue", "Node %s of %s never was in %v", state.NodeName, pod, state.NodeTopologyLabels)
		}
	}
}

// converged checks that each ready Pod has its record. Other records exist only for wanted Pods. Exactly the
// requested PersistentPodStates were generated.
func (w *story) converged() {
	for _, state := range faultapi.All[*v1beta1.PersistentPodState](w.Server) {
		w.convergedRecords(state)
	}
	object, state := w.workload("gen"), w.state("gen")
	asked, required := "", ""
	if object != nil {
		asked, required = object.GetAnnotations()[apps.AnnotationGeneratePersistentPodState], object.GetAnnotations()[apps.AnnotationRequiredPersistentTopology]
	}
	switch {
	case state != nil && metav1.GetControllerOf(state) == nil:
		if asked == "true" && required == keys(state) && state.Spec.TargetReference.APIVersion == "apps/v1" {
			w.Failf("converged", "%s is what is asked for, and is nobody's", state.Name)
		} // otherwise a user has created the object
	case asked == "true" && required != "" && state == nil:
		w.Failf("converged", "nothing is generated")
	case asked == "true" && required != "" && keys(state) != required:
		w.Failf("converged", "%v is generated, and %s is asked for", keys(state), required)
	case asked != "true" && state != nil:
		w.Failf("converged", "what nobody asks for is there")
	}
}

func keys(state *v1beta1.PersistentPodState) (text string) {
	for _, key := range state.Spec.RequiredPersistentTopology.Keys {
		if text != "" {
			text += ","
		}
		text += key
	}
	return text
}

func (w *story) convergedRecords(state *v1beta1.PersistentPodState) {
	object, wanted := w.workload(state.Name), map[string]bool{}
	if object == nil {
		if len(state.Status.PodStates) > 0 {
			w.Failf("converged", "%s has records %v, and its target is gone", state.Name, state.Status.PodStates)
		}
		return
	}
	for _, ordinal := range w.wanted(object) {
		wanted[ordinals.Name(state.Name, ordinal)] = true
	}
	for _, pod := range w.pods(state.Name) {
		wanted[pod.Name] = true
		node, _ := w.Server.Stored(&corev1.Node{}, client.ObjectKey{Name: pod.Spec.NodeName}).(*corev1.Node)
		if !podstate.IsReady(pod) || pod.DeletionTimestamp != nil || node == nil {
			continue
		}
		want := v1beta1.PodState{NodeName: node.Name, NodeTopologyLabels: map[string]string{}}
		for _, key := range state.Spec.RequiredPersistentTopology.Keys {
			want.NodeTopologyLabels[key] = node.Labels[key]
		}
		if diff := cmp.Diff(want, state.Status.PodStates[pod.Name], cmpopts.EquateEmpty()); diff != "" {
			w.Failf("converged", "the record of %s (-want +got):\n%s", pod.Name, diff)
		}
	}
	for name := range state.Status.PodStates {
		if !wanted[name] && state.Spec.PersistentPodStateRetentionPolicy != v1beta1.PersistentPodStateWhenDeleted {
			w.Failf("converged", "the record of %s is there, and nobody needs it", name)
		}
	}
	if state.Status.ObservedGeneration != state.Generation {
		w.Failf("converged", "%s has seen generation %d of %d", state.Name, state.Status.ObservedGeneration, state.Generation)
	}
}
