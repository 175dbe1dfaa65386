package chaos_test

// persistentPodStateMutants returns the mistakes that the fault schedules of PersistentPodStates must find.
func persistentPodStateMutants() []mutant {
	const folder = "examples/kinds/persistentpodstate/"
	const controller, watch, generator = folder + "controller.go", folder + "watch.go", folder + "generator.go"
	const meaning = "examples/kinds/persistentpodstate/"
	const record, patch, generate, workload, targets = meaning + "decide.go", meaning + "patch.go", meaning + "decide_generation.go", "examples/workloads/numbered.go", meaning + "target.go"
	found := schedules{tests: "./kinds/persistentpodstate"}
	return []mutant{
		{"what a former workload has left stays nobody's", generate, "return metav1.GetControllerOfNoCopy(found) == nil && found.DeletionTimestamp == nil &&", "return metav1.GetControllerOfNoCopy(found) != nil && found.DeletionTimestamp == nil &&", found},
		{"what is nobody's is adopted by what the cache says", generator, "todo.Action == Delete || todo.Action == adopt {", "todo.Action == Delete {", found},
		{"records are dropped by what the cache says", controller, "if forgets(v.Owner.Status.PodStates, status.PodStates) {", "if forgets(v.Owner.Status.PodStates, status.PodStates) && s.kind.Kind == \"\" {", found},
		{"Pods that are not ready are recorded", record, "if !podstate.IsReady(pod) || !podstate.IsScheduled(pod) ||", "if !podstate.IsScheduled(pod) ||", found},
		{"another Node is not recorded", record, "!ok || was.NodeName != node.Name || ", "!ok || ", found},
		{"records of a target that is gone stay", record, "return nil, len(before) > 0\n", "return before, false\n", found},
		{"records that nobody needs stay", record, "ok && !wanted.Contains(ordinal) {", "ok && !wanted.Contains(ordinal) && ordinal < 0 {", found},
		{"reserved ordinals count", workload, "orUnknown(statefulset.Ordinals(set, fromStart))", "orUnknown(statefulset.Ordinals(&v1beta1.StatefulSet{Spec: v1beta1.StatefulSetSpec{Replicas: set.Spec.Replicas}}, fromStart))", found},
		{"a start does not count", workload, "orUnknown(ordinals.Of(ordinals.Paths{}, start, int(ptr.Deref(set.Spec.Replicas, 1))))", "orUnknown(ordinals.Of(ordinals.Paths{}, start-start, int(ptr.Deref(set.Spec.Replicas, 1))))", found},
		{"WhenDeleted is WhenScaled", folder + "resolve.go", "PersistentPodStateRetentionPolicy == v1beta1.PersistentPodStateWhenDeleted", "PersistentPodStateRetentionPolicy == \"never\"", schedules{tests: "./kinds/persistentpodstate", only: "TestRecord"}},
		{"labels of a Node that change are not recorded", watch, "if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {", "if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectOld.GetLabels()) {", found},
		{"Nodes that come wake nobody", watch, "CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wake(q, e.Object) },\n\t\tDeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wake(q, e.Object) },\n\t\tUpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {\n\t\t\tif !maps", "UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {\n\t\t\tif !maps", found},
		{"Pods that become ready wake nobody", record, "if podstate.IsReady(before) != podstate.IsReady(after) || before", "if podstate.IsReady(before) != podstate.IsReady(before) || before", found},
		{"Pods that go wake nobody", watch, "DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, r.statesOf(e.Object)) },", "", found},
		{"targets that are scaled wake nobody", watch, "if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID()", "if e.ObjectOld.GetUID()", found},
		{"the wrong kind is looked up", targets, "kind == api.BuiltIn()\n\tdefault:", "kind == api.Advanced()\n\tdefault:", found},
		{"the wrong kind of target is woken", watch, "Watches(&appsv1.StatefulSet{}, r.targetEvents(api.BuiltIn()))", "Watches(&appsv1.StatefulSet{}, r.targetEvents(api.Advanced()))", found},
		{"a successor of the name gets the records", patch, "operation{{\"test\", \"/metadata/uid\", state.UID}}", "operation{{\"test\", \"/metadata/name\", state.Name}}", found},
		{"changes of a record are not written", patch, "!ok || !equal(was, state) {", "!ok && !equal(was, state) {", found},
		{"a user's is taken for what was generated", generate, "if ref != nil && ref.UID == workload.UID() && ref.Kind == workload.Kind.Kind {", "if ref == nil || ref.UID == workload.UID() {", found},
		{"what was generated is deleted by what the cache says", generator, "todo.Action == Delete || todo.Action == adopt {", "todo.Action == adopt {", found},
		{"what nobody asks for any more stays", generate, "\tif !asks(workload) {\n\t\treturn generation{Action: Delete, For: workload}\n", "\tif !asks(workload) {\n\t\treturn generation{For: workload}\n", found},
		{"annotations that change wake nobody", generate, "apps.AnnotationGeneratePersistentPodState, apps.AnnotationRequiredPersistentTopology,\n", "apps.AnnotationGeneratePersistentPodState,\n", found},
		{"what a user has written of how long records are kept is put back", generate, "whole := map[string]any{\"targetRef\": spec.TargetReference}\n", "whole := map[string]any{\"targetRef\": spec.TargetReference, \"persistentPodStateRetentionPolicy\": nil}\n", found},
		{"edits of what was generated stay", generate, "return generation{Action: update, For: workload, Spec: spec}", "return generation{For: workload, Spec: spec}", found},
	}
}
