// Package rollout answers "how many Pods to create, delete and update now, to which revision, and why no more?"
//
// # Which plan
//
// Use [Plan] for Pods that are identical and have generated names, like the Pods of a Deployment or a CloneSet. Plan
// only counts Pods: a terminating Pod no longer counts, because its replacement has another name and can be created at
// once. Package podorder decides which Pods to delete or update first.
//
// Use package rollout/numbered for Pods with fixed names, like the Pods of a StatefulSet, and package rollout/pernode
// for Pods of which each Node has a single Pod, like the Pods of a DaemonSet. In these packages a terminating Pod
// occupies its name or its Node. Do not use Plan for such Pods: Plan ignores terminating Pods, and would take all
// Pods down if Pods take long to terminate.
//
// All three plans are pure: they use neither a client nor a clock. Resolve percentages with package
// rollout/partition, describe the Pods, call the plan for the next step, act, and call the plan again when the
// cluster has changed. Every call decides from the present state alone, so a crash between two steps does no harm.
// The plans are safe for concurrent use, and share the Paths, the Health and the reasons of this package.
//
// All three plans guarantee for every step, and fuzz tests over whole rollouts check:
//
//   - No step itself reduces the number of available Pods below the wanted number minus MaxUnavailable.
//   - Every rollout completes if the limits allow. If a step changes nothing, later steps change nothing either,
//     until the cluster changes.
//
// Plan never creates more than Replicas + MaxSurge Pods.
//
// # In place
//
// If all changes can be made in place, no surge Pods are created as long as MaxUnavailable allows at least one Pod to
// be unavailable: no Pod is deleted, so surge Pods would replace no Pod.
package rollout

import (
	"fmt"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/internal/limits"
)

// Spec is the wanted state, with percentages resolved to numbers.
type Spec struct {
	// Replicas is the number of Pods wanted.
	Replicas int
	// Partition is the number of Pods kept at the old revision.
	Partition int
	// MaxUnavailable is how many Pods the controller may make unavailable.
	MaxUnavailable int
	// MaxSurge is how many Pods may exist beyond Replicas. Set zero while a rollout is paused.
	MaxSurge int
	// ScaleMaxUnavailable limits how many Pods may be unavailable while Pods are created. Nil means no limit; with zero
	// no Pod is ever created.
	ScaleMaxUnavailable *int
	// OneRevision is set if the current revision is the new revision: every Pod is created at the new revision,
	// regardless of the partition, and no Pod is updated to the old revision.
	OneRevision bool
	// Rollback allows a step to update Pods to the old revision if the partition is raised.
	Rollback bool
	// InPlace is set if every Pod that must be updated can be updated in place.
	InPlace bool
	// ExcludePreDeleting creates replacements at once for Pods that wait for their hook before a deletion. If false,
	// such a Pod counts until its deletion: if nobody releases the hook, no replacement is ever created.
	ExcludePreDeleting bool

	// Paths are the field paths of the numbers in the workload's API.
	Paths Paths
}

// Paths are the paths of the fields that limit a rollout, as in "spec.updateStrategy.maxUnavailable", used only in
// reasons. An empty path means "partition", "maxUnavailable", "maxSurge", "scaleStrategy.maxUnavailable", "paused" or
// "podManagementPolicy".
type Paths struct {
	Partition, MaxUnavailable, MaxSurge, ScaleMaxUnavailable, Paused string
	// Parallel is the path of the field from which numbered.Spec.Parallel comes.
	Parallel string
}

func (s *Spec) paths() limits.Paths { return limits.Paths(s.Paths).OrDefaults() }

// Group counts the active Pods of a revision. Each Pod is counted in Total, and at most once in PreDeleting,
// Specified and Unavailable.
type Group struct {
	Total int
	// PreDeleting Pods will be deleted and wait for their hook.
	PreDeleting int
	// Specified Pods were chosen for deletion by a user, by name or label, and are not PreDeleting.
	Specified int
	// SpecifiedUnavailable is the number of Specified Pods that are not available.
	SpecifiedUnavailable int
	// Unavailable Pods are neither PreDeleting nor Specified, and not available.
	Unavailable int
}

func (g Group) staying() int { return g.Total - g.PreDeleting }

// Counts are the active Pods by revision.
type Counts struct{ Old, New Group }

// Add counts a Pod whose deletion nobody has requested. updated says whether the Pod is at the new revision.
func (c *Counts) Add(updated, available bool) {
	group := &c.Old
	if updated {
		group = &c.New
	}
	group.Total++
	if !available {
		group.Unavailable++
	}
}

// Total is the number of active Pods.
func (c Counts) Total() int { return c.Old.Total + c.New.Total }

// Unavailable is the number of Pods that are not available or wait for their hook before a deletion. Specified Pods are
// excluded: they count once they have been deleted.
func (c Counts) Unavailable() int {
	return c.Old.PreDeleting + c.New.PreDeleting + c.Old.Unavailable + c.New.Unavailable
}

