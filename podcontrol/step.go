package podcontrol

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// Act is the kind of a Step: the action on the Pod.
type Act string

const (
	// Nothing means no write now. The zero value means Nothing.
	Nothing Act = ""
	// Patch writes Step.Changes.
	Patch Act = "Patch"
	// Start writes Step.Changes, which begins an in-place update. Nobody else may change the Pod's gates at the same
	// time.
	Start Act = "Start"
	// Delete deletes the Pod.
	Delete Act = "Delete"
	// Blocked means that nothing can be done. Step.Why says why.
	Blocked Act = "Blocked"
)

// Step is the action that a Pod needs now, with its changes and reasons.
type Step struct {
	Act     Act
	Changes []podpatch.Change
	// Recreate is set if the Pod is deleted, or waits for its deletion, because of an update.
	Recreate bool
	// Why says why the Pod waits, cannot be updated or is recreated.
	Why reason.List
	// RequeueAfter, if positive, is the time after which the caller must call the method again, because there may be
	// no event.
	RequeueAfter time.Duration
}

// Update takes a Pod to the revision of the plan: in place if the plan allows, otherwise by deletion, or not at all if
// the rules forbid the deletion. If a hook holds the Pod, the Pod waits first. If the Pod is at the revision already,
// Update does nothing: Next finishes an update that has begun. The plan may be nil if the rules always recreate Pods.
// The error is InvalidRules, or an error about annotations or a readiness gate of the Pod that cannot be parsed. A Pod
// with such annotations cannot be updated in place until somebody repairs the annotations.
func (c *Control) Update(pod *corev1.Pod, rules Rules, plan *inplaceupdate.Plan, revisionName string, now time.Time) (Step, error) {
	switch {
	case revisionName == "":
		return Step{}, invalidRules("", "no revision is named to update to", "")
	case revision.Same(c.RevisionOf(pod), revisionName):
		return Step{}, nil
	case rules.Policy.Recreates():
		return c.Recreate(pod, rules, nil, now)
	case rules.Policy != InPlaceIfPossible && rules.Policy != InPlaceOnly:
		return Step{}, invalidRules(string(rules.Policy), "no update policy", fmt.Sprintf("use %s, %s or %s", Recreate, InPlaceIfPossible, InPlaceOnly))
	case plan == nil:
		return Step{}, invalidRules("", "there is no plan for an update in place", "")
	}
	why := plan.Blocking
	switch gate := c.config.InPlace.Gate(); {
	case !plan.Possible():
	case c.config.NeedsGate && !podstate.HasGate(pod, gate):
		why = reason.List{{Code: GateMissing, Object: reason.ObjectOf("Pod", pod), Path: "spec.readinessGates", New: string(gate)}}
	default:
		step, err := c.start(pod, rules, plan, revisionName, now)
		if !errors.Is(err, inplaceupdate.UpdateBlocked) {
			return step, err
		}
		why, _ = errors.AsType[reason.List](err) // reasons against an in-place update of only this Pod
	}
	if rules.Policy == InPlaceOnly {
		return Step{Act: Blocked, Why: why}, nil
	}
	return c.Recreate(pod, rules, why, now)
}

func invalidRules(value, detail, remedy string) error {
	return reason.Reason{Code: InvalidRules, New: value, Detail: detail, Remedy: remedy}
}

// isIdle reports whether a hook is configured that never holds a Pod.
func isIdle(hook *lifecycle.Hook) bool { return hook != nil && hook.IsEmpty() }

