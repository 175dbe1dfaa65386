// Package numbered answers "which numbered Pods to create, delete and update now, and why no more?" for Pods with names
// of their own, like the Pods of a StatefulSet.
//
// A terminating Pod holds its name: nothing can replace the Pod until it is gone. So [Plan] needs each Pod with its
// ordinal, and unavailability is not a count of Pods but a count of wanted ordinals without an available Pod. Compute
// the wanted ordinals with package ordinals.
//
// The promises of package rollout hold. Plan never has two Pods of the same ordinal, and ordered management keeps the
// order.
package numbered

import (
	"time"

	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// maxCreate is the limit of created Pods per step: a replica count with some zeros too many must not cost memory.
const maxCreate = 1000

// Spec is the wanted state of Pods with ordinals, in absolute numbers. The zero value is refused because Wanted
// is missing. With nothing but Wanted set, Pods are created and deleted in sequence, and no available Pod is updated.
type Spec struct {
	// Wanted are the ordinals with a wanted Pod, as returned by ordinals.Of. A Set that nobody computed is refused. A
	// Set computed for no replicas deletes every Pod.
	Wanted ordinals.Set
	// Partition is the number of Pods kept at the old revision: the Pods of the lowest wanted ordinals, or any with
	// Unordered.
	Partition int
	// MaxUnavailable is the number of wanted ordinals that may lack an available Pod, including the Pod taken out of
	// service. An ordinal with a missing or terminating Pod lacks an available Pod.
	MaxUnavailable int

	// Parallel acts on many Pods at once. If false, Pods are managed in order and in sequence. Creation goes in
	// ascending order, each Pod after all lower Pods are available. Deletions and updates go in descending order, each
	// after all wanted Pods are available. An unwanted, unavailable Pod is deleted only if no other unwanted Pod is
	// unavailable. A MaxUnavailable above 1 is then without use, and Limits says so (OneAtATime). For creation in order
	// and updates of several Pods set Parallel, and ScaleMaxUnavailable to 1. Kubernetes calls the field
	// podManagementPolicy.
	Parallel bool
	// Unordered updates Pods in the given order instead of the descending order of their ordinals. Unordered needs
	// Parallel. Sort the Pods with package podorder.
	Unordered bool
	// Paused stops updates and requested deletions. Creation goes on, and so does the deletion of unwanted or ended
	// Pods.
	Paused bool
	// OnDelete leaves the deletion of outdated Pods to somebody else. Every created Pod is new, regardless of
	// Partition, and no requested deletion is carried out.
	OnDelete bool

	// ScaleMaxUnavailable limits creation: going up from the lowest ordinal, Pods are created until so many of the
	// ordinals passed lack an available Pod. Nil is no limit; with zero no Pod is ever created.
	ScaleMaxUnavailable *int
	// UnlimitedScaleIn deletes all Pods with unwanted ordinals at once under Parallel, as StatefulSets do. If false,
	// available Pods stay as long as MaxUnavailable needs them. A start that moves by the number of replicas then
	// replaces the Pods step by step and not all together.
	UnlimitedScaleIn bool
	// UnlimitedRepair updates all unavailable Pods at once under Parallel, as OpenKruise does. If false, at most
	// MaxUnavailable Pods (but at least a single Pod) are repaired at a time, and none while so many Pods at the new
	// revision are unavailable. So a broken new revision does not reach every old Pod that happens to be restarting.
	UnlimitedRepair bool

	// Paths are the paths of the numbers in the workload's API.
	Paths rollout.Paths
}

// Pod describes a single Pod for Plan.
type Pod struct {
	// Ordinal is the number in the Pod's name. No two Pods have the same.
	Ordinal int
	// Updated says that the Pod is at the new revision and has nothing else to update (claims, for example).
	Updated bool
	// Health is required.
	Health rollout.Health
	// Starting Pods are not available yet but expected to be soon, because somebody created or restarted them a short
	// while ago. A starting Pod waits for its turn in an update, unlike other unavailable Pods.
	Starting bool
	// Rest is the remaining rest of a Pod whose last change was refused, or whose annotations cannot be read. With
	// Parallel such Pods are updated last, the Pod with the shortest rest first, because they would use up the budget
	// of all others. At its turn the step names a resting Pod like any Pod: the caller decides how soon to repeat a
	// refused change.
	Rest time.Duration
	// Resting Pods have Ended and must not be deleted yet, because they would be created and end again and again.
	Resting bool
	// NotSelected Pods do not match the workload's selector. Their Health is Terminating: only somebody else can end
	// their hold on the ordinal.
	NotSelected bool
	// Specified Pods are to be deleted and created again on somebody's request, by a label for example.
	Specified bool
	// PreDeleting Pods are to be deleted and wait for a hook. They do not count as available.
	PreDeleting bool
	// PreUpdating Pods are to be updated and wait for a hook, or for a begun action (a growing claim, for example).
	// They do not count as available.
	PreUpdating bool
}

func (p *Pod) available() bool {
	return p.Health == rollout.Available && !p.PreDeleting && !p.PreUpdating
}

// begun reports whether a deletion or an update of the Pod has begun: the kubelet, or the owner of a lifecycle hook, is
// to act next.
func (p *Pod) begun() bool {
	return p.Health == rollout.Terminating || p.PreDeleting || (p.PreUpdating && p.Health != rollout.Ended)
}

// Create is a Pod to create.
type Create struct {
	Ordinal int
	// Old says that the Pod is created at the old revision, because Partition keeps the ordinal there.
	Old bool
}

// Step says what to do now. No ordinal is in two lists.
type Step struct {
	// Create these Pods, in ascending order. Create has at most 1,000 Pods: the next step has the rest.
	Create []Create
	// Delete the Pods of these ordinals, in descending order: unwanted, ended, or Specified Pods.
	Delete []int
	// Update the Pods of these ordinals to the new revision, in order: in place, or by deletion. A PreDeleting Pod can
	// as well be deleted: the ordinal's next Pod is new.
	Update []int
	// Cancel the begun actions for the Pods of these ordinals, in ascending order. The Pods are PreDeleting or
	// PreUpdating, but wanted unchanged after all. Ignoring Cancel is safe but leaves the Pods out of service.
	Cancel []int
	// Awaited is the ordinal of the Pod in the reason OrderedWait, nil for none.
	Awaited *int
	// Limits are the reasons why the step is not larger.
	Limits reason.List
}

// Plan returns the next step for Pods with ordinals. pods are all Pods of the workload, including terminating and
// ended Pods: each holds its ordinal as long as it exists.
//
// A begun action is part of each step until complete: the step names a PreDeleting or PreUpdating Pod again, in the
// list of its action.
//
// An unavailable Pod at the old revision can be updated without loss. So Plan updates the Pod even if
// MaxUnavailable has no room, and before Pods whose turn comes earlier: the broken Pod itself may be the reason for the
// stop. Without Parallel Plan does so only for the lowest such ordinal, because Pods may rely on lower Pods. Set
// Starting for Pods that only need time.
//
// The error is a reason.List with an InvalidRollout for each negative number, for a set of wanted ordinals that nobody
// computed, for Unordered without Parallel, and for the first Pod without Health, with an impossible ordinal or with
// another Pod's ordinal. The step is then empty. The running time grows with the number of Pods, and not with the
// number of replicas or of reserved ordinals.
func Plan(spec Spec, pods []Pod) (Step, error) {
	if err := spec.check(); err != nil {
		return Step{}, err
	}
	r, err := newRoster(&spec, pods)
	if err != nil {
		return Step{}, err
	}
	r.carryOn()
	if spec.Parallel {
		r.parallel()
	} else {
		r.ordered()
	}
	return r.step(), nil
}
