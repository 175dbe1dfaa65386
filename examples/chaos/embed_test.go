package chaos_test

// embedMutants returns the mistakes that the fault schedules of the operators shards and nodejobs must find. Some of
// the mistakes are in the packages of the toolkit that these operators use.
func embedMutants() []mutant {
	shards, jobs := schedules{tests: "./embed/shards"}, schedules{tests: "./embed/nodejobs"}
	unit := func(tests, only string) schedules { return schedules{tests: tests, only: only} }
	const shared = "\tchanged, err := v.patchStatus(ctx, status, map[string]any{\"op\": \"replace\", \"path\": \"/metadata/resourceVersion\", \"value\": version})\n"
	return []mutant{
		{"a Sidecar takes a Pod more than may be", "examples/embed/sidecars/sidecars.go", "MaxUnavailable: max(v.Owner.Spec.MaxUnavailable, 1),", "MaxUnavailable: max(v.Owner.Spec.MaxUnavailable, 1) + 1,", schedules{tests: "./embed/sidecars"}},
		{"an operator takes Pods without a share of the budget", "examples/embed/shards/setup.go", ", Permit: r.permit,", ",", shards},
		{"a status is written over what webhooks have spent", "ownercache/status.go", shared, "\t_ = version\n\tchanged, err := v.patchStatus(ctx, status)\n", shards},
		{"what webhooks spend wakes nobody", "ownercache/watch_status.go", "(changed == nil || changed(old, owner)) {", "(changed == nil || changed(old, owner)) && old.GetUID() == \"\" {", shards},
		{"the share of a Pod is its successor's", "disruption/ledger.go", "return was.UID != m.UID && m.Created.After(was.Created.Time)", "return was.UID != m.UID && m.Created.After(since.Time)", unit("../disruption", "TestCount")},
		{"a view from before a Pod ends its share", "disruption/ledger.go", "return was.UID != m.UID && m.Created.After(was.Created.Time)", "return was.UID != m.UID", unit("../disruption", "FuzzLedger")},
		{"a claim grows without a look at its class", "pvc/claimwriter/claimwriter.go", "return reason.Final(pvc.MayGrow(path, name, class.object))", "return reason.Final(pvc.MayGrow(path, \"\", class.object))", unit("../pvc/claimwriter", "TestClassesAreReadOnce")},
		{"Pods are ended before the end of their job is written down", "examples/embed/nodejobs/nodejobs.go", "if work.Ends {", "if work.Ends && len(work.Create) > 0 {", jobs},
		{"a job is looked at when something happens, and at no other time", "examples/embed/nodejobs/nodejobs.go", "pass.Wake(step.After)", "pass.Wake(0)", jobs},
		{"new Pods are not held for their first deletion", "lifecycle/machine.go", "[]*Hook{m.hooks.PreDelete, m.hooks.InPlaceUpdate}", "[]*Hook{m.hooks.InPlaceUpdate}", unit("../lifecycle", "TestStampHooks")},
		{"a Pod goes for an update that was taken back", "podcontrol/set.go", "p.Marked = p.Marked && (!p.Recreated || !p.Updated)", "p.Marked = p.Marked && !(p.Recreated && p.Named)", unit("../podcontrol", "TestMarkOfAnUpdate")},
		{"a Pod is given to its hook without a word to the budget", "podcontrol/executor/permit.go", "step.Act == podcontrol.Patch && x.control.StateOf(pod) != lifecycle.PreparingDelete", "step.Act == podcontrol.Patch && x.control.StateOf(pod) == \"\"", unit("../podcontrol/executor", "TestPermit")},
		{"a change by somebody else is over at once", "disruption/ledger.go", "known && was.Gated && m.Settled", "known && m.Settled", unit("../disruption", "FuzzLedger")},
		{"nobody deletes a Pod whose deletion was taken back too late", "podcontrol/step.go", "if t.Act == lifecycle.DeletePod { // no other step would delete the Pod", "if t.Act == lifecycle.DeletePod && pod == nil { // no other step would delete the Pod", unit("../podcontrol", "TestTakenBack")},
		{"the mark of a former update stays", "podcontrol/step.go", "step.Changes = append(step.Changes, c.unmark(pod))", "step.Changes = append(step.Changes, c.missingHash(pod))", unit("../podcontrol", "TestTakenBack")},
		{"a Pod that somebody drains counts as serving", "podcontrol/executor/members.go", "&& facts.State != lifecycle.PreparingDelete", "&& facts.State != lifecycle.Updated", unit("../podcontrol/executor", "TestMembers")},
		{"a failed question is a wait", "podcontrol/executor/permit.go", "if isFailure(err) {", "if isFailure(nil) {", unit("../podcontrol/executor", "TestPermitFails")},
		{"slow writes of a share never end", "ownercache/sharedstatus/attempt.go", "\t\tr.tries += weight\n", "", unit("../disruption/guard", "TestWritesThatAreAlwaysSlow")},
	}
}
