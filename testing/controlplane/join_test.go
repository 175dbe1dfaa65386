package controlplane_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/workloadkit/workloadkit/testing/controlplane"
)

// TestJoin: a process that joins a control plane can use the control plane and cannot stop the control plane.
func TestJoin(t *testing.T) {
	owner := env.Start(t) // of 4 Nodes
	dir := filepath.Dir(owner.Kubeconfig())
	cp, err := controlplane.Join(t.Context(), controlplane.Options{Dir: dir, Nodes: 4, AuditLog: "anywhere.log"})
	if err != nil {
		t.Fatal(err)
	}
	if cp.AuditLog() != owner.AuditLog() || cp.Kubeconfig() != owner.Kubeconfig() {
		t.Errorf("audit log %s, kubeconfig %s; want %s and %s", cp.AuditLog(), cp.Kubeconfig(), owner.AuditLog(), owner.Kubeconfig())
	}
	for name, err := range map[string]error{
		"stop": cp.StopAPIServer(), "start": cp.StartAPIServer(t.Context()), "restart": cp.RestartAPIServer(t.Context()),
	} {
		if !errors.Is(err, controlplane.ErrNotOwner) {
			t.Errorf("%s of the API server: error %v, want %v", name, err, controlplane.ErrNotOwner)
		}
	}
	if err := errors.Join(cp.Stop(t.Context()), cp.Wait(t.Context())); err != nil {
		t.Error(err)
	}
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("after one of two has stopped: %v", err)
	}
	if _, err := controlplane.Join(t.Context(), controlplane.Options{Dir: dir}); err != nil {
		t.Errorf("joined again: %v", err)
	}
}

func TestJoinRefuses(t *testing.T) {
	dir := filepath.Dir(env.Start(t).Kubeconfig())
	tests := []struct {
		name string
		opts controlplane.Options
		want string
	}{
		{"no directory", controlplane.Options{}, "no directory given"},
		{"nothing runs", controlplane.Options{Dir: t.TempDir()}, "none runs in"},
		{"too few nodes", controlplane.Options{Dir: dir, Nodes: 5}, "it has 4 nodes, want 5 or more"},
		{"leases longer than the patience with Nodes", controlplane.Options{Dir: dir, LeaseDuration: 10 * time.Minute}, "leases of 10m0s"},
		{"other flags", controlplane.Options{Dir: dir, APIServerFlags: []string{"--v=1"}}, `its API server has the flags [], want ["--v=1"]`},
		{"other gates", controlplane.Options{Dir: dir, FeatureGates: map[string]bool{"A": true}}, "it has the feature gates map[], want map[A:true]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := controlplane.Join(t.Context(), tt.opts); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want it to say %q", err, tt.want)
			}
		})
	}
}

// TestJoinAfterTheEnd: a stopped control plane, or a control plane without an audit log, is not joined by mistake.
func TestJoinAfterTheEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	dir := t.TempDir()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir, Nodes: controlplane.NoNodes})
	if err != nil {
		t.Fatal(err)
	}
	_, err = controlplane.Join(t.Context(), controlplane.Options{Dir: dir, Nodes: controlplane.NoNodes, AuditLog: "audit.log"})
	if err == nil || !strings.Contains(err.Error(), "it has no audit log") {
		t.Errorf("without an audit log: error %v", err)
	}
	if err := cp.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := controlplane.Join(t.Context(), controlplane.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "none runs in") {
		t.Errorf("after Stop: error %v", err)
	}
}
