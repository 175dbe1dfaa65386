package statefulset_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

var env = controlplanetest.NewShared(controlplane.Options{Nodes: 10, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// cluster is a test's client of the control plane.
type cluster struct {
	client.WithWatch
	t         testing.TB
	cp        *controlplane.ControlPlane
	namespace string
}

// idle returns a new namespace on the control plane, without controllers.
func idle(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	return &cluster{WithWatch: controllertest.Client(t, cp), t: t, cp: cp, namespace: env.Namespace(t)}
}

// start is like idle, but the controllers run.
func start(t testing.TB, gates string) *cluster {
	t.Helper()
	c := idle(t)
	c.run(gates)
	return c
}

// run runs the controllers in the cluster's namespace.
func (c *cluster) run(gates string) (stop func()) {
	c.t.Helper()
	parsed, err := manager.ParseGates(gates)
	if err != nil {
		c.t.Fatal(err)
	}
	return controllertest.Manager(c.t, c.cp, manager.Options{Namespace: c.namespace, Gates: parsed})
}

// statefulSet returns a StatefulSet with in-place updates and parallel Pod management.
func (c *cluster) statefulSet(name string, replicas int32, change ...func(*v1beta1.StatefulSet)) *v1beta1.StatefulSet {
	labels := map[string]string{"app": name}
	set := &v1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec: v1beta1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: name,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					ReadinessGates:                []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}},
					Containers:                    []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
				},
			},
			UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &v1beta1.RollingUpdateStatefulSet{
					PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromString("100%")),
				},
			},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

// ordered sets the Pod management policy OrderedReady.
func ordered(set *v1beta1.StatefulSet) {
	set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = nil
}

// create creates the StatefulSet, and waits until exactly the Pods with the given ordinals are available.
func (c *cluster) create(set *v1beta1.StatefulSet, want ...int) {
	c.t.Helper()
	if err := c.Create(c.t.Context(), set); err != nil {
		c.t.Fatal(err)
	}
	c.untilPods(set.Name, want...)
}

func (c *cluster) get(ctx context.Context, name string) (*v1beta1.StatefulSet, error) {
	set := &v1beta1.StatefulSet{}
	return set, c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, set)
}

// change edits the spec, and tries again after a conflict.
func (c *cluster) change(name string, f func(*v1beta1.StatefulSet)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		set, err := c.get(ctx, name)
		if err != nil {
			return err
		}
		f(set)
		return c.Update(ctx, set)
	})
}

// until waits until want returns nil for the StatefulSet, and returns the StatefulSet.
func (c *cluster) until(name string, want func(*v1beta1.StatefulSet) error) (set *v1beta1.StatefulSet) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 2*time.Minute, func(ctx context.Context) (err error) {
		if set, err = c.get(ctx, name); err != nil {
			return err
		}
		return want(set)
	})
	return set
}

// settled returns nil if the status is about the newest spec, all Pods are available, and all Pods beyond the
// partition are at the update revision.
func settled(set *v1beta1.StatefulSet) error {
	s, kept := &set.Status, int32(0)
	if ru := set.Spec.UpdateStrategy.RollingUpdate; ru != nil {
		kept = min(ptr.Deref(ru.Partition, 0), *set.Spec.Replicas)
	}
	if s.ObservedGeneration != set.Generation || s.Replicas != *set.Spec.Replicas || s.AvailableReplicas != s.Replicas ||
		s.UpdatedAvailableReplicas < s.Replicas-kept {
		return fmt.Errorf("generation %d, status %+v", set.Generation, *s)
	}
	return nil
}

// pods returns the Pods whose names begin with the StatefulSet's name, by ordinal.
func (c *cluster) pods(ctx context.Context, name string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if _, ok := ordinals.OfPod(name, &list.Items[i]); ok {
			pods = append(pods, &list.Items[i])
		}
	}
	ordinals.SortPods(name, pods)
	return pods, nil
}

// untilPods waits until exactly the Pods with the given ordinals exist, and all are available.
func (c *cluster) untilPods(name string, want ...int) (pods []*corev1.Pod) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 2*time.Minute, func(ctx context.Context) (err error) {
		if pods, err = c.pods(ctx, name); err != nil {
			return err
		}
		var got []int
		for _, pod := range pods {
			ordinal, _ := ordinals.OfPod(name, pod)
			got = append(got, ordinal)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("Pods %v, want %v", got, want)
		}
		set, err := c.get(ctx, name)
		if err != nil {
			return err
		}
		return settled(set)
	})
	return pods
}

func setImage(image string) func(*v1beta1.StatefulSet) {
	return func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}
