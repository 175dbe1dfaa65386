package chaos_test

// podUnavailableBudgetMutants returns the mistakes that the fault schedules of PodUnavailableBudgets must find, and
// mistakes that only a unit test finds.
func podUnavailableBudgetMutants() []mutant {
	const folder = "examples/kinds/podunavailablebudget/"
	const count, watch, controller = folder + "count.go", folder + "watch.go", folder + "controller.go"
	const guard, ledger, decide, finder = "disruption/guard/guard.go", "disruption/ledger.go", "disruption/decide.go", "examples/kinds/podunavailablebudget/finder.go"
	const attempt, queue = "ownercache/sharedstatus/attempt.go", "ownercache/sharedstatus/queue.go"
	found := schedules{tests: "./kinds/podunavailablebudget"}
	return []mutant{
		{"budgets that select by expressions alone are not found", finder, "return []string{anyKey(budget.Namespace)}", "return nil", schedules{tests: "./kinds/podunavailablebudget", only: "TestFinderMissesNone"}},
		{"a budget that the cache lacks is not asked", "examples/kinds/podunavailablebudget/live.go", "for _, name := range NamesIn(pod) {", "for _, name := range NamesIn(pod)[:min(len(of), 0)] {", schedules{tests: "./kinds/podunavailablebudget", only: "TestNamedAndNotCached"}},
		{"what the first budget has let go is over when the last one agrees", "disruption/guard/all.go", "|| g.config.Clock.Since(began) < prompt {", "|| !began.IsZero() {", schedules{tests: "../disruption/guard", only: "TestAskAllTakesLong"}},
		{"a Pod that has ended is kept by too many budgets", "examples/kinds/podunavailablebudget/budgets.go", "case len(all) > mostOfPod && !serves:", "case len(all) > mostOfPod && !serves && dryRun:", schedules{tests: "./kinds/podunavailablebudget", only: "TestTooManyBudgetsOfADeadPod"}},
		{"a container that its kubelet is about to end serves", count, "if left := j.doubted.Add(end).Sub(now); left > 0 {", "if left := j.doubted.Add(end).Sub(now); left > end {", schedules{tests: "./kinds/podunavailablebudget", only: "TestDoubtfulPods"}},
		{"one workload counts twice", count, "key := workload{ref.GroupKind, ref.Name}", "key := workload{ref.GroupKind, ref.Name + ref.Version}", schedules{tests: "./kinds/podunavailablebudget", only: "TestCounts"}},
		{"a webhook spends whatever others have spent", attempt, "client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})", "client.MergeFrom(base)", found},
		{"the time of a Pod that was let go begins before a slow write", attempt, "if took < prompt {", "if took < time.Hour {", schedules{tests: "../disruption/guard", only: "TestSlowWrites"}},
		{"a write without an answer has failed", attempt, "case errors.Is(err, errNotKept), isRefusal(err), ctx.Err() != nil:", "case errors.Is(err, errNotKept), isRefusal(err), ctx.Err() != nil, err != nil:", schedules{tests: "../ownercache/sharedstatus", only: "TestFaults"}},
		{"a successor of the object is not asked", attempt, "return newest, errReplaced", "return newest, ErrGone", schedules{tests: "../ownercache/sharedstatus", only: "TestFaults"}},
		{"an answer does not wait for the write that it rests on", attempt, "if needs == Answer && then == Store {", "if needs == Answer && then == Answer {", schedules{tests: "../ownercache/sharedstatus", only: "TestAnswerWaitsForTheWrite"}},
		{"whoever leaves ends the write of others", queue, "if waiting.Add(-1) == 0 {", "if waiting.Add(-1) >= 0 {", schedules{tests: "../ownercache/sharedstatus", only: "TestContextsEnd"}},
		{"those who ask for one budget take all places", queue, "if o.users >= crowd {", "if o.users >= 100*crowd {", schedules{tests: "../disruption/guard", only: "TestCrowd"}},
		{"a status that is no subresource opens the budget", attempt, "if gone == nil {\n\t\t\tgone = fmt.Errorf(\"", "if gone == nil {\n\t\t\tgone = ErrGone\n\t\t\t_ = fmt.Errorf(\"", schedules{tests: "../disruption/guard", only: "TestWritesThatFail"}},
		{"what is not stored is spent", guard, "if got.Allowed != want.Allowed ||", "if got.Allowed > want.Allowed+99 ||", schedules{tests: "../disruption/guard", only: "TestNotKept"}},
		{"who was let go while nothing was needed is taken to be there", ledger, "after.Allowed, out.Wait = 0, sooner(out.Wait, held)", "out.Wait = sooner(out.Wait, held)", schedules{tests: "./kinds/podunavailablebudget", only: "TestNeededAgain"}},
		{"a Pod that is about to change counts as changed", ledger, "m.Generation > was.Generation", "m.Generation >= was.Generation", schedules{tests: "../disruption", only: "FuzzLedger"}},
		{"a second change of a Pod is over with the first", decide, "(!known || was.Generation == r.Pod.Generation && (r.Gated || !was.Gated))", "(!known || was.UID != \"\")", schedules{tests: "../disruption", only: "TestIdentity"}},
		{"the count is written over what was spent meanwhile", controller, "client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})", "client.MergeFrom(before)", found},
		{"a conflict is not decided on anew", attempt, "\t\to.fails(began)\n\t\treturn again(held, 1, ErrContended)\n", "\t\tanswer(held, nil)\n\t\treturn nil\n", found},
		{"Pods that were let go count at once", ledger, "if m.Serves && leaves <= 0 && changes <= 0 {", "if m.Serves {", found},
		{"Pods that were let go to be changed count at once", ledger, "if m.Serves && leaves <= 0 && changes <= 0 {", "if m.Serves && leaves <= 0 {", found},
		{"those whose Pod somebody else refuses keep what it holds", decide, "!p.isStuck(ledger, r, now)", "true", schedules{tests: "../disruption", only: "TestRefusedByOthers"}},
		{"who is too new to be seen is forgotten", ledger, "left > 0 && !seen[name] {", "left > unseenFor && !seen[name] {", schedules{tests: "../disruption", only: "FuzzLedger"}},
		{"a budget that was never counted lets go", decide, "case ledger.ObservedGeneration < r.Generation:", "case ledger.ObservedGeneration < r.Generation && ledger.Need > 100:", found},
		{"a Pod that serves again is let go again though too few serve", decide, "ledger.Current >= ledger.Need && !p.isStuck", "!p.isStuck", schedules{tests: "../disruption", only: "TestDecide"}},
		{"one too many is let go", decide, "case ledger.Allowed <= 0:", "case ledger.Allowed < 0:", found},
		{"what a Pod says does not matter", finder, "if i == 0 {\n\t\t\tfirst", "if i < 0 {\n\t\t\tfirst", schedules{tests: "./kinds/podunavailablebudget", only: "TestFinder"}},
		{"an older request takes the place of a newer one", folder + "shares.go", "was.UID == identity.UID && was.Generation > identity.Generation", "was.UID == identity.UID && was.Generation < 0", schedules{tests: "./kinds/podunavailablebudget", only: "TestSharesOfSeveralPods"}},
		{"a share is forgotten before its count is stored", folder + "shares.go", "(changed || !slices.ContainsFunc(members, is))", "(changed || !slices.ContainsFunc(members[:0], is))", schedules{tests: "./kinds/podunavailablebudget", only: "TestSharesOfSeveralPods"}},
		{"one of the budgets of a Pod is asked", "examples/kinds/podunavailablebudget/budgets.go", "b.guard.AskAll(ctx, keys, request, dryRun)", "b.guard.AskAll(ctx, keys[:1], request, dryRun)", schedules{tests: "./kinds/podunavailablebudget", only: "TestAskAllBudgets"}},
		{"the second budget of a Pod counts nothing", controller, "Members:   NamesIn,", "Members:   func(pod *corev1.Pod) []string { return NamesIn(pod)[:min(1, len(NamesIn(pod)))] },", found},
		{"a Pod that names one of its budgets is left as it is", controller, "if len(named) >= mostOfPod {", "if len(named) > 0 {", found},
		{"a cache whose watch is down is asked", "examples/kinds/podunavailablebudget/live.go", "if late := b.Current(waits); late != nil {", "if late := b.Current(waits); late != nil && len(b.Of(pod)) > 0 {", schedules{tests: "./kinds/podunavailablebudget", only: "TestAskWhileTheWatchIsDown"}},
		{"a budget is spent from before the others are asked", "disruption/guard/all.go", "g.askEach(ctx, keys, request, true)", "g.askEach(ctx, keys, request, dryRun)", schedules{tests: "../disruption/guard", only: "TestAskAll"}},
		{"what a Pod names first counts alone where nobody knows who controls it", finder, "for i, name := range NamesIn(pod) {", "for i, name := range NamesIn(pod)[:min(1, len(NamesIn(pod)))] {", schedules{tests: "./kinds/podunavailablebudget", only: "TestFinder"}},
		{"nobody looks for Pods that do not name their budget", watch, "\t\tr.strays.look(budget.UID)\n\t\tq.Add(requestFor(budget))\n\t}\n}\n\n// statusChanged", "\t\tq.Add(requestFor(budget))\n\t}\n}\n\n// statusChanged", found},
		{"what others write to the status wakes nobody", watch, "if ok && same && !equality.Semantic.DeepEqual(before.Status, after.Status) {", "if ok && same && before.Generation != after.Generation {", found},
		{"workloads that are scaled wake nobody", watch, "if workloads.Replicas(e.ObjectOld) != workloads.Replicas(e.ObjectNew) ||", "if workloads.Replicas(e.ObjectOld) != workloads.Replicas(e.ObjectOld) ||", found},
		{"nobody counts again when the time of a Pod is over", count, "\twake(counted.Wait)\n\tout.members", "\twake(counted.Wait - time.Hour)\n\tout.members", found},
		{"nobody comes again after a conflict", controller, "\t\tpass.Wake(overtakenRetry)\n", "", found},
		{"what is known of a Pod is kept when it changes", count, "if j.pod != pod || j.again > 0 {", "if j.pod == nil || j.pod.UID != pod.UID || j.again > 0 {", found},
		{"Pods that did not get marked are forgotten", watch, "return failed != nil || found > mine ||", "return found > mine ||", found},
		{"a budget leaves Pods to another one that goes", watch, "return failed != nil || found > mine ||", "return failed != nil ||", schedules{tests: "./kinds/podunavailablebudget", only: "TestSearchesAgain"}},
	}
}