// leaving returns a text for the detail of a reason: how many of the unavailable Pods wait for a hook before they are
// deleted.
func (c Counts) leaving() string {
	if n := c.Old.PreDeleting + c.New.PreDeleting; n > 0 {
		return fmt.Sprintf(" (%d wait for a hook before they are deleted)", n)
	}
	return ""
}

func (c Counts) specifiedUnavailable() int {
	return c.Old.SpecifiedUnavailable + c.New.SpecifiedUnavailable
}

// Step is the caller's next action. Numbers are never negative.
type Step struct {
	// Create is the number of Pods to create. CreateOld of these Pods must have the old revision.
	Create, CreateOld int
	// Delete is the number of Pods to delete among the Pods whose deletion nobody has requested. DeleteOld of the
	// deleted Pods must have the old revision. Pods beyond the partition are deleted first, even if they are
	// available and new Pods are not. The caller must wait while any Pod is Specified or PreDeleting.
	Delete, DeleteOld int
	// DeleteReady is how many ready Pods may be deleted, of all Pods whose deletion is decided by Delete or was
	// requested. Pods that are not ready may be deleted at once. See ToDelete.
	DeleteReady int
	// Candidates is the number of Pods that must change their revision, whether the budget allows the change now or not.
	// ToUpdate, or ChooseUpdates of package podcontrol, chooses the Pods to update now: to the new revision or, if Back
	// is set, to the old revision.
	Candidates int
	Back       bool
	// Keep is the number of Pods that stay at their revision: the last Pods in update order.
	Keep int
	// UpdateUnavailable is the number of unavailable Pods below which an available Pod may be updated. Missing Pods
	// count as unavailable.
	UpdateUnavailable int
	// UpdateAtTarget is the number of unavailable Pods at the target revision below which any Pod may be updated.
	// Missing Pods do not count: an unavailable Pod may need its update before missing Pods can be created.
	UpdateAtTarget int
	// Surge is how much of MaxSurge is used, and SurgeOld the number of surge Pods at the old revision.
	Surge, SurgeOld int
	// Limits are the reasons why the step does not change more Pods.
	Limits reason.List
}

// Plan returns the next step. Plan allocates memory only to explain a limit. If a number is negative, or the counts are
// impossible, the step is empty, and its limits have the code InvalidRollout.
func Plan(s Spec, c Counts) Step {
	if s.isInvalid() || c.Old.isInvalid() || c.New.isInvalid() {
		return Step{Limits: s.problems(c)}
	}
	step := Step{}
	oldDiff, newDiff := diffs(s, c.Old.staying(), c.New.staying())
	step.Surge, step.SurgeOld = surge(s, c, oldDiff, newDiff)

	count, old := c.Total(), c.Old.Total
	if s.ExcludePreDeleting {
		count, old = c.Old.staying()+c.New.staying(), c.Old.staying()
	}
	want := s.Replicas + step.Surge
	wantOld := s.Partition + step.SurgeOld
	specified := c.Old.Specified + c.New.Specified
	missing := max(want-count, 0)
	leaving := c.Old.PreDeleting + c.New.PreDeleting
	if leaving > 0 && !s.ExcludePreDeleting && count-leaving < s.Replicas {
		step.Limits = append(step.Limits, reason.Reason{
			Code: DeletionPending,
			Detail: fmt.Sprintf("%d Pods wait for a hook before they are deleted, and keep their places until then",
				leaving),
			Remedy: "end the hook, or have such Pods replaced at once",
		})
	}
	if missing > 0 {
		step.Create = scaleUp(s, c, missing, &step)
		if !s.OneRevision {
			step.CreateOld = min(max(wantOld-old, 0), step.Create)
		}
	}
	if extra := count - specified - want; extra > 0 {
		step.Delete = extra
		step.DeleteOld = min(max(old-c.Old.Specified-wantOld, 0), extra)
	}
	// Ready Pods beyond Replicas can be deleted without loss. Unavailable Pods count against the budget, even if they
	// will be deleted.
	step.DeleteReady = max(s.MaxUnavailable+c.Total()-s.Replicas-c.Unavailable()-c.specifiedUnavailable(), 0)
	explainDelete(s, c, &step)
	planUpdate(s, c, missing, &step)
	return step
}

// Missing returns how many Pods each revision lacks. Pods that wait for their hook before a deletion count as missing.
// If Rollback is false, the old revision lacks none.
func (s Spec) Missing(c Counts) (old, updated int) {
	oldDiff, newDiff := diffs(s, c.Old.staying(), c.New.staying())
	return max(-oldDiff, 0), max(-newDiff, 0)
}

// diffs returns how many Pods each revision has too many (positive) or too few (negative).
func diffs(s Spec, old, updated int) (oldDiff, newDiff int) {
	oldDiff = old - s.Partition
	newDiff = updated - (s.Replicas - s.Partition)
	if !s.Rollback || s.OneRevision {
		oldDiff, newDiff = max(oldDiff, 0), min(newDiff, 0)
	}
	return oldDiff, newDiff
}

