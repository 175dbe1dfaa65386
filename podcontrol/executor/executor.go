// Package executor carries out the steps of package podcontrol.
//
// An [Executor] is made once for a controller. In the owner's pass, [Executor.For] returns the [Pods] of that pass, whose methods
// are what fanout.Each calls: Delete, Cancel, Settle, and what UpdateTo returns; [Pods.CreateNumbered] creates Pods that have
// ordinals, [Pods.CreatePerNode] those of Nodes. [Executor.Reconcile] is the loop of the Pods' own; [Executor.AddTo] adds it to the manager.
//
// [NewParts] makes an Executor and all else that a controller of Pods with revisions is made of.
//
// What it looks after:
//
//   - Only one of the two loops works on a Pod at a time, and only on the Pod as it was decided on: finishing an update must not
//     open the gate that starting one has just closed.
//   - An update that the API server, a quota or a webhook refuses is tried again after five minutes, or as soon as it is one to another
//     revision, because each attempt takes the Pod out of service. Where the rules allow it the Pod is recreated instead. The owner
//     hears of what its Pods' own loop was refused: see [Pods.Unfinished].
//   - A deletion that is refused, or the end of an update, is tried again after 10 seconds, then 20, and so on up to five minutes, for
//     each Pod on its own.
//   - Where Pods have a place, an ordinal or a Node, those that end again and again are not replaced in a loop: see [Pods.Ended].
//   - A Pod that a disruption budget protects is left alone while the budget does not let it go: see Options.Permit.
//   - Each thing that happens to a Pod is told once, as an [Event], for the controller to turn into events and metrics of its own.
//
// RBAC: create, patch and delete on pods, patch on pods/status and pods/resize.
package executor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

// DeletionRefused means that the API server, a policy or a webhook does not accept the deletion of a Pod.
const DeletionRefused reason.Code = "DeletionRefused"

// UnusablePod means that a Pod is not created, because it would not be one of its owner's: it is not for the Node that it should be for, or
// lacks the labels that the selector asks for.
const UnusablePod reason.Code = "UnusablePod"

// OwnerDeleting means that a Pod is not created, because its owner is being deleted.
const OwnerDeleting reason.Code = "OwnerDeleting"

// What is tried for a single Pod, and for how long it rests after it was refused. An update that is refused has taken the Pod out
// of service, so there is more time between two of them.
const (
	refusalRest            = 5 * time.Minute
	firstPodRest           = 10 * time.Second
	updateName, finishName = "update the Pod", "finish the update"
	deleteName             = "delete the Pod"
	versionName            = "write this version of the Pod"
)

func updateTask() fanout.Task {
	return fanout.Task{Name: updateName, First: refusalRest, Last: refusalRest}
}

func restingTask(name string) fanout.Task {
	return fanout.Task{Name: name, First: firstPodRest, Last: refusalRest}
}

// EventType says what has happened to a Pod.
type EventType string

// What may happen to a Pod.
const (
	// Created Pods are new.
	Created EventType = "Created"
	// Deleted Pods are gone or terminating because of the owner; DeleteFailed says why one could not be deleted. Where they have a
	// Revision, Recreated or RecreateFailed follows and says more.
	Deleted      EventType = "Deleted"
	DeleteFailed EventType = "DeleteFailed"
	// Replaced Pods had ended, and were deleted for another to take their place. It follows Deleted.
	Replaced EventType = "Replaced"
	// Started Pods are being updated in place; StartFailed says why one could not be.
	Started     EventType = "Started"
	StartFailed EventType = "StartFailed"
	// Recreated Pods were deleted, or wait for their hook before they are, to be made anew for an update; RecreateFailed says why
	// one could not be.
	Recreated      EventType = "Recreated"
	RecreateFailed EventType = "RecreateFailed"
	// Blocked Pods cannot be updated in place, and are not to be recreated.
	Blocked EventType = "Blocked"
	// FinishFailed says why an update that was begun does not go on.
	FinishFailed EventType = "FinishFailed"
	// Restarted Pods have lost the state of their update, which begins anew; Why says how.
	Restarted EventType = "Restarted"
	// Unreadable Pods carry annotations or a gate that make no sense. They are not updated in place, nor is their update finished,
	// until that is mended. They can be recreated.
	Unreadable EventType = "Unreadable"
)

// Event is something that happened to a Pod.
type Event struct {
	Type EventType
	Pod  *corev1.Pod
	// Revision is the one that the Pod is taken to, where that is what happens.
	Revision string
	// Why says why a Pod was recreated, or is blocked; it is nil where the rules ask for nothing else.
	Why reason.List
	// Err is why something failed.
	Err error
}

