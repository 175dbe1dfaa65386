package pernode

import (
	"cmp"
	"slices"

	"github.com/workloadkit/workloadkit/rollout"
)

// update decides which Nodes take part in the update, and which of these Nodes are updated now.
func (d *decision) update() {
	switch outdated := d.outdated(); {
	case d.OnDelete || outdated == 0:
	case d.Paused:
		d.Limitf(rollout.RolloutPaused, d.paths().Paused, "resume it", "%d Nodes have a Pod at an older revision",
			outdated)
	case d.MaxSurge > 0:
		part := d.takingPart()
		d.surge(part)
		d.leaveUnfit(part)
	default:
		part := d.takingPart()
		d.replace(part)
		if d.LeaveUnfit { // otherwise the update deletes the Pods on such Nodes, and creates no new Pods
			d.leaveUnfit(part)
		}
	}
}

// outdated returns the number of Nodes with a running Pod at an older revision.
func (d *decision) outdated() (n int) {
	for i := range d.nodes {
		if d.nodes[i].old != nil {
			n++
		}
	}
	return n
}

// takingPart returns the Nodes that take part in the update: the partition allows their Pods to be at the new
// revision.
func (d *decision) takingPart() []*entry {
	all := 0
	var updated, under, old []*entry
	for i := range slices.Backward(d.nodes) {
		n := &d.nodes[i]
		if !n.Run && (d.LeaveUnfit || len(n.pods) == 0) {
			continue
		}
		all++
		switch {
		case n.waits: // the partition excludes this Node, which has no Pod
		case n.newest != nil || n.ambiguous:
			updated = append(updated, n)
		case n.old == nil || n.old.PreDeleting || !n.Continue:
			under = append(under, n)
		case !n.Excluded:
			old = append(old, n)
		}
	}
	nodes := slices.Concat(updated, under, old)
	part := nodes[:min(max(all-d.Partition, 0), len(nodes))]
	if kept := len(old); kept > 0 && len(part) <= len(updated)+len(under) {
		d.Limitf(rollout.PartitionReached, d.paths().Partition, "lower the partition",
			"%d Nodes keep their revision, because of a partition of %d of %d Nodes",
			kept, d.Partition, all)
	}
	return part
}

// replace updates all unavailable Pods, and available Pods only while enough Nodes have an available Pod. replace
// counts the unavailable Nodes before choosing Nodes.
func (d *decision) replace(nodes []*entry) {
	unavailable := 0
	var broken, available []int
	for _, n := range nodes {
		switch {
		case n.isDue() && n.old.available():
			available = append(available, n.oldAt)
		case n.isDue():
			unavailable++
			broken = append(broken, n.oldAt)
		case !n.Continue && d.serves(n): // another part of the plan deletes the Pod
		case n.newest == nil || n.old != nil || n.ambiguous || !n.newest.available():
			unavailable++
		}
	}
	room := max(min(d.MaxUnavailable, len(nodes))-unavailable, 0)
	d.restingLast(broken)
	d.restingLast(available)
	waiting := max(len(available)-room, 0)
	d.next = slices.Concat(broken, available[:len(available)-waiting])
	if waiting > 0 && room == 0 {
		d.Limitf(rollout.UpdateLimited, d.paths().MaxUnavailable,
			"wait for Pods to become available, or raise the limit",
			"%d Nodes wait for their update; %d lack an available Pod, %d may", waiting, unavailable, d.MaxUnavailable)
	}
}

func (d *decision) serves(n *entry) bool {
	return slices.ContainsFunc(n.pods, func(i int) bool { return d.pods[i].available() })
}

// isDue reports whether the Node's only running Pod is at an older revision, and no deletion or update of the Pod has
// begun.
func (n *entry) isDue() bool {
	return n.newest == nil && n.old != nil && !n.ambiguous && !n.old.PreDeleting && n.Continue
}

