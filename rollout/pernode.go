package rollout

import (
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// NodeTerminating means that all Pods of a Node are terminating. The next Pod is created only after they are gone,
// unless Pods may surge.
const NodeTerminating reason.Code = "NodeTerminating"

// UnfitLimited means that old Pods stay on Nodes without a wanted Pod, until enough other Nodes have an available Pod.
const UnfitLimited reason.Code = "UnfitLimited"

// NodeSpec is the wanted state of Pods of which each Node has a single Pod, in absolute numbers. The zero value creates
// missing Pods, deletes Pods not wanted by any Node, and updates no available Pod.
type NodeSpec struct {
	// Partition is on how many Nodes Pods stay at the old revision.
	Partition int
	// MaxUnavailable is the number of Nodes in the update that may lack an available Pod, including the Pod taken out of
	// service. MaxUnavailable has no meaning beside MaxSurge.
	MaxUnavailable int
	// MaxSurge, unless 0, updates Pods by a second Pod beside the old Pod, on at most MaxSurge Nodes at a time. The old
	// Pod goes when the new Pod is available.
	MaxSurge int

	// Progressive creates Pods only on as many Nodes as are to be at the new revision, in ascending order of their names,
	// if Partition is not 0. Lower Partition step by step, and Node after Node gets its Pod.
	Progressive bool
	// Paused stops updates. Creation goes on, and so does the deletion of Pods not wanted by any Node.
	Paused bool
	// OnDelete leaves the deletion of outdated Pods to somebody else. Partition and Progressive then have no effect.
	OnDelete bool
	// LeaveUnfit leaves Nodes without a wanted Pod out of the update: their Pods are neither updated nor counted. Their
	// Pods at an older revision are deleted after the end of the update.
	LeaveUnfit bool

	// Paths are the paths of the numbers in the workload's API.
	Paths Paths
}

// Node describes a single Node for PerNode.
type Node struct {
	Name string
	// Run says that the Node is to have a Pod. Continue says that a present Pod may stay. Both come from nodefit.Verdict.
	// Run without Continue counts as both.
	Run, Continue bool
	// Excluded Nodes keep their present revision.
	Excluded bool
}

// NodePod describes a single Pod for PerNode.
type NodePod struct {
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
	Health Health
	// Ready Pods are ready, whatever their Health.
	Ready bool
	// Resting Pods have Ended and must not be deleted yet, because they would be created and end again and again.
	Resting bool
	// NotSelected Pods do not match the workload's selector. Their Health is Terminating: only somebody else can end their
	// hold on the Node.
	NotSelected bool
	// Rest is the remaining rest of a Pod whose last change was refused, or whose annotations cannot be read. Such Pods
	// are updated last, the Pod with the shortest rest first.
	Rest time.Duration
	// PreDeleting Pods are to be deleted and wait for a hook. They do not count as available, and nothing takes them back.
	PreDeleting bool
}

func (p *NodePod) available() bool { return p.Health == Available && !p.PreDeleting }

// running reports whether the Pod stays unless somebody deletes the Pod.
func (p *NodePod) running() bool { return p.Health == Available || p.Health == Unavailable }

// NodeStep says what to do now. No Pod is in both Delete and Update.
type NodeStep struct {
	// Create a Pod at the new revision for each of these Nodes, in order.
	Create []string
	// Replace the ended Pods of these Nodes, which are also in Delete. Create the new Pod first, so that the new Pod has
	// its own name and every caller with the same view asks for the same name. If the creation is refused, delete the old
	// Pod all the same. Replace is empty if Pods surge: Create has the Nodes then.
	Replace []string
	// Delete the Pods at these positions: surplus Pods, ended Pods, Pods not wanted by their Node, and Pods waiting for
	// their hook.
	Delete []int
	// Update the Pods at these positions to the new revision, in order: in place, or by deletion.
	Update []int
	// Totals count Nodes in the form of statuses.
	Totals NodeTotals
	// Limits are the reasons why the step is not larger.
	Limits reason.List
}

// NodeTotals are numbers of Nodes. Current, Ready, Available and Updated count Nodes with a wanted Pod, judged by the
// Node's oldest running Pod. A terminating or ended Pod counts only if the Node has no running Pod, and counts as ready
// if its readiness says so.
type NodeTotals struct {
	// Desired Nodes are to have a Pod. Misscheduled Nodes have an unwanted Pod.
	Desired, Current, Ready, Available, Updated, Misscheduled int
}

// PerNode returns the next step for Pods of which each Node has a single Pod. nodes are all Nodes of the cluster. pods
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
func PerNode(spec NodeSpec, nodes []Node, pods []NodePod) (NodeStep, error) {
	if err := spec.check(); err != nil {
		return NodeStep{}, err
	}
	d, err := newNodeDecision(&spec, nodes, pods)
	if err != nil {
		return NodeStep{}, err
	}
	for i := range d.nodes {
		d.manage(&d.nodes[i])
	}
	d.explainHeld()
	d.forgetLost()
	d.limitProgress()
	d.replaceEnded()
	d.update()
	return NodeStep{Create: d.create, Replace: d.anew, Delete: d.remove, Update: d.next, Totals: d.totals, Limits: d.limits}, nil
}

func (s *NodeSpec) check() error {
	var problems reason.List
	negative(&problems, s.Paths.partition(), s.Partition)
	negative(&problems, s.Paths.maxUnavailable(), s.MaxUnavailable)
	negative(&problems, s.Paths.maxSurge(), s.MaxSurge)
	return problems.Err()
}
