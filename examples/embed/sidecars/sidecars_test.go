package sidecars

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/install"
)

var env = controlplanetest.New(controlplane.Options{Nodes: 3})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// fixture is a running operator with a client for its kind.
type fixture struct {
	client.Client
	t         *testing.T
	namespace string
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// start installs the kind and runs the operator until it is ready.
func start(t *testing.T) *fixture {
	t.Helper()
	cp, scheme := env.Start(t), runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cp.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Client: c, t: t, namespace: env.Namespace(t)}
	if err := errors.Join(install.CRD(t.Context(), c, CRD), install.Manifest(t.Context(), c, Webhook)); err != nil {
		t.Fatal(err)
	}
	probes := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, cp.Config(), Options{Namespace: f.namespace, Host: "127.0.0.1", Port: freePort(t), Probes: probes})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("operator: %v", err)
		}
	})
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error { return controlplanetest.Ready(ctx, probes) })
	return f
}

// pod creates a Pod with a container of its own, and returns the Pod as the API server has stored it.
func (f *fixture) pod(name string) *corev1.Pod {
	f.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: map[string]string{"team": f.namespace}}}
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	if err := f.Create(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
	return pod
}

// settle waits until the status of the Sidecar has the given counts.
func (f *fixture) settle(name string, pods, updated, ready int32) *Sidecar {
	f.t.Helper()
	s := &Sidecar{}
	controlplanetest.Eventually(f.t, time.Minute, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKey{Name: name}, s); err != nil {
			return err
		}
		if st := &s.Status; st.ObservedGeneration < s.Generation || st.Pods != pods || st.Updated != updated || st.Ready != ready {
			return fmt.Errorf("status %+v", *st)
		}
		return nil
	})
	return s
}

func (f *fixture) change(name string, edit func(*Spec)) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, 10*time.Second, func(ctx context.Context) error {
		s := &Sidecar{}
		if err := f.Get(ctx, client.ObjectKey{Name: name}, s); err != nil {
			return err
		}
		edit(&s.Spec)
		return f.Update(ctx, s)
	})
}

// TestSidecar: a container is injected, and upgraded in running Pods, one Pod at a time. Pods in which the container
// cannot be upgraded are not changed.
func TestSidecar(t *testing.T) {
	f := start(t)
	s := &Sidecar{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	s.Spec.Selector.MatchLabels = map[string]string{"team": f.namespace}
	s.Spec.Container = corev1.Container{Name: "log", Image: "log:v1", VolumeMounts: []corev1.VolumeMount{{Name: "logs", MountPath: "/logs"}}}
	s.Spec.Volumes = []corev1.Volume{{Name: "logs", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	if err := f.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	f.settle(s.Name, 0, 0, 0)
	for i := range 4 {
		pod := f.pod(fmt.Sprint("web-", i))
		if sidecar := podstate.Container(pod, "log"); sidecar == nil || !podstate.IsNativeSidecar(sidecar) || len(pod.Spec.Volumes) < 2 {
			t.Fatalf("the sidecar was not injected: %+v", pod.Spec)
		}
	}
	f.settle(s.Name, 4, 4, 4)
	f.change(s.Name, func(s *Spec) { s.Container.Image = "log:v2" })
	f.settle(s.Name, 4, 4, 4)
	var pods corev1.PodList
	if err := f.List(t.Context(), &pods, client.InNamespace(f.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		log, app := podstate.ContainerStatus(pod, "log"), podstate.ContainerStatus(pod, "app")
		if !strings.HasSuffix(log.Image, "log:v2") || log.RestartCount != 1 || app.RestartCount != 0 {
			t.Errorf("Pod %s runs %s after %d restarts, and its own container restarted %d times", pod.Name, log.Image, log.RestartCount, app.RestartCount)
		}
	}
	f.change(s.Name, func(s *Spec) { s.Container.Args = []string{"--verbose"} })
	blocked := f.settle(s.Name, 4, 0, 4)
	if c := meta.FindStatusCondition(blocked.Status.Conditions, "Blocked"); c == nil || c.Status != metav1.ConditionTrue || c.Reason != "NotUpgradable" {
		t.Errorf("conditions %+v", blocked.Status.Conditions)
	}
	if err := f.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, 10*time.Second, func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, GenerateName: "later-", Labels: map[string]string{"team": f.namespace}}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
		if err := f.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if len(pod.Spec.InitContainers) > 0 {
			return errors.New("the sidecar is injected still")
		}
		return nil
	})
}