// Options of an Executor. Rules is required.
type Options[O client.Object] struct {
	// Rules are what an owner wants for its Pods. It must depend on the owner alone, and be safe for concurrent use.
	Rules func(owner O) podcontrol.Rules
	// Observe is told what happens; nil for nobody. It must not block, and be safe for concurrent use.
	Observe func(owner O, e Event)
	// Template finds the template of the revision that a Pod's label names, nil where it is unknown: an update in place whose state somebody
	// has removed or replaced begins anew from it, and the Pod is Unreadable where it cannot. It must be safe for concurrent use. NewParts
	// sets it; without it an update without a state counts as done.
	Template func(owner O, revision string) *corev1.PodTemplateSpec
	// AfterDelete is called when a Pod of a pass was deleted, for what goes with it. Optional.
	AfterDelete func(ctx context.Context, view *ownercache.View[O], pod *corev1.Pod) error
	// Permit is asked before a Pod is taken out of service: deleted, changed in place, or its readiness gate closed. An error says why that may
	// not be now, such as a disruption budget that is spent; the pass goes on with others, and comes again after a second. Nobody is told by
	// an Event, and the error is final. It must be safe for concurrent use. Optional.
	Permit func(ctx context.Context, owner O, pod *corev1.Pod, operation disruption.Operation) error
	// Merger knows what the API server can do.
	Merger podpatch.Merger
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Executor carries out what is decided about single Pods. It is safe for concurrent use. Make it with New.
type Executor[O client.Object] struct {
	control *podcontrol.Control
	cache   *ownercache.Cache[O]
	fanout  *fanout.Fanout
	options Options[O]

	busy sync.Map // UIDs of the Pods that one of the loops is working on
}

// New returns an Executor. All arguments are required.
func New[O client.Object](
	control *podcontrol.Control, cache *ownercache.Cache[O], f *fanout.Fanout, options Options[O],
) (*Executor[O], error) {
	if control == nil || cache == nil || f == nil || options.Rules == nil {
		return nil, errors.New("executor: a control, a cache, a fanout and rules are required")
	}
	if options.Observe == nil {
		options.Observe = func(O, Event) {}
	}
	if options.Permit == nil {
		options.Permit = func(context.Context, O, *corev1.Pod, disruption.Operation) error { return nil }
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	cache.OnGone(f.Backoff.Forget)
	return &Executor[O]{control: control, cache: cache, fanout: f, options: options}, nil
}

// Rest is for how much longer a Pod is to be left alone: its last update or deletion was refused or has failed. It has no end where the
// state of the Pod cannot be read. What cannot be done now should not use up the budget of what can; and where that is over it is still a
// nanosecond, so that the Pod has its turn after those of which nothing was refused, who might never have theirs otherwise.
func (x *Executor[O]) Rest(pod *podcontrol.Pod) time.Duration {
	rest := x.left(pod)
	if rest == 0 && pod != nil && x.fanout.Backoff.WasRefused(pod.UID, updateTask(), restingTask(deleteName)) {
		rest = 1
	}
	return rest
}

// left is what is left of a Pod's rest.
func (x *Executor[O]) left(pod *podcontrol.Pod) time.Duration {
	switch {
	case pod == nil:
		return 0
	case pod.Unreadable != nil:
		return math.MaxInt64
	}
	return x.fanout.Backoff.Rest(pod.UID, x.options.Clock.Now(), updateTask(), restingTask(deleteName))
}

// IsHeldUp reports whether what ends the Pod's update was refused: it may be given another target.
func (x *Executor[O]) IsHeldUp(pod *corev1.Pod) bool {
	return x.fanout.Backoff.WasRefused(pod.UID, restingTask(finishName))
}

// take reserves a Pod for one of the loops, until done is called. ok is false while the other has it.
func (x *Executor[O]) take(pod types.UID) (done func(), ok bool) {
	if _, busy := x.busy.LoadOrStore(pod, struct{}{}); busy {
		return nil, false
	}
	return func() { x.busy.Delete(pod) }, true
}

// takeNewest is take for a Pod of a view. ok is also false when the Pod is not the one any more that was decided on, or when the
// cache lacks what its own loop has written: where an update stands is kept in the Pod, and would be undone.
func (x *Executor[O]) takeNewest(ctx context.Context, pod *corev1.Pod) (done func(), ok bool) {
	if done, ok = x.take(pod.UID); !ok {
		return nil, false
	}
	if x.cache.IsNewest(ctx, pod) {
		return done, true
	}
	done()
	return nil, false
}

func failed(what string, pod *corev1.Pod, err error) error {
	return fmt.Errorf("%s %s: %w", what, reason.ObjectOf("Pod", pod), err)
}
