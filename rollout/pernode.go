package rollout

import (
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// NodeTerminating means that the only Pods of a Node are terminating. The next one is not created before they are gone, unless Pods may surge.
const NodeTerminating reason.Code = "NodeTerminating"

// UnfitLimited means that old Pods stay on Nodes which are to have none, until enough other Nodes have an available Pod.
const UnfitLimited reason.Code = "UnfitLimited"

// NodeSpec is what is wanted of Pods of which each Node has one, in absolute numbers. The zero value creates missing Pods and deletes
// those that no Node is to have, and updates no available Pod.
type NodeSpec struct {
	// Partition is on how many Nodes Pods stay at the old revision.
	Partition int
	// MaxUnavailable is how many of the Nodes that take part in the update may lack an available Pod for one more to be taken out of
	// service. It has no meaning beside MaxSurge.
	MaxUnavailable int
	// MaxSurge, unless 0, updates Pods by a second one beside the old, which goes when the new one is available; on so many Nodes at
	// a time.
	MaxSurge int

	// Progressive creates Pods only on as many Nodes as are to be at the new revision, in ascending order of their names, where
	// Partition is not 0: lower it step by step, and Node after Node gets its Pod.
	Progressive bool
	// Paused stops updates. Pods are still created, and those deleted that no Node is to have.
	Paused bool
	// OnDelete leaves it to others to delete Pods that are to be updated. Partition and Progressive have no effect then.
	OnDelete bool
	// LeaveUnfit leaves Nodes that are to have no Pod out of the update: their Pods are neither updated nor counted, and those at an older
	// revision are deleted when it is over.
	LeaveUnfit bool

	// Paths are where the workload's API has these numbers.
	Paths Paths
}

// Node is what PerNode needs to know of one Node.
type Node struct {
	Name string
	// Run says that the Node is to have a Pod, Continue that one which is there already may stay, as nodefit.Verdict has them. Run without
	// Continue counts as both.
	Run, Continue bool
	// Excluded Nodes keep the revision that they have.
	Excluded bool
}

// NodePod is what PerNode needs to know of one Pod.
type NodePod struct {
	// Name tells Pods apart that are equally old.
	Name string
	// Node is the Node that the Pod is on, or is made for. Nothing is decided about a Pod without one.
	Node string
	// Scheduled Pods are bound to their Node. Of several Pods on a Node the oldest stays: one that is Scheduled comes before one that
	// is not, then Created counts.
	Scheduled bool
	Created   time.Time
	// Updated Pods are at the new revision.
	Updated bool
	// Health is required.
	Health Health
	// Ready Pods are ready, whatever their Health.
	Ready bool
	// Resting Pods have Ended and are not to be deleted yet, or they would be created and end again and again.
	Resting bool
	// NotSelected Pods are those that the workload's selector does not match. Their Health is Terminating: only others can end that they
	// hold their Node.
	NotSelected bool
	// Rest is positive for Pods whose last change was refused, or whose annotations cannot be read: for how much longer they rest. They are
	// updated last, the one whose rest ends first before the others.
	Rest time.Duration
	// PreDeleting Pods are to be deleted and wait for a hook. They do not count as available, and nothing takes them back.
	PreDeleting bool
}

func (p *NodePod) available() bool { return p.Health == Available && !p.PreDeleting }

// running reports whether the Pod stays unless somebody deletes it.
func (p *NodePod) running() bool { return p.Health == Available || p.Health == Unavailable }

// NodeStep is what to do now. No Pod is in two of Delete and Update.
type NodeStep struct {
	// Create a Pod at the new revision for each of these Nodes, in this order.
	Create []string
	// Replace the Pods of these Nodes, which have ended and are in Delete: create another one first, so that it has a name of its own and
	// whoever asks with the same view asks for the same name. Where it is refused, the old one is deleted all the same. There are none where
	// Pods surge: Create has them.
	Replace []string
	// Delete the Pods at these positions: those that their Node is not to have, are too many, have ended, or wait for their hook.
	Delete []int
	// Update the Pods at these positions to the new revision, in this order: in place, or by deleting them.
	Update []int
	// Totals count Nodes, as statuses report them.
	Totals NodeTotals
	// Limits says what limits the step.
	Limits reason.List
}

// NodeTotals are numbers of Nodes. All but the first and the last count Nodes that are to have a Pod, by the oldest one that they have and
// that runs; one that terminates or has ended counts where there is no other, also as ready if its readiness says so.
type NodeTotals struct {
	// Desired Nodes are to have a Pod, Misscheduled ones have one and are not to.
	Desired, Current, Ready, Available, Updated, Misscheduled int
}

// PerNode returns the next step for Pods of which each Node has one. nodes are all Nodes of the cluster, pods all Pods of the workload,
// also those that are terminating or have ended; both in any order.
//
// A Node without a Pod gets one at the new revision, whatever Partition says. One whose Pod is terminating waits until that is gone, unless
// Pods may surge. Of several Pods the oldest stays. Pods that wait for a Node which is not there any more are deleted.
//
// An update goes through Nodes in descending order of their names. Those that have an updated Pod use up what Partition leaves to update
// first, then those whose Pod is being replaced. Within what takes part, Pods that are not available are updated at once; available
// ones while fewer than MaxUnavailable Nodes lack an available Pod. Nodes that do not take part do not count. No new Pod can be made beside one
// of a Node that is to have none: where Pods surge, such an old Pod is deleted, an available one while more Nodes have one than are to.
//
// The error is a reason.List with an InvalidRollout for each number that is negative, for the first Node that is given twice, and for the
// first Pod without Health. The step is empty then.
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
