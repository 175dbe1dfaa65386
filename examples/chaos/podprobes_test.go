package chaos_test

// podProbeMutants returns the mistakes that the fault schedules of PodProbeMarkers and NodePodProbes must find.
func podProbeMutants() []mutant {
	const room, probing = "examples/kinds/nodepodprobe/", "node/probing/"
	found := schedules{tests: "./kinds/nodepodprobe"}
	agent := schedules{tests: "./kinds/nodepodprobe/onnode"}
	return []mutant{
		{"a result of a former probe counts", probing + "publish.go", "err == nil && record.Container == a.Container && sameCheck(record.Check, check) {", "err == nil || record.Container == a.Container && sameCheck(record.Check, check) {", agent},
		{"unchanged results are written", probing + "publish.go", "case p.rhythm.Refresh <= 0:", "case p.rhythm.Refresh < 0:", agent},
		{"a failed write is repeated at once", room + "onnode/probes.go", "*written = now\n", "_ = written\n", agent},
		{"thresholds do not count", probing + "next.go", "if record.Streak >= max(target.Probe.SuccessThreshold, 1) {", "if record.Streak >= 1 {", agent},
		{"a check that could not be carried out has failed", probing + "prober/exec.go", "return undecided(err.Error())", "return probing.Result{Verdict: probing.Fail, Message: err.Error()}", agent},
		{"a probe is never run again after a lost answer", room + "onnode/pod.go", "delete(o.running, target.Name)\n\to.due", "if result.Verdict != probing.Undecided {\n\t\tdelete(o.running, target.Name)\n\t}\n\to.due", agent},
		{"a Node reports states for which the Node was not asked", probing + "accept.go", "case !a.asked[slot]:", "case !a.asked[slot] && r.Name == \"\":", found},
		{"a Node reports states of Pods on other Nodes", probing + "accept.go", "pod.Spec.NodeName == node && node != \"\"", "node != \"\"", schedules{tests: "../node/probing", only: "TestAccept"}},
		{"marks of former probes stay", probing + "mark.go", "m.takeBack(ledger)\n", "_ = ledger\n", found},
		{"a value of a user is taken back", probing + "keys.go", "if have, ok := k.have[key]; ok && have == value {\n\t\t\tk.gone", "if _, ok := k.have[key]; ok && value != \"\" {\n\t\t\tk.gone", found},
		{"a later marker wins", probing + "keys.go", "return owner, k.wants[key] == value", "k.wants[key] = value\n\t\treturn owner, true", found},
		{"a probe that cannot be run keeps its marks", probing + "mark.go", "ok && isUsable(p, container) {", "ok && container != nil {", found},
		{"a marker keeps the marks of another whose name ends alike", probing + "ledger.go", "return ok && of == marker", "return ok && len(of) > 0", found},
		{"marks are decided from the cache", room + "controller.go", "change.ResourceVersion = found.ResourceVersion\n", "", found},
		{"a list outlives the Node", room + "decide.go", "case !hasAgent:\n\t\treturn remove", "case !hasAgent && node != nil:\n\t\treturn remove", found},
		{"the list of a new Node of the same name is deleted", room + "act.go", "if err == nil && next(", "if err != nil && next(", found},
		{"Pods with liveness probes alone are forgotten in the list", room + "watch.go", "was != nil && probed(was) {", "was != nil && len(book.Of(was)) > 0 {", found},
		{"a changed address is not looked at", room + "decide.go", "before.Status.PodIP != after.Status.PodIP ||", "before.Status.PodIP == \"\" && after.Status.PodIP == \"-\" ||", found},
		{"a marker goes before its marks", "examples/kinds/podprobemarker/controller.go", "if r.isHeld(v.Owner) {", "if r.isHeld(v.Owner) && v.Owner.Name == \"\" {", found},
		{"the budget is asked and not heard", room + "liveness.go", "r.options.Permit(ctx, pod, disruption.Update); err != nil {", "r.options.Permit(ctx, pod, disruption.Update); err != nil && pod == nil {", found},
		{"two containers of a Pod restart at a time", room + "liveness.go", "if is, err := r.isBusy(ctx, pod); is || err != nil {", "if is, err := r.isBusy(ctx, pod); is && err != nil {", found},
		{"a failure of a former instance restarts the present one", room + "decide_liveness.go", " && s.Probed.After(status.State.Running.StartedAt.Time) {", " && status.State.Running != nil {", found},
		{"a lost answer to a request is no request", room + "liveness.go", "if err == nil || mayBeMade(err) {", "if err == nil {", found},
		{"a container restarts without back-off", room + "liveness.go", "r.backoff.Resting(attempt, now); err != nil {", "r.backoff.Resting(attempt, now); err != nil && wait < 0 {", found},
	}
}
