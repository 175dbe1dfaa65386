package chaos_test

// unitedDeploymentMutants returns the mistakes that the fault schedules of UnitedDeployments must find.
func unitedDeploymentMutants() []mutant {
	const folder = "examples/kinds/uniteddeployment/"
	const pass, change, workload, revisions = folder + "decide.go", folder + "decide_workload.go", folder + "resolve_workload.go", folder + "decide_revision.go"
	const closed = folder + "decide_closed.go"
	const controller, watch, status = folder + "controller.go", folder + "watch.go", folder + "status.go"
	found := schedules{tests: "./kinds/uniteddeployment"}
	only := func(test string) schedules { return schedules{tests: "./kinds/uniteddeployment", only: test} }
	return []mutant{
		{"a workload without its label wakes nobody", watch, "names = []string{ref.Name}\n\t\t}\n\t\treturn names", "_ = ref.Name\n\t\t}\n\t\treturn names", found},
		{"of several workloads of a subset the oldest stays", pass, "cmp.Compare(partsOf(b).ready, partsOf(a).ready),", "", found},
		{"a workload on its way out is kept", pass, "cmp.Compare(ending(a), ending(b)), ", "", found},
		{"further workloads of a subset stay", pass, "t.surplus = append(t.surplus, &write{w, nil})", "t.surplus = nil", found},
		{"workloads of removed subsets stay", pass, "t.gone = append(t.gone, &write{w, nil})", "t.gone = nil", found},
		{"workloads of another kind are kept", pass, "case wanted && byName[name] == nil && reflect.TypeOf(w) == kind:", "case wanted && byName[name] == nil:", found},
		{"a workload on its way out is written", pass, "case p.have.GetDeletionTimestamp() != nil:", "case p.have.GetDeletionTimestamp() != nil && p.replicas < 0:", found},
		{"replicas have no place if all subsets are closed", pass, "d.Left > 0 && !o.settings.reserve; i--", "d.Left > 99 && !o.settings.reserve; i--", only("TestLastSubsetStaysOpen")},
		{"Pods prove nothing", pass, "p.mark.Standing = subsets.Proving(p.mark.Standing, len(p.reserved))", "p.mark.Standing = subsets.Closed", found},
		{"a subset on trial is open at once", pass, "if d.Replicas[i] > states[i].Replicas {", "if d.Replicas[i] > 99+states[i].Replicas {", only("TestTrialCourse")},
		{"Pods of an old revision prove something", pass, "reserved, wait = true, 0 // an old", "wait = 0 // an old", only("TestReservedPods")},
		{"new Pods come before held Pods", "subsets/divide.go", "now.isHeld() {\n\t\t\t\tdemand", "now.isHeld() && i < 0 {\n\t\t\t\tdemand", schedules{tests: "../subsets", only: "TestHold"}},
		{"surge Pods hold places", pass, "s.Settled = min(o.settled(p)-len(p.reserved), s.Replicas)", "s.Settled = o.settled(p) - len(p.reserved)", only("TestSurgeHoldsNoPlace")},
		{"shares that do not add up change something", pass, "if t.err != nil {\n\t\tt.surplus", "if t.err != nil && t.wake < 0 {\n\t\tt.surplus", only("TestUndividable")},
		{"ready Pods hold an update up", pass, "!= o.revision && !podstate.IsReady(pod) {", "!= o.revision {", only("TestUnstick")},
		{"maxUnavailable stays as while Pods were reserved", pass, "case was == nil || was.Type != intstr.Int ||", "case was == nil || was.Type != intstr.Int || was.IntVal > 0 ||", only("TestUnavailable")},
		{"a closed subset is lowered again before its substitutes are ready", closed, "p.hold = p.wasClosed() &&", "p.hold = p.told < 0 && p.wasClosed() &&", only("TestClosedDeployment")},
		{"a pending Pod takes the place of a higher number", closed, "case numbered && !numbers.IsZero():", "case numbered && n < 0:", found},
		{"closed subsets are lowered without a note", closed, "return p.mark.Standing == subsets.Closed && !o.", "return p.told < 0 && p.mark.Standing == subsets.Closed && !o.", found},
		{"partitions count from 0", pass, "numbers, _ := workloads.Ordinals(set, o.fromStart)", "numbers, _ := workloads.Ordinals(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: set.Spec.Replicas}}, o.fromStart)", only("TestUnstick")},
		{"a patch decides about the revision", workload, "pod.Labels = with(pod.Labels, labelsOf(subset, revision))\n\treturn", "pod.Labels = with(labelsOf(subset, revision), pod.Labels)\n\treturn", only("TestPatchedRevision")},
		{"a Pod that had a gate is unschedulable since its creation", controller, "kruise.Dated(pods, before, v.Now)", "kruise.Dated(pods, before, v.Owner.CreationTimestamp.Time)", found},
		{"Deployments have partitions", workload, "w.Spec.Replicas, n.kept = &n.replicas, nil", "w.Spec.Replicas = &n.replicas", only("TestRandomCourses")},
		{"terms of a template do not count", folder + "resolve.go", "size += each + terms*list[i]", "size += each + min(terms, 1)*list[i]", only("TestTotalSize")},
		{"matchFields do not count", workload, "t.MatchFields = append(t.MatchFields, term.MatchFields...)", "t.MatchFields = append(t.MatchFields, nil...)", only("TestBuild")},
		{"foreign labels are dropped", change, "if len(have) == 0 {", "if len(have) >= 0 {", found},
		{"the spec of a new revision is not written", change, "Body: append(body, operation{\"add\", \"/spec\", partsOf(want).spec})}", "Body: body}", found},
		{"replicas are not written", change, "if is.replicas != n.replicas {", "if is.replicas != n.replicas && n.replicas < 0 {", found},
		{"partitions are not written", change, "if n.kept != nil && (is.kept == nil || *is.kept != *n.kept) {", "if n.kept != nil && is.kept == nil {", found},
		{"another spelling of a patch is a change", change, "reflect.DeepEqual(a, b)", "reflect.DeepEqual(a, nil)", only("TestChangeOf")},
		{"templates in the form of OpenKruise 1.9.0 are another revision", revisions, "(holds(\"v1beta1\") || holds(\"v1alpha1\"))", "holds(\"v1beta1\")", only("TestRevisionsOfOpenKruise")},
		{"own creations are not awaited", controller, "append(r.workloads, index), append(sources, trackedclient.Owners(plural.GroupResource(), kind, index))", "append(r.workloads, index), append(sources[:0], trackedclient.Owners(plural.GroupResource(), kind, index))", found},
		{"nobody adopts", controller, "adopt.Options{Adopt: true, Match: hasSubset}", "adopt.Options{Match: hasSubset}", found},
		{"nobody looks again", controller, "pass.Wake(t.wake)", "pass.Wake(0)", found},
		{"revisions in use are deleted", controller, "revision.CountUnused, o.uses, status.CurrentRevision)", "revision.CountUnused, func(*appsv1.ControllerRevision) bool { return true }, status.CurrentRevision)", found},
		{"workloads wake nobody", watch, "append(workloadKinds(), &corev1.Pod{})", "[]client.Object{&corev1.Pod{}}", found},
		{"orphans wake nobody", watch, "if len(chain) == 0 {", "if len(chain) < 0 {", found},
		{"outdated Pods count as updated", folder + "status_updated.go", "if begins || is.outdated > 0 ||", "if begins ||", found},
		{"an update of a subset never ends", folder + "status_updated.go", "under && (is.isStale ||", "under && (!is.isStale ||", found},
		{"an update ends with a Pod that is not ready", folder + "status_updated.go", "|| p.updatedReady < wanted)", "|| p.updatedReady < wanted-99)", only("TestUpdated")},
		{"nobody is warned that all Pods go", folder + "warn.go", "next[0].name == before[0].name ||", "next[0].name != before[0].name ||", only("TestWarnings")},
		{"a patch that no workload accepts is admitted", folder + "resolve.go", "refused(pod, path), refused(from, path)", "refused(from, path), refused(from, path)", only("TestPatchRefusedByWorkload")},
		{"Pods without a label count for autoscalers", status, "status.Replicas = o.countSelected()", "status.Replicas -= status.ReservedPods", only("TestScaleTellsTheTruth")},
	}
}
