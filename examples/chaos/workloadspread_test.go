package chaos_test

// workloadSpreadMutants are mistakes for the schedules of WorkloadSpreads to find.
func workloadSpreadMutants() []mutant {
	const folder = "examples/kinds/workloadspread/"
	found := schedules{tests: "./kinds/workloadspread"}
	return []mutant{
		{"a place is not stored", folder + "webhook.go", "before.VersionedSubsetStatuses, then = books, sharedstatus.Store", "before.VersionedSubsetStatuses, then = books, sharedstatus.Answer", found},
		{"a count forgets the places taken meanwhile", folder + "controller.go", "now.Status = before\n", "now.Status = v.Owner.Status\n", found},
	}
}
