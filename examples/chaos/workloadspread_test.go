package chaos_test

// workloadSpreadMutants are mistakes for the schedules of WorkloadSpreads to find.
func workloadSpreadMutants() []mutant {
	const folder = "examples/kinds/workloadspread/"
	found := schedules{tests: "./kinds/workloadspread"}
	return []mutant{
		{"a place is not stored", folder + "webhook.go", "before.VersionedSubsetStatuses, then = books, sharedstatus.Store", "before.VersionedSubsetStatuses, then = books, sharedstatus.Answer", found},
		{
			"Pods have no place after a status was removed", folder + "decide_count.go", "_, isMarked := markOf(pod, object.Name)\n\t\treturn !isMarked", "_, isMarked := markOf(pod, object.Name)\n\t\treturn isMarked",
			schedules{tests: "./kinds/workloadspread", only: "TestBooksOf"},
		},
		{"a place counts from the begin of a slow write", folder + "webhook.go", "n.now = w.clock.Now() //", "if n.now.IsZero() {\n\t\t\t\tn.now = w.clock.Now()\n\t\t\t} //", schedules{tests: "./kinds/workloadspread", only: "TestSlowWrite"}},
		{"a spec counts as read after an edit", folder + "finder.go", "if ok && r.generation == spread.Generation {", "if ok {", schedules{tests: "./kinds/workloadspread", only: "TestReadOnce"}},
		{"long marks are read", folder + "decide_inject.go", "len(text) > longestMark", "len(text) > 100*longestMark", schedules{tests: "./kinds/workloadspread", only: "TestLongMarks"}},
		{"long patches are tried", folder + "resolve.go", "patch == nil || !read.Patch(path, patch.Raw)", "patch == nil", schedules{tests: "./kinds/workloadspread", only: "TestLongPatches"}},
		{"a count forgets the places taken meanwhile", folder + "controller.go", "now.Status = before\n", "now.Status = v.Owner.Status\n", found},
	}
}
