// Package executor carries out the steps of package podcontrol.
//
// [NewParts] makes all parts of a controller of Pods with revisions, and [Parts.AddTo] adds both loops to the manager.
// In the owner's loop, [Parts.Begin] begins a [Turn]: a view of the owner and its Pods, with the methods that change
// the Pods. [Parts.SyncHistory] finds or creates the revision, and [Turn.Read] reads the state of the Pods. After the
// decision, pass the methods Delete, Cancel, Settle, or the function returned by UpdateTo to [Turn.Each].
// [Turn.CreatePods] creates identical Pods, [Turn.CreateNumbered] Pods with ordinals, [Turn.CreatePerNode] Pods for
// Nodes. The second loop, over single Pods, opens gates and finishes updates.
//
// A controller without revisions can use an [Executor] alone.
//
// An Executor guarantees:
//
//   - Only one of the two loops works on a Pod at a time, and only on the version of the Pod for which the decision was
//     made: otherwise the end of an update could open a gate that the start of another update has just closed.
//   - An update that the API server, a quota or a webhook refuses is tried again after five minutes, because each
//     attempt takes the Pod out of service. An update to another revision is tried at once. If the rules allow, the
//     Pod is recreated instead. [Turn.Unfinished] returns the refusals of the second loop, for the status of the
//     owner.
//   - If a deletion, or the end of an update, is refused, it is tried again after 10 seconds, then 20, and so on up to
//     five minutes, for each Pod separately.
//   - If Pods have an ordinal or a Node, Pods that end again and again are not replaced in a fast loop: see
//     [Turn.Ended].
//   - While a disruption budget allows no disruption, no Pod of the budget is taken out of service: see
//     Options.Permit.
//   - Each change of a Pod is reported once, as an [Event], for the controller's Kubernetes events and metrics.
//
// RBAC: create, patch and delete on pods, patch on pods/status and pods/resize; update on finalizers of the owner's
// kind, if the admission plugin OwnerReferencesPermissionEnforcement is on; create and patch on events.events.k8s.io if
// Record is used; the rights of packages ownercache, revision/history and pvc/claimwriter.
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

// DeletionRefused means that the API server, a policy or a webhook has refused the deletion of a Pod.
const DeletionRefused reason.Code = "DeletionRefused"

// UnusablePod means that a Pod is not created, because its owner would not count the Pod, or would consider the Pod
// outdated: the Pod is in another namespace, is for another Node, or lacks its name, its revision label, its owner
// reference or the labels of the selector.
const UnusablePod reason.Code = "UnusablePod"

// OwnerDeleting means that a Pod or a claim is not created, because the owner is being deleted.
const OwnerDeleting reason.Code = "OwnerDeleting"

// These are the waits after the API server has refused a change of a single Pod, and the names of these changes. A
// refused update has taken the Pod out of service, so the wait before the next attempt is longer.
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

// These are the kinds of Events.
const (
	// Created means that a Pod was created.
	Created EventType = "Created"
	// Deleted means that the owner has deleted a Pod, which may still be terminating. DeleteFailed says why a Pod could
	// not be deleted. If the Event has a Revision, an Event Recreated or RecreateFailed with more details follows.
	Deleted      EventType = "Deleted"
	DeleteFailed EventType = "DeleteFailed"
	// Replaced means that a Pod had ended, and was deleted so that another Pod can take its ordinal or Node. Replaced
	// follows the Event Deleted.
	Replaced EventType = "Replaced"
	// Started means that the in-place update of a Pod has begun. StartFailed says why the update could not begin.
	Started     EventType = "Started"
	StartFailed EventType = "StartFailed"
	// Recreated means that a Pod was deleted, or waits for its hook before its deletion, because an update recreates
	// the Pod. RecreateFailed says why this failed.
	Recreated      EventType = "Recreated"
	RecreateFailed EventType = "RecreateFailed"
	// Blocked means that a Pod cannot be updated in place, and that the rules forbid its recreation.
	Blocked EventType = "Blocked"
	// FinishFailed says why an update that has begun does not continue.
	FinishFailed EventType = "FinishFailed"
	// Restarted means that the recorded state of a Pod's update was lost, and that the update begins again. The field
	// Why says how the state was lost.
	Restarted EventType = "Restarted"
	// Unreadable means that annotations or the gate of a Pod cannot be parsed. The Pod is not updated in place, and its
	// update is not finished, until somebody repairs the Pod. The Pod can still be recreated.
	Unreadable EventType = "Unreadable"
	// ClaimGrown means that a claim now requests the size in its template. ClaimGrowthFailed and ClaimDeleteFailed say
	// why a claim could not be resized or deleted.
	ClaimGrown        EventType = "ClaimGrown"
	ClaimGrowthFailed EventType = "ClaimGrowthFailed"
	ClaimDeleteFailed EventType = "ClaimDeleteFailed"
)

