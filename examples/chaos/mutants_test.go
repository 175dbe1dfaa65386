package chaos_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutant is a mistake that somebody could make.
type mutant struct {
	name string
	// file is named from the root of the repository; old is found in it once.
	file, old, new string
	schedules
}

// schedules are those that must find a mistake.
type schedules struct {
	tests string // the package
	with  string // what all of them have, because those that find the mistake need it; see CLONESET_WITH
}

func cloneSet(with ...string) schedules {
	return schedules{"./controllers/cloneset", strings.Join(with, ",")}
}
func embed() schedules   { return schedules{tests: "./embed"} }
func keepers() schedules { return schedules{tests: "./chaos/webhookcert"} }

func mutants() []mutant {
	const controllers = "examples/controllers/cloneset/"
	return []mutant{
		{
			"own writes are not awaited", controllers + "controller.go",
			"if pending != nil {\n\t\treturn r.await", "if pending != nil && pending.Late {\n\t\treturn r.await", cloneSet(),
		},
		{"a process does not wait for what its predecessor wrote", controllers + "setup.go", "Barrier: true", "Barrier: false", cloneSet()},
		{
			"answers that are lost are forgotten", "expectations/apply/write.go",
			"case err == nil, Unanswered(err), apierrors.IsAlreadyExists(err):", "case err == nil:", cloneSet(),
		},
		{
			"the last of the budget is spent twice", "rollout/budget.go",
			"if b.unavailable >= b.limit {", "if b.unavailable > b.limit {", cloneSet(),
		},
		{"ready Pods are deleted beyond the budget", "rollout/budget.go", "if left--; left < 0 {", "if left--; left < -1 {", cloneSet()},
		{"surge is counted twice", "rollout/rollout.go", "want := s.Replicas + step.Surge\n", "want := s.Replicas + 2*step.Surge\n", cloneSet()},
		{
			"Pods are deleted by name alone", controllers + "scale.go",
			"if err := r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})", "if err := r.client.Delete(ctx, pod)", cloneSet(),
		},
		{
			"both loops write to a Pod at a time", controllers + "controller.go",
			"LoadOrStore(pod, struct{}{}); busy {", "LoadOrStore(pod, struct{}{}); busy && pod == \"\" {", cloneSet(),
		},
		{
			"the gate opens while the old image runs", "inplaceupdate/images.go",
			"if state.runs(name, spec.Image, status) {", "if status.Ready || state.runs(name, spec.Image, status) {", cloneSet("images"),
		},
		{
			"claims of living Pods are cleaned up", controllers + "claims.go",
			`if id == "" || active[id] || claim.DeletionTimestamp != nil || r.unborn.has(v.cs.UID, id) {`,
			`if id == "" || claim.DeletionTimestamp != nil || r.unborn.has(v.cs.UID, id) {`, cloneSet("claims"),
		},
		{
			"an object of the cache is changed", controllers + "update.go",
			"relabel.Labels[key] = &value", "relabel.Labels[key], pod.Labels[key] = &value, value", cloneSet(),
		},
		{
			"the status is written although it is right", controllers + "report.go",
			"if equality.Semantic.DeepEqual(cs.Status, status) {", "if equality.Semantic.DeepEqual(cs.Status, status) && status.Replicas == 0 {", cloneSet(),
		},
		{
			"an error is swallowed", controllers + "report.go",
			"retryable(out.scaleErr, out.updateErr, truncateErr, err)", "retryable(out.scaleErr, out.updateErr, truncateErr)", cloneSet(),
		},
		{
			"what is refused is repeated", controllers + "attempts.go",
			"firstBackOff, lastBackOff = 2 * time.Second, time.Minute", "firstBackOff, lastBackOff = 200 * time.Millisecond, 200 * time.Millisecond", cloneSet("quota"),
		},
		{
			"a new name of the image that runs is waited for without end", "inplaceupdate/images.go",
			"return left <= 0, false, max(left, 0)", "return false, false, max(left, 0)", cloneSet("images"),
		},
		{
			"missing Pods hold up the update that would repair those that exist", "rollout/rollout.go",
			"step.UpdateAtTarget = s.MaxUnavailable + max(c.Total()-s.Replicas, 0)\n\tif missing > 0 {", "step.UpdateAtTarget = step.UpdateUnavailable\n\tif missing < 0 {", cloneSet("scaleLimit", "images", "badImages"),
		},
		{
			"Pods are not looked at again when their hook is edited", controllers + "setup.go",
			"if !ok || !alsoOK || before", "if !ok || !alsoOK || true || before", cloneSet("hookEdits"),
		},
		{
			"claims that somebody uses are deleted", controllers + "claims.go",
			"func(pod *corev1.Pod) bool { return pod.UID != except })", "func(pod *corev1.Pod) bool { return pod.UID == \"\" && pod.UID != except })", cloneSet("claims", "mount"),
		},
		{
			"spared claims are forgotten when their user ends", controllers + "setup.go",
			"claim, ok := r.claims.Get(pod.Namespace, source.ClaimName)", "claim, ok := r.claims.Get(pod.Name, source.ClaimName)", cloneSet("claims", "mount"),
		},
		{
			"a Pod that podsToDelete names gets a successor of its name", controllers + "pods.go",
			" || slices.Contains(v.cs.Spec.ScaleStrategy.PodsToDelete, podName(v.cs, id))", "", cloneSet("claims", "mount"),
		},
		{
			"claims that a released Pod does not use are handed over for ever", controllers + "claims.go",
			"acted, err = r.handOverAll(ctx, v, released)\n\t\treturn err", "_, err = r.handOverAll(ctx, v, released)\n\t\tacted = err == nil\n\t\treturn err", cloneSet("claims", "templates", "relabel"),
		},
		{
			"an id is used again although a claim went with its Pod", controllers + "pods.go",
			"return !ok || r.claimTaken(v, id) || ", "return !ok || ", cloneSet("claims", "twoClaims", "relabel"),
		},
		{
			"requests stay behind their limits", "inplaceupdate/resources.go",
			"if was || is {", "if was || is || len(old.Requests) == 0 {", cloneSet("limits"),
		},
		{
			"a pass that a taken name holds up waits for somebody else", controllers + "report.go",
			"if r.client.InDoubt(v.cs.UID) {", "if r.client.InDoubt(\"\") {", cloneSet("names"),
		},
		{
			"plans are kept although claim templates have changed", "inplaceupdate/planner.go",
			"known.Plan != nil && known.from == from.ResourceVersion && known.to == to.ResourceVersion", "known.Plan != nil", cloneSet("claims", "templates", "recreateForClaims"),
		},
		{
			"env counts as delivered by a restart that never was", "inplaceupdate/start.go",
			"state.UpdateEnvFromMetadata = report", "state.UpdateEnvFromMetadata = report && len(plan.Images) == 0", cloneSet("agent"),
		},
		{
			"Pods go on waiting for an update that is left to their deletion", controllers + "update.go",
			"(m.updated != back || v.onDelete)", "m.updated != back", cloneSet("endsOnDelete"),
		},
		{
			"one Pod that cannot be updated holds up the others", controllers + "update.go",
			"return !r.isHopeless(v, pod) })", "return pod.UID != \"\" })", cloneSet("mangled"),
		},
		{
			"claims go to a Pod of another instance", controllers + "claims.go",
			"podName(v.cs, claim.Labels[apps.LabelInstanceID]) != pod.Name || r.isUsed(claim, pod.UID)", "r.isUsed(claim, pod.UID)", cloneSet("claims", "namesakes"),
		},
		{
			"claims that somebody uses go to a Pod on its way out", controllers + "claims.go",
			"case r.isUsed(claim, uidOf(pod)):", "case pod == nil && r.isUsed(claim, uidOf(pod)):", cloneSet("claims", "mount"),
		},
		{"OnDelete makes surge Pods", controllers + "resolve.go", "if !s.paused && !s.onDelete {", "if !s.paused {", cloneSet("onDelete")},
		{
			"a gate that nobody holds is not opened", controllers + "finish.go",
			"transition(machine, pod, t, now, podreadiness.EditOrInitialize)", "transition(machine, pod, t, now, podreadiness.Edit)", cloneSet(),
		},
		{
			"templates ask for the deletion of their Pods", controllers + "pods.go",
			"r.inPlace.StripReserved(&pod.ObjectMeta)", "_ = pod", cloneSet("reserved"),
		},
		{
			"templates change the controller's own labels", "inplaceupdate/reserved.go",
			"maps.DeleteFunc(p.Labels, func(key string, _ *string) bool { return k.reservesLabel(key) })", "_ = p", cloneSet("reserved"),
		},
		{"own writes are not awaited", "examples/embed/main.go", "if err != nil || pending != nil {", "if err != nil {", embed()},
		{
			"Pods that do not serve use the budget of those that do", "examples/embed/main.go",
			"rollout.Affordable(step, extra, available)...", "extra...", embed(),
		},
		{
			"the next authority signs as soon as it is announced", "webhookcert/decide.go",
			"case now.Before(from.Add(c.Overlap)):", "case now.Before(from):", keepers(),
		},
		{
			"a late keeper puts back the bundle that it knows", "webhookcert/apply/write.go",
			"if err := k.refresh(ctx, k.secret); err != nil {\n\t\tk.fail(ctx, &o.attempts, err)", "if err := error(nil); err != nil {\n\t\tk.fail(ctx, &o.attempts, err)", keepers(),
		},
	}
}

