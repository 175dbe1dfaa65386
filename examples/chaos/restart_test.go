package chaos_test

// restartMutants returns the mistakes in restarts of a workload's containers that fault schedules and other tests
// must find.
func restartMutants() []mutant {
	const decide, request = "examples/kruise/restart/decide.go", "examples/kruise/restart/request.go"
	numbered, only := statefulSet(), schedules{tests: "./kruise/restart", only: "TestDecide"}
	tracked := func(test string) schedules { return schedules{tests: "../expectations/trackedclient", only: test} }
	return []mutant{
		{"own requests are not awaited", "ownercache/cache.go", "sources = append(sources, c.options.Beside...)", "_ = sources", schedules{tests: "../ownercache", only: "TestBeside"}},
		{"a resource that is not served holds up owners at the start", "expectations/trackedclient/start.go", "\tif !s.isServed() {\n", "\tif s.Index == nil {\n", tracked("TestStartWithoutTheResource")},
		{"an empty resource that is not served holds up owners at the start", "expectations/trackedclient/start.go", "case isUnserved(err) && len(s.Index.Versions(nil)) == 0:", "case isUnserved(err) && len(s.Index.Versions(nil)) < 0:", tracked("TestStartWithoutTheResource")},
		{"writes to a resource that is not served are awaited", "expectations/trackedclient/clients.go", "return s != nil && !s.isServed() ||", "return s != nil && s.Index == nil ||", tracked("TestServed")},
		{"requests are asked for without their CRD", "examples/kruise/restarts.go", "case !r.areServed(): //", "case r.kind.Empty(): //", numbered},
		{"nobody looks whether requests are served by now", decide, "if v.Off.Code == NotServed {", "if v.Off.Code == NoAgents {", only},
		{"a share is not kept from the request on", decide, "if len(plan.Restart) > 0 {", "if len(plan.Restart) < 0 {", only},
		{"a Pod under restart counts as available", "podcontrol/set.go", "(want.Away == nil || !want.Away(pod))", "want.MinReady >= 0", schedules{tests: "../podcontrol", only: "TestAvailability"}},
		{"a Pod under restart waits for its restart", decide, "m.Standing = batch.Restarting", "m.Standing = batch.Waiting", only},
		{"a restart takes no notice of its budget", decide, "MaxUnavailable: r.MaxUnavailable, Paused", "MaxUnavailable: r.Replicas, Paused", numbered},
		{"a paused workload restarts", decide, "Paused: r.Paused,", "", only},
		{"the partition's Pods restart", "examples/kinds/statefulset/decide.go", "return wanted && rank < s.Partition", "return wanted && rank < 0", numbered},
		{"an instance of before the time has restarted", decide, "batch.IsRestarted(pod, w.Containers, w.At)", "len(pod.Name) > 0", only},
		{"a restarted Pod restarts again", decide, "case v.Wish.isShown(pod.Pod):", "case v.Wish.isShown(pod.Pod) && pod.Name == \"\":", numbered},
		{"the end of a request is forgotten", decide, "case request != nil && v.Wish.isFor(request):", "case request != nil && v.Wish.isFor(request) && pod.Name == \"\":", only},
		{"requests of earlier restarts stay", decide, "p.Remove = append(p.Remove, request)", "_ = request", only},
		{"a request under way is removed", decide, "case IsUnderWay(request), v.Wish", "case v.Wish", only},
		{"a Pod that cannot be restarted holds up the others", decide, "m.Standing = batch.Failed\n\t\t} else {", "m.Refused = failure\n\t\t} else {", only},
		{"a failure counts as a success", request, "if at >= 0 && status.ContainerRecreateStates[at].Phase == v1beta1.ContainerRecreateRequestSucceeded {", "if at >= 0 {", only},
	}
}
