package controlplane_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestKill: when a process is killed by SIGKILL, its control plane ends too, and its directory can be reused.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	dir := t.TempDir()
	kill := startHelper(t, dir)
	if got := len(descendants(t, dir)); got != 5 {
		t.Errorf("%d components run, want 5", got)
	}
	_, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "another one runs in "+dir) {
		t.Errorf("start in a directory in use: error %v, want one that says so", err)
	}
	kill()
	controlplanetest.Eventually(t, within, func(context.Context) error {
		if left := descendants(t, dir); len(left) > 0 {
			return fmt.Errorf("still alive: %v", left)
		}
		return nil
	})

	cp, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir, Nodes: controlplane.NoNodes})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) > 0 {
		t.Errorf("%d nodes of the killed run are left, want an empty cluster", len(nodes.Items))
	}
	checkKubeconfig(t, cp)
	if err := cp.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := descendants(t, dir); len(left) > 0 {
		t.Errorf("alive after Stop: %v", left)
	}
	if err := cp.Wait(t.Context()); err != nil {
		t.Errorf("wait for a stopped control plane: %v", err)
	}
}

func checkKubeconfig(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	info, err := os.Stat(cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode of the kubeconfig %o, want 600", got)
	}
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if config.Insecure || len(config.CAData) == 0 || !strings.HasPrefix(config.Host, "https://127.0.0.1:") {
		t.Errorf("kubeconfig for %s: insecure %t, %d bytes of CA; want loopback and an inlined CA", config.Host, config.Insecure, len(config.CAData))
	}
}

// startHelper runs the test binary as a program with a control plane, and returns when the control plane is ready.
func startHelper(t *testing.T, dir string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready ") {
		t.Fatalf("the helper did not start: it printed %q", lines.Text())
	}
	return kill
}

// descendants lists the live processes with the directory in their command line: the components.
func descendants(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), dir+"/") {
			continue
		}
		name, _, _ := strings.Cut(string(data), "\x00")
		out = append(out, filepath.Base(name)+" "+filepath.Base(filepath.Dir(file)))
	}
	return out
}

func TestServersListenOnLoopbackOnly(t *testing.T) {
	cp := env.Start(t)
	inodes := map[string]bool{}
	for _, d := range descendants(t, filepath.Dir(cp.Kubeconfig())) {
		_, pid, _ := strings.Cut(d, " ")
		links, err := filepath.Glob("/proc/" + pid + "/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
				inodes[strings.Trim(to, "socket:[]")] = true
			}
		}
	}
	const listen, anyLoopback = "0A", "0100007F"
	count := 0
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != listen || !inodes[fields[9]] {
				continue
			}
			count++
			if !strings.HasPrefix(fields[1], anyLoopback+":") {
				t.Errorf("a component listens on %s, want 127.0.0.1", fields[1])
			}
		}
	}
	if want := 3; count != want {
		t.Errorf("%d listeners, want %d: etcd's two and the API server's", count, want)
	}
}

func TestRestartAPIServer(t *testing.T) {
	dir := t.TempDir()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cp, err := controlplane.Start(t.Context(), controlplane.Options{
		Dir: dir, Nodes: 1, APIServerFlags: []string{"--v=1"}, FeatureGates: map[string]bool{"ContextualLogging": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cp.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{t: t, client: client, namespace: metav1.NamespaceDefault}
	f.create(newPod("before"))
	f.expect("before", running())
	if err := cp.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods(f.namespace).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the API server answers although it is stopped")
	}
	if err := cp.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.expect("before", running())
	f.create(newPod("after"))
	f.expect("after", running())

	// The unexpected death of a component ends Wait.
	for _, d := range descendants(t, dir) {
		if name, pid, _ := strings.Cut(d, " "); name == "kube-scheduler" {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cp.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "kube-scheduler died: signal: killed") {
		t.Errorf("wait after the scheduler was killed: %v", err)
	}
}

func TestStartFails(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "kubeconfig"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		opts    controlplane.Options
		wantErr string
	}{
		{name: "no directory", opts: controlplane.Options{}, wantErr: "no directory given"},
		{name: "nodes", opts: controlplane.Options{Dir: t.TempDir(), Nodes: -2}, wantErr: "-2 nodes: want a positive number"},
		{
			name:    "audit log in use",
			opts:    controlplane.Options{Dir: t.TempDir(), AuditLog: env.Start(t).AuditLog()},
			wantErr: "another one writes the audit log",
		},
		{name: "no directory of the audit log", opts: controlplane.Options{Dir: t.TempDir(), AuditLog: "no/such/file"}, wantErr: "no such file or directory"},
		{name: "kubeconfig of somebody else", opts: controlplane.Options{Dir: foreign}, wantErr: "is not from a control plane"},
		{
			name:    "a component dies",
			opts:    controlplane.Options{Dir: t.TempDir(), APIServerFlags: []string{"--no-such-flag"}},
			wantErr: "unknown flag: --no-such-flag",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cp, err := controlplane.Start(t.Context(), tt.opts)
			if err == nil {
				t.Fatal("it started", cp.Stop(t.Context()))
			}
			if !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error %v, want one with %q", err, tt.wantErr)
			}
			if tt.opts.Dir == "" {
				return
			}
			if left := descendants(t, tt.opts.Dir); len(left) > 0 {
				t.Errorf("alive after a start that failed: %v", left)
			}
		})
	}
	got, err := os.ReadFile(filepath.Join(foreign, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("precious", string(got)); diff != "" {
		t.Errorf("kubeconfig of somebody else (-want +got):\n%s", diff)
	}
}

func TestStartIsInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the binaries")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	if cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir}); err == nil {
		t.Fatal("it started within 0.7 s", cp.Stop(t.Context()))
	}
	if left := descendants(t, dir); len(left) > 0 {
		t.Errorf("alive after an interrupted start: %v", left)
	}
}

func TestManyPods(t *testing.T) {
	f := newFixture(t)
	const pods = 60
	for i := range pods {
		f.create(newPod(fmt.Sprintf("p-%d", i), gated))
	}
	controlplanetest.Eventually(t, within, func(ctx context.Context) error {
		list, err := f.client.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		nodes, ips, up := map[string]bool{}, map[string]bool{}, 0
		for _, pod := range list.Items {
			nodes[pod.Spec.NodeName] = true
			ips[pod.Status.PodIP] = true
			if pod.Status.Phase == corev1.PodRunning {
				up++
			}
		}
		if up != pods || len(ips) != pods || len(nodes) != 4 {
			return fmt.Errorf("%d of %d Pods run on %d nodes with %d addresses", up, pods, len(nodes), len(ips))
		}
		return nil
	})
}
