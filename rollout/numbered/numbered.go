// Package numbered answers "which numbered Pods to create, delete and update now, and why no more?" for Pods with
// fixed names that end in an ordinal, like the Pods of a StatefulSet.
//
// A terminating Pod occupies its name: a new Pod with the name can be created only after the terminating Pod is
// removed. So [Plan] needs each Pod with its ordinal, and counts the wanted ordinals without an available Pod, not the
// unavailable Pods. Compute the wanted ordinals with package ordinals.
//
// The guarantees of package rollout apply. Plan never creates two Pods of the same ordinal, and ordered management
// keeps the order of ordinals.
package numbered

import (
	"time"

	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
)

// maxCreate is the largest number of Pods created per step: a mistyped number of replicas must not use up memory.
const maxCreate = 1000

// Spec is the wanted state of Pods with ordinals, with percentages resolved to numbers. Plan refuses the zero value
// because Wanted is missing. If only Wanted is set, Pods are created and deleted one after the other, and no available
// Pod is updated.
type Spec struct {
	// Wanted are the ordinals that should have a Pod, as returned by ordinals.Of. Plan refuses a Set that was not
	// computed. A Set computed for zero replicas deletes every Pod.
	Wanted ordinals.Set
	// Partition is the number of Pods kept at the old revision: the Pods of the lowest wanted ordinals, or any Pods if
	// Unordered is set.
	Partition int
	// MaxUnavailable is the number of wanted ordinals that may lack an available Pod, including the Pod that an update
	// takes out of service. An ordinal with a missing or terminating Pod lacks an available Pod.
	MaxUnavailable int

	// Parallel changes many Pods at once. If false, Pods are managed one after the other in order. Pods are created in
	// ascending order, each after all Pods of lower ordinals are available. Pods are deleted and updated in descending
	// order, each after all wanted Pods are available. An unwanted, unavailable Pod is deleted only if no other unwanted
	// Pod is unavailable. A MaxUnavailable above 1 then has no effect, and Step.Limits has the reason OneAtATime. To
	// create Pods in order but update several at once, set Parallel, and set ScaleMaxUnavailable to 1. Kubernetes calls
	// the field podManagementPolicy.
	Parallel bool
	// Unordered updates Pods in the given order, not in descending order of their ordinals. Unordered may be set only
	// with Parallel. Sort the Pods with package podorder.
	Unordered bool
	// Paused stops updates and requested deletions. Pods are still created, and unwanted or ended Pods are still
	// deleted.
	Paused bool
	// OnDelete updates no Pod: somebody else must delete outdated Pods. Every Pod is created at the new revision,
	// regardless of Partition, and Plan does not carry out requested deletions.
	OnDelete bool

	// ScaleMaxUnavailable limits creation: Pods are created in ascending order of ordinals until this number of ordinals
	// lacks an available Pod. Nil means no limit; with zero no Pod is ever created.
	ScaleMaxUnavailable *int
	// UnlimitedScaleIn deletes all Pods with unwanted ordinals at once if Parallel is set, as StatefulSets do. If false,
	// available Pods are kept as long as MaxUnavailable requires. For example, if the first ordinal is raised by the
	// number of replicas, all Pods are replaced step by step, and not all at once.
	UnlimitedScaleIn bool
	// UnlimitedRepair updates all unavailable Pods at once if Parallel is set, as OpenKruise does. If false, at most
	// MaxUnavailable unavailable Pods (but at least one) are updated at a time, and none while as many Pods at the
	// new revision are unavailable. So if the new revision is broken, old Pods that are unavailable for a short time
	// do not all get the broken revision.
	UnlimitedRepair bool

	// Paths are the field paths, in the workload's API, of the fields from which the limits come. Reasons name the
	// paths.
	Paths rollout.Paths
}

