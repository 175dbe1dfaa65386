package chaos_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mutant is a planted mistake: an edit that makes the code wrong, and because of which a test must fail.
type mutant struct {
	name string
	// file is the path from the root of the repository. The text old occurs in the file exactly once, and new replaces
	// it.
	file, old, new string
	schedules
}

// schedules says which test must fail because of a mistake. Most such tests run fault schedules, which are test runs
// with random faults.
type schedules struct {
	tests string // the package of the test
	with  string // faults that every schedule contains, because the mistake is found only with them; see CLONESET_WITH
	only  string // the test that finds the mistake if no fault schedule finds the mistake; empty for TestFaults
	first int    // the seed of the first schedule, for a mistake that few schedules find
}

func cloneSet(with ...string) schedules {
	return schedules{tests: "./kinds/cloneset", with: strings.Join(with, ",")}
}
func fleet() schedules { return schedules{tests: "./embed/fleet"} }
func hazard(test string) schedules {
	return schedules{tests: "./embed/fleet", only: test}
}
func agents() schedules      { return schedules{tests: "./embed/agents"} }
func games() schedules       { return schedules{tests: "./embed/gameservers"} }
func statefulSet() schedules { return schedules{tests: "./kinds/statefulset"} }
func rotators() schedules    { return schedules{tests: "./chaos/webhookcert"} }

