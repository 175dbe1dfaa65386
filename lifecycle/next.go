package lifecycle

import "github.com/workloadkit/workloadkit/reason"

// Intent is an owner's wish for a Pod.
type Intent uint8

// The intents of an owner.
const (
	// Keep wants nothing new; begun actions go on. A Pod in PreparingDelete is still going to be deleted.
	Keep Intent = iota
	// Update wants the Pod updated in place to another revision.
	Update
	// Delete wants the Pod gone, even if a new Pod follows.
	Delete
	// Cancel wants a waiting deletion undone, and otherwise nothing new.
	Cancel
)

// Want is an owner's wish for a Pod and knowledge of the Pod. The zero value wants nothing new.
type Want struct {
	// Intent is the owner's wish.
	Intent Intent
	// Settled says that the Pod has its intended revision: the update revision, or an older revision kept by a partition.
	// Settled takes a Pod out of PreparingUpdate. Settled has no meaning beside the intent Update.
	Settled bool
	// Complete says that the Pod's in-place update, if any, is complete.
	Complete bool
	// AnyNode lets a Pod without preNormal hook become Normal before the Pod has a node, as in StatefulSets.
	AnyNode bool
	// KeepUnset leaves a Pod without state stateless if its update begins at once, as in StatefulSets.
	KeepUnset bool
}

// Action is the owner's action on the Pod beside writing its state. The zero Action does nothing: the Pod is in its
// final state, moves on in the next pass, or waits.
type Action uint8

// The actions of an owner.
const (
	// StartUpdate begins the in-place update, in the same write as the state.
	StartUpdate Action = iota + 1
	// DeletePod deletes the Pod, within the owner's budget.
	DeletePod
)

// Transition is the present change of a Pod.
type Transition struct {
	// From and To are the states before and after; equal ones write nothing.
	From, To State
	// Act is the owner's further action.
	Act Action
	// Why lists the reasons for waiting: a reason for each label or finalizer to remove or to add. Why is empty if the Pod
	// does not wait.
	Why reason.List
	// Rearm says that the same write restores the update hook's labels and finalizers: before another update, and after an
	// update if nobody else does.
	Rearm bool
	// Hold is the hook whose holder must hold the Pod's readiness gate, empty for none. The caller chooses the
	// podreadiness.Holder of a hook, always the same.
	Hold HookName
	// ReleaseDelete and ReleaseUpdate say that the holders of the hooks must not hold the gate. If they do not, nothing is
	// written.
	ReleaseDelete, ReleaseUpdate bool
}

// awaited is the condition for which a Pod waits.
type awaited uint8

const (
	nothing awaited = iota
	// hookReleased waits until the Pod has none of the hook's labels and finalizers, hookComplete until the Pod has all.
	hookReleased
	hookComplete
	// scheduled waits for a node.
	scheduled
	// updateComplete waits until the in-place update is complete.
	updateComplete
)

// hookFacts are a Pod's facts about a hook.
type hookFacts struct {
	configured, empty, hooked, allHooked, markNotReady, beforeOnly bool
}

// facts are all inputs of next.
type facts struct {
	Want

	state                               State
	preDelete, inPlaceUpdate, preNormal hookFacts
	unscheduled                         bool
}

// decision is a transition and its awaited condition, not yet in words.
type decision struct {
	Transition

	awaits awaited
	hook   HookName
}

// next decides from facts alone.
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

// known maps unknown states to the state before Normal.
func (s State) known() State {
	switch s {
	case "", PreparingNormal, Normal, PreparingUpdate, Updating, Updated, PreparingDelete:
		return s
	}
	return PreparingNormal
}

// toDeletion waits in PreparingDelete while the hook holds the Pod.
func (d *decision) toDeletion(f *facts) {
	if f.preDelete.hooked {
		d.To = PreparingDelete
		d.wait(hookReleased, PreDelete)
		return
	}
	d.Act = DeletePod
}

// fromPreparingDelete cancels a deletion if asked and possible, and otherwise goes on with the deletion.
func (d *decision) fromPreparingDelete(f *facts) {
	cancellable := !f.preDelete.markNotReady && !f.inPlaceUpdate.markNotReady
	if cancellable && (f.Intent == Cancel || f.Intent == Update) {
		d.To = PreparingNormal
		return
	}
	d.toDeletion(f)
}

// toUpdate moves a Pod towards a newer revision.
func (d *decision) toUpdate(f *facts, state State) {
	if state == Updated && f.inPlaceUpdate.configured && !f.inPlaceUpdate.empty {
		d.To, d.Rearm = PreparingUpdate, true
		d.wait(hookReleased, InPlaceUpdate)
		return
	}
	// The hook has already let go of a Pod being updated, and has not come back since.
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

// onwards moves a Pod without a new wish towards Normal.
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

// afterUpdate returns a Pod to Normal once the update hook is back, or together with the hook if nobody else brings the
// hook back.
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

// toNormal makes a new Pod count.
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

// readiness decides about the gate from the state alone, in each pass, so no way out of a state can leave a writer
// behind.
func (d *decision) readiness(f *facts) {
	switch {
	case d.To == PreparingDelete && f.preDelete.markNotReady:
		d.Hold = PreDelete
	case d.To == PreparingUpdate && f.inPlaceUpdate.markNotReady:
		d.Hold = InPlaceUpdate
	}
	d.ReleaseDelete = d.To != PreparingDelete
	// Updating keeps the hold begun in PreparingUpdate.
	d.ReleaseUpdate = d.Hold != InPlaceUpdate && d.To != Updating && d.To != PreparingDelete
}