// Event reports a change of a Pod or a claim, or a failed attempt.
type Event struct {
	Type EventType
	// Pod is nil in Events about claims, and Claim is nil in Events about Pods.
	Pod   *corev1.Pod
	Claim *corev1.PersistentVolumeClaim
	// Revision is the revision to which the Pod is updated, if the Event is about an update.
	Revision string
	// Why says why a Pod was recreated, or cannot be updated. Why is nil if the rules always require recreation.
	Why reason.List
	// Err is the error of a failed attempt.
	Err error
}

// Options are options of an Executor. Rules is required.
type Options[O client.Object] struct {
	// Rules returns the settings for Pods in an owner's spec. Rules must depend only on the owner, and must be safe
	// for concurrent use.
	Rules func(owner O) podcontrol.Rules
	// Observe is called with each Event; nil for none. Observe must not block, and be safe for concurrent use.
	Observe func(owner O, e Event)
	// Template returns the template of the revision named in a Pod's label, nil if unknown. If somebody has removed or
	// replaced the recorded state of an in-place update, the update begins again from this template. If this is
	// impossible, the Pod is Unreadable. Template must be safe for concurrent use. NewParts sets Template. If Template
	// is nil, an update without a recorded state counts as done.
	Template func(owner O, revision string) *corev1.PodTemplateSpec
	// AfterDelete is called after the deletion of a Pod in a Turn, to delete objects that belong to the Pod. Optional.
	AfterDelete func(ctx context.Context, t *Turn[O], pod *corev1.Pod) error
	// Permit is called before a Pod is taken out of service: before the Pod is deleted, changed in place or marked to
	// wait for its hook, and before its readiness gate is closed. An error says why the action must wait, for example
	// because no more Pods of a disruption budget may be unavailable. The Turn continues with other Pods, and the
	// owner is requeued after a second. Such a wait is no failure: no Event and no error report the wait, but
	// Turn.Waiting lists the wait. A disruption budget must count the Pods as Members does. The budget uses its last
	// stored count, which may be older than the Turn: see guard.Guard.Permit. Permit must be safe for concurrent use.
	// Optional.
	Permit func(ctx context.Context, owner O, pod *corev1.Pod, operation disruption.Operation) error
	// Merger merges the changes of a Pod into patches of the kinds that the API server supports.
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

	busy sync.Map // UIDs of the Pods that one of the loops works on
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

// Rest returns how long a Pod must still wait after its last update or deletion was refused or has failed. If the
// state of the Pod cannot be parsed, the Pod must wait until somebody repairs the Pod. A Pod that must wait must not
// use up the budget of other Pods. When the wait is over, Rest still returns one nanosecond, so that Pods without a
// refusal are updated first. Otherwise a few Pods with many refusals could keep all other Pods from being updated.
func (x *Executor[O]) Rest(pod *podcontrol.Pod) time.Duration {
	rest := x.left(pod)
	if rest == 0 && pod != nil && x.fanout.Backoff.WasRefused(pod.UID, updateTask(), restingTask(deleteName)) {
		rest = 1
	}
	return rest
}

// left returns how much of a Pod's wait remains.
func (x *Executor[O]) left(pod *podcontrol.Pod) time.Duration {
	switch {
	case pod == nil:
		return 0
	case pod.Unreadable != nil:
		return math.MaxInt64
	}
	return x.fanout.Backoff.Rest(pod.UID, x.options.Clock.Now(), updateTask(), restingTask(deleteName))
}

// IsHeldUp reports whether the end of the Pod's update was refused, so that the Pod may be updated to another revision.
func (x *Executor[O]) IsHeldUp(pod *corev1.Pod) bool {
	return x.fanout.Backoff.WasRefused(pod.UID, restingTask(finishName))
}

// take reserves a Pod until done is called, for the owners' loop or for the loop that reconciles single Pods. ok is
// false if the Pod is reserved already.
func (x *Executor[O]) take(pod types.UID) (done func(), ok bool) {
	if _, busy := x.busy.LoadOrStore(pod, struct{}{}); busy {
		return nil, false
	}
	return func() { x.busy.Delete(pod) }, true
}

// takeNewest is like take, for a Pod of a View. ok is also false if the Pod has changed since the View was made, or
// if the cache does not show all writes of the loop over single Pods yet. The Pod's annotations record the progress
// of an update, and a decision on an older version of the Pod would undo the progress.
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