// Validate returns an error if no Pod can be handled by the rules: a hook never holds a Pod, or the rules have a hook
// for which the Config has no names. The error is InvalidRules. Rules made from a user's spec may be invalid in this
// way.
func (c *Control) Validate(rules Rules) error {
	hooks := rules.Hooks
	switch {
	case c.config.InPlace == nil:
		return invalidRules("", "podcontrol.New has not made this Control", "")
	case hooks == lifecycle.Hooks{}:
		return nil
	case isIdle(hooks.PreDelete), isIdle(hooks.InPlaceUpdate), isIdle(hooks.PreNormal):
		return invalidRules("", "a hook has neither labels nor finalizers, and would never hold a Pod", "leave the hook nil, or name its labels or finalizers")
	case c.config.OnlyPreDelete && hooks != lifecycle.Hooks{PreDelete: hooks.PreDelete}:
		return invalidRules("", "Pods have another hook than PreDelete", "have Config.OnlyPreDelete unset")
	case c.config.Lifecycle.Keys() == lifecycle.Keys{}:
		return invalidRules("", "Pods have hooks, but no key for their state", "set Config.Lifecycle")
	case c.config.HookGate == "" && (hooks.PreDelete != nil && hooks.PreDelete.MarkNotReady || hooks.InPlaceUpdate != nil && hooks.InPlaceUpdate.MarkNotReady):
		return invalidRules("", "a hook takes Pods out of service, but no gate is named for that", "set Config.HookGate")
	}
	return nil
}

func (c *Control) start(pod *corev1.Pod, rules Rules, plan *inplaceupdate.Plan, revisionName string, now time.Time) (Step, error) {
	// Without this check, a hook could take the Pod out of service, and the Pod would stay out of service.
	if err := errors.Join(c.Validate(rules), c.unreadable(pod)); err != nil {
		return Step{}, err
	}
	t := c.next(pod, rules, lifecycle.Want{Intent: lifecycle.Update})
	if t.Act != lifecycle.StartUpdate {
		step, err := c.takeBack(pod, rules, t, now)
		step.Recreate = step.Act == Delete
		return step, err
	}
	change, err := c.config.InPlace.Start(pod, plan, c.target(revisionName, rules), now)
	if err != nil {
		return Step{}, err
	}
	step := Step{Act: Start, Changes: []podpatch.Change{change}}
	if !plan.Immediate() || rules.Hooks.InPlaceUpdate != nil {
		step.Changes = append(step.Changes, c.machine(rules).Change(pod, t, now))
	}
	return step, nil
}

// Recreate deletes a Pod because of an update, so that its owner creates a new Pod. If a hook holds the Pod, the Pod is
// marked for deletion and waits. why says why the Pod is not updated in place.
func (c *Control) Recreate(pod *corev1.Pod, rules Rules, why reason.List, now time.Time) (Step, error) {
	step, err := c.Delete(pod, rules, now)
	if step.Act == Patch {
		step.Changes = append(step.Changes, c.mark(pod))
	}
	step.Recreate, step.Why = true, slices.Concat(why, step.Why)
	return step, err
}

// Delete deletes a Pod, or marks the Pod to wait for its hook. The error is InvalidRules, or says that the gate's
// holders cannot be parsed.
func (c *Control) Delete(pod *corev1.Pod, rules Rules, now time.Time) (Step, error) {
	if err := c.Validate(rules); err != nil {
		return Step{}, err
	}
	t := c.next(pod, rules, lifecycle.Want{Intent: lifecycle.Delete})
	if t.Act == lifecycle.DeletePod {
		return Step{Act: Delete}, nil
	}
	return c.move(pod, rules, t, false, now)
}

// Cancel cancels a deletion or update of a Pod that waits for its hook, when the owner wants to keep the Pod
// unchanged. If the hook has MarkNotReady, the deletion cannot be cancelled: the Pod is deleted when the hook
// releases the Pod.
func (c *Control) Cancel(pod *corev1.Pod, rules Rules, now time.Time) (Step, error) {
	return c.takeBack(pod, rules, c.next(pod, rules, lifecycle.Want{Intent: lifecycle.Cancel, Settled: true}), now)
}

// takeBack carries out the transition of a Pod that the owner wants to keep. When the Pod stops waiting for its hook,
// takeBack removes the delete label, which a previous update may have set.
func (c *Control) takeBack(pod *corev1.Pod, rules Rules, t lifecycle.Transition, now time.Time) (Step, error) {
	if t.Act == lifecycle.DeletePod { // no other step would delete the Pod
		return Step{Act: Delete}, c.Validate(rules)
	}
	step, err := c.move(pod, rules, t, false, now)
	if err == nil && t.From == lifecycle.PreparingDelete && t.To != lifecycle.PreparingDelete {
		step.Changes = append(step.Changes, c.unmark(pod))
	}
	return step, err
}

