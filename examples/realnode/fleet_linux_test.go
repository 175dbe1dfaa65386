package realnode_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/install"
)

// fleet is a workload of the operator in examples/embed, whose Go type is not to be imported.
type fleet struct {
	*fixture
	key client.ObjectKey
}

func (f *fleet) name() string { return f.key.Name }

func (f *fleet) create(ctx context.Context, replicas int, template *corev1.PodTemplateSpec) error {
	object := newFleet(f.key)
	object.Object["spec"] = map[string]any{"replicas": int64(replicas)}
	if err := setTemplate(object, template); err != nil {
		return err
	}
	return f.Create(ctx, object)
}

func (f *fleet) edit(ctx context.Context, change func(*corev1.PodTemplateSpec)) error {
	object := newFleet(f.key)
	if err := f.Get(ctx, f.key, object); err != nil {
		return err
	}
	template, err := templateOf(object)
	if err != nil {
		return err
	}
	change(template)
	if err := setTemplate(object, template); err != nil {
		return err
	}
	return f.Update(ctx, object)
}

// isSettled looks at the Pods, as a Fleet has no status. A Pod of the new spec whose gate is open has been updated: the gate
// closes before the spec changes.
func (f *fleet) isSettled(ctx context.Context) error {
	object := newFleet(f.key)
	if err := f.Get(ctx, f.key, object); err != nil {
		return err
	}
	template, err := templateOf(object)
	if err != nil {
		return err
	}
	pods := f.pods(f)
	if replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas"); int64(len(pods)) != replicas {
		return fmt.Errorf("Fleet %s has %d Pods, want %d", f.name(), len(pods), replicas)
	}
	for i := range pods {
		if !gatesOpen(&pods[i]) || !podstate.IsReady(&pods[i]) {
			return fmt.Errorf("Pod %s is not in service", pods[i].Name)
		}
		for _, container := range template.Spec.Containers {
			if image := podstate.Container(&pods[i], container.Name).Image; image != container.Image {
				return fmt.Errorf("container %s of Pod %s is to run %s, not %s", container.Name, pods[i].Name, image, container.Image)
			}
		}
	}
	return nil
}

func newFleet(key client.ObjectKey) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("fleet.example.com/v1")
	object.SetKind("Fleet")
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return object
}

func templateOf(object *unstructured.Unstructured) (*corev1.PodTemplateSpec, error) {
	raw, _, err := unstructured.NestedMap(object.Object, "spec", "template")
	if err != nil {
		return nil, err
	}
	template := &corev1.PodTemplateSpec{}
	return template, kuberuntime.DefaultUnstructuredConverter.FromUnstructured(raw, template)
}

func setTemplate(object *unstructured.Unstructured, template *corev1.PodTemplateSpec) error {
	raw, err := kuberuntime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		return err
	}
	return unstructured.SetNestedMap(object.Object, raw, "spec", "template")
}

// operator runs the operator until the test ends.
func (f *fixture) operator() {
	f.t.Helper()
	embed := filepath.Join("..", "embed")
	crd, err := os.ReadFile(filepath.Join(embed, "crd.yaml"))
	if err != nil {
		f.t.Fatal(err)
	}
	if err := install.CRD(f.t.Context(), f, crd); err != nil {
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
	// The kernel sends this when the thread that starts the operator is gone.
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
	f.imageInPlace(&fleet{fixture: f, key: client.ObjectKey{Namespace: f.namespace, Name: "ships"}})
}

func TestFleetImageNames(t *testing.T) {
	f := start(t)
	f.operator()
	f.imageNames(t, func(f *fixture, name string) workload {
		return &fleet{fixture: f, key: client.ObjectKey{Namespace: f.namespace, Name: name}}
	})
}
