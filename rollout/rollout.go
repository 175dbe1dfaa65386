// Package rollout answers "what next: how many Pods (of which numbers, on which Nodes) to create, delete and update now, to which revision,
// and what limits it?"
//
// # Plan, Numbered or PerNode
//
// Use [Plan] for Pods that are all alike and have names that nobody chooses, as those of a Deployment or a CloneSet have. It
// is arithmetic over counts: a Pod that is terminating counts no more, because its replacement has another name and can be created at
// once. Order the candidates with package podorder.
//
// Use [Numbered] for Pods with names of their own, as those of a StatefulSet have. It is told of each Pod by its ordinal, because
// one that is terminating holds its name: until it is gone nothing can replace it. What is unavailable is then not a count
// of Pods but of wanted ordinals without an available Pod. Counting Pods with Plan instead misses those that
// are terminating, and takes all Pods down where they are slow to end. Compute the wanted ordinals with package ordinals.
//
// Use [PerNode] for Pods of which each Node has one, as those of a DaemonSet are. How many are wanted follows from the Nodes: it is told of
// each what package nodefit says, and of each Pod on which Node it is. What is unavailable are Nodes without an available Pod. One
// that is terminating holds its Node, unless Pods may surge: then the new Pod comes first, and the old one goes when the new one is available.
//
// All three are pure: they know nothing of clients or time. Resolve percentages with package partition, describe the Pods,
// ask for the next step, act, and ask again when the cluster has changed. Every call is decided from scratch, so a crash between two
// steps costs nothing. They are safe for concurrent use.
//
// What holds at every step, and is fuzzed over whole rollouts:
//
//   - by its own action it never takes available Pods below the number wanted less MaxUnavailable; with PerNode those of the Nodes that
//     take part in the update;
//   - Plan never has more than Replicas + MaxSurge Pods, Numbered never two Pods of one ordinal, PerNode never creates a third Pod on a Node
//     or a second one without surge, and the order is kept where Pods are managed in order;
//   - a rollout that can end does, and a step that changes nothing is not followed by one that changes something unless the
//     cluster changed.
//
// # In place
//
// For Plan, a change that can be delivered wholly in place uses no surge Pods as long as MaxUnavailable leaves room for at least
// one Pod: there is nothing a surge Pod would stand in for.
package rollout

import (
	"cmp"
	"fmt"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// ScaleUpLimited means that Pods are missing and the limit on unavailable Pods while scaling lets fewer be created now.
	ScaleUpLimited reason.Code = "ScaleUpLimited"
	// NotSelected means that the selector of the workload does not match Pods that it controls. They hold their ordinal or Node, and no step
	// concerns them.
	NotSelected reason.Code = "NotSelected"
	// DeleteLimited means that Pods are to be deleted which are ready, and the budget has no room for all of them.
	DeleteLimited reason.Code = "DeleteLimited"
	// UpdateLimited means that Pods are to be updated and as many as the budget allows are unavailable already.
	UpdateLimited reason.Code = "UpdateLimited"
	// DeletionPending means that Pods which wait for a hook before they are deleted are counted until they are gone: nothing is
	// created in their place, although fewer Pods than are wanted will stay. See Spec.ExcludePreDeleting.
	DeletionPending reason.Code = "DeletionPending"
	// PartitionReached means that the Pods still at the old revision are those that the partition keeps there.
	PartitionReached reason.Code = "PartitionReached"
)

// Spec is what is wanted, in absolute numbers.
type Spec struct {
	// Replicas is the number of Pods wanted.
	Replicas int
	// Partition is how many of them stay at the old revision.
	Partition int
	// MaxUnavailable is how many Pods the controller itself may make unavailable.
	MaxUnavailable int
	// MaxSurge is how many Pods there may be beyond Replicas. Zero while a rollout is paused.
	MaxSurge int
	// ScaleMaxUnavailable limits how many Pods may be unavailable while Pods are created. Nil is no limit; with zero no Pod is
	// ever created.
	ScaleMaxUnavailable *int
	// OneRevision is set when the current revision is the new one: whatever is created is new, whatever the partition,
	// and nothing is taken back.
	OneRevision bool
	// Rollback lets a partition that grew take Pods back to the old revision.
	Rollback bool
	// InPlace is set when every Pod that is to be updated can be updated in place.
	InPlace bool
	// ExcludePreDeleting replaces Pods whose deletion waits for a hook before they are gone. Otherwise a hook that nobody ends keeps
	// their places taken.
	ExcludePreDeleting bool

	// Paths are where the workload's API has these numbers.
	Paths Paths
}