func mutants() []mutant {
	const controllers = "examples/kinds/cloneset/"
	return append(slices.Concat(daemonSetMutants(), sidecarSetMutants(), launchPriorityMutants(), sidecarTerminatorMutants(), resourceDistributionMutants(), persistentPodStateMutants(), broadcastJobMutants(), advancedCronJobMutants(), podUnavailableBudgetMutants(), unitedDeploymentMutants(), workloadSpreadMutants(), containerRecreateRequestMutants(), ephemeralJobMutants(), imagePullJobMutants(), podProbeMutants(), daemonMutants(), restartMutants(), preDownloadMutants(), watchMutants(), embedMutants()), []mutant{
		{
			"a Pod that nobody brings back into service is taken back", "podcontrol/choose.go",
			"return p.Leaving && !p.Named && p.Unreadable == nil && !p.Marked", "return p.Leaving && !p.Named && !p.Marked",
			schedules{tests: "../podcontrol", only: "TestChooseCancellations"},
		},
		{
			"a Pod on its way to the old revision is taken back", "podcontrol/choose.go",
			"return *missing >= 0", "return p.Updated || *missing >= 0",
			schedules{tests: "../podcontrol", only: "TestRecreationBackToTheOldRevision"},
		},
		{
			"a Pod at no wanted revision is taken back", "podcontrol/choose.go",
			"return p.Updated // a Pod", "return true // a Pod",
			schedules{tests: "../podcontrol", only: "TestRecreationBackToTheOldRevision"},
		},
		{
			"an update that begins anew holds a Pod that its hook has let go", "podcontrol/step.go",
			"c.config.InPlace.Redo(pod, withoutHooks(template, rules.Hooks), c", "c.config.InPlace.Redo(pod, withoutHooks(template, lifecycle.Hooks{}), c",
			schedules{tests: "./kinds/statefulset", first: 4300},
		},
		{
			"the failed attempt at a Pod that cannot be read is told for ever", "podcontrol/executor/finish.go",
			"x.over(view, failureOf(pod).Task)\n\t\tx.options.Observe", "x.options.Observe",
			schedules{tests: "../podcontrol/executor", only: "TestUnreadableAfterFailure"},
		},
		{"a grace period ends in the second of its end", "inplaceupdate/next.go", "*time.Second + time.Second), true", "*time.Second), true", cloneSet()},
		{"a start taken over from the old instance counts", "inplaceupdate/next.go", "v.waitForStarts(&w)\n", "\n", schedules{tests: "../inplaceupdate", only: "TestStartIsProbed"}},
		{
			"a grace period runs while the node reports the Pod as ready", "inplaceupdate/next.go",
			"if closed && ready != nil {", "if closed && ready != nil && v.grace == nil {", cloneSet(),
		},
		{"own writes are not awaited", "ownercache/cache.go", "case pending != nil:", "case pending != nil && pending.Late:", cloneSet()},
		{"a process does not wait for what its predecessor wrote", "ownercache/cache.go", "NoBarrier: options.NoBarrier,", "NoBarrier: true,", cloneSet()},
		{
			"answers that are lost are forgotten", "expectations/trackedclient/write.go",
			"case err == nil, isUnanswered(err), apierrors.IsAlreadyExists(err):", "case err == nil:", cloneSet(),
		},
		{
			"the last of the budget is spent twice", "rollout/budget.go",
			"if b.unavailable >= b.limit {", "if b.unavailable > b.limit {", cloneSet(),
		},
		{"ready Pods are deleted beyond the budget", "rollout/budget.go", "if left--; left < 0 {", "if left--; left < -1 {", cloneSet()},
		{"surge is counted twice", "rollout/rollout.go", "want := s.Replicas + step.Surge\n", "want := s.Replicas + 2*step.Surge\n", cloneSet()},
		{
			"Pods are deleted by name alone", "podcontrol/executor/turn.go",
			"err = t.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})\n", "err = t.Client.Delete(ctx, pod)\n", cloneSet(),
		},
		{
			"both loops write to a Pod at a time", "podcontrol/executor/executor.go",
			"LoadOrStore(pod, struct{}{}); busy {", "LoadOrStore(pod, struct{}{}); busy && pod == \"\" {", cloneSet(),
		},
		{
			"the gate opens while the old image runs", "inplaceupdate/images.go",
			"if c.spec == nil || c.status == nil {\n\t\treturn false\n\t}\n\tif is", "if c.spec == nil || c.status == nil || c.status.Ready {\n\t\treturn c.spec != nil && c.status != nil\n\t}\n\tif is", cloneSet("images"),
		},
		{
			"claims of living Pods are cleaned up", "pvc/pvc.go",
			`if name == "" || claim.DeletionTimestamp != nil || active(name) || keep(name) {`,
			`if name == "" || claim.DeletionTimestamp != nil || keep(name) {`, cloneSet("claims"),
		},
		{
			"an object of the cache is changed", "podcontrol/executor/turn.go",
			"done, ok := t.executor.takeNewest(ctx, pod)\n", "pod.Labels[\"controller-revision-hash\"] = target\n\tdone, ok := t.executor.takeNewest(ctx, pod)\n", cloneSet(),
		},
		{
			"the status is written although it is right", "ownercache/status.go",
			"v.sent == nil && equality.Semantic.DeepEqual(old, status);", "v.sent == nil && equality.Semantic.DeepEqual(old, status) && v.Owner.GetGeneration() > 1;", cloneSet(),
		},
		{
			"an error is swallowed", controllers + "status.go",
			"return t.Pass.Result(scaleErr, updateErr, truncateErr, err)", "return t.Pass.Result(scaleErr, updateErr, truncateErr)", cloneSet(),
		},
		{
			"what is refused is repeated", "fanout/backoff.go",
			"DefaultFirst = 2 * time.Second\n\tDefaultLast  = time.Minute", "DefaultFirst = 200 * time.Millisecond\n\tDefaultLast  = 200 * time.Millisecond", cloneSet("quota"),
		},
		{
			"a new name of the image that runs is waited for without end", "inplaceupdate/images.go",
			"return left <= 0, false, max(left, 0)", "return false, false, max(left, 0)", cloneSet("images"),
		},
		{
			"a superseded image that its node knows by another digest counts as the new one", "inplaceupdate/images.go",
			"c.knownDigest(image) != \"\" })\n\tif", "c.knownDigest(image) != \"\" || !isTag(image) })\n\tif",
			schedules{tests: "../inplaceupdate", only: "TestNodesThatReportDigests"},
		},
		{
			"the known images are not read while a superseded image decides", "inplaceupdate/state.go",
			"|| len(c.superseded()) > 0 ||", "|| len(c.superseded()) > 9 ||",
			schedules{tests: "../inplaceupdate", only: "TestOlderThanTheRequest"},
		},
		{
			"an instance older than the request counts as the new image by another name", "inplaceupdate/images.go",
			"return !c.precedes()", "return true",
			schedules{tests: "../inplaceupdate", only: "TestPrecedes"},
		},
		{
			"an upgrade forgets the containers of one whose state somebody has removed", "sidecarcontrol/upgrade.go",
			"Unproven: e.unproven}", "Unproven: nil}",
			schedules{tests: "../sidecarcontrol", only: "TestUpgradeAfterLostState"},
		},
		{
			"a further update forgets when an unfinished image was asked for", "inplaceupdate/start.go",
			"record.Since = c.requested()\n", "record.Since = nil\n",
			schedules{tests: "../inplaceupdate", only: "TestPrecedesAfterAnotherUpdate"},
		},
		{
			"a digest that its node knows by another one is waited for without end", "inplaceupdate/images.go",
			"digest := c.knownDigest(c.spec.Image)\n", "digest := askedDigest(c.spec.Image)\n", cloneSet("images"),
		},
		{"an update whose state is lost counts as done", "podcontrol/executor/finish.go", "if x.options.Template == nil {", "if x.options.Template != nil {", cloneSet("lostState")},
		{
			"what was undelivered when its state was lost is forgotten by the next update", "podcontrol/executor/turn.go",
			"if lost := t.executor.lost(pod) != nil; lost && plan.Possible() {", "if lost := t.executor.lost(pod) != nil; lost && plan == nil {", cloneSet("lostState"),
		},
		{
			"a Pod that has lost its state is taken for one that runs its image", "inplaceupdate/start.go",
			"learn(); ok && !v.lost && !slices", "learn(); ok && !slices",
			schedules{tests: "../inplaceupdate", only: "TestLostState"},
		},
		{
			"missing Pods hold up the update that would repair those that exist", "rollout/rollout.go",
			"step.UpdateAtTarget = s.MaxUnavailable + max(c.Total()-s.Replicas, 0)\n\tif missing > 0 {", "step.UpdateAtTarget = step.UpdateUnavailable\n\tif missing < 0 {", cloneSet("scaleLimit", "images", "badImages"),
		},
		{
			"Pods are not looked at again when their hook is edited", "ownercache/events.go",
			"\t\t\tif look(pod) {", "\t\t\tif look(pod) && pod == nil {", cloneSet("hookEdits"),
		},
		{
			"claims that somebody uses are deleted", "pvc/pvc.go",
			"return except == nil || pod.UID != except.UID })", "return false && pod != nil })", cloneSet("claims", "mount"),
		},
		{
			"spared claims are forgotten when their user ends", "ownercache/events.go",
			"claim, ok := c.Claims.Get(pod.Namespace, source.ClaimName)", "claim, ok := c.Claims.Get(pod.Name, source.ClaimName)", cloneSet("claims", "mount"),
		},
		{
			"a Pod that podsToDelete names gets a successor of its name", controllers + "decide.go",
			" || slices.Contains(o.cs.Spec.ScaleStrategy.PodsToDelete, pod)", "", cloneSet("claims", "mount"),
		},
		{
			"claims that a released Pod does not use are handed over to it", "pvc/pvc.go",
			"slices.Contains(UsedBy(pod), claim.Name) && ", "", cloneSet("claims", "templates", "relabel"),
		},
		{
			"an old Pod is made with the claim templates of today", "revision/claims.go",
			"if rev == nil || h.Update != nil && rev.Name == h.Update.Name {", "if rev == nil || h.Update != nil {", cloneSet("claims", "templates"),
		},
		{
			"what is written down of claim templates does not follow them", "revision/claims.go",
			"(known && sameClaims(was, today) ||", "(known && len(was) >= 0 ||",
			schedules{tests: "../revision", only: "TestRecordClaims"},
		},
		{
			"nobody makes the claim of a Pod again that waits for it", controllers + "decide.go",
			"t.missing = o.pods.MissingClaims(", "_ = o.pods.MissingClaims(",
			schedules{tests: "./kinds/cloneset", only: "TestMissingClaims"},
		},
		{
			"an id is used again although a claim went with its Pod", controllers + "decide.go",
			"return exists && !metav1.IsControlledBy(claim, o.cs)", "return exists && !metav1.IsControlledBy(claim, o.cs) && claim == nil",
			schedules{tests: "./kinds/cloneset", only: "TestNewNames"},
		},
		{
			"requests stay behind their limits", "inplaceupdate/resources.go",
			"if was || is {", "if was || is || len(old.Requests) == 0 {", cloneSet("limits"),
		},
		{
			"a pass that a taken name holds up waits for somebody else", "fanout/fanout.go",
			"p.Wake(p.fanout.Backoff.Refused(p.attempt(task), errors", "p.Wake(0 * p.fanout.Backoff.Refused(p.attempt(task), errors", cloneSet("names"),
		},
		{
			"plans are kept although claim templates have changed", "inplaceupdate/plan.go",
			"known.Plan != nil && known.from == from.ResourceVersion && known.to == to.ResourceVersion", "known.Plan != nil",
			schedules{tests: "../inplaceupdate", only: "TestPlannerKeepsPlans"},
		},
		{
			"changed claim templates recreate nothing", controllers + "controller.go",
			"claimTemplatesCount(cs, r.options)", "false", cloneSet("claims", "templates", "recreateForClaims"),
		},
		{
			"nobody says whose name is waited for", "pvc/names.go",
			"short := min(n-len(names), len(awaited))", "short := min(n-len(names), len(awaited)) * 0",
			schedules{tests: "../pvc", only: "TestAwaited"},
		},
		{
			"InPlaceOnly is blocked by claim templates", controllers + "resolve.go",
			"&& rules(cs).Policy != podcontrol.InPlaceOnly", "&& rules(cs).Policy != \"\"",
			schedules{tests: "./kinds/cloneset", only: "TestClaimTemplatesCount"},
		},
		{
			"Pods that lack claims are not told of", "podcontrol/claims.go",
			"return pod.Updated && len(pvc.Lacking", "return !pod.Updated && len(pvc.Lacking",
			schedules{tests: "./kinds/statefulset", only: "TestWaiting"},
		},
		{
			"an agent's early report counts whatever the container runs", "inplaceupdate/env.go",
			"return entry.Hashes.PlainHash == short", "return c.ahead != nil || entry.Hashes.PlainHash == short",
			schedules{tests: "../inplaceupdate", only: "TestCompletionOfImages"},
		},
		{
			"the status of an ended instance is remembered as the new image", "inplaceupdate/view.go",
			"\t\t\tc.status = nil\n", "",
			schedules{tests: "../inplaceupdate", only: "TestEarlyReportTeachesNothing"},
		},
		{
			"an agent's early report counts although the kubelet may act on an earlier spec", "inplaceupdate/view.go",
			" || !v.nodeIsCurrent() ||\n", " ||\n",
			schedules{tests: "../inplaceupdate", only: "TestCompletionOfImages"},
		},
		{
			"an agent's early report counts although the Pod is ready with the old instance", "inplaceupdate/view.go",
			"podstate.IsTrue(v.pod, corev1.PodReady) || ", "",
			schedules{tests: "../inplaceupdate", only: "TestCompletionOfImages"},
		},
		{
			"an agent's early report counts for a container with a startup probe", "inplaceupdate/view.go",
			" || c.spec.StartupProbe != nil {", " {",
			schedules{tests: "../inplaceupdate", only: "TestCompletionOfImages"},
		},
		{
			"env counts as delivered by a restart that never was", "inplaceupdate/start.go",
			"state.UpdateEnvFromMetadata = len(report) > 0", "state.UpdateEnvFromMetadata = len(report) > 0 && len(t.images) == 0", cloneSet("agent"),
		},
		{
			"Pods go on waiting for an update that is left to their deletion", controllers + "decide.go",
			"(pod.Updated != t.Back || o.settings.onDelete)", "pod.Updated != t.Back", cloneSet("endsOnDelete"),
		},
		{
			"one Pod that cannot be updated holds up the others", "podcontrol/choose.go",
			"if o.Rest != nil {", "if o.Rest == nil {", cloneSet("mangled"),
		},
		{
			"claims go to a Pod of another instance", "pvc/pvc.go",
			"pod, ok := k.Pod(k.PodOf(claim))\n\t\tif ok", "pod, ok := k.Pod(k.PodOf(claim))\n\t\tif users := k.Users(claim); len(users) > 0 {\n\t\t\tpod, ok = users[0], true\n\t\t}\n\t\tif ok", cloneSet("claims", "namesakes"),
		},
		{
			"claims that somebody uses go to a Pod on its way out", "pvc/pvc.go",
			"case k.isUsed(claim, pod):\n", "case pod == nil && k.isUsed(claim, pod):\n", cloneSet("claims", "mount"),
		},
		{"OnDelete makes surge Pods", controllers + "resolve.go", "if s.updates {\n\t\tplan.MaxSurge", "if !s.paused {\n\t\tplan.MaxSurge", cloneSet("onDelete")},
		{
			"a gate that nobody holds is not opened", "podcontrol/step.go",
			"podreadiness.Edit{Initialize: initialize}", "podreadiness.Edit{}", cloneSet(),
		},
		{
			"templates ask for the deletion of their Pods", "podcontrol/podcontrol.go",
			"c.config.InPlace.StripReserved(&pod.ObjectMeta)", "_ = pod", cloneSet("reserved"),
		},
		{
			"templates change the controller's own labels", "inplaceupdate/updater.go",
			"maps.DeleteFunc(p.Labels, func(key string, _ *string) bool { return k.reservesLabel(key) })", "_ = p", cloneSet("reserved"),
		},
		{
			"a refusal is no reason to let an update rest", "podcontrol/executor/turn.go",
			"if refusal == nil || !plan.Possible() {", "if refusal = nil; refusal == nil {", fleet(),
		},
		{
			"Pods that do not serve use the budget of those that do", "podcontrol/choose.go",
			"c.Delete = rollout.ToDelete(step, chosen, func(pod *corev1.Pod) bool { return s.Of(pod).Serves() })", "c.Delete = chosen", fleet(),
		},
		{
			"something is written once, and nobody looks at the owner again", "fanout/fanout.go",
			"p.note(changed, true)", "p.note(changed, false)",
			schedules{tests: "../fanout", only: "TestOnce"},
		},
		{
			"what a Fleet has written is not awaited", "expectations/trackedclient/write.go",
			"err = errors.Join(err, c.tracker.Wrote(owner, t.source.Store, version))", "_ = owner", fleet(),
		},
		{
			"a webhook that is down is asked again and again", "fanout/fanout.go",
			"	default:\n		p.Wake(p.fanout.Backoff.Refused(a, err, p.view.Time()))\n", "", fleet(),
		},
		{
			"revisions that somebody numbered are not looked at", "revision/history.go",
			"numbered = cmp.Or(numbered, rev)", "numbered = nil", cloneSet("names"),
		},
		{
			"creations that are refused are repeated at once", "fanout/fanout.go",
			"return made, p.settle(ctx, task, err == nil, err != nil && ctx.Err() == nil, err)", "return made, err", fleet(),
		},
		{
			"an old broken Pod uses the budget up that would mend it", "rollout/budget.go",
			"\tif available {\n\t\tif b.unavailable >= b.limit {", "\tif available || b.unavailable > 0 {\n\t\tif b.unavailable >= b.limit {",
			hazard("TestBrokenPodIsUpdatedFirst"),
		},
		{
			"one Pod that cannot be updated holds up the rest of a Fleet", "examples/embed/fleet/fleet.go",
			"podcontrol.Orders{Rest: r.Executor.Rest}", "podcontrol.Orders{}", fleet(),
		},
		{
			"one Pod that nobody can read stops its Fleet", "examples/embed/fleet/fleet.go",
			"\tstep := rollout.Plan(",
			"\tfor _, pod := range pods.Active {\n\t\tif pod.Unreadable != nil {\n\t\t\treturn r.report(ctx, t, pod.Unreadable)\n\t\t}\n\t}\n\tstep := rollout.Plan(",
			fleet(),
		},
		{
			"a quota stops updates too", "fanout/fanout.go",
			"p.view.InDoubt() || reason.Retryable(errs...) != nil {", "p.view.InDoubt() || errors.Join(errs...) != nil {", fleet(),
		},
		{
			"a mistyped number of replicas is created in one pass", "fanout/fanout.go",
			"const PerPass = 500", "const PerPass = 50_000", hazard("TestMistypedReplicas"),
		},
		{
			"old revisions are never deleted", "revision/history/history.go",
			"return Delete(ctx, c, h.Excess(limit, counting, inUse, keep...))", "return Delete(ctx, c, h.Excess(1<<30, counting, inUse, keep...))", fleet(),
		},
		{
			"what was awaited for a Fleet stays when it is gone", "ownercache/gone.go",
			"\tc.clients.Forget(object)\n", "", hazard("TestNothingIsLeftOfDeletedFleets"),
		},
		{
			"what was refused to a Fleet stays when it is gone", "podcontrol/executor/executor.go",
			"\tcache.OnGone(f.Backoff.Forget)\n", "", hazard("TestNothingIsLeftOfDeletedFleets"),
		},
		{
			"what was read of a Fleet's Pods stays when it is gone", "podcontrol/executor/executor.go",
			"\tcache.OnGone(reader.Forget)\n", "", hazard("TestNothingIsLeftOfDeletedFleets"),
		},
		{
			"a Fleet is read before its writes are awaited, and not after", "ownercache/cache.go",
			"\tif cached, ok = c.Owners.Get(req.Namespace, req.Name); !ok {\n\t\treturn nil, ctrl.Result{}, nil\n\t}\n", "", fleet(),
		},
		{
			"a Pod that is being updated waits for its owner's writes", "ownercache/cache.go",
			"\tif pending, err := c.clients.Check(ctx, pod); pending != nil || err != nil {",
			"\tgate := client.Object(pod)\n\tif owner, ok := c.cachedOwnerOf(pod); ok {\n\t\tgate = owner\n\t}\n\tif pending, err := c.clients.Check(ctx, gate); pending != nil || err != nil {",
			hazard("TestFinishingDoesNotWaitForTheOwner"),
		},
		{
			"nobody comes back at the end of a grace period", "podcontrol/step.go",
			"\tstep.RequeueAfter = next.RequeueAfter\n", "", fleet(),
		},
		{
			"an Agent's requirements outlive its spec", "ownercache/memo.go",
			"if ok && known.generation == generation {", "if ok {", agents(),
		},
		{
			"nothing wakes an Agent for its Nodes", "examples/embed/agents/setup.go",
			"return pernode.Node{Run: v.Run, Continue: v.Continue}", "return pernode.Node{Run: v.Run && false}", agents(),
		},
		{
			"what ends at once on a Node is made there in a loop", "examples/embed/agents/agents.go",
			"pods := t.PerNode(podcontrol.PerNodeOptions{})", "pods := t.Set.PerNode(podcontrol.PerNodeOptions{Rest: r.Executor.Rest})", agents(),
		},
		{
			"an Agent does not say what it waits for", "examples/embed/agents/agents.go",
			"step.Limits.Err())", "error(nil))", agents(),
		},
		{
			"the status is computed and not written", "examples/embed/fleet/fleet.go",
			"_, statusErr := t.WriteStatus(ctx, status)", "statusErr := ctx.Err()", fleet(),
		},
		{
			"a Fleet does not say what was refused", "examples/embed/fleet/fleet.go",
			`reason.Condition("Failed", t.Owner.Generation, err)`, `reason.Condition("Failed", t.Owner.Generation, reason.Retryable(err))`, fleet(),
		},
		{
			"a Fleet does not say that the end of an update was refused", "examples/embed/fleet/fleet.go",
			"\t\tt.Unfinished,\n", "", fleet(),
		},
		{
			"without a lifecycle nobody knows which Pods are being updated", "podcontrol/podcontrol.go",
			"return !podstate.GateOpen(pod, c.config.InPlace.Gate())", "return false",
			schedules{tests: "../podcontrol", only: "TestIsUpdating"},
		},
		{
			"a Pod that nobody can read is not named while it waits to serve", "podcontrol/executor/turn.go",
			"if pod.Updating || !pod.Ready || !pod.Updated {", "if pod.Updating {", fleet(),
		},
		{
			"Pods are updated in the order of their names", "podcontrol/choose.go",
			"\torder.Sort(waiting, s.Select(func(*Pod) bool { return true }))\n", "\t_ = order\n", fleet(),
		},
		{
			"what is unavailable is counted in Pods and not in ordinals", "rollout/numbered/roster.go",
			"func (r *roster) unavailable() int { return r.Wanted.Len() - r.available }", "func (r *roster) unavailable() int { return len(r.pods) - r.available - r.excess }", games(),
		},
		{
			"Pods that are not wanted are deleted beyond the budget", "rollout/numbered/parallel.go",
			"case spare > 0:", "case spare > -1:", games(),
		},
		{
			"Pods are updated from the lowest ordinal", "rollout/numbered/roster.go",
			"for i := range slices.Backward(r.pods) {\n\t\tswitch e := &r.pods[i]; {", "for i := range r.pods {\n\t\tswitch e := &r.pods[i]; {", games(),
		},
		{
			"a Pod that nobody can read keeps the budget from others", "rollout/numbered/roster.go",
			"case e.Rest > 0:\n", "case e.Rest > 0 && len(r.pods) > 100:\n", games(),
		},
		{
			"Pods below the partition are created anew", "podcontrol/executor/numbered.go",
			`{{"create old Pods", true, from.Current}`, `{{"create old Pods", true, t.History.Update}`, games(),
		},
		{
			"new Pods are not held for their first match", "podcontrol/podcontrol.go",
			"c.machine(rules).Stamp(", "c.config.Lifecycle.Stamp(", games(),
		},
		{
			"Pods are updated while their match runs", "lifecycle/next.go",
			"if state != Updating && state != Updated && f.inPlaceUpdate.hooked {", "if state == Normal && f.Settled && f.inPlaceUpdate.hooked {", games(),
		},
		{
			"what waits for a match and is wanted after all waits for ever", "podcontrol/step.go",
			"lifecycle.Want{Intent: lifecycle.Cancel, Settled: true}", "lifecycle.Want{Intent: lifecycle.Cancel}", games(),
		},
		{
			"a name that somebody else has keeps other Pods from being created", "podcontrol/executor/numbered.go",
			"case !taken:", "case !taken || !metav1.IsControlledBy(pod, t.Owner):", games(),
		},
		{
			"the current revision is forgotten before the rollout is over", "examples/embed/gameservers/gameservers.go",
			"if complete {", "if complete || len(d.members.Pods) > 2 {", games(),
		},
		{
			"Pods that nobody controls are taken for the owner's", "ownercache/cache.go",
			"v.Pods, v.Revisions = c.podsOf(owner), ", "v.Pods, v.Revisions = append(c.podsOf(owner), c.Pods.Orphans(namespace)...), ", games(),
		},
		{
			"the next authority signs as soon as it is announced", "webhookcert/decide.go",
			"case now.Before(from.Add(c.Overlap)):", "case now.Before(from):", rotators(),
		},
		{
			"a late rotator puts back the bundle that it knows", "webhookcert/rotator/write.go",
			"if err := r.refresh(ctx, r.secret); err != nil {\n\t\tr.fail(ctx, &o.attempts, err)", "if err := error(nil); err != nil {\n\t\tr.fail(ctx, &o.attempts, err)", rotators(),
		},

		{"a Pod goes before its claim knows, because the word did not get through", "examples/kinds/statefulset/decide.go", "if t.own = append(t.own, owned...); len(owned) > 0 {", "if t.own = append(t.own, owned...); len(owned) > 1000 {", statefulSet()},
		{"a claim goes with a Pod that is wanted", "examples/kinds/statefulset/decide.go", "wanted, active := o.settings.rollout.Wanted.Contains(ordinal), ", "wanted, active := ordinal == 0, ", statefulSet()},
		{
			"a Pod that is not wanted goes before its claim knows", "examples/kinds/statefulset/decide.go",
			"owned := claims.Owned(pod.Name, pod, wanted)", "owned := []pvc.Owned(nil)", statefulSet(),
		},
		{
			"a Pod gets a claim that is on its way out", "pvc/numbered.go",
			"if claim.DeletionTimestamp != nil || n.Retention != nil && n.Retention.WithPod && IsStale", "if n.Retention != nil && n.Retention.WithPod && IsStale", statefulSet(),
		},
		{
			"claims that others change wake nobody", "ownercache/watch_claims.go",
			"range numberedOwners(claim.GetName()) {", "range numberedOwners(claim.GetNamespace()) {", statefulSet(),
		},
		{
			"claims grow all at once", "examples/kinds/statefulset/decide.go",
			"for _, pod := range o.members.Of(t.step.Update) {", "for _, pod := range o.pods.Select(func(p *podcontrol.Pod) bool { return p.Ready }) {", statefulSet(),
		},
		{
			"Pods whose volumes grow count as serving", "examples/kinds/statefulset/decide.go",
			"p.Health, p.Starting = rollout.Unavailable, true", "p.Starting = true", statefulSet(),
		},
		{
			"a Pod is updated before its volume has grown", "examples/kinds/statefulset/decide.go",
			"if sizes.Ready() {", "if sizes.Fit() {", statefulSet(),
		},
		{
			"claims that are larger than their template shrink", "pvc/growth.go",
			"return has.Cmp(wanted) < 0", "return has.Cmp(wanted) != 0", statefulSet(),
		},
		{
			"claims that cannot grow keep the budget from others", "examples/kinds/statefulset/decide.go",
			"max(p.Rest, sizes.Rest)", "max(p.Rest, sizes.Rest*0)", statefulSet(),
		},
		{
			"of claims that were refused, the last is tried for ever", "rollout/numbered/roster.go",
			"slices.SortStableFunc(resting, func(a, b *entry) int { return cmp.Compare(a.Rest, b.Rest) })", "_ = cmp.Compare[int]",
			schedules{tests: "../rollout/numbered", only: "TestUpdate"},
		},
		{
			"claims that cannot grow are asked for in each pass", "fanout/fanout.go",
			"p.Wake(min(p.fanout.Backoff.Refused(attempt, err, p.view.Time()), again))", "_ = err", statefulSet(),
		},
		{"orphans are not adopted", "examples/kinds/statefulset/decide.go", "t.adopt = split.Adopt", "t.adopt = split.Adopt[:0]", statefulSet()},
		{"Pods of other names are adopted", "examples/kinds/statefulset/decide.go", "return ok && name == o.set.Name", "return ok || name == o.set.Name", statefulSet()},
		{"Pods keep labels that name another", "examples/kinds/statefulset/decide.go", "if active && o.identity(pod).Labels != nil {", "if active && o.identity(pod).Labels == nil {", statefulSet()},
		{"env of an update that has lost its state is not delivered", "inplaceupdate/lost.go", "p.RefMetadata = all.RefMetadata\n", "_ = all.RefMetadata\n", schedules{tests: "../inplaceupdate", only: "TestRedoOfEnv"}},
		{"Pods that are broken together are scaled in", "rollout/numbered/ordered.go", "case r.waitsForBegun() || r.scaleInWaits() ||", "case r.waitsForBegun() ||", schedules{tests: "../rollout/numbered", only: "TestOrdered"}},
		{
			"Pods are created past those below that do not serve", "examples/kinds/statefulset/resolve.go",
			"parallel := spec.PodManagementPolicy == appsv1.ParallelPodManagement", "parallel := spec.PodManagementPolicy != \"\" || appsv1.ParallelPodManagement == \"\"", statefulSet(),
		},
		{"one Pod more than may is taken out of service", "examples/kinds/statefulset/resolve.go", "return max(read.Count(path, value, replicas, partition.Down), 1)", "return max(read.Count(path, value, replicas, partition.Down), 1) + 1", statefulSet()},
		{"a stopped pass tells nobody why", "examples/kruise/stop.go", "\t_, err = turn.WriteStatus(ctx, status)\n", "\t_, err = status, nil\n", statefulSet()},
		{"a condition that stays gets a new time with each pass", "examples/kruise/stop.go", "if old != condition {", "if old != \"\" {", statefulSet()},
		{"a pause holds nothing up", "examples/kinds/statefulset/resolve.go", "kind == onDelete, ru.Paused\n", "kind == onDelete, ru.Paused && replicas < 0\n", statefulSet()},
		{"a Pod is given back to a revision that is no more", "examples/kinds/statefulset/controller.go", "if !s.rollout.OnDelete && o.members.IsComplete(s.rollout.Wanted) {", "if s.rollout.OnDelete && o.members.IsComplete(s.rollout.Wanted) {", statefulSet()},
	}...)
}

