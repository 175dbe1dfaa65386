package kruise

import (
	"context"
	"errors"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/podstate"
)

// errEnded is why the next Pod that ends in a place is left alone for a while.
var errEnded = errors.New("the Pod before has ended as well")

// endedIn is the next attempt to replace what has ended in a place: an ordinal, or a Node. The first is made at once.
func endedIn(owner client.Object, place string) fanout.Attempt {
	return fanout.Attempt{
		Object: owner.GetUID(), Target: strconv.FormatInt(owner.GetGeneration(), 10),
		Task: fanout.Task{Name: "replace what has ended: " + place, First: time.Second, Last: 15 * time.Minute},
	}
}

// Ended is for how much longer a Pod that has ended stays, so that Pods which end at once are not made in a loop. The pass is repeated
// then. One whose deletion has begun does not stay.
func (p *Parts[O]) Ended(v *ownercache.View[O], pass *fanout.Pass, pod *corev1.Pod, place string) time.Duration {
	if p.isLeaving(pod) {
		return 0
	}
	wait, _ := p.Fanout.Backoff.Resting(endedIn(v.Owner, place), v.Now)
	pass.Wake(wait)
	return wait
}

// Remove deletes a Pod. After one that has ended, of which an event of that name tells, the next that ends in its place stays for a while:
// also where nobody has answered.
func (p *Parts[O]) Remove(
	ctx context.Context, v *ownercache.View[O], pods *executor.Pods[O], pod *corev1.Pod, place, event string,
) (changed bool, err error) {
	changed, err = pods.Delete(ctx, pod)
	if podstate.IsActive(pod) || p.isLeaving(pod) || !changed && (err == nil || !v.InDoubt()) {
		return changed, err
	}
	p.Fanout.Backoff.Refused(endedIn(v.Owner, place), errEnded, v.Now)
	p.Events.Eventf(v.Owner, corev1.EventTypeWarning, event, "Pod %s has ended on Node %s and makes way for another", pod.Name, pod.Spec.NodeName)
	return changed, err
}

// isLeaving reports whether the deletion of a Pod has begun, and waits for its hook.
func (p *Parts[O]) isLeaving(pod *corev1.Pod) bool {
	return p.Control.StateOf(pod) == lifecycle.PreparingDelete
}
