package chaos_test

// sidecarSetMutants are mistakes that the schedules of SidecarSet must find, or a test where no schedule can.
func sidecarSetMutants() []mutant {
	const kit, upgrader, controller = "sidecarcontrol/", "sidecarcontrol/upgrader/upgrader.go", "examples/controllers/sidecarset/"
	found := schedules{tests: "./controllers/sidecarset"}
	by := func(test string) schedules { return schedules{tests: "./controllers/sidecarset", only: test} }
	return []mutant{
		{"a Pod is said to be upgraded whose containers have only some of the new images", kit + "upgrade.go", "for i := range s.pairs {\n\t\tif err := e.move(", "for i := range s.pairs {\n\t\tif len(e.images) > 0 {\n\t\t\tcontinue\n\t\t}\n\t\tif err := e.move(", found},
		{"whoever writes to a Pod says what its containers run next", kit + "standing.go", "!isForSidecars(name) })", "!isForSidecars(name) && len(name) > 100 })", found},
		{"images are written without the word that the Pod has them", kit + "upgrade.go", "if err := c.keys.recordIn(e.annotations, []*Set{set}, now); err != nil {", "if err := error(nil); err != nil {", found},
		{"the container that works is emptied before the other one is ready", kit + "standing.go", "s.Flip = !waits.Has(\"\") &&", "s.Flip = true || !waits.Has(\"\") &&", found},
		{"a hot upgrade never ends", upgrader, "bool { return s.Flip })", "bool { return s.Flip && s.Busy })", found},
		{"both containers of a hot upgrade get the new image", kit + "upgrade.go", "e.give(name, p.s.Image)\n", "e.give(name, p.s.Image)\n\t\te.give(other, p.s.Image)\n", found},
		{"the other one's turn is not written down", kit + "upgrade.go", "return e.work(p, target)\n", "return nil\n", found},
		{"one Pod more than may is out of service", kit + "choose.go", "case away >= r.MaxUnavailable:", "case away > r.MaxUnavailable:", found},
		{"a Pod that another set upgrades does not count", kit + "choose.go", "return s.Busy || s.failing ||", "return s.failing ||", found},
		{"two sets take a Pod each at the same time", upgrader, "claimed := u.claims[s.Pod.UID] != \"\"", "claimed := u.claims[s.Pod.UID] == \"nobody\"", found},
		{"a Pod whose upgrade has failed does not count", kit + "choose.go", "len(s.Waiting) > 0 || s.Updated && !s.Ready", "len(s.Waiting) > 0 && s.Ready", found},
		{"the partition is ignored", kit + "choose.go", "n := max(len(waiting)-max(r.Partition, 0), 0)", "n := max(len(waiting)-min(r.Partition, 0), 0)", found},
		{"the selector of the rollout is ignored", kit + "choose.go", "(r.Selector == nil || r.Selector.Matches(", "(r.Selector == nil || true || r.Selector.Matches(", found},
		{"a pause holds nothing up", controller + "controller.go", "&& !update.Paused {", "&& (!update.Paused || s.selector != nil) {", found},
		{"Pods are upgraded that only users are to replace", controller + "controller.go", "if update.Type != pub.SidecarSetNotUpdate && !", "if !", found},
		{"Pods are upgraded whose sidecars differ in more than images", kit + "standing.go", "if err == nil && withoutImages.of(", "if err == nil && len(hashes) > 10 && withoutImages.of(", found},
		{"Pods that the set does not match any more are upgraded", upgrader, "if plan.Selects != nil && !plan.Selects(pod) {", "if plan.Selects != nil && !plan.Selects(pod) && len(pod.Labels) > 10 {", found},
		{"how a Pod stood is remembered when its set has changed", upgrader, "if last == nil || !set.Equal(last.set) {", "if last == nil {", found},
		{"how a Pod stood is remembered when it has changed", upgrader, "if s == nil || s.Pod != pod || !s.Settled() {", "if s == nil || !s.Settled() {", found},
		{"a refused Pod is never tried again", upgrader, "wait = sooner(wait, rest)\n", "", found},
		{"nobody looks again at a Pod that another set has let go of", upgrader, "wait = sooner(wait, time.Second)\n", "", found},
		{"a state that nobody can read counts as an upgrade that goes on", kit + "standing.go", "\ts.Blocked.Add(UnreadableRecord, err)\n\twaits :=", "\ts.Blocked.Add(UnreadableRecord, err)\n\ts.Waiting.Add(UnreadableRecord, err)\n\twaits :=", schedules{tests: "../sidecarcontrol", only: "TestForgedRecords"}},
		{"what another set has written is overwritten", kit + "upgrade.go", "change.ResourceVersion = e.pod.ResourceVersion // other", "change.ResourceVersion = \"\" // other", found},
		{"namespaces that change wake nobody", controller + "controller.go", "if set.Spec.NamespaceSelector != nil {", "if set.Spec.NamespaceSelector == nil {", found},
		{"Pods are counted that do not have the newest sidecars", controller + "controller.go", "if s.Updated && s.Serves() {", "if s.Serves() {", found},
		{"native sidecars are left out of upgrades", kit + "set.go", "upgraded: !init || podstate.IsNativeSidecar(&s.Container)", "upgraded: !init || podstate.IsNativeSidecar(&s.Container) && s.Name == \"\"", by("TestNativeUpgrade")},
		{"the condition is written where there is nothing to tell", kit + "condition.go", "told && was == upgradable || !told && upgradable", "told && was == upgradable", by("TestTakeOver")},
	}
}