// TestMutants checks that the tests find mistakes. For each selected mistake, TestMutants runs the tests on code with
// only this mistake, and fails if the tests pass. The environment variables MUTANTS and MUTANTS_DRAW select the
// mistakes; see sampleSize and sample.
func TestMutants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds controllers anew, each with a mistake")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	all := mutants()
	n, err := sampleSize(os.Getenv("MUTANTS"), len(all))
	if err != nil {
		t.Fatal(err)
	}
	draw := os.Getenv("MUTANTS_DRAW")
	t.Logf("%d of %d mistakes, drawn from %q", n, len(all), draw)
	drawn := sample(all, n, draw)
	planted := &field{parent: t, root: root, all: drawn, binaries: map[string]string{}, alone: map[string]bool{}}
	for _, m := range drawn {
		t.Run(filepath.Base(m.tests)+": "+m.name, func(t *testing.T) {
			binary, environment := planted.binary(t, m)
			test := cmp.Or(m.only, "TestFaults")
			cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^"+test+"$")
			cmd.Dir = filepath.Join(root, "examples", m.tests)
			cmd.Env = append(os.Environ(), "CHAOS_SEEDS=6000", "CHAOS_PLAYS=0", "CHAOS_FAILURES=1", "CLONESET_WITH="+m.with, fmt.Sprintf("CHAOS_FIRST_SEED=%d", max(m.first, 1)))
			cmd.Env = append(cmd.Env, environment...)
			out, err := cmd.CombinedOutput()
			if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			found := regexp.MustCompile(`seed \d+: .*`).Find(out)
			if m.only != "" { // the failure must be a failure of this test
				found = regexp.MustCompile(`--- FAIL: ` + m.only + `[^\n]*(\n[^\n]+)?`).Find(out)
			}
			if err == nil || found == nil {
				t.Fatalf("%s does not find the mistake: %v\n%s", test, err, out)
			}
			t.Logf("%s", found)
		})
	}
}

