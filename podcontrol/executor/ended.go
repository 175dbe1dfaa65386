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

// errEnded is the reason for leaving the next ended Pod of a place alone for a while.
var errEnded = errors.New("the Pod before has ended as well")

// endedIn is the next attempt to replace an ended Pod in a place. The first attempt comes at once. Times are
// Kubernetes' times (pkg/controller/daemon/daemon_controller.go).
func endedIn(owner client.Object, place string) fanout.Attempt {
	return fanout.Attempt{
		Object: owner.GetUID(), Target: strconv.FormatInt(owner.GetGeneration(), 10),
		Task: fanout.Task{Name: "replace what has ended: " + place, First: time.Second, Last: 15 * time.Minute},
	}
}

// Numbered describes the Pods of the Set by their ordinals, for numbered.Plan; call Read before. A nil Rest stands for
// Executor.Rest, and a nil Ended for Turn.Ended with the Pod's name as place.
func (t *Turn[O]) Numbered(o podcontrol.NumberedOptions) *podcontrol.Numbered {
	if o.Rest == nil {
		o.Rest = t.executor.Rest
	}
	if o.Ended == nil {
		o.Ended = func(pod *corev1.Pod) time.Duration { return t.Ended(pod, pod.Name) }
	}
	return t.Set.Numbered(t.Owner.GetName(), o, t.Now)
}

// PerNode describes the Pods of the Set by their Nodes, for pernode.Plan; call Read before. A nil Rest stands for
// Executor.Rest, and a nil Ended for Turn.Ended with the Node as place. Delete counts by Node from then on.
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

// placeOf is the place of a Pod: the Node after PerNode, else the name of a Pod with an ordinal; empty for no place.
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

// Delete deletes a Pod, or has the Pod wait for its hook. changed reports any change. An ended Pod that leaves a place
// counts as in DeleteFrom. The place is the Node after PerNode, and else the name of a Pod with an ordinal.
func (t *Turn[O]) Delete(ctx context.Context, pod *corev1.Pod) (changed bool, err error) {
	if place := t.placeOf(pod); place != "" {
		return t.DeleteFrom(ctx, pod, place)
	}
	return t.remove(ctx, pod)
}

// Ended is the remaining time to keep an ended Pod, so that quickly ending Pods are not made in a loop: 1 s after the
// first deletion by Delete or DeleteFrom, then 2 s, up to 15 minutes, until the spec changes. place is an ordinal or a
// Node: a place holds a Pod at a time. Ended is for podcontrol.NumberedOptions and PerNodeOptions; Turn.Numbered and
// Turn.PerNode set Ended. The pass is repeated after the time. A Pod with a begun deletion does not stay.
func (t *Turn[O]) Ended(pod *corev1.Pod, place string) time.Duration {
	if t.isLeaving(pod) {
		return 0
	}
	wait, _ := t.executor.fanout.Backoff.Resting(endedIn(t.Owner, place), t.Now)
	t.Pass.Wake(wait)
	return wait
}

// DeleteFrom is Delete for a Pod of a given place, which another Pod takes. After an ended Pod, the next ended Pod in
// the place stays for a while (see Ended), even if the deletion got no answer.
func (t *Turn[O]) DeleteFrom(ctx context.Context, pod *corev1.Pod, place string) (changed bool, err error) {
	changed, err = t.remove(ctx, pod)
	if podstate.IsActive(pod) || t.isLeaving(pod) || !changed && (err == nil || !t.InDoubt()) {
		return changed, err
	}
	t.executor.fanout.Backoff.Refused(endedIn(t.Owner, place), errEnded, t.Now)
	t.executor.options.Observe(t.Owner, Event{Type: Replaced, Pod: pod})
	return changed, err
}

// isLeaving reports whether the deletion of a Pod has begun, and waits for its hook.
func (t *Turn[O]) isLeaving(pod *corev1.Pod) bool {
	return t.executor.control.StateOf(pod) == lifecycle.PreparingDelete
}
