package executor

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// withheldRetry is the time until Permit is asked again for a refused Pod. No event says when other Pods serve.
const withheldRetry = time.Second

// withheld is the reason why a Pod is not taken out of service now. No request has failed: none was sent.
type withheld struct{ error }

func (w withheld) Unwrap() error { return w.error }

func isWithheld(err error) bool {
	_, ok := errors.AsType[withheld](err)
	return ok
}

// permit asks whether a step may take the Pod out of service now, if the step does so. leaves says that the Pod is to
// be deleted.
func (p *Pods[O]) permit(ctx context.Context, pod *corev1.Pod, step podcontrol.Step, leaves bool) error {
	operation, ok := takesOut(pod, step, leaves)
	if !ok {
		return nil
	}
	err := p.executor.options.Permit(ctx, p.view.Owner, pod, operation)
	if err == nil {
		return nil
	}
	p.pass.Wake(withheldRetry)
	return reason.Final(withheld{failed("waiting to take out of service", pod, err)})
}

// takesOut returns a step's operation on a Pod that may be in service. ok is false for a step that leaves the Pod in
// service. A gate closing for a hook counts as the begin of the later operation: the Pod no longer serves when deleted
// or updated.
func takesOut(pod *corev1.Pod, step podcontrol.Step, leaves bool) (operation disruption.Operation, ok bool) {
	switch {
	case step.Act == podcontrol.Start:
		return changeOf(pod, step.Changes), true
	case step.Act != podcontrol.Delete && (step.Act != podcontrol.Patch || !slices.ContainsFunc(step.Changes, closesGate)):
		return "", false
	case leaves:
		return disruption.Delete, true
	}
	return disruption.Update, true
}

func closesGate(change podpatch.Change) bool {
	return slices.ContainsFunc(change.Conditions, func(c corev1.PodCondition) bool { return c.Status == corev1.ConditionFalse })
}

// changeOf returns the operation of an update on a Pod. Even an update without changed containers may restart
// containers, for their env.
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

// resized returns resources with the changed entries.
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
