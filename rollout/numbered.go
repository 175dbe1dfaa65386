package rollout

import (
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
	"time"
)

const (
	// OrdinalTerminating means that the Pod of a wanted ordinal is terminating. The next one of that name cannot be created
	// before it is gone.
	OrdinalTerminating reason.Code = "OrdinalTerminating"
	// OrderedWait means that Pods are managed one at a time, and the next one waits for another Pod.
	OrderedWait reason.Code = "OrderedWait"
	// RolloutPaused means that the rollout is paused and Pods wait that are to be updated, or to be deleted because somebody
	// asked for it.
	RolloutPaused reason.Code = "RolloutPaused"
)

// maxCreate is how many Pods a step creates at most: a replica count that is wrong by some zeros must not cost memory.
const maxCreate = 1000

// NumberedSpec is what is wanted of Pods that have ordinals, in absolute numbers. The zero value is refused because it lacks
// Wanted. With nothing but Wanted set, Pods are created and deleted one at a time, and no available Pod is updated.
type NumberedSpec struct {
	// Wanted are the ordinals that are to have a Pod, as ordinals.Of returns them. A Set that nobody computed is refused;
	// one that was computed for no replicas has every Pod deleted.
	Wanted ordinals.Set
	// Partition is how many Pods stay at the old revision: those of the lowest wanted ordinals, or any with Unordered.
	Partition int
	// MaxUnavailable is how many of the wanted ordinals may lack an available Pod for one more to be taken out of service.
	// An ordinal whose Pod is missing or terminating lacks one.
	MaxUnavailable int

	// Parallel acts on many Pods at once. Without it Pods are managed in order and one at a time: created in ascending
	// order, each when all below it are available; deleted and updated in descending order, each when all wanted Pods are
	// available. Of several Pods that are not wanted and not available, none is deleted but the last. It is what Kubernetes calls
	// podManagementPolicy.
	Parallel bool
	// Unordered updates Pods in the order in which they are given, and not in descending order of their ordinals. It needs
	// Parallel. Sort the Pods with package podorder.
	Unordered bool
	// Paused stops updates, and deletions that somebody asked for. Pods are still created, and those deleted that are not
	// wanted or have ended.
	Paused bool
	// OnDelete leaves it to others to delete Pods that are to be updated. What is created is new, whatever Partition says,
	// and no deletion that somebody asked for is carried out.
	OnDelete bool

	// ScaleMaxUnavailable limits creation: going up from the lowest ordinal, Pods are created until so many of the
	// ordinals passed lack an available Pod. Nil is no limit; with zero no Pod is ever created.
	ScaleMaxUnavailable *int
	// UnlimitedScaleIn deletes Pods whose ordinal is not wanted all at once with Parallel, as StatefulSets do. Without it,
	// those that are available stay as long as MaxUnavailable needs them: a start that moves by the number of replicas
	// then replaces the Pods step by step and not all together.
	UnlimitedScaleIn bool
	// UnlimitedRepair updates Pods that are not available all at once with Parallel, as OpenKruise does. Without it, no more
	// of them are updated than MaxUnavailable (at least one) at a time, and none while so many Pods at the new revision are
	// not available. So a new revision that does not work is not given to each old Pod that happens to be restarting.
	UnlimitedRepair bool

	// Paths are where the workload's API has these numbers.
	Paths Paths
}

// Health is what a Pod can do for its ordinal. It has no usable zero value: a Pod without Health is refused.
type Health uint8

// The states of a Pod's health.
const (
	// Available Pods serve: they are ready and have been for as long as the workload demands.
	Available Health = iota + 1
	// Unavailable Pods do not serve, or not yet.
	Unavailable
	// Ended Pods have phase Failed or Succeeded. They are deleted and created again.
	Ended
	// Terminating Pods have a deletion timestamp. They hold their ordinal until they are gone.
	Terminating
)

