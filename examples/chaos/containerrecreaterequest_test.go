package chaos_test

// containerRecreateRequestMutants returns the mistakes that the fault schedules of ContainerRecreateRequests must
// find.
func containerRecreateRequestMutants() []mutant {
	const folder = "examples/kinds/containerrecreaterequest/"
	const decide, act, controller, watch = folder + "decide.go", folder + "act.go", folder + "controller.go", folder + "watch.go"
	found := schedules{tests: "./kinds/containerrecreaterequest"}
	only := func(test string) schedules { return schedules{tests: "./kinds/containerrecreaterequest", only: test} }
	return []mutant{
		{"a Pod is held without a finalizer", act, "if !slices.Contains(v.Owner.Finalizers, apps.FinalizerRequestUnreadyAcquired) {", "if v.Owner.Name == \"\" {", found},
		{"the finalizer goes, and the Pod stays held", act, "if p.releases {\n\t\tif err", "if p.releases && p.holds {\n\t\tif err", found},
		{"a Pod that could not be held counts as held", act, "if p.graces && held == nil {", "if p.graces {", found},
		{"a status is written whatever an agent has written", act, "written, err := v.WriteSharedStatus(ctx, p.status)", "written := true\n\t_, err := v.WriteStatus(ctx, p.status)", found},
		{"a Pod that the cache lacks counts as gone", controller, "live, err := podOf(ctx, r.live, request)", "if !ok {\n\t\treturn nil, nil\n\t}\n\tlive, err := podOf(ctx, r.live, request)", found},
		{"another Pod of the name is held", decide, "string(pod.UID) == request.Labels[apps.LabelRequestPodUID] && ", "", found},
		{"a Pod is held before the turn of its request", decide, "if phase != v1beta1.ContainerRecreateRequestRecreating {\n", "if phase == \"\" {\n", found},
		{"the time of the grace moves", decide, "p.graces = !hasGrace(&p.status)", "p.graces = true", found},
		{"an agent has half a minute", decide, "created.Add(silence).Sub(o.now)", "created.Add(silence / 2).Sub(o.now)", found},
		{"a Pod that has ended is waited for", decide, "if podstate.HasEnded(o.pod) && ", "if o.now.IsZero() && ", found},
		{"a request that agents cannot see is waited for", decide, "case o.request.Status.Phase != \"\" && o.request", "case o.request.Status.Phase == \"Odd\" && o.request", found},
		{"an end far ahead keeps a request", decide, "end == nil || end.After(o.now.Add(skew))", "end == nil", found},
		{"a status without room stays without room", decide, "trim(&p.status, o.request.Spec.Containers)", "_ = trim", only("TestTrim")},
		{"nothing overwrites a snapshot", decide, "len(fresh) > 0 {", "len(fresh) > 0 || true {", only("TestSnapshot")},
		{"the instance of before is published", decide, "isOld = status.ContainerID == c.StatusContext.ContainerID", "isOld = c.StatusContext.ContainerID == \"\"", only("TestSnapshot")},
		{"Pods wake nobody", watch, "return b.Watches(&corev1.Pod{}, pods).Watches(", "_ = pods\n\treturn b.Watches(", found},
		{"the end of a Pod wakes the request under way alone", watch, "if ends || request", "if request", found},
		{"reports by agents wake nobody", watch, "awake = append(awake, after)", "_ = after", found},
		{"the end of a request wakes nobody behind", watch, "awake = append(awake, r.line(after)...)", "_ = r", only("TestWatch")},
		{"the end of a request is told to all behind", folder + "decide_turn.go", "if at > inLine {", "if at > 99*inLine {", only("TestManyWait")},
	}
}
