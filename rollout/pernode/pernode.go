// Package pernode answers "on which Nodes to create, delete and update Pods now, and why no more?" for Pods of which
// each Node has a single Pod, like the Pods of a DaemonSet.
//
// The number of wanted Pods follows from the Nodes. [Plan] needs the nodefit.Verdict for each Node, and the Node of
// each Pod. Plan counts the Nodes without an available Pod as unavailable. A terminating Pod occupies its Node,
// unless MaxSurge is set: then the new Pod is created first, and the old Pod is deleted when the new Pod is
// available.
//
// The guarantees of package rollout apply, counted in the Nodes that take part in the update. Plan never creates a
// third Pod on a Node or, if MaxSurge is 0, a second Pod.
package pernode

import (
	"time"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/internal/limits"
)

// Spec is the wanted state of Pods of which each Node has a single Pod, with percentages resolved to numbers. The zero
// value creates missing Pods, deletes Pods on Nodes that should have none, and updates no available Pod.
type Spec struct {
	// Partition is the number of Nodes whose Pods stay at the old revision.
	Partition int
	// MaxUnavailable is the number of Nodes taking part in the update that may lack an available Pod, including the Pod
	// that the update takes out of service. MaxUnavailable is ignored if MaxSurge is set.
	MaxUnavailable int
	// MaxSurge, unless 0, is the largest number of Nodes on which, at the same time, an update creates a second Pod
	// in addition to the old Pod. The old Pod is deleted when the new Pod is available.
	MaxSurge int

	// If Partition is not 0, Progressive creates Pods only on the Nodes that Partition allows to be at the new
	// revision, in ascending order of the Nodes' names. If a user then lowers Partition step by step, Pods are
	// created on one Node after the other.
	Progressive bool
	// Paused stops updates. Pods are still created, and Pods on Nodes that should have none are still deleted.
	Paused bool
	// OnDelete updates no Pod: somebody else must delete outdated Pods. Partition and Progressive then have no effect.
	OnDelete bool
	// LeaveUnfit excludes Nodes that should have no Pod from the update: their Pods are neither updated nor counted.
	// Their Pods at an older revision are deleted after the end of the update.
	LeaveUnfit bool

	// Paths are the field paths of the numbers in the workload's API.
	Paths rollout.Paths
}

// Node describes a single Node for Plan.
type Node struct {
	Name string
	// Run says that the Node should have a Pod. Continue says that an existing Pod may stay on the Node. Both come from
	// nodefit.Verdict. Run implies Continue.
	Run, Continue bool
	// Excluded Nodes keep the revision that their Pods have.
	Excluded bool
}

// Pod describes a single Pod for Plan.
type Pod struct {
	// Name orders Pods of the same age.
	Name string
	// Node is the Node to which the Pod is bound or pinned. Plan ignores a Pod without a Node.
	Node string
	// Scheduled Pods are bound to their Node. Of several Pods on a Node, Plan keeps the oldest: Scheduled Pods count as
	// older than unscheduled Pods, and otherwise Created decides.
	Scheduled bool
	Created   time.Time
	// Updated Pods are at the new revision.
	Updated bool
	// Health is required.
	Health rollout.Health
	// Ready Pods are ready, whatever their Health.
	Ready bool
	// Resting Pods have Ended and must not be deleted yet: without this wait, Pods that end quickly would be
	// recreated in a fast loop.
	Resting bool
	// NotSelected Pods do not match the workload's selector. Their Health is Terminating: only somebody else can free
	// the Node.
	NotSelected bool
	// Rest is how long the Pod's back-off still lasts, if the last change of the Pod was refused or its annotations
	// cannot be parsed. Pods in back-off are updated last, the Pod with the shortest back-off first.
	Rest time.Duration
	// PreDeleting Pods will be deleted and wait for their hook. They do not count as available, and their deletion is
	// never cancelled.
	PreDeleting bool
}

func (p *Pod) available() bool { return p.Health == rollout.Available && !p.PreDeleting }

