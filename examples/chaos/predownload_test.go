package chaos_test

func preDownloadMutants() []mutant {
	const decide, act = "examples/kruise/predownload/decide.go", "examples/kruise/predownloads.go"
	table := schedules{tests: "./kruise/predownload", only: "TestDecide"}
	return []mutant{
		{"image jobs of an earlier rollout stay", decide, `case isOver || !strings.HasPrefix(job.Name, v.Update.Name+"-"):`, "case isOver:", cloneSet("pullsAhead")},
		{"image jobs of a finished rollout stay", decide, `case isOver || !strings.HasPrefix`, `case !strings.HasPrefix`, cloneSet("pullsAhead")},
		{"the decision about images is not recorded", act, `if plan.Label == "" {`, `if plan.Label != "" {`, cloneSet("pullsAhead")},
		{"the decision is recorded although a job was not created", act, "			return err\n		}\n	}\n	if plan.Label", "			_ = err\n		}\n	}\n	if plan.Label", cloneSet("pullsAhead", "denyImages")},
		{"work on jobs holds up work on Pods", act, "pass := p.Fanout.Begin(t.View) //", "pass := t.Pass //", schedules{tests: "./kinds/cloneset", with: "pullsAhead,denyImages", first: 133}},
		{"images are pulled for Pods about to be deleted", decide, "return !pod.Updated && !pod.Leaving", "return !pod.Updated", table},
		{"Pods that are not ready count as updated", decide, "set.Active[i].Updated && set.Active[i].Ready", "set.Active[i].Updated", table},
		{"the order of the rollout is lost", decide, "order := nodesOf(outdated)", "order := slices.Sorted(slices.Values(nodesOf(outdated)))", table},
	}
}
