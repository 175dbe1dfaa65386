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

// Act is the action of a step.
type Act string

const (
	// Nothing means no write now. The zero value means Nothing.
	Nothing Act = ""
	// Patch writes Step.Changes.
	Patch Act = "Patch"
	// Start writes Step.Changes and so begins an update in place. Nobody else may change the Pod's gates meanwhile.
	Start Act = "Start"
	// Delete deletes the Pod.
	Delete Act = "Delete"
	// Blocked does nothing. Step.Why names the obstacle.
	Blocked Act = "Blocked"
)

// Step is a Pod's need now.
type Step struct {
	Act     Act
	Changes []podpatch.Change
	// Recreate is set if a Pod is deleted, or waits for its deletion, in place of an update.
	Recreate bool
	// Why says why the Pod waits, is blocked or is recreated.
	Why reason.List
	// RequeueAfter, when positive, is when to look again; nothing else may wake the caller.
	RequeueAfter time.Duration
}

// Update takes a Pod to the target of the plan: in place if the plan allows, otherwise by its deletion, or not at all
// if the rules forbid the deletion. A Pod held by its hook waits first. A Pod at the revision needs nothing: Next ends
// a begun update. The plan may be nil if the rules recreate Pods. The error is InvalidRules, or concerns a Pod with
// unreadable annotations or gate, which cannot be updated in place until somebody repairs the Pod.
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
		why, _ = errors.AsType[reason.List](err) // the reasons for this Pod alone
	}
	if rules.Policy == InPlaceOnly {
		return Step{Act: Blocked, Why: why}, nil
	}
	return c.Recreate(pod, rules, why, now)
}

func invalidRules(value, detail, remedy string) error {
	return reason.Reason{Code: InvalidRules, New: value, Detail: detail, Remedy: remedy}
}

// isIdle reports whether a hook is given and never holds a Pod.
func isIdle(hook *lifecycle.Hook) bool { return hook != nil && hook.IsEmpty() }

// Validate says why a Pod cannot be handled by the rules: a hook that never holds a Pod, or a hook without its names in
// the Config. The error is InvalidRules. Rules made from a user's spec may be such.
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
	if err := errors.Join(c.Validate(rules), c.unreadable(pod)); err != nil { // otherwise the Pod would leave service for a hook, and stay out
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

// Recreate deletes a Pod in place of an update, for its owner to make a new Pod. A Pod held by its hook is marked for
// deletion. why says why the Pod is not updated in place.
func (c *Control) Recreate(pod *corev1.Pod, rules Rules, why reason.List, now time.Time) (Step, error) {
	step, err := c.Delete(pod, rules, now)
	if step.Act == Patch {
		step.Changes = append(step.Changes, c.mark(pod))
	}
	step.Recreate, step.Why = true, slices.Concat(why, step.Why)
	return step, err
}

// Delete deletes a Pod, or has the Pod wait for its hook. The error is InvalidRules, or concerns an unreadable gate.
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

// Cancel takes a Pod back from waiting for its hook before a deletion or update, because the Pod is wanted unchanged. A
// hook with MarkNotReady lets no Pod come back: such a Pod is deleted when the hook lets it go.
func (c *Control) Cancel(pod *corev1.Pod, rules Rules, now time.Time) (Step, error) {
	return c.takeBack(pod, rules, c.next(pod, rules, lifecycle.Want{Intent: lifecycle.Cancel, Settled: true}), now)
}

// takeBack carries the transition of a wanted Pod out. The mark of an earlier update goes with the wait for its hook.
func (c *Control) takeBack(pod *corev1.Pod, rules Rules, t lifecycle.Transition, now time.Time) (Step, error) {
	if t.Act == lifecycle.DeletePod { // nobody else would delete the Pod
		return Step{Act: Delete}, c.Validate(rules)
	}
	step, err := c.move(pod, rules, t, false, now)
	if err == nil && t.From == lifecycle.PreparingDelete && t.To != lifecycle.PreparingDelete {
		step.Changes = append(step.Changes, c.unmark(pod))
	}
	return step, err
}

// Settle is Cancel for updates alone, if an update is no longer wanted after a rollback, or because a partition keeps
// the Pod at its revision. The deletion of a Pod goes on.
func (c *Control) Settle(pod *corev1.Pod, rules Rules, now time.Time) (Step, error) {
	return c.move(pod, rules, c.next(pod, rules, lifecycle.Want{Settled: true, Complete: true}), false, now)
}

// settleTime is the longest wait for a new Pod's ready containers before its gates are opened anyway. Opening the gates
// when the containers become ready spares a conflict with the kubelet, which writes until then.
const settleTime = 10 * time.Second

// Next takes the actions without need for a budget. Its changes demand the Pod as read: a conflict means that a newer
// Pod is on its way, and its event brings the Pod back. The error is as for Update. Next takes a Pod without a state
// for a Pod without any update: ask Lost before.
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
		return Step{}, nil // the owner deletes, within its budget
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

// HeldBy lists the labels and finalizers of hooks for which a Pod waits in its state.
func (c *Control) HeldBy(pod *corev1.Pod, rules Rules) reason.List {
	why := c.next(pod, rules, lifecycle.Want{Complete: true, AnyNode: true}).Why
	return slices.DeleteFunc(why, func(r reason.Reason) bool { return r.Code != lifecycle.HookHolds && r.Code != lifecycle.HookMissing })
}

// Lost says that somebody has removed or replaced the state of a running update, judged by the Pod's gate or the state
// of its lifecycle. Lost returns nil for any other Pod. The code is inplaceupdate.StateLost.
func (c *Control) Lost(pod *corev1.Pod) error {
	err := c.config.InPlace.Lost(pod, c.RevisionOf(pod), c.StateOf(pod) == lifecycle.Updating)
	if errors.Is(err, inplaceupdate.StateLost) {
		return err
	}
	return nil // Next reports all other errors
}

// Redo begins the Lost update of a Pod anew. template is the template of the revision in the Pod's label. Redo needs no
// budget: the Pod has used its share when the update began. Labels of hooks stay as the hooks' owners left them: a
// label restored from the template would hold a Pod that was let go. The error is as for Update, or
// inplaceupdate.UpdateBlocked.
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

// target is the target of an update in place.
func (c *Control) target(revisionName string, rules Rules) inplaceupdate.Target {
	labels := c.RevisionLabels(revisionName)
	return inplaceupdate.Target{Revision: labels[c.config.RevisionLabel], Labels: labels, GracePeriod: rules.GracePeriod}
}

// isNew reports whether the Pod waits for its first conditions.
func (c *Control) isNew(pod *corev1.Pod) bool {
	gate := c.config.InPlace.Gate()
	return gate != "" && podstate.HasGate(pod, gate) && podstate.Condition(pod, gate) == nil
}

// settling returns how long to wait before a new Pod's gates are opened; event is set while only an event can tell.
func settling(pod *corev1.Pod, now time.Time) (wait time.Duration, event bool) {
	scheduled := podstate.Condition(pod, corev1.PodScheduled)
	switch {
	case !podstate.IsScheduled(pod), !podstate.IsReported(pod): // nor would inplaceupdate open the gate
		return 0, true
	case podstate.IsTrue(pod, corev1.ContainersReady), scheduled == nil:
		return 0, false
	default:
		return max(scheduled.LastTransitionTime.Add(settleTime).Sub(now), 0), false
	}
}

// move writes a transition of the lifecycle, with the demanded holders of the gate.
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

// next is the next transition in the life of a Pod.
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

// unreadable says why the state of a Pod's update, or the holders of its gate, cannot be read.
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
