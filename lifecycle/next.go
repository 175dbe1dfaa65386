package lifecycle

import "github.com/workloadkit/workloadkit/reason"

// Intent is an action that an owner wants for a Pod.
type Intent uint8

// These are the intents of an owner.
const (
	// Keep begins no new action; actions that have begun continue. A Pod in PreparingDelete is still deleted.
	Keep Intent = iota
	// Update asks for an in-place update of the Pod to another revision.
	Update
	// Delete asks for the deletion of the Pod, even if another Pod will replace the Pod.
	Delete
	// Cancel asks to cancel a deletion that waits for its hook, and otherwise begins no new action.
	Cancel
)

// Want has the owner's intent for a Pod, and the owner's knowledge about the Pod. The zero value begins no new
// action.
type Want struct {
	// Intent is the action that the owner wants.
	Intent Intent
	// Settled says that the Pod has its intended revision: the update revision, or an older revision kept by a
	// partition. A Pod for which Settled is set leaves PreparingUpdate. Settled is ignored if the intent is Update.
	Settled bool
	// Complete says that the Pod's in-place update, if any, is complete.
	Complete bool
	// AnyNode lets a Pod without preNormal hook become Normal before the Pod is bound to a node, as in StatefulSets.
	AnyNode bool
	// KeepUnset writes no state on a Pod without a state if its update can begin at once, as in StatefulSets.
	KeepUnset bool
}

// Action is an action of the owner on the Pod, in addition to the write of the Pod's state. The zero Action means
// that there is nothing to do: the Pod is in its final state, changes its state again in the next reconcile, or
// waits.
type Action uint8

// These are the actions of an owner.
const (
	// StartUpdate starts the in-place update, in the same patch as the state.
	StartUpdate Action = iota + 1
	// DeletePod deletes the Pod, as far as the owner's budget allows.
	DeletePod
)

// Transition is the next change of a Pod's state, with the owner's action on the Pod.
type Transition struct {
	// The state changes from From to To; if both are equal, no state is written.
	From, To State
	// Act is the owner's action, in addition to the write of the state.
	Act Action
	// Why lists the reasons for waiting: one for each label or finalizer that somebody must remove or add. Why is empty
	// if the Pod does not wait.
	Why reason.List
	// Rearm says that the same patch restores the update hook's labels and finalizers: before another update, and, for
	// a hook with BeforeOnly, after an update.
	Rearm bool
	// Hold is the hook for which the Pod's readiness gate must be held closed; empty if there is none. The caller
	// chooses a podreadiness.Holder for each hook, and must always use the same Holder for a hook.
	Hold HookName
	// ReleaseDelete and ReleaseUpdate say that the hook's holder must not hold the gate closed. If the holder does not
	// hold the gate anyway, nothing is written.
	ReleaseDelete, ReleaseUpdate bool
}

// awaited is the condition that a Pod waits for.
type awaited uint8

const (
	nothing awaited = iota
	// hookReleased means that the Pod waits until all of the hook's labels and finalizers are removed. hookComplete
	// means that the Pod waits until all of them are added.
	hookReleased
	hookComplete
	// scheduled means that the Pod waits for its binding to a node.
	scheduled
	// updateComplete means that the Pod waits for the completion of its in-place update.
	updateComplete
)

// hookFacts are the inputs of a decision about a hook.
type hookFacts struct {
	configured, empty, hooked, allHooked, markNotReady, beforeOnly bool
}

// facts are all inputs of the function next.
type facts struct {
	Want

	state                               State
	preDelete, inPlaceUpdate, preNormal hookFacts
	unscheduled                         bool
}

// decision is a transition and the condition that the Pod waits for, before reasons are written.
type decision struct {
	Transition

	awaits awaited
	hook   HookName
}

// next returns the decision for the facts, and uses no other input.
func next(f facts) decision {
	d := decision{Transition: Transition{From: f.state, To: f.state}}
	state := f.state.known()
	switch {
	case f.Intent == Delete:
		d.toDeletion(&f)
	case state == PreparingDelete:
		d.fromPreparingDelete(&f)
	case f.Intent == Update:
		d.toUpdate(&f, state)
	default:
		d.onwards(&f, state)
	}
	d.readiness(&f)
	return d
}