// Settle is like Cancel, but cancels only an update that is no longer wanted, after a rollback or because a partition
// keeps the Pod at its revision. A deletion of the Pod continues.
func (c *Control) Settle(pod *corev1.Pod, rules Rules, now time.Time) (Step, error) {
	return c.move(pod, rules, c.next(pod, rules, lifecycle.Want{Settled: true, Complete: true}), false, now)
}

// settleTime is the longest time for which a new Pod's gates stay closed while its containers are not ready. Opening
// the gates when the containers become ready avoids conflicts with the kubelet, which writes the status until then.
const settleTime = 10 * time.Second

// Next takes the actions that need no budget. Its changes carry the Pod's resourceVersion: a conflict means that the
// Pod has changed, and the event of the change will enqueue the Pod again. The errors are the same as Update's. Next
// treats a Pod without a recorded state as a Pod that was never updated: call Lost first.
func (c *Control) Next(pod *corev1.Pod, rules Rules, now time.Time) (Step, error) {
	next, err := c.config.InPlace.Next(pod, now)
	if err != nil {
		return Step{}, err
	}
	if c.isNew(pod) {
		if wait, event := settling(pod, now); wait > 0 || event {
			return Step{RequeueAfter: wait}, nil
		}
	}
	t := c.next(pod, rules, lifecycle.Want{Complete: next.Complete, AnyNode: c.config.CountUnscheduled})
	if t.Act == lifecycle.DeletePod {
		return Step{}, nil // the owner deletes the Pod, within its budget
	}
	step, err := c.move(pod, rules, t, true, now)
	if err != nil {
		return Step{}, err
	}
	step.Changes = append(step.Changes, next.Change, c.missingHash(pod))
	step.Changes = slices.DeleteFunc(step.Changes, func(change podpatch.Change) bool { return change.IsEmpty() })
	for i := range step.Changes {
		step.Changes[i].ResourceVersion = pod.ResourceVersion
	}
	if step.Act = Patch; len(step.Changes) == 0 {
		step.Act = Nothing
	}
	step.Why = slices.Concat(next.Waiting, step.Why)
	step.RequeueAfter = next.RequeueAfter
	return step, nil
}

// HeldBy lists the labels and finalizers of hooks for which a Pod waits in its present lifecycle state.
func (c *Control) HeldBy(pod *corev1.Pod, rules Rules) reason.List {
	why := c.next(pod, rules, lifecycle.Want{Complete: true, AnyNode: true}).Why
	return slices.DeleteFunc(why, func(r reason.Reason) bool { return r.Code != lifecycle.HookHolds && r.Code != lifecycle.HookMissing })
}

// Lost returns an error if somebody has removed or replaced the recorded state of a running update, according to the
// Pod's gate or lifecycle state. Lost returns nil if the state is not lost. The code is inplaceupdate.StateLost.
func (c *Control) Lost(pod *corev1.Pod) error {
	err := c.config.InPlace.Lost(pod, c.RevisionOf(pod), c.StateOf(pod) == lifecycle.Updating)
	if errors.Is(err, inplaceupdate.StateLost) {
		return err
	}
	return nil // Next returns the errors with other codes
}

// Redo restarts the update of a Pod whose recorded state is lost (see Lost). template is the template of the revision
// in the Pod's label. Redo needs no budget, because a budget has allowed the Pod's unavailability when the update
// began. Labels of hooks are not restored from the template: a restored label would hold a Pod that its hook had
// released. The errors are the same as Update's, or inplaceupdate.UpdateBlocked.
func (c *Control) Redo(pod *corev1.Pod, rules Rules, template *corev1.PodTemplateSpec, now time.Time) (Step, error) {
	if err := errors.Join(c.Validate(rules), c.unreadableGate(pod)); err != nil {
		return Step{}, err
	}
	change, err := c.config.InPlace.Redo(pod, withoutHooks(template, rules.Hooks), c.target(c.RevisionOf(pod), rules), now)
	if err != nil {
		return Step{}, err
	}
	change.ResourceVersion = pod.ResourceVersion
	return Step{Act: Start, Changes: []podpatch.Change{change}}, nil
}

