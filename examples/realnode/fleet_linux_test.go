package realnode_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/embed/fleet"
	"github.com/workloadkit/workloadkit/testing/install"
)

// ships is a Fleet, the workload of the operator in examples/embed.
type ships struct {
	*fixture
	key client.ObjectKey
}

func (s *ships) name() string          { return s.key.Name }
func (s *ships) revisionLabel() string { return fleet.GroupVersion.Group + "/revision" }

func (s *ships) create(ctx context.Context, replicas int, template *corev1.PodTemplateSpec) error {
	return s.Create(ctx, &fleet.Fleet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name},
		Spec:       fleet.Spec{Replicas: replicas, Template: *template},
	})
}

func (s *ships) edit(ctx context.Context, change func(*corev1.PodTemplateSpec)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { // the operator writes the status
		var object fleet.Fleet
		if err := s.Get(ctx, s.key, &object); err != nil {
			return err
		}
		change(&object.Spec.Template)
		return s.Update(ctx, &object)
	})
}

func (s *ships) isSettled(ctx context.Context) error {
	var object fleet.Fleet
	if err := s.Get(ctx, s.key, &object); err != nil {
		return err
	}
	want, status := int32(object.Spec.Replicas), object.Status
	if status.ObservedGeneration != object.Generation || status.Pods != want || status.Updated != want || status.Available != want {
		return fmt.Errorf("Fleet %s of generation %d has the status %+v, want %d Pods, all updated and available", s.name(), object.Generation, status, want)
	}
	return nil
}

// operator runs the operator of examples/embed until the test ends.
func (f *fixture) operator() {
	f.t.Helper()
	embed := filepath.Join("..", "embed")
	if err := errors.Join(fleet.AddToScheme(f.Scheme()), install.CRD(f.t.Context(), f, fleet.CRD)); err != nil {
		f.t.Fatal(err)
	}
	program := filepath.Join(f.t.TempDir(), "embed")
	if out, err := exec.CommandContext(f.t.Context(), "go", "build", "-o", program, "./"+embed).CombinedOutput(); err != nil {
		f.t.Fatalf("build the operator: %v\n%s", err, out)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.cp.Kubeconfig())
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	// The kernel sends this signal when the thread that started the operator has ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		cancel()
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 0 {
			f.t.Errorf("operator: %v", err)
		}
		runtime.UnlockOSThread()
	})
}

func TestFleetImage(t *testing.T) {
	f := start(t)
	f.operator()
	f.imageInPlace(&ships{fixture: f, key: client.ObjectKey{Namespace: f.namespace, Name: "ships"}}, 1)
}

func TestFleetImageNames(t *testing.T) {
	f := start(t)
	f.operator()
	f.imageNames(t, func(f *fixture, name string) workload {
		return &ships{fixture: f, key: client.ObjectKey{Namespace: f.namespace, Name: name}}
	})
}
