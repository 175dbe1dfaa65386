package lifecycle

import "github.com/workloadkit/workloadkit/reason"

// Intent is what an owner wants for a Pod.
type Intent uint8

// The intents of an owner.
const (
	// Keep wants nothing new; what has begun goes on. A Pod in PreparingDelete is still going to be deleted.
	Keep Intent = iota
	// Update wants the Pod updated in place to a revision that it does not have.
	Update
	// Delete wants the Pod gone, also when it is to be created again.
	Delete
	// Cancel wants a deletion that waits for its hook undone, and otherwise nothing new.
	Cancel
)

// Want is what an owner wants of a Pod and knows of it. The zero value wants nothing new.
type Want struct {
	// Intent is what is to become of the Pod.
	Intent Intent
	// Settled says that the Pod has the revision it is meant to have: the update revision, or an older one that a partition
	// keeps. It takes a Pod out of PreparingUpdate. It has no meaning beside the intent Update.
	Settled bool
	// Complete says that the Pod's in-place update, if any, is complete.
	Complete bool
	// AnyNode lets a Pod without preNormal hook become Normal before it has a node, as StatefulSets do.
	AnyNode bool
	// KeepUnset leaves a Pod without state without one when its update begins at once, as StatefulSets do.
	KeepUnset bool
}

// Action is what the owner does to the Pod beside writing its state. The zero Action does nothing: the Pod is where it
// should be, moves on in the next pass, or waits.
type Action uint8

// The actions of an owner.
const (
	// StartUpdate begins the in-place update, in the same write as the state.
	StartUpdate Action = iota + 1
	// DeletePod deletes the Pod, within the owner's budget.
	DeletePod
)

// Transition is what happens to one Pod now.
type Transition struct {
	// From and To are the states before and after; equal ones write nothing.
	From, To State
	// Act is what else the owner does.
	Act Action
	// Why says what the Pod waits for: a reason for each label or finalizer that has to go or to come. It is empty when it does not
	// wait.
	Why reason.List
	// Rearm says that the update hook's labels and finalizers are put back in the same write: before another update, and
	// after one where nobody else does.
	Rearm bool
	// Hold is the hook whose holder must hold the Pod's readiness gate, empty for none. Which podreadiness.Holder stands for a
	// hook is the caller's choice, the same each time.
	Hold Kind
	// ReleaseDelete and ReleaseUpdate say that the holders of these hooks must not hold the gate. Where they do not, there is
	// nothing to write.
	ReleaseDelete, ReleaseUpdate bool
}

// awaited is what a Pod waits for.
type awaited uint8

const (
	nothing awaited = iota
	// hookReleased waits until the Pod has none of the hook's labels and finalizers, hookComplete until it has all of them.
	hookReleased
	hookComplete
	// scheduled waits for a node.
	scheduled
	// updateComplete waits until the in-place update is complete.
	updateComplete
)

// hookFacts is what a Pod shows of one hook.
type hookFacts struct {
	configured, empty, hooked, allHooked, markNotReady, beforeOnly bool
}

// facts is everything that next looks at.
type facts struct {
	Want

	state                               State
	preDelete, inPlaceUpdate, preNormal hookFacts
	unscheduled                         bool
}

// decision is a transition and what it waits for, not yet in words.
type decision struct {
	Transition

	awaits awaited
	hook   Kind
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

// known maps what nobody knows to the state before Normal.
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

// fromPreparingDelete cancels a deletion where that is asked for and possible, and goes on with it otherwise.
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
	// A Pod that is being updated already was let go by the hook, which has not come back since.
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

// onwards moves a Pod of which nothing new is wanted towards Normal.
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

// afterUpdate returns a Pod to Normal once the update hook is back, or together with it where nobody brings it back.
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

func (d *decision) wait(what awaited, hook Kind) { d.awaits, d.hook = what, hook }

// readiness decides about the gate from the state alone, in each pass, so that no way out of a state can leave a
// writer behind.
func (d *decision) readiness(f *facts) {
	switch {
	case d.To == PreparingDelete && f.preDelete.markNotReady:
		d.Hold = PreDelete
	case d.To == PreparingUpdate && f.inPlaceUpdate.markNotReady:
		d.Hold = InPlaceUpdate
	}
	d.ReleaseDelete = d.To != PreparingDelete
	// Updating keeps what PreparingUpdate has begun.
	d.ReleaseUpdate = d.Hold != InPlaceUpdate && d.To != Updating && d.To != PreparingDelete
}