// exchange returns how many Pods to update from the old to the new revision. A negative number means updates from the
// new to the old revision. The number is the surplus of one revision, but at most what the other revision lacks. If
// both revisions have too few or too many Pods, Pods must be created or deleted. An update would only move the
// missing Pods from one revision to the other. If Rollback is set, the Pods would be updated back and forth in an
// endless loop.
func exchange(oldDiff, newDiff int) int {
	switch {
	case oldDiff > 0 && newDiff < 0:
		return min(oldDiff, -newDiff)
	case oldDiff < 0 && newDiff > 0:
		return -min(-oldDiff, newDiff)
	default:
		return 0
	}
}

// surge returns how many Pods beyond Replicas are useful now: replacements for ready Pods whose deletion is requested,
// or for Pods being recreated, whichever is more.
func surge(s Spec, c Counts, oldDiff, newDiff int) (use, useOld int) {
	if s.MaxSurge <= 0 {
		return 0, 0
	}
	specified := c.Old.Specified + c.New.Specified
	use = min(max(c.Unavailable()+specified-s.MaxUnavailable, 0), specified)
	useOld = max(use-c.New.Specified, 0)

	if !s.InPlace || s.MaxUnavailable <= 0 {
		forUpdate := abs(exchange(oldDiff, newDiff))
		forUpdateOld := 0
		if oldDiff < 0 {
			forUpdateOld = forUpdate
		}
		if forUpdate > use {
			use, useOld = forUpdate, forUpdateOld
		}
	}
	use = min(use, s.MaxSurge)
	return use, min(useOld, use)
}

func scaleUp(s Spec, c Counts, missing int, step *Step) int {
	if s.ScaleMaxUnavailable == nil {
		return missing
	}
	create := min(missing, max(*s.ScaleMaxUnavailable-c.Unavailable(), 0))
	if create < missing {
		step.Limits = append(step.Limits, reason.Reason{
			Code: ScaleUpLimited, Path: s.paths().ScaleMaxUnavailable,
			Detail: fmt.Sprintf("%d of %d missing Pods are created now; %d are unavailable, %d may be", create, missing,
				c.Unavailable(), *s.ScaleMaxUnavailable),
			Remedy: "wait for Pods to become available, or raise the limit",
		})
	}
	return create
}

// explainDelete adds a reason if the budget does not allow all decided deletions now. A reduction of the replicas
// waits for requested deletions and for hooks, and deletes unavailable Pods first.
func explainDelete(s Spec, c Counts, step *Step) {
	available := c.Old.Specified + c.New.Specified - c.specifiedUnavailable()
	if c.Old.Specified+c.New.Specified+c.Old.PreDeleting+c.New.PreDeleting == 0 {
		available = max(step.DeleteOld-c.Old.Unavailable, 0) + max(step.Delete-step.DeleteOld-c.New.Unavailable, 0)
	}
	if available <= step.DeleteReady {
		return
	}
	step.Limits = append(step.Limits, reason.Reason{
		Code: DeleteLimited, Path: s.paths().MaxUnavailable,
		Detail: fmt.Sprintf("%d available Pods are to be deleted, %d may be", available, step.DeleteReady),
		Remedy: "wait for Pods to become available, or raise the limit",
	})
}

// planUpdate counts Specified Pods as deleted: neither they nor their replacements are updated, because otherwise a
// replacement would be created at one revision and updated to the other again and again.
func planUpdate(s Spec, c Counts, missing int, step *Step) {
	change := exchange(diffs(s, c.Old.staying()-c.Old.Specified, c.New.staying()-c.New.Specified))
	step.Candidates, step.Back = abs(change), change < 0
	if step.Keep = s.Partition; step.Back {
		step.Keep = s.Replicas - s.Partition
	}
	step.UpdateUnavailable = max(s.MaxUnavailable+c.Total()-s.Replicas, 0)
	step.UpdateAtTarget = s.MaxUnavailable + max(c.Total()-s.Replicas, 0)
	if missing > 0 {
		step.UpdateAtTarget = max(step.UpdateAtTarget, 1)
	}
	switch {
	case step.Candidates == 0 && !s.OneRevision && s.Partition > 0 && c.Old.staying() > 0 && c.Old.staying() <= s.Partition:
		step.Limits = append(step.Limits, reason.Reason{
			Code: PartitionReached, Path: s.paths().Partition,
			Detail: fmt.Sprintf("%d Pods are at the old revision, %d are kept there", c.Old.staying(), s.Partition),
			Remedy: "lower the partition to go on",
		})
	case step.Candidates > 0 && c.Unavailable() >= step.UpdateUnavailable:
		step.Limits = append(step.Limits, reason.Reason{
			Code: UpdateLimited, Path: s.paths().MaxUnavailable,
			Detail: fmt.Sprintf("%d Pods are unavailable%s, %d may be", c.Unavailable(), c.leaving(),
				step.UpdateUnavailable),
			Remedy: "wait for Pods to become available, or raise the limit",
		})
	}
}

func abs(n int) int { return max(n, -n) }
