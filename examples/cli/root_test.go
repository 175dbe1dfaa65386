package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCommands: every command of the reference exists.
func TestCommands(t *testing.T) {
	for line := range strings.Lines(`rollout history
rollout pause
rollout resume
rollout restart
rollout status
rollout undo
rollout approve
rollout watch
set image
set env
set resources
set selector
set serviceaccount
set subject
expose
scale
scaledown
migrate
create job
create broadcastJob
create ContainerRecreateRequest
exec
describe
get
diff
apply
patch
replace
wait
kustomize
config view
version
api-versions
api-resources
completion
why
doctor
`) {
		words := strings.Fields(line)
		a := kruise(t.Context(), "", append(words, "--help")...)
		if last := words[len(words)-1]; a.code != 0 || !strings.Contains(a.out, last) {
			t.Errorf("%s --help: exit code %d\n%s%s", strings.TrimSpace(line), a.code, a.out, a.errors)
		}
	}
}

func TestLocal(t *testing.T) {
	const manifest = "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: app, image: 'a:1'}]}}}\n"
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	a := kruise(t.Context(), "", "set", "image", "-f", file, "app=a:2", "--local", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
	if diff := cmp.Diff("a:2", a.out); diff != "" || a.code != 0 {
		t.Errorf("KC-21 exit code %d, %s (-want +got):\n%s", a.code, a.errors, diff)
	}
	if a := kruise(t.Context(), "", "set", "image", "cloneset/web", "app=a:2", "--local"); a.code == 0 {
		t.Error("KC-21 --local takes the name of an object")
	}
	if a := kruise(t.Context(), "", "set", "image", "-f", file, "app=a:2", "--local", "--dry-run=server"); a.code == 0 {
		t.Error("KC-21 --local takes a dry run of the server")
	}
}

// TestStart builds the binary and measures how long "version" takes.
func TestStart(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	binary := filepath.Join(t.TempDir(), "kubectl-kruise")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", binary, "./cmd/kubectl-kruise").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	best := time.Hour
	for range 20 {
		begin := time.Now()
		out, err := exec.CommandContext(t.Context(), binary, "version", "--client").Output()
		if best = min(best, time.Since(begin)); err != nil || !strings.Contains(string(out), "kubectl Version: v0.36") {
			t.Fatalf("%v %s", err, out)
		}
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("version takes %s, the binary has %d MB", best.Round(time.Millisecond), info.Size()/1_000_000)
	if best > 150*time.Millisecond {
		t.Errorf("version takes %s, at most 150 ms are wanted", best)
	}
}
