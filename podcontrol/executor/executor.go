// Package executor carries out the steps of package podcontrol.
//
// [NewParts] makes all parts of a controller of Pods with revisions, and [Parts.AddTo] adds both loops to the manager.
// In the owner's loop, [Parts.Begin] begins a [Turn]: the view of the owner and its Pods, with the methods that change
// them. [Parts.SyncHistory] finds the revision, and [Turn.Read] the state of the Pods. After the decision give
// [Turn.Each] the methods Delete, Cancel, Settle, and the function returned by UpdateTo. [Turn.CreatePods] creates Pods
// all alike, [Turn.CreateNumbered] Pods with ordinals, [Turn.CreatePerNode] Pods for Nodes. The Pods' own loop opens
// gates and finishes updates.
//
// An [Executor] alone serves a controller without revisions.
//
// Guarantees of an Executor:
//
//   - Only a single loop works on a Pod at a time, and only on the Pod of the decision: the end of an update must not
//     open a gate just closed by the start of an update.
//   - An update refused by the API server, a quota or a webhook is tried again after five minutes, or at once for
//     another revision, because each attempt takes the Pod out of service. If the rules allow, the Pod is recreated
//     instead. The owner hears of refusals in its Pods' own loop: see [Turn.Unfinished].
//   - A refused deletion, or a refused end of an update, is tried again after 10 seconds, then 20, and so on up to five
//     minutes, for each Pod on its own.
//   - If Pods have a place, an ordinal or a Node, repeatedly ending Pods are not replaced in a loop: see [Turn.Ended].
//   - A Pod protected by a disruption budget is left alone while the budget refuses: see Options.Permit.
//   - Each change of a Pod is reported once, as an [Event], for the controller's own events and metrics.
//
// RBAC: create, patch and delete on pods, patch on pods/status and pods/resize; update on finalizers of the owner's
// kind, where the API server asks for that right before an object names a controller
// (OwnerReferencesPermissionEnforcement); create and patch on events.events.k8s.io with Record; the rights of packages
// ownercache, revision/history and pvc/claimwriter.
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

// UnusablePod means that a Pod is not created, because its owner would not count the Pod, or would take the Pod for an
// outdated Pod: the Pod is in another namespace, is not for the intended Node, or lacks its name, its revision label,
// its owner reference or the labels of the selector.
const UnusablePod reason.Code = "UnusablePod"

// OwnerDeleting means that a Pod or a claim is not created, because the owner is being deleted.
const OwnerDeleting reason.Code = "OwnerDeleting"

// The attempts for a single Pod, and the rest after a refusal. A refused update has taken the Pod out of service, so
// more time passes before the next attempt.
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

// EventType is the kind of an Event.
type EventType string

// The kinds of Events.
const (
	// Created Pods are new.
	Created EventType = "Created"
	// Deleted Pods are gone or terminating because of the owner. DeleteFailed says why a Pod could not be deleted. If such
	// an Event has a Revision, Recreated or RecreateFailed follows and says more.
	Deleted      EventType = "Deleted"
	DeleteFailed EventType = "DeleteFailed"
	// Replaced Pods had ended, and were deleted for another Pod to take their place. Replaced follows Deleted.
	Replaced EventType = "Replaced"
	// Started Pods are being updated in place. StartFailed says why a start failed.
	Started     EventType = "Started"
	StartFailed EventType = "StartFailed"
	// Recreated Pods were deleted, or wait for their hook before a deletion, to be made anew for an update. RecreateFailed
	// says why the recreation failed.
	Recreated      EventType = "Recreated"
	RecreateFailed EventType = "RecreateFailed"
	// Blocked Pods cannot be updated in place, and are not to be recreated.
	Blocked EventType = "Blocked"
	// FinishFailed says why a begun update does not go on.
	FinishFailed EventType = "FinishFailed"
	// Restarted Pods have lost the state of their update, which begins anew. Why says how.
	Restarted EventType = "Restarted"
	// Unreadable Pods carry senseless annotations or a senseless gate. They are not updated in place, nor is their update
	// finished, until somebody repairs the Pod. They can be recreated.
	Unreadable EventType = "Unreadable"
	// ClaimGrown claims ask for the size of their template. ClaimGrowthFailed and ClaimDeleteFailed say why a claim could
	// not grow or be deleted.
	ClaimGrown        EventType = "ClaimGrown"
	ClaimGrowthFailed EventType = "ClaimGrowthFailed"
	ClaimDeleteFailed EventType = "ClaimDeleteFailed"
)

