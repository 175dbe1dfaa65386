package sidecarset_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/kinds/sidecarset"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

var env = controlplanetest.New(controlplane.Options{Nodes: 3, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const minute = time.Minute

// cluster is a test's client of the control plane. SidecarSets have no namespace, so the test's SidecarSets select
// the test's namespace by name.
type cluster struct {
	client.WithWatch
	t         testing.TB
	cp        *controlplane.ControlPlane
	namespace string
	control   *sidecarcontrol.Control
}

// start is like idle, but the controller runs.
func start(t testing.TB) *cluster {
	t.Helper()
	c := idle(t)
	c.run()
	return c
}

// idle returns a new namespace on the control plane.
func idle(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	control, err := kruise.SidecarControl(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{WithWatch: controllertest.Client(t, cp), t: t, cp: cp, namespace: env.Namespace(t), control: control}
}

// run runs the controller in the test's namespace.
func (c *cluster) run() {
	c.t.Helper()
	controllertest.Manager(c.t, c.cp, manager.Options{Namespace: c.namespace, Kinds: []kind.Row{sidecarset.Row()}, Loops: []kinds.Loop{}})
}

// set returns a SidecarSet for the test's Pods.
func (c *cluster) set(name string, edits ...func(*v1beta1.SidecarSetSpec)) *v1beta1.SidecarSet {
	s := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-" + name}}
	s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	s.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.namespace}}
	s.Spec.UpdateStrategy.MaxUnavailable = ptr.To(intstr.FromString("100%"))
	for _, edit := range edits {
		edit(&s.Spec)
	}
	return s
}

func container(name, image string) func(*v1beta1.SidecarSetSpec) {
	return func(s *v1beta1.SidecarSetSpec) {
		s.Containers = append(s.Containers, pub.SidecarContainer{Container: corev1.Container{Name: name, Image: image}})
	}
}

func hot(name, image string) func(*v1beta1.SidecarSetSpec) {
	return func(s *v1beta1.SidecarSetSpec) {
		s.Containers = append(s.Containers, pub.SidecarContainer{
			Container:       corev1.Container{Name: name, Image: image},
			UpgradeStrategy: pub.SidecarUpgradeStrategy{UpgradeType: pub.SidecarHotUpgrade, HotUpgradeEmptyImage: "empty:v1"},
		})
	}
}

func native(name, image string) func(*v1beta1.SidecarSetSpec) {
	return func(s *v1beta1.SidecarSetSpec) {
		s.InitContainers = append(s.InitContainers, pub.SidecarContainer{
			Container: corev1.Container{Name: name, Image: image, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
		})
	}
}

// create stores a SidecarSet with the defaults that admission would set, and waits for its revision.
func (c *cluster) create(set *v1beta1.SidecarSet) *v1beta1.SidecarSet {
	c.t.Helper()
	if err := api.Default(set); err != nil {
		c.t.Fatal(err)
	}
	if err := c.Create(c.t.Context(), set); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), set) })
	return c.until(set, func(s *v1beta1.SidecarSetStatus) bool { return s.LatestRevision != "" })
}

// change edits a SidecarSet, and sets the defaults that admission would set.
func (c *cluster) change(set *v1beta1.SidecarSet, edit func(*v1beta1.SidecarSetSpec)) *v1beta1.SidecarSet {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		edit(&set.Spec)
		if err := api.Default(set); err != nil {
			return err
		}
		return c.Update(ctx, set)
	})
	return set
}

// until waits until the status is about the newest generation and want returns true.
func (c *cluster) until(set *v1beta1.SidecarSet, want func(*v1beta1.SidecarSetStatus) bool) *v1beta1.SidecarSet {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if set.Status.ObservedGeneration < set.Generation || !want(&set.Status) {
			return fmt.Errorf("generation %d, status %+v", set.Generation, set.Status)
		}
		return nil
	})
	return set
}

// counts waits until the status has the given numbers of matched, updated, ready and updated ready Pods.
func (c *cluster) counts(set *v1beta1.SidecarSet, matched, updated, ready, updatedReady int32) *v1beta1.SidecarSet {
	c.t.Helper()
	return c.until(set, func(s *v1beta1.SidecarSetStatus) bool {
		return s.MatchedPods == matched && s.UpdatedPods == updated && s.ReadyPods == ready && s.UpdatedReadyPods == updatedReady
	})
}

// pods creates Pods with the sidecars of the SidecarSets, as the webhook would, and returns their names.
func (c *cluster) pods(n int, sets ...*v1beta1.SidecarSet) (names []string) {
	c.t.Helper()
	var compiled []*sidecarcontrol.Set
	for _, set := range sets {
		s, err := sidecarset.Compile(set, set.Status.LatestRevision, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		compiled = append(compiled, s)
	}
	for range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "web-", Labels: map[string]string{"app": "web"}}}
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
		if _, err := c.control.Inject(pod, compiled, sidecarcontrol.Facts{Now: time.Now()}); err != nil {
			c.t.Fatal(err)
		}
		if err := c.Create(c.t.Context(), pod); err != nil {
			c.t.Fatal(err)
		}
		names = append(names, pod.Name)
	}
	return names
}

// pod reads a Pod.
func (c *cluster) pod(name string) *corev1.Pod {
	c.t.Helper()
	pod := &corev1.Pod{}
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, pod); err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// restarts returns how often each container of a Pod was restarted.
func restarts(pod *corev1.Pod) map[string]int32 {
	out := map[string]int32{}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			out[list[i].Name] = list[i].RestartCount
		}
	}
	return out
}
