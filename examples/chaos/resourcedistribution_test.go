package chaos_test

// resourceDistributionMutants returns the mistakes that the fault schedules of ResourceDistributions must find, and
// mistakes that only another test finds.
func resourceDistributionMutants() []mutant {
	const folder, meaning = "examples/kinds/resourcedistribution/", "examples/kinds/resourcedistribution/"
	const act, watch, copies, targets, status = folder + "act.go", folder + "watch.go", meaning + "decide.go", meaning + "resolve.go", meaning + "status.go"
	found := schedules{tests: "./kinds/resourcedistribution"}
	return []mutant{
		{"what is somebody else's is taken for a copy", copies, "case ownerOf(found) != distributor.Name:", "case ownerOf(found) != distributor.Name && found.GetUID() == \"\":", found},
		{"copies of a former distributor of the name stay its own", copies, "metav1.GetControllerOfNoCopy(live).UID != owner.UID {", "metav1.GetControllerOfNoCopy(live).UID != owner.UID && owner.UID == \"\" {", found},
		{"system namespaces get copies", targets, "case excluded.Has(name), !chosen, api.IsSystem(name) &&", "case excluded.Has(name), !chosen, api.IsSystem(name) && namespace == nil &&", found},
		{"the list comes before the exclusion", targets, "case excluded.Has(name), !chosen,", "case excluded.Has(name) && !isListed, !chosen,", found},
		{"an edited copy is taken for what it was", copies, "known.UID != string(found.GetUID()) || known.Version != found.GetResourceVersion() ||", "known.UID != string(found.GetUID()) ||", found},
		{"another template is not looked for", copies, " || known.Hash != resource.Hash:", ":", found},
		{"keys that were added stay", copies, "if _, ok := want[key]; !ok && removes {", "if _, ok := want[key]; !ok && !removes {", found},
		{"labels of others are taken off", copies, "changed(want.GetLabels(), live.GetLabels(), same, false)", "changed(want.GetLabels(), live.GetLabels(), same, true)", found},
		{"labels are not copied", copies, "put(patch, \"labels\",", "put(map[string]any{}, \"labels\",", found},
		{"what is immutable is written to", copies, "if ptr.Deref(isImmutable, false) && len(patch) > 0 {", "if ptr.Deref(isImmutable, false) && len(patch) > 9 {", found},
		{"a copy is patched whatever it has become", copies, "meta[\"uid\"], meta[\"resourceVersion\"] = live.GetUID(), live.GetResourceVersion()", "meta[\"uid\"] = live.GetUID()", found},
		{"copies that are not wanted stay", act, "\t\t\tw.extra = append(w.extra, found)\n", "\t\t\tw.extra = append(w.extra, found)[:0]\n", found},
		{"copies that are wanted are deleted", act, "if !wanted[namespace] && exists &&", "if exists &&", found},
		{"nobody tries again what was refused in one namespace", act, "err := pass.Try(fanout.Task{Name: \"write copy\"}, p.UID, func() (err error) {", "err := func(_ fanout.Task, _ types.UID, do func() error) error { return do() }(fanout.Task{}, p.UID, func() (err error) {", found},
		{"conflicts are not tried again", act, "\tcase apierrors.IsNotFound(err), apierrors.IsConflict(err):\n\t\tpass.Wake(again)\n\t\treturn \"\", \"\", errSettled\n", "\tcase apierrors.IsNotFound(err), apierrors.IsConflict(err):\n\t\treturn \"\", \"\", errSettled\n", found},
		{"namespaces that lose a label wake nobody", watch, "if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||", "if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectOld.GetLabels()) ||", found},
		{"namespaces that come wake nobody", watch, "CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { r.wakeAll(q) },", "", found},
		{"what was in the way wakes nobody when it goes", watch, "resourceKey(kind, object.GetName()))))", "resourceKey(kind, object.GetNamespace()))))", found},
		{"conflicts count as copies", act, "\t\tw.fail(d.Condition(), namespace, d.Why)\n", "\t\tw.fail(d.Condition(), namespace, d.Why)\n\t\tw.done(namespace, \"\")\n", found},
		{"namespaces of a condition are in another order", status, "slices.Sorted(maps.Keys(failed))", "slices.SortedFunc(maps.Keys(failed), func(a, b string) int { return slices.Compare([]string{b}, []string{a}) })", found},
		{"somebody who undoes copies has them made again as fast as can be", act, "if err == nil && p.undone {", "if err != nil && p.undone {", schedules{tests: "./kinds/resourcedistribution", only: "TestContested"}},
		{"a copy that somebody undoes is never made again", act, "	pass.Wake(wait)\n	return err\n}", "	pass.Wake(-wait)\n	return err\n}", found},
		{"what is wrong with a copy is forgotten", act, "knownOf(live, w.resource.Hash, d.Why)", "knownOf(live, w.resource.Hash, reason.Reason{})", found},
	}
}