// withoutHooks returns a template without the labels that hold Pods.
func withoutHooks(template *corev1.PodTemplateSpec, hooks lifecycle.Hooks) *corev1.PodTemplateSpec {
	if template == nil {
		return nil
	}
	out := *template
	out.Labels = maps.Clone(template.Labels)
	for _, hook := range []*lifecycle.Hook{hooks.PreDelete, hooks.InPlaceUpdate, hooks.PreNormal} {
		if hook != nil {
			maps.DeleteFunc(out.Labels, func(key, _ string) bool { _, holds := hook.Labels[key]; return holds })
		}
	}
	return &out
}

// target returns the target of an in-place update.
func (c *Control) target(revisionName string, rules Rules) inplaceupdate.Target {
	labels := c.RevisionLabels(revisionName)
	return inplaceupdate.Target{Revision: labels[c.config.RevisionLabel], Labels: labels, GracePeriod: rules.GracePeriod}
}

// isNew reports whether the Pod's gates have no conditions yet.
func (c *Control) isNew(pod *corev1.Pod) bool {
	gate := c.config.InPlace.Gate()
	return gate != "" && podstate.HasGate(pod, gate) && podstate.Condition(pod, gate) == nil
}

// settling returns how long to wait before a new Pod's gates are opened; event is set if the wait ends only with an
// event.
func settling(pod *corev1.Pod, now time.Time) (wait time.Duration, event bool) {
	scheduled := podstate.Condition(pod, corev1.PodScheduled)
	switch {
	case !podstate.IsScheduled(pod), !podstate.IsReported(pod): // package inplaceupdate would not open the gate yet either
		return 0, true
	case podstate.IsTrue(pod, corev1.ContainersReady), scheduled == nil:
		return 0, false
	default:
		return max(scheduled.LastTransitionTime.Add(settleTime).Sub(now), 0), false
	}
}

// move writes a transition of the lifecycle, with the required holders of the gate.
func (c *Control) move(pod *corev1.Pod, rules Rules, t lifecycle.Transition, initialize bool, now time.Time) (Step, error) {
	if err := c.Validate(rules); err != nil {
		return Step{}, err
	}
	step := Step{Act: Patch, Changes: []podpatch.Change{c.machine(rules).Change(pod, t, now)}, Why: t.Why}
	if c.config.HookGate == "" {
		return step, nil
	}
	edit := podreadiness.Edit{Initialize: initialize}
	if t.Hold != "" {
		edit.Hold = append(edit.Hold, c.config.Holder(t.Hold))
	}
	if t.ReleaseDelete {
		edit.Release = append(edit.Release, c.config.Holder(lifecycle.PreDelete))
	}
	if t.ReleaseUpdate {
		edit.Release = append(edit.Release, c.config.Holder(lifecycle.InPlaceUpdate))
	}
	change, err := edit.Change(pod, c.config.HookGate)
	if err != nil {
		return Step{}, err
	}
	step.Changes = append(step.Changes, change)
	return step, nil
}

// next returns the next transition of the Pod's lifecycle state.
func (c *Control) next(pod *corev1.Pod, rules Rules, want lifecycle.Want) lifecycle.Transition {
	t := c.machine(rules).Next(pod, want)
	if c.config.OnlyPreDelete && t.From == "" && t.To != lifecycle.PreparingDelete {
		t.To = ""
	}
	return t
}

func (c *Control) machine(rules Rules) lifecycle.Machine {
	return c.config.Lifecycle.With(rules.Hooks)
}

// unreadable returns an error if the state of a Pod's update, or the holders of its gate, cannot be parsed.
func (c *Control) unreadable(pod *corev1.Pod) error {
	_, err := c.config.InPlace.State(pod)
	return errors.Join(err, c.unreadableGate(pod))
}

func (c *Control) unreadableGate(pod *corev1.Pod) error {
	if c.config.HookGate == "" {
		return nil
	}
	_, err := podreadiness.Holders(pod, c.config.HookGate)
	return err
}
