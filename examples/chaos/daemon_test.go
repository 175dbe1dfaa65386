package chaos_test

// daemonMutants returns the mistakes that the fault schedules of node agents must find.
func daemonMutants() []mutant {
	const onnode, restart, daemon = "examples/kinds/containerrecreaterequest/onnode/", "node/containerrestart/", "examples/daemon/"
	found := schedules{tests: "./daemon"}
	behind := schedules{tests: "./kinds/containerrecreaterequest/onnode", only: "TestBehindRefused"}
	return []mutant{
		{"a stop has no record", onnode + "restarts.go", "err := r.requests.PatchStatus(ctx, request, status); err != nil {\n\t\t\treturn 0, err", "err := r.requests.PatchStatus(ctx, request, status); isOutdated(err) {\n\t\t\treturn 0, err", found},
		{"a request stops the containers of another Pod of the name", onnode + "decide.go", "r.Labels[apps.LabelRequestPodUID] != string(pod) || ", "", found},
		{"an agent overwrites the end of a request", onnode + "cached.go", `"metadata": map[string]any{"resourceVersion": request.ResourceVersion}, `, "", found},
		{"each new instance is stopped once more", restart + "next.go", "p.Force && !j.Stopped", "p.Force", found},
		{"a container that is not ready is back", restart + "next.go", "case !p.observed.view(i).Ready:", "case p.observed.view(i).Ready && p.now.IsZero():", found},
		{"a new instance need not run for long", restart + "next.go", "case ran < p.MinStarted:", "case ran < 0:", found},
		{"a Pod serves while its containers are stopped", restart + "next.go", "if wait, why := p.unready(); why.Code != \"\" {", "if wait, why := p.unready(); why.Code != \"\" && p.now.IsZero() {", found},
		{"containers are stopped out of order", restart + "next.go", "case p.Ordered && !j.Phase.isFinal():", "case p.Ordered && p.now.IsZero():", found},
		{"a container that never comes back is waited for", "node/agent/pod.go", "v.Ended = over || !podstate.IsRestarted(p.Pod, spec, i.ExitCode)", "v.Ended = over", found},
		{"a report goes to another Pod of the name", daemon + "metadata.go", "\"uid\": pod.UID, ", "", found},
		{"a stop that nobody wants goes on", "node/agent/worker.go", "err == nil && !pass.keepsAll {", "err == nil && pass.keepsAll {", found},
		{"a failed stop never begins again", restart + "stopper/stopper.go", "if s.runs[key][i].err == nil {", "if s.runs[key][i].key == key {", found},
		{"a request that cannot be told to wait holds up the one in front", onnode + "restarts.go", "waits := r.letWait(ctx, behind)\n", "waits := r.letWait(ctx, behind)\n\tif waits != nil {\n\t\treturn 0, waits\n\t}\n", behind},
	}
}
