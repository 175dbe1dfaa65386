// Package pernode answers "on which Nodes to create, delete and update Pods now, and why no more?" for Pods of which
// each Node has a single Pod, like the Pods of a DaemonSet.
//
// The number of wanted Pods follows from the Nodes. [Plan] needs package nodefit's verdict for each Node, and the Node
// of each Pod. Unavailability is a count of Nodes without an available Pod. A terminating Pod holds its Node, unless
// Pods may surge: then the new Pod comes first, and the old Pod goes when the new Pod is available.
//
// The promises of package rollout hold, counted in Nodes of the update. Plan never creates a third Pod on a Node, or a
// second Pod without surge.
package pernode

import (
	"time"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/internal/limits"
)

// Spec is the wanted state of Pods of which each Node has a single Pod, in absolute numbers. The zero value creates
// missing Pods, deletes Pods not wanted by any Node, and updates no available Pod.
type Spec struct {
	// Partition is on how many Nodes Pods stay at the old revision.
	Partition int
	// MaxUnavailable is the number of Nodes in the update that may lack an available Pod, including the Pod taken out
	// of service. MaxUnavailable has no meaning beside MaxSurge.
	MaxUnavailable int
	// MaxSurge, unless 0, updates Pods by a second Pod beside the old Pod, on at most MaxSurge Nodes at a time. The old
	// Pod goes when the new Pod is available.
	MaxSurge int

	// Progressive creates Pods only on as many Nodes as are to be at the new revision, in ascending order of their
	// names, if Partition is not 0. Lower Partition step by step, and Node after Node gets its Pod.
	Progressive bool
	// Paused stops updates. Creation goes on, and so does the deletion of Pods not wanted by any Node.
	Paused bool
	// OnDelete leaves the deletion of outdated Pods to somebody else. Partition and Progressive then have no effect.
	OnDelete bool
	// LeaveUnfit leaves Nodes without a wanted Pod out of the update: their Pods are neither updated nor counted. Their
	// Pods at an older revision are deleted after the end of the update.
	LeaveUnfit bool

	// Paths are the paths of the numbers in the workload's API.
	Paths rollout.Paths
}

// Node describes a single Node for Plan.
type Node struct {
	Name string
	// Run says that the Node is to have a Pod. Continue says that a present Pod may stay. Both come from
	// nodefit.Verdict. Run without Continue counts as both.
	Run, Continue bool
	// Excluded Nodes keep their present revision.
	Excluded bool
}

// Pod describes a single Pod for Plan.
type Pod struct {
	// Name tells Pods of the same age apart.
	Name string
	// Node is the Pod's Node, bound or intended. A Pod without Node takes part in no decision.
	Node string
	// Scheduled Pods are bound to their Node. Of several Pods on a Node the oldest stays: Scheduled Pods come before
	// unscheduled Pods, then Created counts.
	Scheduled bool
	Created   time.Time
	// Updated Pods are at the new revision.
	Updated bool
	// Health is required.
	Health rollout.Health
	// Ready Pods are ready, whatever their Health.
	Ready bool
	// Resting Pods have Ended and must not be deleted yet, because they would be created and end again and again.
	Resting bool
	// NotSelected Pods do not match the workload's selector. Their Health is Terminating: only somebody else can end
	// their hold on the Node.
	NotSelected bool
	// Rest is the remaining rest of a Pod whose last change was refused, or whose annotations cannot be read. Such Pods
	// are updated last, the Pod with the shortest rest first.
	Rest time.Duration
	// PreDeleting Pods are to be deleted and wait for a hook. They do not count as available, and nothing takes them
	// back.
	PreDeleting bool
}

func (p *Pod) available() bool { return p.Health == rollout.Available && !p.PreDeleting }

// running reports whether the Pod stays unless somebody deletes the Pod.
func (p *Pod) running() bool { return p.Health == rollout.Available || p.Health == rollout.Unavailable }

// Step says what to do now. No Pod is in both Delete and Update.
type Step struct {
	// Create a Pod at the new revision for each of these Nodes, in order.
	Create []string
	// Replace the ended Pods of these Nodes, which are also in Delete. Create the new Pod first, so that the new Pod
	// has its own name and every caller with the same view asks for the same name. If the creation is refused, delete
	// the old Pod all the same. Replace is empty if Pods surge: Create has the Nodes then.
	Replace []string
	// Delete the Pods at these positions: surplus Pods, ended Pods, Pods not wanted by their Node, and Pods waiting for
	// their hook.
	Delete []int
	// Update the Pods at these positions to the new revision, in order: in place, or by deletion.
	Update []int
	// Totals count Nodes in the form of statuses.
	Totals Totals
	// Limits are the reasons why the step is not larger.
	Limits reason.List
}

// Totals are numbers of Nodes. Current, Ready, Available and Updated count Nodes with a wanted Pod, judged by the
// Node's oldest running Pod. A terminating or ended Pod counts only if the Node has no running Pod, and counts as ready
// if its readiness says so.
type Totals struct {
	// Desired Nodes are to have a Pod. Misscheduled Nodes have an unwanted Pod.
	Desired, Current, Ready, Available, Updated, Misscheduled int
}

// Plan returns the next step for Pods of which each Node has a single Pod. nodes are all Nodes of the cluster. pods
// are all Pods of the workload, including terminating and ended Pods. Both lists may be in any order.
//
// A Node without a Pod gets a Pod at the new revision, regardless of Partition. A Node with a terminating Pod waits
// until the Pod is gone, unless Pods may surge. Of several Pods the oldest stays. Pods that wait for a missing Node are
// deleted.
//
// An update goes through Nodes in descending order of their names. The Nodes left by Partition are taken first from the
// Nodes with an updated Pod, then from the Nodes with a Pod in replacement, then from the rest. Within the update,
// unavailable Pods are updated at once, and available Pods while fewer than MaxUnavailable Nodes lack an available Pod.
// Nodes outside the update do not count. No new Pod can be made beside the Pod of a Node without a wanted Pod. If Pods
// surge, such an old Pod is deleted: an available Pod only while more Nodes have an available Pod than are to have a
// Pod.
//
// The error is a reason.List with an InvalidRollout for each negative number, for the first Node given twice, and for
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
