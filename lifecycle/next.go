package lifecycle

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

// Action is what the owner does to the Pod beside writing its state.
type Action uint8

// The actions of an owner.
const (
	// Nothing is done; the Pod is where it should be or moves on in the next pass.
	Nothing Action = iota
	// Wait for what Transition.Awaits says.
	Wait
	// StartUpdate begins the in-place update, in the same write as the state.
	StartUpdate
	// DeletePod deletes the Pod, within the owner's budget.
	DeletePod
)

// Awaited is what a Pod waits for.
type Awaited uint8

// What a Pod may wait for.
const (
	// NothingAwaited is the answer for a Pod that does not wait.
	NothingAwaited Awaited = iota
	// HookReleased waits until the Pod has none of the hook's labels and finalizers.
	HookReleased
	// HookComplete waits until the Pod has all of the hook's labels and finalizers.
	HookComplete
	// PodScheduled waits for a node.
	PodScheduled
	// UpdateComplete waits until the in-place update is complete.
	UpdateComplete
)

// HookFacts is what a Pod shows of one hook.
type HookFacts struct {
	Configured, Empty, Hooked, AllHooked, MarkNotReady, BeforeOnly bool
}

// Facts is everything that Next looks at. Machine.Facts reads the first group from a Pod.
type Facts struct {
	State                               State
	PreDelete, InPlaceUpdate, PreNormal HookFacts
	// Unscheduled keeps a Pod without preNormal hook in PreparingNormal (CloneSet). StatefulSets set it to false.
	Unscheduled bool

	// Intent is what the owner wants.
	Intent Intent
	// Settled says that the Pod has the revision it is meant to have: the update revision, or an older one that a partition
	// keeps. It takes a Pod out of PreparingUpdate. It has no meaning beside the intent Update.
	Settled bool
	// Complete says that the Pod's in-place update, if any, is complete.
	Complete bool
	// KeepUnset leaves a Pod without state without one when its update begins at once.
	KeepUnset bool
}

// Transition is what happens to one Pod now.
type Transition struct {
	// From and To are the states before and after; equal ones write nothing.
	From, To State
	// Act is what else the owner does.
	Act Action
	// Awaits says what a Pod waits for, and Hook which hook that concerns.
	Awaits Awaited
	Hook   Kind
	// Rearm says that the update hook's labels and finalizers are put back in the same write: before another update, and
	// after one where nobody else does.
	Rearm bool
	// Hold is the hook whose holder must hold the Pod's readiness gate, empty for none. Which podreadiness.Holder stands for a
	// hook is the caller's choice, the same each time.
	Hold Kind
	// ReleaseDelete and ReleaseUpdate say that the writers of these hooks must not hold the gate. Where they do not, there is
	// nothing to write.
	ReleaseDelete, ReleaseUpdate bool
}

// Next decides what happens to a Pod. Called again after its transition was written and the facts have
// changed, it leads every Pod to Normal or to its deletion as soon as hooks are honoured; no state is without exit.
func Next(f Facts) Transition {
	t := Transition{From: f.State, To: f.State}
	state := f.State.known()
	switch {
	case f.Intent == Delete:
		t.toDeletion(&f)
	case state == PreparingDelete:
		t.fromPreparingDelete(&f)
	case f.Intent == Update:
		t.toUpdate(&f, state)
	default:
		t.onwards(&f, state)
	}
	t.readiness(&f)
	return t
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
func (t *Transition) toDeletion(f *Facts) {
	if f.PreDelete.Hooked {
		t.To = PreparingDelete
		t.wait(HookReleased, PreDelete)
		return
	}
	t.Act = DeletePod
}

// fromPreparingDelete cancels a deletion where that is asked for and possible, and goes on with it otherwise.
func (t *Transition) fromPreparingDelete(f *Facts) {
	cancellable := !f.PreDelete.MarkNotReady && !f.InPlaceUpdate.MarkNotReady
	if cancellable && (f.Intent == Cancel || f.Intent == Update) {
		t.To = PreparingNormal
		return
	}
	t.toDeletion(f)
}

// toUpdate moves a Pod towards a newer revision.
func (t *Transition) toUpdate(f *Facts, state State) {
	if state == Updated && f.InPlaceUpdate.Configured && !f.InPlaceUpdate.Empty {
		t.To, t.Rearm = PreparingUpdate, true
		t.wait(HookReleased, InPlaceUpdate)
		return
	}
	// A Pod that is being updated already was let go by the hook, which has not come back since.
	if state != Updating && state != Updated && f.InPlaceUpdate.Hooked {
		t.To = PreparingUpdate
		t.wait(HookReleased, InPlaceUpdate)
		return
	}
	t.Act = StartUpdate
	if f.State != "" || !f.KeepUnset {
		t.To = Updating
	}
}

// onwards moves a Pod of which nothing new is wanted towards Normal.
func (t *Transition) onwards(f *Facts, state State) {
	switch state {
	case PreparingNormal:
		t.toNormal(f)
	case PreparingUpdate:
		switch {
		case f.Settled:
			t.afterUpdate(f)
		case f.InPlaceUpdate.Hooked:
			t.wait(HookReleased, InPlaceUpdate)
		}
	case Updating:
		if !f.Complete {
			t.wait(UpdateComplete, "")
			return
		}
		t.afterUpdate(f)
	case Updated:
		t.afterUpdate(f)
	}
}

// afterUpdate returns a Pod to Normal once the update hook is back, or together with it where nobody brings it back.
func (t *Transition) afterUpdate(f *Facts) {
	if !f.InPlaceUpdate.Configured || f.InPlaceUpdate.AllHooked {
		t.To = Normal
		return
	}
	if f.InPlaceUpdate.BeforeOnly {
		t.To, t.Rearm = Normal, true
		return
	}
	t.To = Updated
	t.wait(HookComplete, InPlaceUpdate)
}

// toNormal makes a new Pod count.
func (t *Transition) toNormal(f *Facts) {
	switch {
	case f.PreNormal.Configured && !f.PreNormal.AllHooked:
		t.wait(HookComplete, PreNormal)
	case !f.PreNormal.Configured && f.Unscheduled:
		t.wait(PodScheduled, "")
	default:
		t.To = Normal
	}
}

func (t *Transition) wait(what Awaited, hook Kind) { t.Act, t.Awaits, t.Hook = Wait, what, hook }

// readiness decides about the gate from the state alone, in each pass, so that no way out of a state can leave a
// writer behind.
func (t *Transition) readiness(f *Facts) {
	switch {
	case t.To == PreparingDelete && f.PreDelete.MarkNotReady:
		t.Hold = PreDelete
	case t.To == PreparingUpdate && f.InPlaceUpdate.MarkNotReady:
		t.Hold = InPlaceUpdate
	}
	t.ReleaseDelete = t.To != PreparingDelete
	// Updating keeps what PreparingUpdate has begun.
	t.ReleaseUpdate = t.Hold != InPlaceUpdate && t.To != Updating && t.To != PreparingDelete
}
