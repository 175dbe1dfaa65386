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
func (p *Pods[O]) Ended(pod *corev1.Pod, place string) time.Duration {
	if p.isLeaving(pod) {
		return 0
	}
	wait, _ := p.executor.fanout.Backoff.Resting(endedIn(p.view.Owner, place), p.view.Now)
	p.pass.Wake(wait)
	return wait
}

// DeleteFrom is Delete for a Pod whose place another Pod takes. After an ended Pod, the next ended Pod in the place
// stays for a while (see Ended), even if the deletion got no answer.
func (p *Pods[O]) DeleteFrom(ctx context.Context, pod *corev1.Pod, place string) (changed bool, err error) {
	changed, err = p.Delete(ctx, pod)
	if podstate.IsActive(pod) || p.isLeaving(pod) || !changed && (err == nil || !p.view.InDoubt()) {
		return changed, err
	}
	p.executor.fanout.Backoff.Refused(endedIn(p.view.Owner, place), errEnded, p.view.Now)
	p.executor.options.Observe(p.view.Owner, Event{Type: Replaced, Pod: pod})
	return changed, err
}

// isLeaving reports whether the deletion of a Pod has begun, and waits for its hook.
func (p *Pods[O]) isLeaving(pod *corev1.Pod) bool {
	return p.executor.control.StateOf(pod) == lifecycle.PreparingDelete
}