// TestMutants plants mistakes one by one, and wants each to be found by the schedules that must find none without it. The environment says
// how many: see sampleSize and draw.
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
	for _, m := range sample(all, n, draw) {
		t.Run(filepath.Base(m.tests)+": "+m.name, func(t *testing.T) {
			binary := m.build(t, root)
			cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^TestFaults$")
			cmd.Dir = filepath.Join(root, "examples", m.tests)
			cmd.Env = append(os.Environ(), "CHAOS_SEEDS=3000", "CHAOS_PLAYS=0", "CHAOS_FAILURES=1", "CLONESET_WITH="+m.with)
			out, err := cmd.CombinedOutput()
			if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			found := regexp.MustCompile(`seed \d+: .*`).Find(out)
			if err == nil || found == nil {
				t.Fatalf("3,000 schedules do not find the mistake: %v\n%s", err, out)
			}
			t.Logf("%s", found)
		})
	}
}

// TestMutantsAreCurrent finds out at once whether the code has moved on.
func TestMutantsAreCurrent(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants() {
		m.mutated(t, root)
	}
}

// mutated returns the path of the file and its content with the mistake in place of the right line.
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

// build compiles the tests with the mistake.
func (m mutant) build(t *testing.T, root string) string {
	t.Helper()
	path, content := m.mutated(t, root)
	dir := t.TempDir()
	mutated, overlay, binary := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mutated, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replaced, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, m.tests)
	cmd.Dir = filepath.Join(root, "examples")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}
