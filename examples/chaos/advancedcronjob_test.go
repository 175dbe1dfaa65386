package chaos_test

// advancedCronJobMutants returns the mistakes that the fault schedules of AdvancedCronJobs must find.
func advancedCronJobMutants() []mutant {
	const folder = "examples/kinds/advancedcronjob/"
	const act, control, watch, report = folder + "act.go", folder + "controller.go", folder + "watch.go", folder + "report.go"
	const decide, runs, slots = "examples/kinds/advancedcronjob/decide.go", "examples/kinds/advancedcronjob/runs.go", "examples/kinds/advancedcronjob/schedule/slots.go"
	found := schedules{tests: "./kinds/advancedcronjob"}
	// TestFaults computes the expected times with package schedule, and so cannot find a mistake in package schedule.
	due := schedules{tests: "./kinds/advancedcronjob/schedule", only: "TestDue"}
	remembered := schedules{tests: "./kinds/advancedcronjob", only: "TestStartedIsRemembered"}
	// TestFaults reads jobs with the code that has these mistakes, and so cannot find the mistakes.
	table := schedules{tests: "./kinds/advancedcronjob", only: "TestDecide"}
	return []mutant{
		{"what was stored is forgotten when jobs are gone", decide, "\tif stored != nil {\n\t\tat := stored.Time", "\tif stored != nil && len(runs) > 0 {\n\t\tat := stored.Time", found},
		{"jobs do not say when they were started", decide, "last = newer(last, believed(runs[i].Slot, now))", "last = newer(last, believed(runs[i].Slot, time.Time{}))", found},
		{"a stored time that is years ahead stops the schedule", decide, "if believed(at, now).IsZero() {", "if at.IsZero() {", table},
		{"nobody is told that a clock was put back", decide, "case slot.IsZero() && last.After(now.Add(skew)):", "case slot.IsZero() && last.After(now.Add(24*time.Hour)):", table},
		{"Forbid does not forbid", decide, "owner.Spec.ConcurrencyPolicy == v1beta1.ForbidConcurrent && len(active) > 0:", "owner.Spec.ConcurrencyPolicy == v1beta1.ForbidConcurrent && len(active) > 1:", found},
		{"Forbid does not wait for what is being deleted", decide, "owner.Spec.ConcurrencyPolicy == v1beta1.ForbidConcurrent && len(active) > 0:", "owner.Spec.ConcurrencyPolicy == v1beta1.ForbidConcurrent && slices.ContainsFunc(active, isStaying):", found},
		{"Replace starts before it deletes", decide, "\t\td.Replace = slices.DeleteFunc(active, Run.Ending)\n", "\t\td.Replace = slices.DeleteFunc(active, Run.Ending)\n\t\td.Slot = slot\n", found},
		{"Replace leaves what goes on", decide, "owner.Spec.ConcurrencyPolicy == v1beta1.ReplaceConcurrent && slices.ContainsFunc(active, isStaying):", "owner.Spec.ConcurrencyPolicy == v1beta1.ReplaceConcurrent && len(active) > 1 && slices.ContainsFunc(active, isStaying):", found},
		{"one more is kept", decide, "kept[:max(0, len(kept)-int(max(limit, 0)))]", "kept[:max(0, len(kept)-int(max(limit, 0))-1)]", found},
		{"the newest go first", decide, "return cmp.Or(a.Began.Compare(b.Began), a.Slot.Compare(b.Slot), cmp.Compare(a.GetName(), b.GetName()))", "return cmp.Or(b.Began.Compare(a.Began), a.Slot.Compare(b.Slot), cmp.Compare(a.GetName(), b.GetName()))", found},
		{"what has not ended is history", decide, "return r.State != state || r.Ending() })", "return r.State != state && r.State != Active || r.Ending() })", found},
		{"paused AdvancedCronJobs go on", decide, "if ptr.Deref(owner.Spec.Paused, false) {", "if ptr.Deref(owner.Spec.Paused, false) && len(runs) > 99 {", found},
		{"a schedule that was changed is due for times before that", decide, "From: changed(&counted),", "From: time.Time{},", found},
		{"the next process does not know when a schedule was changed", "examples/kinds/advancedcronjob/changes.go", "[]*v1beta1.ObservedSchedule{owner.Status.ObservedSchedule, known.Schedule}", "[]*v1beta1.ObservedSchedule{known.Schedule}", found},
		{"times that pass while it is paused are due afterwards", "examples/kinds/advancedcronjob/changes.go", "if a.Paused != b.Paused {", "if a.Paused && !b.Paused && a.Schedule != b.Schedule {", found},
		{"a change of the time zone is not seen", "examples/kinds/advancedcronjob/changes.go", "if a.TimeZone != b.TimeZone {", "if a.TimeZone != b.TimeZone && a.Schedule != b.Schedule {", found},
		{"AdvancedCronJobs are paused unless they say that they are not", decide, "if ptr.Deref(owner.Spec.Paused, false) {", "if ptr.Deref(owner.Spec.Paused, true) {", found},
		{"failed jobs count as active", runs, "case condition == string(batchv1.JobFailed):\n\t\treturn Failed", "case condition == string(batchv1.JobFailed):\n\t\treturn Active", table},
		{"a slot is read from the annotation alone", runs, "if digits, ok := strings.CutPrefix(object.GetName(), ref.Name+\"-\"); ok {", "if digits, ok := strings.CutPrefix(object.GetName(), ref.Name+\"-\"); ok && false {", table},
		{"the status is written after jobs have gone", control, "if _, err := v.WriteStatus(ctx, d.Status); err != nil {", "if _, err := v.WriteStatus(ctx, d.Status); err != nil && len(d.Trim) == 0 {", found},
		{"the end of a job wakes nobody", watch, "return was.State != is.State || !was.Slot", "return !was.Slot", found},
		{"the deletion of a job wakes nobody", watch, "DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object) },", "", found},
		{"jobs of the older version wake nobody", watch, "err == nil && version.Group == apps.Group\n", "err == nil && version.Group == apps.Group && version.Version != \"v1alpha1\"\n", schedules{tests: "./kinds/advancedcronjob", only: "TestControllerOf"}},
		{"somebody else's job is taken for the run", act, "case metav1.IsControlledBy(found, v.Owner):", "case true:", schedules{tests: "./kinds/advancedcronjob", only: "TestForeignNameIsToldOnce"}},
		{"a name that is taken is tried again and again", report, "k.Refused = d.Slot })", "k.Refused = time.Time{} })", found},
		{"a run that was started is not remembered", report, "k.NoteStart(d.Slot) })", "_ = k })", remembered},
		{"conflicts are not tried again", act, "\t\tpass.Wake(again)\n\t\treturn false, nil\n", "\t\treturn false, nil\n", found},
		{"what has gone is not written down", act, "return errors.Join(err, r.recordStart(ctx, v, d, run))", "return err", remembered},
		{"the deadline is not looked at", slots, "now.Unix()-d.Newest.Unix() > *w.Deadline {", "now.Unix()-d.Newest.Unix() > *w.Deadline+5 {", found},
		{"the oldest that is due is started", slots, "\tfound := time.Time{}\n", "\tfound := time.Time{}\n\tif next := s.Next(since); !next.After(now) {\n\t\treturn next\n\t}\n", found},
		{"slots of @every begin anew with each pass", slots, "\t\tn := s.rounds(since, now)\n", "\t\tn := s.rounds(since, now)\n\t\tif n > 1 {\n\t\t\treturn now\n\t\t}\n", due},
		{"nobody wakes for the next slot", control, "\tpass.Wake(untilNext(d, v.Now))\n", "\tpass.Wake(0 * untilNext(d, v.Now))\n", schedules{tests: "./kinds/advancedcronjob", only: "TestWakes"}},
	}
}
