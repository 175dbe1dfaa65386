package chaos_test

// ephemeralJobMutants returns the mistakes that the fault schedules of EphemeralJobs must find.
func ephemeralJobMutants() []mutant {
	const folder = "examples/kinds/ephemeraljob/"
	const act, controller, decide, status = folder + "act.go", folder + "controller.go", folder + "decide.go", folder + "status.go"
	found := schedules{tests: "./kinds/ephemeraljob"}
	return []mutant{
		{"containers that wait do not count", decide, "if !is.HasEnded() {\n\t\t\ts.busy++", "if is == podstate.Running {\n\t\t\ts.busy++", found},
		{"more Pods get containers than are wanted", decide, "s.open = s.open[:min(len(s.open), max(s.wanted-len(have), 0))]\n", "", found},
		{"a Pod gets containers whatever has become of it", "podpatch/ephemeral.go", `"uid": pod.UID, "resourceVersion": pod.ResourceVersion`, `"uid": pod.UID`, found},
		{"another job's container counts", decide, "e.Name == apps.EnvEphemeralJobID && e.Value == string(job)", "e.Name == apps.EnvEphemeralJobID", found},
		{"a dying Pod gets containers", decide, "selector.Matches(labels.Set(pod.Labels)) && podstate.IsActive(pod)", "selector.Matches(labels.Set(pod.Labels)) && !podstate.HasEnded(pod)", found},
		{"an ended job follows its Pods", status, "if step.State == completion.Over {\n\t\treturn status\n\t}\n", "", found},
		{"a job that failed in part succeeds", status, "case step.State == completion.Complete && len(s.pods[podstate.Failed]) == 0:", "case step.State == completion.Complete && len(s.pods[podstate.Succeeded]) > 0:", found},
		{"no clock is set", controller, "pass.Wake(d.Step.After)", "pass.Wake(0)", found},
		{"a deleted job stays", act, "return setFinalizer(ctx, v, pass, false)", "return setFinalizer(ctx, v, pass, true)", found},
		{"labels wake nobody", folder + "watch.go", "!maps.Equal(before.Labels, after.Labels)", "!maps.Equal(before.Labels, before.Labels)", schedules{tests: "./kinds/ephemeraljob", only: "TestChanged"}},
	}
}
