package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/internal/bundle"
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

// An interrupted build leaves neither the compilers nor half a binary.
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

// A command's own children end with it, even one that ignores the polite signal, as background jobs of a shell do.
func TestRunGroupStopsGrandchildren(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
	cmd.Stdout = in
	done := make(chan error, 1)
	go func() { done <- runGroup(ctx, cmd) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	_ = in.Close()
	// The pipe closes when nobody is left to write to it.
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("process %s is alive: read: %v", strings.TrimSpace(line), err)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryLock(path); !errors.Is(err, errLocked) {
		t.Fatalf("second lock: %v, want %v", err, errLocked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = waitLock(ctx, path, cancel)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("wait that is interrupted: %v, want %v", err, context.Canceled)
	}
	unlock()
	unlock, err = waitLock(t.Context(), path, func() { t.Error("waited for a free lock") })
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// Only the very process that was recorded is killed, not another that has its number now.
func TestKillRecorded(t *testing.T) {
	t.Parallel()
	p, err := spawn(exec.Command("sleep", "600"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop(syscall.SIGKILL, time.Second)
	pid := p.cmd.Process.Pid
	id, err := identity(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := (recorded{Name: "sleep", PID: pid, Identity: "1 /bin/other"}).kill(); err != nil {
		t.Fatal(err)
	}
	if p.exited() {
		t.Fatal("a process with another identity was killed")
	}
	if err := (recorded{Name: "sleep", PID: pid, Identity: id}).kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	fail := errors.New("broken")
	p := newProgress(&out)
	if err := p.during("building etcd (1/2)", func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := p.during("building kwok (2/2)", func() error { return fail }); !errors.Is(err, fail) {
		t.Errorf("error %v, want %v", err, fail)
	}
	const want = "building etcd (1/2) ...\nbuilding etcd (1/2) done in 0 s\nbuilding kwok (2/2) ...\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}
