package onnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/reason"
)

// Requests provides the requests for a Node's Pods that have not ended.
type Requests interface {
	// Of returns the requests for a Pod by the Pod's name, from a cache; do not modify the requests. If the cache
	// does not show the last PatchStatus yet, wait is the time after which the requests should be read again.
	Of(pod types.NamespacedName) (requests []*v1beta1.ContainerRecreateRequest, wait time.Duration)
	// PatchStatus writes a request's status if the request has not changed since it was read; otherwise the error is a
	// conflict.
	PatchStatus(ctx context.Context, request *v1beta1.ContainerRecreateRequest, status v1beta1.ContainerRecreateRequestStatus) error
}

// Options are the options of Restarts. The zero value is valid.
type Options struct {
	// Tell is called with events about containers of Pods; nil means that no events are sent.
	Tell func(ctx context.Context, e Event)
	// Done is called when a container of a request was restarted or has failed. Optional.
	Done func(restarted bool)
	// Clock tells the time; nil means the real clock.
	Clock clock.PassiveClock
}

// Event is an event about a container of a Pod.
type Event struct {
	Pod       reason.Object
	Container string
	// Type is Normal or Warning.
	Type, Reason, Message string
}

// Restarts carries out the requests of a Node. Restarts are safe for concurrent use. New makes Restarts.
type Restarts struct {
	requests Requests
	options  Options
}

// New returns the Restarts of a Node.
func New(requests Requests, options Options) *Restarts {
	if options.Tell == nil {
		options.Tell = func(context.Context, Event) {}
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Done == nil {
		options.Done = func(bool) {}
	}
	return &Restarts{requests: requests, options: options}
}

// soon is the wait after a conflict before the next step. By then the cache should show the change that caused the
// conflict.
const soon = 200 * time.Millisecond

// Work is an agent's work for a Pod: the next step of the Pod's first request.
func (r *Restarts) Work(ctx context.Context, pod *agent.Pod) (again time.Duration, err error) {
	requests, wait := r.requests.Of(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	first, behind := turn(requests, pod.UID)
	if wait > 0 {
		pod.KeepAll() // stops in progress continue until the cache shows which are wanted
		return wait, nil
	}
	if first == nil || pod.DeletionTimestamp != nil {
		return 0, nil // the controller completes the requests for a Pod that is being deleted
	}
	waits := r.letWait(ctx, behind)
	again, err = r.carryOn(ctx, pod, first)
	if isOutdated(err) {
		pod.KeepAll()
		return soon, waits
	}
	if err != nil {
		err = fmt.Errorf("request %s/%s: %w", first.Namespace, first.Name, err)
	}
	return again, errors.Join(err, waits)
}

// letWait records in the status of waiting requests that another request must end first. If the API server refuses such
// a write, the work continues.
func (r *Restarts) letWait(ctx context.Context, behind []*v1beta1.ContainerRecreateRequest) error {
	var errs []error
	for _, request := range behind {
		status := *request.Status.DeepCopy()
		status.Phase = v1beta1.ContainerRecreateRequestPending
		if err := r.requests.PatchStatus(ctx, request, status); err != nil && !isOutdated(err) {
			errs = append(errs, fmt.Errorf("let request %s wait: %w", request.Name, err))
		}
	}
	return errors.Join(errs...)
}

// isOutdated reports whether an error shows that the cache is stale: the request has changed, or was deleted.
func isOutdated(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// carryOn carries out the next step of a request: first the status is written, then the container is stopped.
func (r *Restarts) carryOn(ctx context.Context, pod *agent.Pod, request *v1beta1.ContainerRecreateRequest) (time.Duration, error) {
	now := r.options.Clock.Now()
	step, err := r.next(ctx, pod, request, now)
	if err != nil {
		return 0, err
	}
	status := statusOf(request, step)
	if step.Over() {
		status.CompletionTime = new(metav1.NewTime(now))
	}
	if !apiequality.Semantic.DeepEqual(status, request.Status) {
		if err := r.requests.PatchStatus(ctx, request, status); err != nil {
			return 0, err
		}
		r.count(request.Status, status)
	}
	r.begin(ctx, pod, request, step)
	return step.After, nil
}

// next decides the next step of a request. If a container belongs to a runtime that the Node does not have, the request
// ends.
func (r *Restarts) next(ctx context.Context, pod *agent.Pod, request *v1beta1.ContainerRecreateRequest, now time.Time) (containerrestart.Step, error) {
	wanted := requestOf(request)
	if problems := request.Spec.Undecodable; len(problems) > 0 {
		return hopeless(wanted, containerrestart.InvalidRequest, "the field "+problems[0].Path+" cannot be read"), nil
	}
	observed, err := pod.Observe(ctx)
	switch {
	case reason.IsFinal(err) && errors.Is(err, cri.UnknownRuntime):
		return hopeless(wanted, NoRuntimeService, messageNoRuntime+": "+err.Error()), nil
	case err != nil:
		return containerrestart.Step{}, err
	}
	return containerrestart.Next(wanted, observed, now), nil
}

// begin starts the stop of the container that a step names, and sends an event about the Pod. A stop that is already
// in progress continues.
func (r *Restarts) begin(ctx context.Context, pod *agent.Pod, request *v1beta1.ContainerRecreateRequest, step containerrestart.Step) {
	var grace *time.Duration
	if request.Spec.Strategy != nil {
		grace = secondsOf(request.Spec.Strategy.TerminationGracePeriodSeconds)
	}
	err := pod.Begin(step, grace)
	if step.Stop == nil {
		return
	}
	name := step.Stop.Instance.Name
	if err != nil {
		r.options.Tell(ctx, HookFailed(reason.ObjectOf("Pod", pod), name, err))
	}
	r.options.Tell(ctx, Event{
		Pod: reason.ObjectOf("Pod", pod), Container: name, Type: corev1.EventTypeNormal, Reason: "Killing",
		Message: "Stopping container " + name + " for request " + request.Name,
	})
}

// HookFailed returns the event about a preStop hook that has failed.
func HookFailed(pod reason.Object, container string, err error) Event {
	return Event{Pod: pod, Container: container, Type: corev1.EventTypeWarning, Reason: "FailedPreStopHook", Message: err.Error()}
}

// count calls Done for the containers that were restarted or have failed in the last step.
func (r *Restarts) count(before, after v1beta1.ContainerRecreateRequestStatus) {
	done := map[string]bool{}
	for _, state := range before.ContainerRecreateStates {
		done[state.Name] = isFinal(state.Phase)
	}
	for _, state := range after.ContainerRecreateStates {
		if isFinal(state.Phase) && !done[state.Name] {
			r.options.Done(state.Phase == v1beta1.ContainerRecreateRequestSucceeded)
		}
	}
}

func isFinal(phase v1beta1.ContainerRecreateRequestPhase) bool {
	return phase == v1beta1.ContainerRecreateRequestSucceeded || phase == v1beta1.ContainerRecreateRequestFailed
}