// Event is a change of a Pod or a claim, or a failed attempt.
type Event struct {
	Type EventType
	// Pod is nil in Events of claims, Claim in Events of Pods.
	Pod   *corev1.Pod
	Claim *corev1.PersistentVolumeClaim
	// Revision is the Pod's target revision, for an update.
	Revision string
	// Why says why a Pod was recreated, or is blocked. Why is nil if the rules alone ask for the recreation.
	Why reason.List
	// Err is why something failed.
	Err error
}

// Options of an Executor. Rules is required.
type Options[O client.Object] struct {
	// Rules returns an owner's wishes for its Pods. Rules must depend on the owner alone, and be safe for concurrent use.
	Rules func(owner O) podcontrol.Rules
	// Observe receives the Events; nil for none. Observe must not block, and be safe for concurrent use.
	Observe func(owner O, e Event)
	// Template finds the template of the revision in a Pod's label, nil if unknown. If somebody has removed or replaced
	// the state of an update in place, the update begins anew from the template. If the update cannot begin anew, the Pod
	// is Unreadable. Template must be safe for concurrent use. NewParts sets Template. Without Template an update without
	// a state counts as done.
	Template func(owner O, revision string) *corev1.PodTemplateSpec
	// AfterDelete is called after the deletion of a Pod in a Turn, for objects that go with the Pod. Optional.
	AfterDelete func(ctx context.Context, t *Turn[O], pod *corev1.Pod) error
	// Permit is asked before a Pod is taken out of service: deleted, changed in place, its readiness gate closed, or the
	// Pod given to its hook before a deletion. An error says why the action must wait, for example for a spent disruption
	// budget. The pass goes on with other Pods, and comes again after a second. Waiting is no failure: no Event and no
	// error report it, and Turn.Waiting lists it. A budget counts the Pods as Members says, and has the Pods of the last
	// stored count, which may be older than the pass: see guard.Guard.Permit. Permit must be safe for concurrent use.
	// Optional.
	Permit func(ctx context.Context, owner O, pod *corev1.Pod, operation disruption.Operation) error
	// Merger knows the abilities of the API server.
	Merger podpatch.Merger
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Executor carries out decisions about single Pods. An Executor is safe for concurrent use. Make an Executor with New.
type Executor[O client.Object] struct {
	control *podcontrol.Control
	cache   *ownercache.Cache[O]
	fanout  *fanout.Fanout
	reader  *podcontrol.Reader
	options Options[O]

	busy sync.Map // UIDs of the Pods in work by a loop
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
	reader := podcontrol.NewReader(control)
	cache.OnReplaced(reader.Drop)
	cache.OnGone(reader.Forget)
	cache.OnGone(f.Backoff.Forget)
	return &Executor[O]{control: control, cache: cache, fanout: f, reader: reader, options: options}, nil
}

// Rest is the remaining rest of a Pod whose last update or deletion was refused or has failed. The rest has no end if
// the state of the Pod cannot be read. A Pod that must rest must not use up the budget of Pods that need not. After the
// rest is over, Rest is still a nanosecond: the Pod has its turn after Pods without a refusal. Such Pods might
// otherwise never have their turn.
func (x *Executor[O]) Rest(pod *podcontrol.Pod) time.Duration {
	rest := x.left(pod)
	if rest == 0 && pod != nil && x.fanout.Backoff.WasRefused(pod.UID, updateTask(), restingTask(deleteName)) {
		rest = 1
	}
	return rest
}

// left is the rest of a Pod's rest.
func (x *Executor[O]) left(pod *podcontrol.Pod) time.Duration {
	switch {
	case pod == nil:
		return 0
	case pod.Unreadable != nil:
		return math.MaxInt64
	}
	return x.fanout.Backoff.Rest(pod.UID, x.options.Clock.Now(), updateTask(), restingTask(deleteName))
}

// IsHeldUp reports whether the end of the Pod's update was refused: the Pod may get another target.
func (x *Executor[O]) IsHeldUp(pod *corev1.Pod) bool {
	return x.fanout.Backoff.WasRefused(pod.UID, restingTask(finishName))
}

// take reserves a Pod for a loop, until done is called. ok is false while the other loop has the Pod.
func (x *Executor[O]) take(pod types.UID) (done func(), ok bool) {
	if _, busy := x.busy.LoadOrStore(pod, struct{}{}); busy {
		return nil, false
	}
	return func() { x.busy.Delete(pod) }, true
}

// takeNewest is take for a Pod of a view. ok is also false if the Pod is no longer the Pod of the decision, or if the
// cache lacks writes of the Pod's own loop: the Pod holds the progress of its update, and an older decision would undo
// the progress.
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