// running reports whether the Pod neither terminates nor has ended.
func (p *Pod) running() bool { return p.Health == rollout.Available || p.Health == rollout.Unavailable }

// Step is the caller's next action. No Pod is in both Delete and Update.
type Step struct {
	// Create are the Nodes on which to create a Pod at the new revision, in this order.
	Create []string
	// Replace are the Nodes on which to replace an ended Pod, which Delete also lists. Create the new Pod before
	// deleting the old, so that the new Pod has its own name, and all processes that see the same Pods choose the same
	// name. If the creation is refused, delete the old Pod nevertheless. If MaxSurge is set, Replace is empty and Create
	// has these Nodes.
	Replace []string
	// Delete are the indexes of the Pods to delete: surplus Pods, ended Pods, Pods on Nodes that should have none, and
	// Pods whose deletion was decided before and still waits for the preDelete hook.
	Delete []int
	// Update are the indexes of the Pods to update to the new revision, in place or by deletion, in this order.
	Update []int
	// Totals are the numbers of Nodes for the workload's status.
	Totals Totals
	// Limits are the reasons why the step does not change more Pods.
	Limits reason.List
}

// Totals are numbers of Nodes. Current, Ready, Available and Updated count Nodes that should have a Pod, and use the
// state of the Node's oldest running Pod. If the Node has no running Pod, a terminating or ended Pod is used instead,
// and counts as ready if its Ready condition is True.
type Totals struct {
	// Desired is the number of Nodes that should have a Pod. Misscheduled is the number of Nodes that have a Pod but
	// should have none.
	Desired, Current, Ready, Available, Updated, Misscheduled int
}

// Plan returns the next step for Pods of which each Node has a single Pod. nodes are all Nodes of the cluster. pods
// are all Pods of the workload, including terminating and ended Pods. Both lists may be in any order.
//
// On a Node without a Pod, a Pod is created at the new revision, regardless of Partition. On a Node with a terminating
// Pod, a new Pod is created only after the terminating Pod is removed, unless MaxSurge is set. Of several Pods on a
// Node, the oldest is kept. Pods pinned to a Node that does not exist are deleted.
//
// An update takes the Nodes in descending order of their names. The Nodes not excluded by Partition are chosen first
// among the Nodes whose Pod is updated already, then among the Nodes whose Pod is being replaced, then among all
// remaining Nodes. On the chosen Nodes, unavailable Pods are updated at once. Available Pods are updated only while
// fewer than MaxUnavailable of the chosen Nodes lack an available Pod. On a Node that should have no Pod, no new Pod
// can be created in addition to the old Pod. If MaxSurge is set, such an old Pod is deleted: if available, only while
// more Nodes have an available Pod than should have a Pod.
//
// The error is a reason.List with an InvalidRollout for each negative number, for the first Node listed twice, and for
// the first Pod without Health. The step is then empty.
func Plan(spec Spec, nodes []Node, pods []Pod) (Step, error) {
	if err := spec.check(); err != nil {
		return Step{}, err
	}
	d, err := newDecision(&spec, nodes, pods)
	if err != nil {
		return Step{}, err
	}
	for i := range d.nodes {
		d.manage(&d.nodes[i])
	}
	d.explainHeld()
	d.forgetLost()
	d.limitProgress()
	d.replaceEnded()
	d.update()
	return Step{
		Create: d.create, Replace: d.anew, Delete: d.remove, Update: d.next, Totals: d.totals, Limits: d.Limits,
	}, nil
}

func (s *Spec) paths() limits.Paths { return limits.Paths(s.Paths).OrDefaults() }

func (s *Spec) check() error {
	var problems reason.List
	paths := s.paths()
	limits.Negative(&problems, rollout.InvalidRollout, paths.Partition, s.Partition)
	limits.Negative(&problems, rollout.InvalidRollout, paths.MaxUnavailable, s.MaxUnavailable)
	limits.Negative(&problems, rollout.InvalidRollout, paths.MaxSurge, s.MaxSurge)
	return problems.Err()
}
