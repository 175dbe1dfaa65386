package controlplane

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/internal/bundle"
)

func TestEmbeddedModuleIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := bundle.Pack("binaries", []string{"go.mod", "go.sum", "etcd/main.go"})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(binariesModule)) {
		t.Error("binaries.txtar is not what the module in binaries gives: run go generate in this directory")
	}
	if !strings.Contains(string(want), "k8s.io/kubernetes "+kubernetesVersion+" ") {
		t.Errorf("the module does not require k8s.io/kubernetes %s, the version that the binaries are stamped with", kubernetesVersion)
	}
}

func TestStagesAreComplete(t *testing.T) {
	t.Parallel()
	got, err := stages()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(strings.TrimSpace(line), "#include") {
			t.Errorf("line left: %s", line)
		}
	}
	for _, key := range []string{Fail, Complete, Unready, Crash, StartDelay, StopDelay} {
		if !strings.Contains(got, `"`+key+`"`) {
			t.Errorf("no stage looks at the annotation %s", key)
		}
	}
}

func TestBinaryUnknown(t *testing.T) {
	t.Parallel()
	_, err := Binary(t.Context(), "kubelet", Options{})
	const want = `no binary "kubelet": there are etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestBinaryInterrupted: after an interrupted build, no compiler runs any more, and no incomplete binary is left.
func TestBinaryInterrupted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a build")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if path, err := Binary(ctx, "kubectl", Options{Binaries: dir}); err == nil {
		t.Skipf("the build was too quick to interrupt: %s", path)
	}
	left, err := filepath.Glob(filepath.Join(dir, "kubectl*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestKillRecorded: only the recorded process is killed, and not a later process with the same process ID.
func TestKillRecorded(t *testing.T) {
	t.Parallel()
	p, err := child.Start(exec.Command("sleep", "600"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(syscall.SIGKILL, time.Second)
	pid := p.ID()
	id, err := identity(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := (recorded{Name: "sleep", PID: pid, Identity: "1 /bin/other"}).kill(); err != nil {
		t.Fatal(err)
	}
	if p.Ended() {
		t.Fatal("a process with another identity was killed")
	}
	if err := (recorded{Name: "sleep", PID: pid, Identity: id}).kill(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
}
