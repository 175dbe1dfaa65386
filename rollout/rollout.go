// Package rollout answers "how many Pods to create, delete and update now, to which revision, and why no more?"
//
// # Which plan
//
// Use [Plan] for Pods that are all alike and have names that nobody chooses, like the Pods of a Deployment or a
// CloneSet. Plan is arithmetic over counts: a terminating Pod no longer counts, because its replacement has another
// name and can be created at once. Order the candidates with package podorder.
//
// Use package rollout/numbered for Pods with names of their own, like the Pods of a StatefulSet, and package
// rollout/pernode for Pods of which each Node has a single Pod, like the Pods of a DaemonSet. There a terminating Pod
// holds its name or its Node. Plan would miss terminating Pods, and would take all Pods down if Pods are slow to end.
//
// All three plans are pure: they know nothing of clients or time. Resolve percentages with package rollout/partition,
// describe the Pods, ask for the next step, act, and ask again after a change of the cluster. Every call decides from
// scratch, so a crash between two steps costs nothing. The plans are safe for concurrent use, and share the Paths, the
// Health and the reasons of this package.
//
// Promises of every step of all three, fuzzed over whole rollouts:
//
//   - By its own action no step takes available Pods below the wanted number less MaxUnavailable.
//   - A rollout that can end does end. After a step that changes nothing, no later step changes anything unless the
//     cluster changed.
//
// Plan never has more than Replicas + MaxSurge Pods.
//
// # In place
//
// A change deliverable wholly in place uses no surge Pods as long as MaxUnavailable leaves room for at least a single
// Pod: a surge Pod would stand in for nothing.
package rollout

import (
	"fmt"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/internal/limits"
)

// Spec is the wanted state, in absolute numbers.
type Spec struct {
	// Replicas is the number of Pods wanted.
	Replicas int
	// Partition is the number of Pods kept at the old revision.
	Partition int
	// MaxUnavailable is how many Pods the controller itself may make unavailable.
	MaxUnavailable int
	// MaxSurge is how many Pods there may be beyond Replicas. Zero while a rollout is paused.
	MaxSurge int
	// ScaleMaxUnavailable limits how many Pods may be unavailable while Pods are created. Nil is no limit; with zero no
	// Pod is ever created.
	ScaleMaxUnavailable *int
	// OneRevision is set if the current revision is the new revision: every created Pod is new, regardless of the
	// partition, and nothing is taken back.
	OneRevision bool
	// Rollback allows a grown partition to take Pods back to the old revision.
	Rollback bool
	// InPlace is set if every Pod due for an update can be updated in place.
	InPlace bool
	// ExcludePreDeleting replaces Pods waiting for a hook before their deletion without waiting for their end. If
	// false, a hook that nobody ends keeps their places taken.
	ExcludePreDeleting bool

	// Paths are the paths of the numbers in the workload's API.
	Paths Paths
}

// Paths are the paths of the fields that limit a rollout, as in "spec.updateStrategy.maxUnavailable", used only in
// reasons. An empty path stands for "partition", "maxUnavailable", "maxSurge", "scaleStrategy.maxUnavailable", "paused"
// or "podManagementPolicy".
type Paths struct {
	Partition, MaxUnavailable, MaxSurge, ScaleMaxUnavailable, Paused string
	// Parallel is the path of the field behind numbered.Spec.Parallel.
	Parallel string
}

func (s *Spec) paths() limits.Paths { return limits.Paths(s.Paths).OrDefaults() }

// Group counts the active Pods of a revision. Each Pod is in Total and in at most a single count of PreDeleting,
// Specified and Unavailable.
type Group struct {
	Total int
	// PreDeleting Pods are to be deleted and wait for a hook.
	PreDeleting int
	// Specified Pods were chosen for deletion by a user, by name or label, and are not PreDeleting.
	Specified int
	// SpecifiedUnavailable is how many of the Specified ones are not available.
	SpecifiedUnavailable int
	// Unavailable Pods are neither PreDeleting nor Specified, and not available.
	Unavailable int
}

func (g Group) staying() int { return g.Total - g.PreDeleting }

// Counts are the active Pods by revision.
type Counts struct{ Old, New Group }

// Add counts a Pod without a wish for deletion. updated says whether the Pod is at the new revision.
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

