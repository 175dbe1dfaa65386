package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// asCommand makes the test binary behave as the command.
const asCommand = "CONTROLPLANE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "join" {
		os.Exit(join())
	}
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// join acts as the tests of a package that joins a shared control plane, and returns their exit code.
func join() int {
	opts := controlplane.Options{Dir: os.Getenv(controlplanetest.SharedEnv), Nodes: 2, AuditLog: "audit.log"}
	if _, err := controlplane.Join(context.Background(), opts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("joined")
	return 0
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stdout, cmd.Stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return cmd
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want string
	}{
		{name: "nothing", want: "no command given"},
		{name: "command", args: []string{"down"}, want: `unknown command "down"`},
		{name: "flag", args: []string{"up", "--directory", "x"}, want: "flag provided but not defined: -directory"},
		{name: "value", args: []string{"up", "--dir", "x", "--nodes", "many"}, want: `invalid value "many" for flag -nodes`},
		{name: "negative", args: []string{"up", "--dir", "x", "--nodes=-1"}, want: "--nodes -1: want 0 or more"},
		{name: "no directory", args: []string{"up"}, want: "--dir is required"},
		{name: "argument", args: []string{"up", "--dir", "x", "now"}, want: `unexpected argument "now"`},
		{name: "no command", args: []string{"run", "--nodes", "1"}, want: "no command to run"},
		{name: "negative to run with", args: []string{"run", "--nodes=-1", "true"}, want: "--nodes -1: want 0 or more"},
		{name: "no name", args: []string{"path"}, want: "0 names given: want one of etcd,"},
		{name: "unknown name", args: []string{"path", "kubelet"}, want: `no binary "kubelet": want one of etcd,`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := program(t, tt.args...)
			code := exitCode(t, cmd.Run())
			stderr := cmd.Stderr.(*bytes.Buffer).String()
			if code != 2 || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, want 2; message %q, want one line with %q", code, stderr, tt.want)
			}
		})
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := filepath.Join(dir, "etcd")
	if err := os.WriteFile(want, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := program(t, "path", "etcd")
	cmd.Env = append(cmd.Env, controlplane.BinariesEnv+"="+dir)
	if err := cmd.Run(); err != nil {
		t.Fatal(err, cmd.Stderr)
	}
	if got := cmd.Stdout.(*bytes.Buffer).String(); got != want+"\n" {
		t.Errorf("printed %q, want %q", got, want+"\n")
	}
}

// TestRun: a command finds the control plane by its environment, the exit code of the command becomes the exit code
// of "controlplane run", and no process and no directory remains.
func TestRun(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	cmd := program(t, "run", "--nodes", "2", "sh", "-c", `test -s "$KUBECONFIG" && echo "$WORKLOADKIT_CONTROLPLANE" && "$0" join && exit 7`, os.Args[0])
	temp := t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	code := exitCode(t, cmd.Run())
	dir, answer, _ := strings.Cut(cmd.Stdout.(*bytes.Buffer).String(), "\n")
	if code != 7 || filepath.Dir(dir) != temp || answer != "joined\n" {
		t.Errorf("exit code %d, want 7; printed %q and %q, want a directory in %s and joined: %s", code, dir, answer, temp, cmd.Stderr)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestUpEndsOnSignal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	dir := t.TempDir()
	cmd := program(t, "up", "--dir", dir, "--nodes", "0")
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err, cmd.Wait(), cmd.Stderr)
	}
	if got, want := string(line[:n]), "control plane is ready: export KUBECONFIG="+filepath.Join(dir, "kubeconfig")+"\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	begin := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, cmd.Wait()); code != 0 {
		t.Errorf("exit code %d, want 0: %s", code, cmd.Stderr)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %s to stop", took)
	}
}
