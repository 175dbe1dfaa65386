package chaos_test

// daemonSetMutants returns the mistakes that the fault schedules of DaemonSets must find.
func daemonSetMutants() []mutant {
	const controller, nodes, update = "examples/kinds/daemonset/", "rollout/pernode/nodes.go", "rollout/pernode/update.go"
	found := schedules{tests: "./kinds/daemonset"}
	return []mutant{
		{"the state of an update names another revision than the Pod", "examples/kinds/daemonset/decide.go", "isAtTwin(p.Pod, o.twins) && !p.Updating })", "isAtTwin(p.Pod, o.twins) })", schedules{tests: "./kinds/daemonset", only: "TestDecide"}},
		{"a surplus Pod is named twice", update, "slices.Contains(d.remove, n.newestAt): //", "n.newestAt < 0: //", schedules{tests: "../rollout/pernode", only: "TestNamesAPodOnce"}},
		{"a Pod is created for a Node that does not fit", controller + "decide.go", "Run: c.Run, Continue: c.Continue,", "Run: c.Continue, Continue: c.Continue,", found},
		{"two new Pods are created for one Node", nodes, "case n.running == 0:", "case n.running < 2:", found},
		{"a Pod that is terminating does not hold its Node", nodes, "if n.Run && len(n.pods) == 0 {", "if n.Run && n.running == 0 {", found},
		{"one Node more than may lacks an available Pod", update, "min(d.MaxUnavailable, len(nodes))-unavailable", "min(d.MaxUnavailable, len(nodes))+1-unavailable", found},
		{"Nodes whose Pod is terminating are not counted", update, "case n.newest == nil || n.old != nil ||", "case n.running == 0:\n\t\tcase n.old != nil ||", found},
		{"the partition is ignored", update, "part := nodes[:min(max(all-d.Partition, 0), len(nodes))]", "part := nodes", found},
		{"the selector of Nodes is ignored", update, "case !n.Excluded:", "default:", found},
		{"a Node that is replaced beside its old Pod loses that too early", nodes, "(!n.old.Ready || n.newest.available())", "(!n.old.Ready || n.newest.Ready)", found},
		{"more Nodes than may have two Pods", update, "min(d.MaxSurge, len(nodes))-surging", "min(d.MaxSurge, len(nodes))", found},
		{"Nodes that have a Pod do not count where creation follows the partition", nodes, "d.totals.Desired-d.Partition-updated", "d.totals.Desired-d.Partition", found},
		{"the burst is ignored", "fanout/backoff.go", "return min(max(*t.Most, 0), PerPass)", "return PerPass", found},
		{
			"a Node loses its place while its new Pod terminates", nodes,
			"d.MaxSurge == 0 && d.willBeUpdated(n)", "d.MaxSurge < 0 && d.willBeUpdated(n)", found,
		},
		{"hooks are ignored", controller + "resolve.go", "hooks = &pub.Lifecycle{PreDelete: set.Spec.Lifecycle.PreDelete}", "hooks = &pub.Lifecycle{}", found},
		{"Pods that end again and again are replaced at once", "podcontrol/executor/ended.go", "if podstate.IsActive(pod) || t.isLeaving(pod) ||", "if !podstate.IsActive(pod) || t.isLeaving(pod) ||", found},
		{"Pods are adopted that are not selected", controller + "decide.go", "t.adopt = split.Adopt", "t.adopt = append(split.Adopt, o.orphans...)", found},
		{"nobody looks at an orphan that comes later", "ownercache/watch_orphans.go", "(selects == nil || selects(owner, pod)) {", "(selects == nil || selects(owner, pod)) && len(pod.Labels) == 0 {", found},
		{"Pods at a revision that is there twice are recreated", controller + "decide.go", "case isAtTwin(pod, o.twins):", "case false:", found},
		{"a revision that is there twice goes before its Pods have the other", controller + "controller.go", "if len(d.relabel) > 0 || d.keepTwins {", "if len(d.relabel) > 1000 || d.keepTwins {", found},
		{"a Pod that waits for its hook takes another of its Node along", nodes, "*stays == nil || (*stays).PreDeleting && !p.PreDeleting {", "*stays == nil {", found},
		{"a pause holds nothing up", update, "case d.Paused:", "case d.Paused && outdated < 0:", found},
		{"Pods are updated that only users are to delete", update, "case d.OnDelete || outdated == 0:", "case outdated == 0:", found},
		{"Pods of lost Nodes are deleted, which may still run", nodes, "if p := &d.pods[i]; !p.Scheduled &&", "if p := &d.pods[i];", found},
		{"old Pods stay on Nodes that they no longer fit", update, "\t\td.leaveUnfit(part)\n\tdefault:", "\tdefault:", found},
		{"old Pods stay on Nodes that the update leaves out", update, "if d.LeaveUnfit { // otherwise", "if false { // otherwise", found},
		{"an old Pod that serves leaves its Node before another serves elsewhere", update, "min(max(d.toSpare(), 0), len(available))", "len(available)", found},
		{"a Pod that has ended is replaced beside another one", nodes, "n.resting || len(n.pods) != 1 {", "n.resting || len(n.pods) < 1 {", found},
		{"a Pod that has ended is replaced against the partition", nodes, "held := d.Progressive && d.Partition > 0 &&", "held := d.Progressive && d.Partition < 0 &&", found},
		{"nobody looks at a Node that has changed", "ownercache/watch_nodes.go", "if was != is {", "if was != is && old == nil {", found},
	}
}