// Pod describes a single Pod for Plan.
type Pod struct {
	// Ordinal is the number in the Pod's name. No two Pods may have the same ordinal.
	Ordinal int
	// Updated says that the Pod is at the new revision, and that nothing else of the Pod must be updated (claims, for
	// example).
	Updated bool
	// Health is required.
	Health rollout.Health
	// Starting Pods are not available yet but expected to be soon, because somebody created or restarted them a short
	// while ago. A starting Pod is updated in its normal order, whereas other unavailable Pods may be updated
	// earlier.
	Starting bool
	// Rest is how long the Pod's back-off still lasts, if the last change of the Pod was refused or its annotations
	// cannot be parsed. If Parallel is set, Pods in back-off are updated last, the Pod with the shortest back-off
	// first, because otherwise such Pods would use up the budget of all other Pods. A step may still name a Pod in
	// back-off: the caller decides how soon to repeat a refused change.
	Rest time.Duration
	// Resting Pods have Ended and must not be deleted yet: without this wait, Pods that end quickly would be
	// recreated in a fast loop.
	Resting bool
	// NotSelected Pods do not match the workload's selector. Their Health is Terminating: only somebody else can free
	// the ordinal.
	NotSelected bool
	// Specified Pods must be deleted and created again because a user has requested so, by a label for example.
	Specified bool
	// PreDeleting Pods will be deleted and wait for their hook. They do not count as available.
	PreDeleting bool
	// PreUpdating Pods will be updated and wait for their hook, or for an action that has begun (a claim being resized,
	// for example). They do not count as available.
	PreUpdating bool
}

func (p *Pod) available() bool {
	return p.Health == rollout.Available && !p.PreDeleting && !p.PreUpdating
}

// begun reports whether a deletion or an update of the Pod has begun: Plan waits for the kubelet, or for the owner of a
// lifecycle hook.
func (p *Pod) begun() bool {
	return p.Health == rollout.Terminating || p.PreDeleting || (p.PreUpdating && p.Health != rollout.Ended)
}

// Create is a Pod to create.
type Create struct {
	Ordinal int
	// Old says that the Pod must be created at the old revision, because Partition keeps the ordinal at this revision.
	Old bool
}

// Step is the caller's next action. No ordinal is in two lists.
type Step struct {
	// Create are the Pods to create, in ascending order of ordinals. There are at most 1,000: the next step has the
	// remaining Pods.
	Create []Create
	// Delete are the ordinals of the Pods to delete, in descending order: Pods that are unwanted, ended, or Specified.
	Delete []int
	// Update are the ordinals of the Pods to update to the new revision, in place or by deletion, in this order. If the
	// Pod is PreDeleting, the caller may delete the Pod: the next Pod of the ordinal is created at the new revision.
	Update []int
	// Cancel are the ordinals of the Pods whose deletion or update must be cancelled, in ascending order: the Pods
	// are PreDeleting or PreUpdating, but should now stay unchanged. If a caller ignores Cancel, the Pods only stay
	// out of service.
	Cancel []int
	// Awaited is the ordinal of the Pod that the reason OrderedWait names, nil for none.
	Awaited *int
	// Limits are the reasons why the step does not change more Pods.
	Limits reason.List
}

// Plan returns the next step for Pods with ordinals. pods are all Pods of the workload, including terminating and ended
// Pods: each Pod occupies its ordinal as long as the Pod exists.
//
// A deletion or update that has begun is part of each step until complete: the step names a PreDeleting or PreUpdating
// Pod again, in the list Delete or Update.
//
// The update of an unavailable Pod at the old revision takes nothing out of service. So Plan updates such a Pod even if
// MaxUnavailable is used up, and before Pods that come earlier in the order: the broken Pod itself may be the reason
// why the rollout is stuck. If Parallel is false, Plan does so only for the lowest such ordinal, because Pods may
// depend on Pods of lower ordinals. Set Starting for Pods that only need time to become available.
//
// The error is a reason.List with an InvalidRollout for each negative number, for a set of wanted ordinals that was not
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