// TestMutantsAreCurrent checks that each mistake still applies to the code. TestMutantsAreCurrent fails at once after
// a change of code to which a mistake no longer applies, while TestMutants takes long.
func TestMutantsAreCurrent(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) { m.mutated(t, root) })
	}
}

// mutated returns the path of the file, and the content of the file with the mistake.
func (m mutant) mutated(t *testing.T, root string) (path, content string) {
	t.Helper()
	path = filepath.Join(root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s has %d places with %q, where the mistake needs one: the code has moved on, and the list must follow", m.file, n, m.old)
	}
	return path, strings.Replace(string(source), m.old, m.new, 1)
}

func imagePullJobMutants() []mutant {
	of := schedules{tests: "./kinds/imagepulljob"}
	test := func(name string) schedules { return schedules{tests: "./kinds/imagepulljob", only: name} }
	return []mutant{
		{
			"a Pod that was evicted after its pull is created again", "examples/kinds/imagepulljob/decide_memory.go",
			"\tcase isPulled:\n\tcase isFull:", "\tcase isPulled:\n\t\treturn node\n\tcase isFull:", test("TestPulledStays"),
		},
		{
			"a Pod is created for a Node that is being drained", "examples/kinds/imagepulljob/decide_memory.go",
			"o.Settings.policy.Keep && !t.Node.Spec.Unschedulable {", "o.Settings.policy.Keep {", test("TestPulledStays"),
		},
		{
			"a new Node of the same name counts as pulled", "examples/kinds/imagepulljob/decide_memory.go",
			"return instance{node.Name, node.UID} }", `return instance{node.Name, ""} }`, test("TestPulledStays"),
		},
		{
			"full Nodes get more Pods at once than the parallelism allows", "examples/kinds/imagepulljob/decide_pods.go",
			"left := since.Add(patience).Sub(o.Now)", "left := since.Sub(since)", test("TestFullNodes"),
		},
		{
			"a full Node keeps its place before other Nodes", "examples/kinds/imagepulljob/decide_memory.go",
			"return append(first, last...)", "return append(last, first...)", test("TestFullNodes"),
		},
		{
			"Pods that only hold an image use up the quota of their job", "examples/kinds/imagepulljob/decide.go",
			`o.makeRoom(targets, nodes, d)`, "", test("TestQuota"),
		},
		{
			"a failed attempt keeps the quota from the next attempt", "examples/kinds/imagepulljob/decide_memory.go",
			"if o.Memory.isShort && len(d.Create) > before &&", "if o.Memory.isShort && len(d.Create) < before &&", test("TestRetriesUnderQuota"),
		},
		{
			"Pods give way again and again while nothing may be created", "examples/kinds/imagepulljob/decide_memory.go",
			"if !o.Memory.isShort || o.IsResting ||", "if !o.Memory.isShort ||", test("TestRoomIsMadeOnce"),
		},
		{
			"a full Node is first when its time to try again has come", "examples/kinds/imagepulljob/decide_memory.go",
			"\t\td.Memory.full[key] = refused\n\t\tif wait := refused.at.Add(fullFor).Sub(o.Now); wait > 0 && node.NotReady == \"\" {",
			"\t\tif wait := refused.at.Add(fullFor).Sub(o.Now); wait > 0 && node.NotReady == \"\" {\n\t\t\td.Memory.full[key] = refused", test("TestFullNodesStayLast"),
		},
		{
			"a Node without room for an image loses the image that the Node has", "examples/kinds/imagepulljob/decide_pods.go",
			"renews && node.NotReady == \"\" {", "renews {", test("TestRenewalWaits"),
		},
		{
			"an image that was lost counts as a failed pull", "node/imagepull/kubeletpull/record.go",
			"out.Answers = append(out.Answers, answer(a))", "_ = a", test("TestLostImages"),
		},
		{
			"a missing Pod is created beyond the parallelism", "examples/kinds/imagepulljob/decide_memory.go",
			"if len(next.Create) > 0 { //", "if len(next.Create) > 0 && d.Create == nil {\n\t\t\td.Create = next.Create\n\t\t}\n\t\tif len(next.Create) < 0 { //", of,
		},
		{
			"the kubelet pulls for a job that has ended", "examples/kinds/imagepulljob/decide_pods.go",
			"if pullsAlways(pod) {", "if pullsAlways(pod) && o.Now.IsZero() {", test("TestAlwaysEnds"),
		},
		{
			"a Pod with a changed name of the image is deleted and created for ever", "node/imagepull/kubeletpull/pod.go",
			`if r := p.recordOf(pod); r.Node != "" {`, `if r := p.recordOf(pod); r.Node == "-" {`,
			schedules{tests: "../node/imagepull/kubeletpull", only: "TestChangedPods"},
		},
		{
			"a running job loses the answers of its Nodes when the TTL of a tag passes", "examples/kinds/nodeimage/decide.go",
			`claim.Owner != "" && o.Runs(refs[claim.Owner])`, `claim.Owner != "" && !o.Exists(refs[claim.Owner])`,
			schedules{tests: "./kinds/imagepulljob", first: 200},
		},
		{
			"a job holds copies of Secrets after its end", "examples/kinds/imagepulljob/act.go",
			"if err := r.releaseCopies(ctx, v, pass); err != nil {", "if err := error(nil); err != nil {", of,
		},
		{
			"a selected Node that the cache does not show loses its claim", "examples/kinds/imagepulljob/decide.go",
			"selected := sets.New(o.Selected...)", "selected := sets.New[string]()\n\tfor i := range o.Targets {\n\t\tselected.Insert(o.Targets[i].Name)\n\t}",
			schedules{tests: "./kinds/imagepulljob", first: 1793},
		},
		{
			"copies of Secrets are made for a job that is gone", "ownercache/status.go",
			"case apierrors.IsNotFound(err) && wanted:", "case apierrors.IsNotFound(err) && wanted && name == \"\":",
			schedules{tests: "./kinds/imagepulljob", first: 2448},
		},
		{
			"a job that ends lets go of copies that the cache does not show yet", "examples/kinds/imagepulljob/controller.go",
			"	// made in this reconcile.\n\treturn errors.Join(err, r.write(ctx, v, d.Status))",
			"	if err := errors.Join(err, r.write(ctx, v, d.Status)); err != nil || d.Step.State == completion.Running {\n\t\treturn err\n\t}\n\treturn r.letGo(ctx, v, pass)",
			schedules{tests: "./kinds/imagepulljob", only: "TestFaultsAtEnd"},
		},
		{
			"a failed pull through a kubelet is not on record", "examples/kinds/imagepulljob/decide_pods.go",
			"d.Change, d.Create, d.Delete = append(d.Change, step.Change...), ", "d.Create, d.Delete = ", of,
		},
		{
			"copies of Secrets stay when kubelets pull", "examples/kinds/imagepulljob/secrets.go",
			"return nil, r.letGo(ctx, v, pass)", "return nil, nil", of,
		},
		{
			"Pods without an image stay after the end of a job", "examples/kinds/imagepulljob/decide_pods.go",
			"if !found || report.Phase != imagepull.Succeeded {", "if !found {", of,
		},
		{
			"each Pod that waits for the next attempt is deleted", "node/imagepull/kubeletpull/record.go",
			"s.kept[newest.Name] = true\n", "",
			schedules{tests: "../node/imagepull/kubeletpull", only: "TestRecords"},
		},
		{
			"a failed read of a Secret counts as a look at the Secret", "examples/kinds/imagepulljob/secrets.go",
			"if source.Err != nil {", "if source.Err != nil && len(names) > 9 {",
			schedules{tests: "./kinds/imagepulljob", first: 326},
		},
		{
			"a conflict over a NodeImage without a Node is not tried again", "examples/kinds/nodeimage/controller.go",
			"return client.IgnoreNotFound(c.Delete(ctx, image.DeepCopy(), client.Preconditions{UID: &uid}))",
			"_ = c.Delete(ctx, image.DeepCopy(), client.Preconditions{UID: &uid})\n\treturn nil",
			schedules{tests: "./kinds/imagepulljob", first: 301},
		},
	}
}