// surge chooses the Nodes on which a new Pod is created in addition to the old Pod.
func (d *decision) surge(nodes []*entry) {
	surging := 0
	var broken, available []string
	for _, n := range nodes {
		switch {
		case n.ambiguous, n.newest != nil && n.old != nil, n.resting && n.old != nil:
			// the last new Pod has ended, and the next would probably end too
			surging++
		case n.newest != nil, n.old == nil, !n.Run: // no Pod is outdated, or no Pod may be created on the Node
		case !n.old.available():
			broken = append(broken, n.Name)
		default:
			available = append(available, n.Name)
		}
	}
	room := max(min(d.MaxSurge, len(nodes))-surging, 0)
	waiting := max(len(available)-room, 0)
	d.create = slices.Concat(d.create, broken, available[:len(available)-waiting])
	if waiting > 0 && room == 0 {
		d.Limitf(rollout.UpdateLimited, d.paths().MaxSurge, "wait for Pods to become available, or raise the limit",
			"%d Nodes wait for a new Pod; %d have one beside the old, %d may", waiting, surging, d.MaxSurge)
	}
}

// leaveUnfit deletes outdated Pods on Nodes where a Pod may stay but no new Pod may be created. Unavailable Pods are
// deleted at once. Available Pods are deleted only while more Nodes have an available Pod than should have a Pod: the
// old Pods stay until enough Pods are available on other Nodes. Kubernetes does the same (rollingUpdate in
// pkg/controller/daemon/update.go). If LeaveUnfit is set, Nodes outside the update are handled after the end of the
// update.
func (d *decision) leaveUnfit(part []*entry) {
	mayGo := true
	if d.LeaveUnfit {
		mayGo = !slices.ContainsFunc(d.nodes, func(n entry) bool { return n.Run && n.old != nil && !n.Excluded })
		part = d.downward()
	}
	var now, available []int
	for _, n := range part {
		switch {
		case !n.isLeft():
		case !mayGo || n.newest == nil && n.old.available():
			available = append(available, n.oldAt)
		case n.newest != nil && slices.Contains(d.remove, n.newestAt): // the new Pod is deleted, too
		case n.newest != nil:
			now = append(now, n.newestAt) // the Node does not accept the new Pod
		default:
			now = append(now, n.oldAt)
		}
	}
	room := 0
	if mayGo {
		room = min(max(d.toSpare(), 0), len(available))
	}
	d.remove = slices.Concat(d.remove, now, available[:room])
	if waiting := len(available) - room; waiting > 0 && room+len(d.create)+len(d.next) == 0 {
		d.Limitf(rollout.UnfitLimited, "", "wait for the update and for Pods to become available, or delete them",
			"%d Pods at an older revision are on Nodes that are to have none; "+
				"%d of %d other Nodes have an available Pod", waiting, d.totals.Available, d.totals.Desired)
	}
}

// downward returns all Nodes in descending order of their names.
func (d *decision) downward() (nodes []*entry) {
	for i := range slices.Backward(d.nodes) {
		nodes = append(nodes, &d.nodes[i])
	}
	return nodes
}

// isLeft reports whether the Node should have no Pod and no other part of the plan deletes its old Pod: the old Pod
// is the only Pod of the Node, or the Node also has a new Pod that must not run there.
func (n *entry) isLeft() bool {
	if n.Run || n.Excluded || !n.Continue || n.old == nil || n.old.PreDeleting || n.ambiguous {
		return false
	}
	return n.newest == nil || !n.newest.Scheduled && !n.newest.available() && n.old.Ready
}

// toSpare returns the number of Nodes that will keep an available Pod minus the number of Nodes that should have a Pod
// now.
func (d *decision) toSpare() (count int) {
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.Continue && d.serves(n) {
			count++
		}
		if n.Run && !n.waits {
			count--
		}
	}
	return count
}

// restingLast moves Pods in back-off to the end, because they would use up the budget of other Pods.
func (d *decision) restingLast(list []int) {
	slices.SortStableFunc(list, func(i, j int) int { return cmp.Compare(d.pods[i].Rest, d.pods[j].Rest) })
}
