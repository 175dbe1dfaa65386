package realnode_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/realnode"
)

// enableEnv enables the tests that need root: "make test-node" sets the variable.
const enableEnv = "WORKLOADKIT_NODE"

const (
	within = time.Minute
	// The very first start builds the binaries.
	startTimeout = 20 * time.Minute
)

var env = controlplanetest.New(controlplane.Options{Nodes: controlplane.NoNodes})

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		os.Exit(victim(dir))
	}
	os.Exit(env.Main(m))
}

// start returns a running Node, on the control plane of the tests.
func start(t *testing.T) *realnode.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	node, err := realnode.Start(ctx, realnode.Options{ControlPlane: env.Start(t), Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// victimEnv makes the test binary a program that runs a Pod on a Node, with a control plane in the named directory.
const victimEnv = "REALNODE_TEST_DIR"

// TestKill: when a process is killed by SIGKILL, its Node ends too. The next start works, and Stop removes the
// remains of both Nodes.
func TestKill(t *testing.T) {
	if os.Getenv(enableEnv) == "" {
		t.Skip("starts a real kubelet, as root: run make test-node")
	}
	if err := start(t).Stop(t.Context()); err != nil { // builds the binaries, so that the following start is fast
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	running := lines.Scan() && strings.HasPrefix(lines.Text(), "running")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !running {
		t.Fatalf("the process printed %q", lines.Text())
	}
	controlplanetest.Eventually(t, 10*time.Second, func(context.Context) error {
		if left := nodeProcesses(t); len(left) > 0 {
			return fmt.Errorf("still alive: %v", left)
		}
		return nil
	})
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte("workloadkit-node")) {
		t.Errorf("mounts of the killed node are left:\n%s", mounts)
	}
	again := start(t)
	if err := runPod(t.Context(), env.Start(t), again); err != nil {
		t.Error(err)
	}
	if err := again.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{
		"/sys/fs/cgroup/*/workloadkit-node", "/sys/class/net/wkit0", filepath.Join(os.TempDir(), "workloadkit-node"),
	} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left after Stop: %v", left)
		}
	}
}

// nodeProcesses lists the live processes with the Node's directory in their command line.
func nodeProcesses(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte("workloadkit-node/")) {
			out = append(out, string(bytes.ReplaceAll(data, []byte{0}, []byte{' '})))
		}
	}
	return out
}

func victim(dir string) int {
	if err := startAndRunPod(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("running")
	select {} // until killed
}

func startAndRunPod(ctx context.Context, dir string) error {
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, Nodes: controlplane.NoNodes})
	if err != nil {
		return err
	}
	n, err := realnode.Start(ctx, realnode.Options{ControlPlane: cp})
	if err != nil {
		return err
	}
	return runPod(ctx, cp, n)
}

// runPod creates a Pod and waits until the Pod runs.
func runPod(ctx context.Context, cp *controlplane.ControlPlane, n *realnode.Node) error {
	image, err := n.Image("v1")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		return err
	}
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "orphan"},
		Spec:       corev1.PodSpec{DNSPolicy: corev1.DNSDefault, Containers: []corev1.Container{{Name: "app", Image: image}}},
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, err
	})
}
