package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// The package has its own control plane: every simulated Node gets an agent.
var env = controlplanetest.New(controlplane.Options{Nodes: 2})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// TestRun: each simulated Node, including a new Node, gets an agent with its own socket. A Node that is not simulated
// gets no agent. All agents end with the command.
func TestRun(t *testing.T) {
	cp, dir := env.Start(t), t.TempDir()
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	create := func(node *corev1.Node) {
		t.Helper()
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		// The agent prints its Node and its socket, and "bye" at its end.
		script := `trap 'echo bye; exit' TERM; echo "$NODE_NAME $0"; while :; do sleep 0.1; done`
		ended <- run(ctx, []string{"--kubeconfig", cp.Kubeconfig(), "--dir", dir, "--", "/bin/sh", "-c", script, "{node}={socket}"}, io.Discard)
	}()
	says := func(node, last string) {
		t.Helper()
		controlplanetest.Eventually(t, time.Minute, func(context.Context) error {
			text, err := os.ReadFile(filepath.Join(dir, node+".log"))
			// The shell may print a message about its child between the first and the last line.
			if first := fmt.Sprintf("%[1]s %[1]s=%[2]s/%[1]s.sock\n", node, dir); err != nil || !strings.HasPrefix(string(text), first) || !strings.HasSuffix(string(text), last) {
				return fmt.Errorf("%q, want %q and %q: %w", text, first, last, err)
			}
			return nil
		})
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 3 {
		t.Fatal(len(nodes.Items), err)
	}
	var simulated []string
	for _, node := range nodes.Items {
		if node.Name != "real" {
			simulated = append(simulated, node.Name)
		}
	}
	late := controlplane.NewNode("late")
	create(late)
	for _, node := range append(simulated, "late") {
		says(node, "")
	}
	if _, err := os.Stat(filepath.Join(dir, "real.log")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a real Node has an agent: %v", err)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "late", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	says("late", "bye\n")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, node := range simulated {
		says(node, "bye\n")
	}
}

func TestMistakes(t *testing.T) {
	for _, args := range [][]string{{}, {"--dir", "x", "agent"}, {"--kubeconfig", "x", "--dir", "y"}, {"--kubeconfig", "/none", "--dir", t.TempDir(), "agent"}} {
		if err := run(t.Context(), args, io.Discard); err == nil || strings.Contains(err.Error(), "panic") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
