package chaos_test

// sidecarSetMutants are mistakes that the schedules of SidecarSet must find.
func sidecarSetMutants() []mutant {
	const control, upgrader, controller = "sidecarcontrol/", "sidecarcontrol/upgrader/upgrader.go", "examples/controllers/sidecarset/"
	found := schedules{tests: "./controllers/sidecarset"}
	return []mutant{
		{"a Pod gets a container without its volume", control + "inject.go", "d.addVolumes = append(d.addVolumes, *volume)", "_ = volume.Name", found},
		{"a Pod gets sidecars and does not say so", control + "record.go", "d.annotations[keys.InjectedAnnotation] = strings.Join(slices.Compact(names), \",\")", "_ = strings.Join(slices.Compact(names), \",\")", found},
		{"a Pod gets sidecars without their hash", control + "record.go", "d.addProblems(\"\", keys.recordIn(d.annotations, d.sets, now))", "_ = now", found},
		{"sidecars are injected a second time", control + "placement.go", "return own.Name == c.Name })", "return own.Name == c.Name && after })", found},
		{"a Pod that is refused has changed", control + "inject.go", "d := newDraft(c, pod, chosen)\n", "d := newDraft(c, pod, chosen)\n\td.own[0].Env = append(d.own[0].Env, corev1.EnvVar{Name: \"B\"})\n", found},
		{"new Pods get the newest sidecars whatever revision is named", control + "inject.go", "\treturn pin.Set\n", "\treturn s\n", found},
		{"a revision that new Pods get is deleted", controller + "revision.go", "used[rev.Name] = true", "used[rev.Namespace] = true", found},
		{"a revision that Pods have is deleted", controller + "revision.go", "used[r.control.RevisionOf(pod, v.Owner.Name)] = true", "used[r.control.RevisionOf(pod, pod.Name)] = true", found},
		{"the application gets the image of a sidecar", control + "upgrade.go", "list[i].Name == container && list[i].Image != image {", "(list[i].Name == container || list[i].Name == \"app\") && list[i].Image != image {\n\t\t\t\tcontainer = list[i].Name", found},
		{"native sidecars are not upgraded", control + "upgrade.go", "for _, list := range [][]corev1.Container{e.pod.Spec.InitContainers, e.pod.Spec.Containers} {", "for _, list := range [][]corev1.Container{e.pod.Spec.Containers} {", found},
		{"both containers of a hot upgrade get the image", control + "upgrade.go", "\t\te.give(name, p.s.Image)\n", "\t\te.give(name, p.s.Image)\n\t\te.give(other, p.s.Image)\n", found},
		{"the container that works gets the new image", control + "hot.go", "\t\t{p.twins[0].isEmpty, 0},\n\t\t{p.twins[1].isEmpty, 1},", "\t\t{p.twins[0].isEmpty, 1},\n\t\t{p.twins[1].isEmpty, 0},", found},
		{"a hot upgrade ends before the new container runs its image", control + "standing.go", "s.Flip = !waits.Has(\"\") && !slices.ContainsFunc(waits.UnsortedList(), others) &&", "s.Flip = true &&", found},
		{"the container that works becomes idle", control + "upgrade.go", "e.rest(p, 1-p.working)", "e.rest(p, p.working)", found},
		{"hot upgrades do not end", upgrader, "func(s *sidecarcontrol.Standing) bool { return s.Flip }), Flipped,", "func(s *sidecarcontrol.Standing) bool { return s.Flip && s.Busy }), Flipped,", found},
		{"one Pod more than may is out of service", control + "choose.go", "case away >= r.MaxUnavailable:", "case away > r.MaxUnavailable:", found},
		{"Pods whose upgrade goes on do not count as out of service", control + "choose.go", "\t\tif s.isAway() {\n\t\t\taway++", "\t\tif s.isAway() && !s.Ready {\n\t\t\taway++", found},
		{"Pods that another set upgrades do not count as out of service", control + "choose.go", "return s.Busy || s.failing ||", "return s.failing ||", found},
		{"what another set is about to upgrade does not count", upgrader, "claimed := u.claims[s.Pod.UID] != \"\"", "claimed := u.claims[s.Pod.UID] == set.Name()", found},
		{"Pods that a new list shows count as out of service", upgrader, "newest == nil || newest.ResourceVersion != s.Pod.ResourceVersion", "newest != s.Pod", found},
		{"two sets upgrade one Pod at a time", control + "upgrade.go", "change.ResourceVersion = e.pod.ResourceVersion // other", "_ = e.pod.ResourceVersion // other", found},
		{"a Pod with a bad image is not upgraded to the next one", control + "choose.go", "case s.isAway(): // it", "case s.failing:\n\t\t\tcontinue\n\t\tcase s.isAway(): // it", found},
		{"the partition is ignored", control + "choose.go", "max(len(waiting)-max(r.Partition, 0), 0)", "max(len(waiting)-max(r.Partition, 0), len(waiting))", found},
		{"the selector of the strategy is ignored", control + "choose.go", "r.Selector == nil || r.Selector.Matches(labels.Set(s.Pod.Labels))", "r.Selector == nil || r.Selector.Matches(labels.Set(s.Pod.Labels)) || s.Injected", found},
		{"a pause holds nothing up", controller + "controller.go", "if update.Type != pub.SidecarSetNotUpdate && !update.Paused {", "if update.Type != pub.SidecarSetNotUpdate {", found},
		{"Pods are upgraded that are only to be injected", controller + "controller.go", "if update.Type != pub.SidecarSetNotUpdate && !update.Paused {", "if !update.Paused {", found},
		{"Pods are upgraded that the set does not select any more", controller + "controller.go", "set.Matches(pod.Labels, namespace.Labels)", "set.Matches(map[string]string{\"app\": \"web\"}, namespace.Labels)", found},
		{"Pods of namespaces are upgraded that the set does not select any more", controller + "controller.go", "set.Matches(pod.Labels, namespace.Labels)", "set.Matches(pod.Labels, map[string]string{\"team\": \"a\"})", found},
		{"nobody looks at a namespace that has changed", controller + "controller.go", "if set.Spec.NamespaceSelector != nil {", "if set.Spec.NamespaceSelector == nil {", found},
		{"a Pod whose containers differ in more than images is upgraded in place", control + "standing.go", "if err == nil && withoutImages.of(set.spec.Name).Hash != set.spec.HashWithoutImages {", "if err != nil && withoutImages.of(set.spec.Name).Hash != set.spec.HashWithoutImages {", found},
		{"a Pod is said to be upgradable before it is", control + "condition.go", "upgradable := len(s.Blocked) == 0", "upgradable := len(s.Blocked) == 0 || !s.Ready", found},
		{"what another set has said of a Pod is lost", control + "condition.go", "condition != nil && json.Unmarshal([]byte(condition.Message), &said) != nil", "condition != nil && said != nil", found},
		{"images come without their hash", control + "upgrade.go", "c.keys.recordIn(e.annotations, []*Set{set}, now)", "c.keys.recordIn(e.annotations, nil, now)", found},
		{"an upgrade leaves the annotations of the set behind", control + "upgrade.go", "problems := set.patch(e.annotations, reason.ObjectOf(\"Pod\", s.Pod))", "problems := set.patch(map[string]string{}, reason.ObjectOf(\"Pod\", s.Pod))", found},
		{"Pods that were given new images are counted before", controller + "controller.go", "\t\tif s.Updated {\n\t\t\tstatus.UpdatedPods++", "\t\tif s.Updated && s.Ready {\n\t\t\tstatus.UpdatedPods++", found},
		{"Pods that are not in service are counted as ready", controller + "controller.go", "\t\tif s.Serves() {", "\t\tif s.Serves() || s.Updated {", found},
		{"own writes of a SidecarSet are not awaited", "ownercache/cache.go", "case pending != nil:", "case pending != nil && pending.Late:", found},
	}
}
