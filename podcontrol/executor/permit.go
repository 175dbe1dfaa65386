package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// withheldRetry is the time until Options.Permit is called again for a refused Pod. No event announces that the
// budget allows the action.
const withheldRetry = time.Second

// Withheld means that a Pod is not taken out of service now, because Options.Permit refused without giving a reason.
const Withheld reason.Code = "Withheld"

// errWithheld ends a step that Options.Permit has refused. The refusal does not count as a failed request, because no
// request was sent.
var errWithheld = errors.New("executor: the Pod is not taken out of service now")

// unlessWithheld turns errWithheld into nil, because waiting for a budget is no failure.
func unlessWithheld(changed bool, err error) (bool, error) {
	if errors.Is(err, errWithheld) {
		return changed, nil
	}
	return changed, err
}

// permit calls Options.Permit if the step would take the Pod out of service. leaves says that the Pod will be
// deleted. The error is errWithheld, or the error of Permit.
func (t *Turn[O]) permit(ctx context.Context, pod *corev1.Pod, step podcontrol.Step, leaves bool) error {
	operation, ok := t.executor.takesOut(pod, step, leaves)
	if !ok {
		return nil
	}
	err := t.executor.options.Permit(ctx, t.Owner, pod, operation)
	if err == nil {
		return nil
	}
	if isFailure(err) {
		return fmt.Errorf("asking whether %s may be taken out of service: %w", pod.Name, err)
	}
	t.Pass.Wake(withheldRetry)
	t.waits.add(pod, err)
	return errWithheld
}

// isFailure reports whether Options.Permit could not decide, because a request to the API server failed.
func isFailure(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// waits holds the refusals by Options.Permit in a Turn.
type waits struct {
	mu      sync.Mutex
	reasons reason.List
}

func (w *waits) add(pod *corev1.Pod, err error) {
	why := reason.From(err)
	if len(why) == 0 {
		why = reason.List{{Code: Withheld, Object: reason.ObjectOf("Pod", pod), Detail: err.Error()}}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reasons = append(w.reasons, why...)
}

// Waiting lists, for a status, what the Set's Pods wait for: hooks that hold Pods, and refusals by Options.Permit in
// this Turn. So call Waiting at the end of the reconcile. Pods that wait do not make the reconcile fail, and no error
// of the reconcile mentions the waits. The refusals are sorted by the names of the Pods.
func (t *Turn[O]) Waiting() reason.List {
	var list reason.List
	if t.Set != nil && t.rules.Hooks != (lifecycle.Hooks{}) {
		for _, pod := range t.Set.Select(func(pod *podcontrol.Pod) bool { return pod.State != "" && pod.State != lifecycle.Normal }) {
			list = append(list, t.executor.control.HeldBy(pod, t.rules)...)
		}
	}
	t.waits.mu.Lock()
	defer t.waits.mu.Unlock()
	slices.SortStableFunc(t.waits.reasons, func(a, b reason.Reason) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	return append(list, t.waits.reasons...)
}

// takesOut returns the operation by which a step takes a Pod out of service. ok is false for a step that does not
// take the Pod out of service. Closing a gate for a hook counts as the deletion or update for which the hook is
// called, because the closed gate already takes the Pod out of service. Marking a Pod to wait for its hook before a
// deletion also counts as the deletion, because the hook's owner may drain the Pod.
func (x *Executor[O]) takesOut(pod *corev1.Pod, step podcontrol.Step, leaves bool) (operation disruption.Operation, ok bool) {
	closes := step.Act == podcontrol.Patch && slices.ContainsFunc(step.Changes, closesGate)
	switch {
	case step.Act == podcontrol.Start:
		return changeOf(pod, step.Changes), true
	case step.Act == podcontrol.Delete, leaves && (closes || step.Act == podcontrol.Patch && x.control.StateOf(pod) != lifecycle.PreparingDelete):
		return disruption.Delete, true
	case closes:
		return disruption.Update, true
	}
	return "", false
}

func closesGate(change podpatch.Change) bool {
	return slices.ContainsFunc(change.Conditions, func(c corev1.PodCondition) bool { return c.Status == corev1.ConditionFalse })
}

// changeOf returns the operation of an update on a Pod. An update that changes no container may still restart
// containers, because of their env.
func changeOf(pod *corev1.Pod, changes []podpatch.Change) disruption.Operation {
	after := *pod
	after.Spec = *pod.Spec.DeepCopy()
	for _, change := range changes {
		if len(change.Images) > 0 || closesGate(change) {
			return disruption.Update
		}
		for name, resources := range change.Resources {
			if container := podstate.Container(&after, name); container != nil {
				container.Resources = resized(container.Resources, resources)
			}
		}
	}
	if operation, changed := disruption.OperationOf(pod, &after); changed {
		return operation
	}
	return disruption.Update
}

// resized returns resources with the changed entries replaced.
func resized(r, change corev1.ResourceRequirements) corev1.ResourceRequirements {
	lay := func(on *corev1.ResourceList, entries corev1.ResourceList) {
		for name, quantity := range entries {
			if *on == nil {
				*on = corev1.ResourceList{}
			}
			(*on)[name] = quantity
		}
	}
	lay(&r.Requests, change.Requests)
	lay(&r.Limits, change.Limits)
	return r
}
