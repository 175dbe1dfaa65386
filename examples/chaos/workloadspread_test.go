package chaos_test

// workloadSpreadMutants returns the mistakes that the fault schedules of WorkloadSpreads must find.
func workloadSpreadMutants() []mutant {
	const folder = "examples/kinds/workloadspread/"
	found := schedules{tests: "./kinds/workloadspread"}
	return []mutant{
		{"a place is not stored", folder + "webhook.go", "before.VersionedSubsetStatuses, then = books, sharedstatus.Store", "before.VersionedSubsetStatuses, then = books, sharedstatus.Answer", found},
		{
			"Pods have no place after a status was removed", folder + "decide_count.go", "seen.pods = &crowd{marked: seen.pods.marked, members: seen.pods.members}", "seen.pods = &crowd{others: seen.pods.others}",
			schedules{tests: "./kinds/workloadspread", only: "TestBooksOf"},
		},
		{"a place counts from the begin of a slow write", folder + "webhook.go", "n.now = w.clock.Now() //", "if n.now.IsZero() {\n\t\t\t\tn.now = w.clock.Now()\n\t\t\t} //", schedules{tests: "./kinds/workloadspread", only: "TestSlowWrite"}},
		{"a spec counts as read after an edit", folder + "finder.go", "if ok && r.generation == spread.Generation {", "if ok {", schedules{tests: "./kinds/workloadspread", only: "TestReadOnce"}},
		{"long marks are read", folder + "decide_inject.go", "len(text) > longestMark", "len(text) > 100*longestMark", schedules{tests: "./kinds/workloadspread", only: "TestLongMarks"}},
		{"long patches are tried", folder + "resolve.go", "patch == nil || !read.Patch(path, patch.Raw)", "patch == nil", schedules{tests: "./kinds/workloadspread", only: "TestLongPatches"}},
		{
			"a place is given away though its Pod is stored", folder + "awaited.go", "case there[place.key]:", `case there["-"]:`,
			schedules{tests: "./kinds/workloadspread", only: "TestAwait"},
		},
		{"an eviction gives back a place", folder + "webhook.go", "review.Operation == disruption.Delete &&", "(review.Operation == disruption.Delete || review.Operation == disruption.Evict) &&", schedules{tests: "./kinds/workloadspread", only: "TestGivesBack"}},
		{"a Pod that has ended is awaited", folder + "decide_count.go", "bookOf(list).Drop(places, c.seen.pods.hasEnded)", "bookOf(list).Drop(places, func(string, time.Time) bool { return false })", schedules{tests: "./kinds/workloadspread", only: "TestCountStatus"}},
		{
			"further webhooks take no time", folder + "decide_flight.go", "passing: passes + inTurn, landing", "passing: passes + min(inTurn, 0), landing",
			schedules{tests: "./kinds/workloadspread", only: "TestFlightOf"},
		},
		{"a place of any age holds its Pod", folder + "decide_flight.go", "now.Sub(since.Time) < passing+time.Second {", "now.Sub(since.Time) < 9*passing {", schedules{tests: "./kinds/workloadspread", only: "TestIsHeld"}},
		{
			"a retry keeps the time of its place", "subsets/book.go", "age < min(RenewedAfter, p.CreatingFor/2)", "age < p.CreatingFor/2",
			schedules{tests: "../subsets", only: "TestTake"},
		},
		{"places kept for requests count as Pods", "subsets/book.go", "pods >= place.Max || pods+kept < place.Max {", "pods >= 0 || pods+kept < place.Max {", schedules{tests: "../subsets", only: "TestTakeChangesTheBook"}},
		{"Pods that come are missing in the status of all versions", folder + "decide_count.go", "awaiting(total, tally.Book)", "awaiting(nil, tally.Book[:0])", schedules{tests: "./kinds/workloadspread", only: "TestCountStatus"}},
		{"a refused Pod comes under another name", "examples/kinds/cloneset/decide.go", "again := slices.Clone(o.refused)", "again := slices.Clone(o.refused[:0])", schedules{tests: "./kinds/cloneset", only: "TestNewNames"}},
		{"a Pod whose request may be under way counts as refused", "podcontrol/executor/pods.go", "case podwrite.IsLasting(err):", "case !podwrite.IsLasting(nil):", schedules{tests: "../podcontrol/executor", only: "TestCreatePods"}},
		{"a place taken ahead is used for ever", folder + "decide_ahead.go", "return age > -subsets.RenewedAfter && age < subsets.RenewedAfter", "return age > -subsets.RenewedAfter", schedules{tests: "./kinds/workloadspread", only: "TestSpares"}},
		{"nobody fills up again", folder + "spares.go", "s.filling, s.coming = false, nil", "s.coming = nil", schedules{tests: "./kinds/workloadspread", only: "TestSpares"}},
		{"the last Pods of a rush find no stored place", folder + "decide_ahead.go", "book.Line(p.Name).Taken() <= p.Max {", "book.Line(p.Name).Taken() < p.Max {", schedules{tests: "./kinds/workloadspread", only: "TestLastSpares"}},
		{"an old count is stored", folder + "controller.go", "r.clock.Since(seen.now) > longestCount {", "r.clock.Since(seen.now) > 1000*longestCount {", schedules{tests: "./kinds/workloadspread", only: "TestSlowCount"}},
		{"the places on the way are nobody's", folder + "webhook.go", "claimed.key != \"\" {", "claimed.key == \"-\" {", schedules{tests: "./kinds/workloadspread", only: "TestSparesOnTheWay"}},
		{"two Pods get a place on the way", folder + "spares.go", "if slices.Contains(s.coming, one.key) {", "if slices.Contains(s.coming, one.key) || one.key != \"\" {", schedules{tests: "./kinds/workloadspread", only: "TestSparesOnTheWay"}},
		{"unused places are kept", folder + "spares.go", "unused[p][one.key] = true", "unused[p][\"\"] = true", schedules{tests: "./kinds/workloadspread", only: "TestSpares"}},
		{"all room is taken ahead", folder + "decide_ahead.go", "most = (free(book, places, choice.Subset) + had) / 2", "most = free(book, places, choice.Subset) + had", schedules{tests: "./kinds/workloadspread", only: "TestTakeAhead"}},
		{"a place is taken ahead for two Pods", folder + "spares.go", "s.spares = slices.Delete(s.spares, i, i+1)\n\t\t\tbreak", "_ = i\n\t\t\tbreak", found},
		{"an older WorkloadSpread's Pods are taken", folder + "controller.go", "pods, seen.overlap = r.withoutOlder(v.Owner, s, pods)", "_, seen.overlap = r.withoutOlder(v.Owner, s, pods)", found},
		{"places kept for Pods that come have room for others", folder + "decide_count.go", "if len(of.others) > 0 {", "if len(of.others) > 1000 {", found},
		{"a taken place wakes nobody", folder + "watch.go", "if ok && same && !equality.Semantic.DeepEqual(before.Status, after.Status) {", "if ok && same && !equality.Semantic.DeepEqual(before.Status, before.Status) {", found},
		{"the place of a gone Pod is freed", folder + "webhook.go", "now.UID == pod.UID && now.DeletionTimestamp == nil, nil", "pod.UID == pod.UID, nil", schedules{tests: "./kinds/workloadspread", only: "TestLateRelease"}},
		{"a count is no obstacle to a late release", "subsets/book.go", "if line.Replicas != before.Replicas ||", "if line.Replicas < 0 ||", schedules{tests: "./kinds/workloadspread", only: "TestLateRelease"}},
		{"a count forgets the places taken meanwhile", folder + "controller.go", "now.Status = before\n", "now.Status = v.Owner.Status\n", found},
	}
}
