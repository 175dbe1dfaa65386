package chaos_test

// launchPriorityMutants returns the mistakes that the fault schedules of launch priorities must find.
func launchPriorityMutants() []mutant {
	const order, controller = "examples/launchorder/next.go", "examples/controllers/launchpriority/controller.go"
	found := schedules{tests: "./controllers/launchpriority"}
	return []mutant{
		{"containers do not wait for those above", order, "\t\t\tblocked = true\n", "\t\t\tblocked = len(gates) == 0\n", found},
		{"containers start when those above have begun", order, "if status == nil || status.Ready {", "if status == nil || status.Ready || status.State.Running != nil {", found},
		{"a Pod is marked before the last key is open", controller, "if !step.Complete || known.marked {", "if known.marked {", found},
		{"a user's ConfigMap is deleted", controller, "out := another\n", "out := former\n", found},
		{"what a former Pod has left lets containers start", controller, "\t\tout = former\n", "\t\treturn own\n", found},
		{"what is known of a former Pod counts for its successor", controller, "(known.pod == pod.UID || pod.UID == \"\")", "known.pod != \"x\"", found},
		{"a ConfigMap that is gone is not made again", controller, "if r.backoff.WasRefused(pod.UID, missed()) {", "if r.backoff.WasRefused(pod.UID, missed()) && known.pod == \"\" {", found},
		{"keys are added to whatever has the name", controller, "{\"metadata\": map[string]any{\"uid\": known.uid}, \"data\": entries(keys)}", "{\"data\": entries(keys)}", found},
		{"Pods that lost their ConfigMap after the mark are not looked at", order, "(!o.completed(pod) || slices.ContainsFunc(gates,", "(!o.completed(pod) || len(gates) == 0 && slices.ContainsFunc(gates,", found},
		{"nobody tries again what was refused", controller, "return ctrl.Result{RequeueAfter: r.backoff.Refused(attempt, err, r.options.Clock.Now())}, nil", "r.backoff.Refused(attempt, err, r.options.Clock.Now())\n\treturn ctrl.Result{}, nil", found},
	}
}
