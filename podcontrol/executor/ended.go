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

// Ended is the remaining time to keep an ended Pod, so that quickly ending Pods are not made in a loop: 1 s after the
// first deletion by DeleteFrom, then 2 s, up to 15 minutes, until the spec changes. place is an ordinal or a Node: a
// place holds a Pod at a time. Ended is for podcontrol.NumberedOptions and PerNodeOptions. The pass is repeated after
// the time. A Pod with a begun deletion does not stay.
func (t *Turn[O]) Ended(pod *corev1.Pod, place string) time.Duration {
	if t.isLeaving(pod) {
		return 0
	}
	wait, _ := t.executor.fanout.Backoff.Resting(endedIn(t.Owner, place), t.Now)
	t.Pass.Wake(wait)
	return wait
}

// DeleteFrom is Delete for a Pod whose place another Pod takes. After an ended Pod, the next ended Pod in the place
// stays for a while (see Ended), even if the deletion got no answer.
func (t *Turn[O]) DeleteFrom(ctx context.Context, pod *corev1.Pod, place string) (changed bool, err error) {
	changed, err = t.Delete(ctx, pod)
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
