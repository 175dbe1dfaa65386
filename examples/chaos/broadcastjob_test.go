package chaos_test

// broadcastJobMutants returns the mistakes that the fault schedules of BroadcastJobs must find.
func broadcastJobMutants() []mutant {
	const next = "completion/completion.go"
	const folder = "examples/kinds/broadcastjob/"
	const act, controller, decide, status, nodes = "completion/noderun/noderun.go", folder + "controller.go", "examples/kinds/broadcastjob/decide.go", "examples/kinds/broadcastjob/status.go", "completion/nodes.go"
	found := schedules{tests: "./kinds/broadcastjob"}
	return []mutant{
		{"more run at once than may", next, "switch room := r.Parallelism - max(p.Active, 0); {", "switch room := r.Parallelism; {", found},
		{"a failure does not fail the job", next, "case p.Failed > 0 && r.OnFailure == End:", "case p.Failed > 1 && r.OnFailure == End:", found},
		{"a job that failures hold goes on by itself", next, "(p.Held || p.Failed > p.Known):", "p.Failed > p.Known:", found},
		{"what is known pauses a job again", next, "(p.Held || p.Failed > p.Known):", "(p.Held || p.Failed > 0):", found},
		{"a job that failures hold is held for good", status, "&& c.ObservedGeneration == job.Generation\n", "\n", found},
		{"a job is complete that has no end", next, "case !r.Endless && p.Wanted > 0 && p.Done >= p.Wanted:", "case p.Wanted > 0 && p.Done >= p.Wanted:", found},
		{"a job is complete that has nothing to do", next, "case !r.Endless && p.Wanted > 0 && p.Done >= p.Wanted:", "case !r.Endless && p.Done >= p.Wanted:", found},
		{"a paused job ends", next, "case r.Paused:", "case r.Paused && p.Failed == 0:", found},
		{"the deadline of a job begins while it is paused", status, "if status.StartTime == nil && step.State != completion.Paused {", "if status.StartTime == nil {", schedules{tests: "./kinds/broadcastjob", only: "TestStart"}},
		{"a job that ends is not looked at again", next, "State: Complete, After: afterEnd}", "State: Complete}", schedules{tests: "../completion", only: "TestNext"}},
		{"a Pod that is pinned to no Node is nowhere", nodes, "\t\t\ts.unpinned++\n", "\t\t\ts.unpinned += 0\n", schedules{tests: "../completion", only: "TestOnNodes"}},
		{"a job is deleted too early", next, "\tif step.After <= 0 {\n\t\tstep.After, step.Remove", "\tif step.After <= 5*time.Second {\n\t\tstep.After, step.Remove", found},
		{"no clock is set", controller, "pass.Wake(d.Step.After)", "pass.Wake(0)", found},
		{"Pods are ended before the end is written down", controller, "\t\tif err := r.write(ctx, v, d.Status); err != nil {\n\t\t\treturn pass.Result(err)\n\t\t}\n", "", found},
		{"Pods run on when their job is over", nodes, "work.Delete = slices.Clone(s.Running)", "work.Delete = slices.Clone(s.Running[:0])", found},
		{"Pods stay where they do not fit", nodes, "len(s.Missing))], s.Misplaced\n", "len(s.Missing))], s.Misplaced[:0]\n", found},
		{"Pods go when their Node is not ready for a moment", nodes, "case !claim.Fits && (!claim.Keeps || pod.Spec.NodeName == \"\"):", "case !claim.Fits:", found},
		{"a percentage forgets Pods on Nodes that are not ready", nodes, "(claim.Fits || at.kept > 0 || at.ended > 0)", "(claim.Fits || at.ended > 0)", schedules{tests: "../completion", only: "TestOnNodes"}},
		{"Pods that have ended are deleted", nodes, "\tif podstate.HasEnded(pod) {\n\t\treturn\n\t}\n", "\tif podstate.HasEnded(pod) && err != nil {\n\t\treturn\n\t}\n", found},
		{"a Pod is deleted whatever has become of it", act, "client.Preconditions{UID: &one.UID, ResourceVersion: &one.ResourceVersion}", "client.Preconditions{UID: &one.UID}", found},
		{"a Pod that was not deleted for a conflict is forgotten", act, "\t\t\tr.pass.Wake(again)\n", "", found},
		{"a crash loop is not counted", nodes, "case Broken, Looping:", "case Broken:", found},
		{"a Pod that somebody deletes has failed", nodes, "case pod.DeletionTimestamp != nil || isCollected(pod):", "case pod.DeletionTimestamp != nil && !podstate.HasEnded(pod) || isCollected(pod):", found},
		{"a Node gets a Pod beside one that terminates", nodes, "case at == nil && claim.Fits:", "case (at == nil || at.active+at.ended == 0) && claim.Fits:", found},
		{"Pods that were active when the job ended are not counted any more", status, "status.Failed+gone-well, int32(s.Active)", "status.Failed, int32(s.Active)", found},
		{"a job goes before its Pods are counted", decide, "d.Step.Remove && unsettled {", "d.Step.Remove && unsettled && d.Step.Start > 0 {", found},
		{"somebody's Pod of the name keeps a Node without one", act, "return taken && !metav1.IsControlledBy(other, owner)", "return false && taken && !metav1.IsControlledBy(other, owner)", found},
	}
}
