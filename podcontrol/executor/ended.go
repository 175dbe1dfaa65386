package executor

import (
	"context"
	"errors"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podstate"
)

// errEnded is the reason for the wait before an ended Pod is deleted: the previous Pod with the same ordinal, or on
// the same Node, has ended as well.
var errEnded = errors.New("the Pod before has ended as well")

// endedIn describes the attempts to replace ended Pods in the same place. A place is an ordinal or a Node. The first
// attempt is made at once. Later attempts are delayed as in Kubernetes (pkg/controller/daemon/daemon_controller.go).
func endedIn(owner client.Object, place string) fanout.Attempt {
	return fanout.Attempt{
		Object: owner.GetUID(), Target: strconv.FormatInt(owner.GetGeneration(), 10),
		Task: fanout.Task{Name: "replace what has ended: " + place, First: time.Second, Last: 15 * time.Minute},
	}
}

// Numbered describes the Pods of the Set by their ordinals, for numbered.Plan; call Read first. If Rest is nil,
// Executor.Rest is used; if Ended is nil, Turn.Ended is used with the Pod's name as place.
func (t *Turn[O]) Numbered(o podcontrol.NumberedOptions) *podcontrol.Numbered {
	if o.Rest == nil {
		o.Rest = t.executor.Rest
	}
	if o.Ended == nil {
		o.Ended = func(pod *corev1.Pod) time.Duration { return t.Ended(pod, pod.Name) }
	}
	return t.Set.Numbered(t.Owner.GetName(), o, t.Now)
}

// PerNode describes the Pods of the Set by their Nodes, for pernode.Plan; call Read first. If Rest is nil,
// Executor.Rest is used; if Ended is nil, Turn.Ended is used with the Node as place. After a call of
// PerNode, Delete records a deletion of an ended Pod under the Pod's Node.
func (t *Turn[O]) PerNode(o podcontrol.PerNodeOptions) *podcontrol.PerNode {
	if o.Rest == nil {
		o.Rest = t.executor.Rest
	}
	if o.Ended == nil {
		o.Ended = t.Ended
	}
	t.byNode = true
	return t.Set.PerNode(o)
}

// placeOf returns the place under which deletions of ended Pods are counted: the Node if PerNode was called,
// otherwise the name of a Pod with an ordinal, or "".
func (t *Turn[O]) placeOf(pod *corev1.Pod) string {
	if t.byNode {
		node, _ := nodefit.NodeOf(pod)
		return node
	}
	if _, ok := ordinals.OfPod(t.Owner.GetName(), pod); ok {
		return pod.Name
	}
	return ""
}

// Delete deletes a Pod, or marks the Pod to wait for its hook. changed reports whether anything was written. If the Pod
// has ended and another Pod will take its ordinal or Node, the deletion counts as in DeleteFrom. The place is the Node
// if PerNode was called, otherwise the name of a Pod with an ordinal.
func (t *Turn[O]) Delete(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
	if place := t.placeOf(pod); place != "" {
		return t.DeleteFrom(ctx, pod, place)
	}
	return t.remove(ctx, pod)
}

// Ended returns how long an ended Pod must still be kept, so that Pods that end quickly are not recreated in a fast
// loop: 1 s after the first deletion by Delete or DeleteFrom, then 2 s, up to 15 minutes, until the spec changes.
// place is the name of an ordinal's Pod, or a Node: each has a single Pod at a time. Ended is the function for
// podcontrol.NumberedOptions and PerNodeOptions; Turn.Numbered and Turn.PerNode set the field. The owner is requeued
// when the time is over. A Pod whose deletion has begun is not kept.
func (t *Turn[O]) Ended(pod *corev1.Pod, place string) time.Duration {
	if t.isLeaving(pod) {
		return 0
	}
	wait, _ := t.executor.fanout.Backoff.Resting(endedIn(t.Owner, place), t.Now)
	t.Pass.Wake(wait)
	return wait
}

// DeleteFrom is like Delete, for a Pod whose place (ordinal or Node) another Pod will take. If the Pod has ended, the
// next ended Pod in the place is kept for a while (see Ended), even if the deletion got no response.
func (t *Turn[O]) DeleteFrom(ctx context.Context, pod *corev1.Pod, place string) (changed bool, err error) {
	changed, err = t.remove(ctx, pod)
	if podstate.IsActive(pod) || t.isLeaving(pod) || !changed && (err == nil || !t.InDoubt()) {
		return changed, err
	}
	t.executor.fanout.Backoff.Refused(endedIn(t.Owner, place), errEnded, t.Now)
	t.executor.options.Observe(t.Owner, Event{Type: Replaced, Pod: pod})
	return changed, err
}

// isLeaving reports whether the deletion of a Pod has begun and waits for the Pod's hook.
func (t *Turn[O]) isLeaving(pod *corev1.Pod) bool {
	return t.executor.control.StateOf(pod) == lifecycle.PreparingDelete
}