// Unavailable is the number of Pods that are not available or wait for a hook before their deletion. Specified Pods are
// excluded: they count once they are gone.
func (c Counts) Unavailable() int {
	return c.Old.PreDeleting + c.New.PreDeleting + c.Old.Unavailable + c.New.Unavailable
}

// leaving says how many of the unavailable Pods wait for their hook, for a reason.
func (c Counts) leaving() string {
	if n := c.Old.PreDeleting + c.New.PreDeleting; n > 0 {
		return fmt.Sprintf(" (%d wait for a hook before they are deleted)", n)
	}
	return ""
}

func (c Counts) specifiedUnavailable() int {
	return c.Old.SpecifiedUnavailable + c.New.SpecifiedUnavailable
}

// Step says what to do now. Numbers are never negative.
type Step struct {
	// Create Pods, CreateOld of them at the old revision.
	Create, CreateOld int
	// Delete Pods that nobody named, DeleteOld of them from the old revision. Pods beyond the partition go first, even
	// if they serve and new Pods do not. The caller must wait while any Pod is Specified or PreDeleting.
	Delete, DeleteOld int
	// DeleteReady is the number of ready Pods that may go among the Pods with a decided deletion, by Delete or by name.
	// Unready Pods may go at once. See ToDelete.
	DeleteReady int
	// Candidates is how many Pods are to change their revision, whether the budget has room or not. ToUpdate, or
	// ChooseUpdates of package podcontrol, picks the Pods to take to the new revision now or, with Back, to the old
	// revision.
	Candidates int
	Back       bool
	// Keep is the number of Pods that stay at their revision: the last in update order.
	Keep int
	// UpdateUnavailable is how many Pods may be unavailable for an available Pod to be updated. Missing Pods count.
	UpdateUnavailable int
	// UpdateAtTarget is the number of Pods at the target revision that may be unavailable for any Pod to be updated.
	// Missing Pods do not count: the update of an unavailable Pod may be the precondition for their creation.
	UpdateAtTarget int
	// Surge is the used part of MaxSurge, SurgeOld the surge Pods at the old revision.
	Surge, SurgeOld int
	// Limits are the reasons why the step is not larger.
	Limits reason.List
}

// Plan returns the next step. Plan allocates only to explain a limit. With a negative number, or impossible counts, the
// step does nothing, and its limits have the code InvalidRollout.
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
	// Beyond Replicas a ready Pod can go without loss. Unavailable Pods have used the budget up, even Pods due for
	// deletion.
	step.DeleteReady = max(s.MaxUnavailable+c.Total()-s.Replicas-c.Unavailable()-c.specifiedUnavailable(), 0)
	explainDelete(s, c, &step)
	planUpdate(s, c, missing, &step)
	return step
}

// Missing returns the numbers of Pods that each revision lacks. Pods that wait for a hook before their deletion are
// lacking. Without Rollback, the old revision lacks none.
func (s Spec) Missing(c Counts) (old, updated int) {
	oldDiff, newDiff := diffs(s, c.Old.staying(), c.New.staying())
	return max(-oldDiff, 0), max(-newDiff, 0)
}

// diffs says how many Pods too many (positive) or too few each revision has.
func diffs(s Spec, old, updated int) (oldDiff, newDiff int) {
	oldDiff = old - s.Partition
	newDiff = updated - (s.Replicas - s.Partition)
	if !s.Rollback || s.OneRevision {
		oldDiff, newDiff = max(oldDiff, 0), min(newDiff, 0)
	}
	return oldDiff, newDiff
}

// exchange returns the number of Pods to move from old to new, negative for back: the surplus of the first revision, up
// to the lack of the second. If both have too few or too many Pods, creation or scale-in must end the imbalance. An
// update would only move the lack from revision to revision (with a rollback, for ever).
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

// surge returns the number of useful Pods beyond Replicas now: stand-ins for ready Pods asked to be deleted, or for
// recreated Pods, the larger of both.
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

// explainDelete adds a reason if the budget has no room for all Pods due for deletion. Scale-in waits for specified
// Pods and for hooks, and takes unavailable Pods first.
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

// planUpdate counts Specified Pods as gone: neither they nor their stand-ins are updated, because a stand-in would
// otherwise be created at a revision and taken to another for ever.
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
