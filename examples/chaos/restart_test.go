package chaos_test

// restartMutants are mistakes in restarts of a workload's containers, for the schedules of the three kinds to find.
func restartMutants() []mutant {
	const decide, act, request = "examples/kruise/restart/decide.go", "examples/kruise/restarts.go", "examples/kruise/restart/request.go"
	clones, numbered, nodes := cloneSet("restarts"), statefulSet(), schedules{tests: "./kinds/daemonset"}
	only := func(test string) schedules { return schedules{tests: "./kruise/restart", only: test} }
	return []mutant{
		{"own requests are not awaited", "ownercache/cache.go", "sources = append(sources, c.options.Beside...)", "_ = sources", clones},
		{"a Pod under restart counts as available", "podcontrol/set.go", "(want.Away == nil || !want.Away(pod))", "want.MinReady >= 0", numbered},
		{"a Pod under restart waits for its restart", decide, "m.Standing = batch.Restarting", "m.Standing = batch.Waiting", clones},
		{"a restart takes no notice of its budget", decide, "MaxUnavailable: r.MaxUnavailable, Paused", "MaxUnavailable: r.Replicas, Paused", nodes},
		{"a paused workload restarts", decide, "Paused: r.Paused,", "", clones},
		{"the partition's Pods restart", "examples/kinds/statefulset/decide.go", "return wanted && rank < s.Partition", "return wanted && rank < 0", numbered},
		{"an instance of before the time has restarted", decide, "batch.IsRestarted(pod, w.Containers, w.At)", "len(pod.Name) > 0", clones},
		{"a restarted Pod restarts again", decide, "case v.Wish.isShown(pod.Pod):", "case v.Wish.isShown(pod.Pod) && pod.Name == \"\":", clones},
		{"the end of a request is forgotten", decide, "case request != nil && v.Wish.isFor(request):", "case request != nil && v.Wish.isFor(request) && pod.Name == \"\":", numbered},
		{"requests of earlier restarts stay", decide, "p.Remove = append(p.Remove, request)", "_ = request", nodes},
		{"a request under way is removed", decide, "case IsUnderWay(request), v.Wish", "case v.Wish", clones},
		{"the end of a request wakes nobody", act, "return ok && !restart.IsUnderWay(request)", "return ok && request.Name == \"\"", clones},
		{"a Pod that cannot be restarted holds up the others", decide, "m.Standing = batch.Failed\n\t\t} else {", "m.Refused = failure\n\t\t} else {", only("TestDecide")},
		{"a failure counts as a success", request, "if at >= 0 && status.ContainerRecreateStates[at].Phase == v1beta1.ContainerRecreateRequestSucceeded {", "if at >= 0 {", clones},
	}
}