// Paths are the paths of the fields that limit a rollout, as in "spec.updateStrategy.maxUnavailable". They go into reasons alone. An
// empty one stands for "partition", "maxUnavailable", "maxSurge", "scaleStrategy.maxUnavailable" or "paused".
type Paths struct {
	Partition, MaxUnavailable, MaxSurge, ScaleMaxUnavailable, Paused string
}

func (p *Paths) partition() string      { return cmp.Or(p.Partition, "partition") }
func (p *Paths) maxUnavailable() string { return cmp.Or(p.MaxUnavailable, "maxUnavailable") }
func (p *Paths) scaleMaxUnavailable() string {
	return cmp.Or(p.ScaleMaxUnavailable, "scaleStrategy.maxUnavailable")
}
func (p *Paths) maxSurge() string { return cmp.Or(p.MaxSurge, "maxSurge") }
func (p *Paths) paused() string   { return cmp.Or(p.Paused, "paused") }

// Group counts the active Pods of one revision. Each Pod is in Total and in at most one of PreDeleting, Specified and
// Unavailable.
type Group struct {
	Total int
	// PreDeleting Pods are to be deleted and wait for a hook.
	PreDeleting int
	// Specified Pods were chosen for deletion by a user, by name or label, and are not PreDeleting.
	Specified int
	// SpecifiedUnavailable is how many of the Specified ones are not available.
	SpecifiedUnavailable int
	// Unavailable Pods are neither of those and not available.
	Unavailable int
}

func (g Group) staying() int { return g.Total - g.PreDeleting }

// Counts are the active Pods by revision.
type Counts struct{ Old, New Group }

// Add counts one Pod that nobody wants deleted. updated says whether it is at the new revision.
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

// Unavailable is the number of Pods that are not available or on their way out by a hook. Pods that are asked to be
// deleted are not among them: they count once they are gone.
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

// Step is what to do now. Numbers are never negative.
type Step struct {
	// Create Pods, CreateOld of them at the old revision.
	Create, CreateOld int
	// Delete Pods that nobody named, DeleteOld of them from the old revision: what is beyond the partition goes first, even where it
	// serves and new Pods do not. It is for the caller to wait while any Pod is Specified or PreDeleting.
	Delete, DeleteOld int
	// DeleteReady is how many of the Pods whose deletion is decided, by Delete or because somebody named them, may go while
	// they are ready; others may go at once. See ToDelete.
	DeleteReady int
	// Update is how many Pods are to be taken to the new revision or, with Back, to the old one.
	Update int
	Back   bool
	// Keep is how many of the Pods that Update chooses from stay where they are: the last in update order.
	Keep int
	// UpdateUnavailable is how many Pods may be unavailable for an available Pod to be updated. Missing Pods count.
	UpdateUnavailable int
	// UpdateAtTarget is how many Pods at the revision that Pods are taken to may be unavailable for any Pod to be updated.
	// Missing Pods do not count: the update of a Pod that is unavailable already may be what lets them be created.
	UpdateAtTarget int
	// Surge is how many of MaxSurge are in use, SurgeOld of them at the old revision.
	Surge, SurgeOld int
	// Limits says what limits the step.
	Limits reason.List
}