// known treats unknown states as PreparingNormal.
func (s State) known() State {
	switch s {
	case "", PreparingNormal, Normal, PreparingUpdate, Updating, Updated, PreparingDelete:
		return s
	}
	return PreparingNormal
}

// toDeletion keeps the Pod in PreparingDelete while the hook holds the Pod, and then deletes the Pod.
func (d *decision) toDeletion(f *facts) {
	if f.preDelete.hooked {
		d.To = PreparingDelete
		d.wait(hookReleased, PreDelete)
		return
	}
	d.Act = DeletePod
}

// fromPreparingDelete cancels a deletion if the owner asks so and the hooks permit, and otherwise continues the
// deletion.
func (d *decision) fromPreparingDelete(f *facts) {
	cancellable := !f.preDelete.markNotReady && !f.inPlaceUpdate.markNotReady
	if cancellable && (f.Intent == Cancel || f.Intent == Update) {
		d.To = PreparingNormal
		return
	}
	d.toDeletion(f)
}

// toUpdate moves a Pod towards an update to a newer revision.
func (d *decision) toUpdate(f *facts, state State) {
	if state == Updated && f.inPlaceUpdate.configured && !f.inPlaceUpdate.empty {
		d.To, d.Rearm = PreparingUpdate, true
		d.wait(hookReleased, InPlaceUpdate)
		return
	}
	// In Updating and Updated, the hook was released before the update, and must not hold the Pod again.
	if state != Updating && state != Updated && f.inPlaceUpdate.hooked {
		d.To = PreparingUpdate
		d.wait(hookReleased, InPlaceUpdate)
		return
	}
	d.Act = StartUpdate
	if f.state != "" || !f.KeepUnset {
		d.To = Updating
	}
}

// onwards moves a Pod towards Normal if the owner wants no new action.
func (d *decision) onwards(f *facts, state State) {
	switch state {
	case PreparingNormal:
		d.toNormal(f)
	case PreparingUpdate:
		switch {
		case f.Settled:
			d.afterUpdate(f)
		case f.inPlaceUpdate.hooked:
			d.wait(hookReleased, InPlaceUpdate)
		}
	case Updating:
		if !f.Complete {
			d.wait(updateComplete, "")
			return
		}
		d.afterUpdate(f)
	case Updated:
		d.afterUpdate(f)
	}
}

// afterUpdate returns a Pod to state Normal once the Pod has all labels and finalizers of the update hook again. If
// nobody else restores the labels and finalizers, afterUpdate does.
func (d *decision) afterUpdate(f *facts) {
	if !f.inPlaceUpdate.configured || f.inPlaceUpdate.allHooked {
		d.To = Normal
		return
	}
	if f.inPlaceUpdate.beforeOnly {
		d.To, d.Rearm = Normal, true
		return
	}
	d.To = Updated
	d.wait(hookComplete, InPlaceUpdate)
}

// toNormal moves a new Pod to Normal once the Pod is prepared.
func (d *decision) toNormal(f *facts) {
	switch {
	case f.preNormal.configured && !f.preNormal.allHooked:
		d.wait(hookComplete, preNormal)
	case !f.preNormal.configured && f.unscheduled && !f.AnyNode:
		d.wait(scheduled, "")
	default:
		d.To = Normal
	}
}

func (d *decision) wait(what awaited, hook HookName) { d.awaits, d.hook = what, hook }

// readiness decides in each reconcile, from the Pod's state alone, whether the gate must be closed. So the gate keeps
// no holder of a state that the Pod has left, whatever the next state is.
func (d *decision) readiness(f *facts) {
	switch {
	case d.To == PreparingDelete && f.preDelete.markNotReady:
		d.Hold = PreDelete
	case d.To == PreparingUpdate && f.inPlaceUpdate.markNotReady:
		d.Hold = InPlaceUpdate
	}
	d.ReleaseDelete = d.To != PreparingDelete
	// If the gate was closed in PreparingUpdate, the gate stays closed in Updating.
	d.ReleaseUpdate = d.Hold != InPlaceUpdate && d.To != Updating && d.To != PreparingDelete
}
