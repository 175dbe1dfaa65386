package chaos_test

// sidecarTerminatorMutants returns the mistakes that the fault schedules of sidecar termination must find.
func sidecarTerminatorMutants() []mutant {
	const decide, controller = "examples/controllers/sidecarterminator/decide.go", "examples/controllers/sidecarterminator/controller.go"
	found := schedules{tests: "./controllers/sidecarterminator"}
	return []mutant{
		{"sidecars end when a main container has failed that is started again", decide, "if c.hasEnded() && !c.restarts {", "if c.hasEnded() {", found},
		{"a Pod whose main container has failed is said to have succeeded", decide, "if mains[i].exitCode() != 0 {", "if mains[i].exitCode() > 200 {", found},
		{"sidecars whose exit code is ignored end before others", decide, "\tif len(first) > 0 {\n", "\tif len(first) > 0 && len(last) == 0 {\n", found},
		{"sidecars that have ended are asked for", decide, "\t\tcase c.hasEnded():\n", "\t\tcase c.hasEnded() && c.ignore:\n", found},
		{"sidecars are asked for again", decide, "\t\tcase asked:\n", "\t\tcase asked && was > 0:\n", found},
		{"a second request is never made", decide, "if t.request = known.next; t.request == \"\" {", "if t.request = known.next; t.request == \"\" || len(known.names) > 0 {", schedules{tests: "./controllers/sidecarterminator", only: "TestDecide"}},
		{"Pods on virtual Nodes wait for an agent", decide, "\tif virtual {\n", "\tif virtual && len(pod.Spec.Containers) == 0 {\n", found},
		{"the phase of a Pod is left to its sidecars", controller, "{t.phase != \"\", \"set the phase\",", "{t.phase == \"x\", \"set the phase\",", found},
		{"nobody tries again what was refused", controller, "return ctrl.Result{RequeueAfter: r.backoff.Refused(attempt, err, now)}, nil", "r.backoff.Refused(attempt, err, now)\n\treturn ctrl.Result{}, nil", found},
	}
}
