package chaos_test

// watchMutants returns mistakes about closed watches, and about kinds that are installed and removed. Unit tests must
// find these mistakes, because no fault schedule closes watches or removes kinds.
func watchMutants() []mutant {
	const lasting, health = "ownercache/watchhealth/lasting.go", "ownercache/watchhealth/watchhealth.go"
	found := func(test string) schedules { return schedules{tests: "../ownercache/watchhealth", only: test} }
	return []mutant{
		{"what a watch has missed is not looked for", lasting, "\tw.again = err != nil\n", "\tw.again = false\n", found("TestErrorsAreFollowedByAList")},
		{"what has gone meanwhile stays in a cache", lasting, "if _, there := listed[key]; there || !ok {", "if _, there := listed[key]; there || !ok || version != \"\" {", found("TestMissedChangesAreFound")},
		{"a store goes back in time", lasting, "if err := meta.NewAccessor().SetResourceVersion(object, version); err == nil {", "if version != \"\" {", found("TestDifferencesDoNotGoBack")},
		{"a watch waits for longer each time that it is closed", lasting, "if w.trouble = w.config.Clock.Now(); apierrors", "if apierrors", found("TestClosedWatchOfAMinuteAgo")},
		{"what there was of a kind that is gone stays", lasting, "for _, event := range w.differences(nil, w.version) {", "for _, event := range w.differences(nil, w.version)[:0] {", found("TestKindThatComesAndGoes")},
		{"a version that is not served holds up whoever waits for all caches", health, "if k.config.Presence == nil || !apierrors.IsNotFound(err) {", "if err != nil {", found("TestUnknownKindIsNotTakenForAbsent")},
		{"a cache counts as current while its watch is down", health, "if s.current && k.informer.HasSynced()", "if k.informer.HasSynced()", found("TestMissedChangesAreFound")},
		{"a kind that has come counts as absent until it was listed", health, "&& (!s.absent || k.isAbsent()) {", "{", found("TestKindThatComesAndGoes")},
		{"the cache lacks the events of a rest", lasting, "\t\tw.again = true // events during the wait are missed\n", "", found("TestAwaitAfterARest")},
		{"the first list is that of a server that is behind", health, "options.ResourceVersion == \"0\"", "options.ResourceVersion == \"none\"", found("TestAwaitAfterTheStart")},
		{"a kind of which nobody knows counts as absent", health, "return s == Absent\n", "return s != Served\n", found("TestUnknownKindIsListedFirst")},
	}
}