// NumberedPod is what Numbered needs to know of one Pod.
type NumberedPod struct {
	// Ordinal is the number in the Pod's name. No two Pods have the same.
	Ordinal int
	// Updated says that the Pod is at the new revision and that nothing else of it is to be updated (claims, for example).
	Updated bool
	// Health is required.
	Health Health
	// Starting Pods are not available yet and are expected to be soon, because they were created or restarted a short while
	// ago. They are not updated before their turn, as other Pods are that are not available.
	Starting bool
	// Rest is positive for Pods whose last change was refused, or whose annotations cannot be read: for how much longer they rest. With
	// Parallel they are updated last, or they would use up the budget of all others, and the one whose rest ends first is the first of them.
	// When their turn comes they are named like any other Pod: the caller decides how soon to try again what was refused.
	Rest time.Duration
	// Resting Pods have Ended and are not to be deleted yet, or they would be created and end again and again.
	Resting bool
	// NotSelected Pods are those that the workload's selector does not match. Their Health is Terminating: only others can end that they
	// hold their ordinal.
	NotSelected bool
	// Specified Pods are to be deleted and created again because somebody asked for it, by a label for example.
	Specified bool
	// PreDeleting Pods are to be deleted and wait for a hook. They do not count as available.
	PreDeleting bool
	// PreUpdating Pods are to be updated and wait for a hook, or for something else that has begun (a claim that grows, for
	// example). They do not count as available.
	PreUpdating bool
}

func (p *NumberedPod) available() bool {
	return p.Health == Available && !p.PreDeleting && !p.PreUpdating
}

// begun reports whether a deletion or an update of the Pod has begun that goes on by itself or by a hook.
func (p *NumberedPod) begun() bool {
	return p.Health == Terminating || p.PreDeleting || (p.PreUpdating && p.Health != Ended)
}

// NumberedCreate is a Pod to create.
type NumberedCreate struct {
	Ordinal int
	// Old says that it is created at the old revision, because Partition keeps it there.
	Old bool
}

// NumberedStep is what to do now. No ordinal is in two of its lists.
type NumberedStep struct {
	// Create these Pods, in ascending order. There are at most 1,000 of them: the next step has the others.
	Create []NumberedCreate
	// Delete the Pods of these ordinals, in descending order: those that are not wanted, have ended, or are Specified.
	Delete []int
	// Update the Pods of these ordinals to the new revision, in this order: in place, or by deleting them. One that is
	// PreDeleting can as well be deleted: the next one of its ordinal is new.
	Update []int
	// Cancel what has begun for the Pods of these ordinals, in ascending order: they are PreDeleting or PreUpdating, and are
	// wanted as they are after all. Doing nothing about them is safe but leaves them out of service.
	Cancel []int
	// Awaited is the ordinal of the Pod that OrderedWait is about; nil for none.
	Awaited *int
	// Limits says what limits the step.
	Limits reason.List
}

// Numbered returns the next step for Pods that have ordinals. pods are all Pods of the workload, also those that are
// terminating or have ended: each holds its ordinal as long as it exists.
//
// What has begun is part of each step until it is complete: a Pod that is PreDeleting or PreUpdating is named again, in the list
// that says what is to become of it.
//
// A Pod at the old revision that is not available can be updated without loss. So it is updated even if MaxUnavailable has
// no room, and before others whose turn it is: the broken Pod itself may be what stops the rollout. Without Parallel that
// is done for the lowest such ordinal, because Pods may rely on those below them. Set Starting for Pods that only need time.
//
// The error is a reason.List with an InvalidRollout for each number that is negative, for a set of wanted ordinals that
// nobody computed, for Unordered without Parallel, and for the first Pod without Health, with an impossible ordinal or with
// the ordinal of another. The step is empty then. The time it takes grows with the number of Pods, and not with that of
// replicas or of reserved ordinals.
func Numbered(spec NumberedSpec, pods []NumberedPod) (NumberedStep, error) {
	if err := spec.check(); err != nil {
		return NumberedStep{}, err
	}
	r, err := newRoster(&spec, pods)
	if err != nil {
		return NumberedStep{}, err
	}
	r.carryOn()
	if spec.Parallel {
		r.parallel()
	} else {
		r.ordered()
	}
	return r.step(), nil
}