// Plan returns the next step. It allocates only to explain a limit. With a number that is negative, or counts that cannot be, the step
// does nothing, and its limits have the code InvalidRollout.
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
	if leaving := c.Old.PreDeleting + c.New.PreDeleting; leaving > 0 && !s.ExcludePreDeleting && count-leaving < s.Replicas {
		step.Limits = append(step.Limits, reason.Reason{
			Code:   DeletionPending,
			Detail: fmt.Sprintf("%d Pods wait for a hook before they are deleted, and keep their places until then", leaving),
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
	// Beyond Replicas a ready Pod can go without loss; what is unavailable already has used the budget up, also where it is
	// to be deleted itself.
	step.DeleteReady = max(s.MaxUnavailable+c.Total()-s.Replicas-c.Unavailable()-c.specifiedUnavailable(), 0)
	explainDelete(s, c, &step)
	planUpdate(s, c, missing, &step)
	return step
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

// exchange says how many Pods are to go from old to new, negative for back: as many as one revision has too many and the
// other too few. Where both have too few or too many Pods it is for creation or scale-in to end that, and an update would
// only move the lack from one revision to the other (with a rollback, for ever).
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

// surge says how many Pods beyond Replicas are useful now: to stand in for ready Pods that are asked to be deleted, or for
// Pods that are recreated, whichever is more.
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
			Code: ScaleUpLimited, Path: s.Paths.scaleMaxUnavailable(),
			Detail: fmt.Sprintf("%d of %d missing Pods are created now; %d are unavailable, %d may be", create, missing, c.Unavailable(), *s.ScaleMaxUnavailable),
			Remedy: "wait for Pods to become available, or raise the limit",
		})
	}
	return create
}

// explainDelete says when the budget has no room for all Pods that are to be deleted. Scale-in waits for specified Pods
// and for hooks, and takes unavailable Pods first.
func explainDelete(s Spec, c Counts, step *Step) {
	available := c.Old.Specified + c.New.Specified - c.specifiedUnavailable()
	if c.Old.Specified+c.New.Specified+c.Old.PreDeleting+c.New.PreDeleting == 0 {
		available = max(step.DeleteOld-c.Old.Unavailable, 0) + max(step.Delete-step.DeleteOld-c.New.Unavailable, 0)
	}
	if available <= step.DeleteReady {
		return
	}
	step.Limits = append(step.Limits, reason.Reason{
		Code: DeleteLimited, Path: s.Paths.maxUnavailable(),
		Detail: fmt.Sprintf("%d available Pods are to be deleted, %d may be", available, step.DeleteReady),
		Remedy: "wait for Pods to become available, or raise the limit",
	})
}

// planUpdate counts Specified Pods as gone: they are not updated, and what stands in for them must not be either, or it would
// be created at one revision and taken to the other for ever.
func planUpdate(s Spec, c Counts, missing int, step *Step) {
	change := exchange(diffs(s, c.Old.staying()-c.Old.Specified, c.New.staying()-c.New.Specified))
	step.Update, step.Back = abs(change), change < 0
	if step.Keep = s.Partition; step.Back {
		step.Keep = s.Replicas - s.Partition
	}
	step.UpdateUnavailable = max(s.MaxUnavailable+c.Total()-s.Replicas, 0)
	step.UpdateAtTarget = s.MaxUnavailable + max(c.Total()-s.Replicas, 0)
	if missing > 0 {
		step.UpdateAtTarget = max(step.UpdateAtTarget, 1)
	}
	switch {
	case step.Update == 0 && !s.OneRevision && s.Partition > 0 && c.Old.staying() > 0 && c.Old.staying() <= s.Partition:
		step.Limits = append(step.Limits, reason.Reason{
			Code: PartitionReached, Path: s.Paths.partition(),
			Detail: fmt.Sprintf("%d Pods are at the old revision, %d are kept there", c.Old.staying(), s.Partition),
			Remedy: "lower the partition to go on",
		})
	case step.Update > 0 && c.Unavailable() >= step.UpdateUnavailable:
		step.Limits = append(step.Limits, reason.Reason{
			Code: UpdateLimited, Path: s.Paths.maxUnavailable(),
			Detail: fmt.Sprintf("%d Pods are unavailable%s, %d may be", c.Unavailable(), c.leaving(), step.UpdateUnavailable),
			Remedy: "wait for Pods to become available, or raise the limit",
		})
	}
}

func abs(n int) int { return max(n, -n) }
