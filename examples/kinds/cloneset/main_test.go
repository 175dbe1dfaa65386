package cloneset_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
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

	// These fields say how the manager of the namespace was started.
	gates    string
	expected []string
}

// start returns a new namespace on the control plane, with the controllers running.
func start(t testing.TB, options manager.Options) *cluster {
	t.Helper()
	c := idle(t)
	c.run(options)
	return c
}

// run runs the controllers in the cluster's namespace. The controllers of other tests continue in their namespaces.
func (c *cluster) run(options manager.Options) (stop func()) {
	c.t.Helper()
	options.Namespace = c.namespace
	return controllertest.Manager(c.t, c.cp, options)
}

// idle is like start, but no controllers run.
func idle(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	return &cluster{WithWatch: controllertest.Client(t, cp), t: t, cp: cp, namespace: env.Namespace(t)}
}

// cloneSet returns a CloneSet that is updated in place.
func (c *cluster) cloneSet(name string, replicas int32, change ...func(*v1beta1.CloneSet)) *v1beta1.CloneSet {
	labels := map[string]string{"app": name}
	cs := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec: v1beta1.CloneSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					Containers:                    []corev1.Container{{Name: "app", Image: "example.test/app:v1"}, {Name: "log", Image: "example.test/log:v1"}},
				},
			},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.RollingUpdate,
				RollingUpdate: &v1beta1.RollingUpdateCloneSet{
					PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromString("20%")),
				},
			},
		},
	}
	for _, f := range change {
		f(cs)
	}
	return cs
}

// create creates the CloneSet and waits until all its Pods are available.
func (c *cluster) create(cs *v1beta1.CloneSet) *v1beta1.CloneSet {
	c.t.Helper()
	if err := c.Create(c.t.Context(), cs); err != nil {
		c.t.Fatal(err)
	}
	return c.until(cs.Name, settled)
}

// change edits the CloneSet's spec, and tries again after a conflict.
func (c *cluster) change(name string, f func(*v1beta1.CloneSet)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		cs := c.get(ctx, name)
		if err := ctx.Err(); err != nil {
			return err // and cs is empty
		}
		f(cs)
		return c.Update(ctx, cs)
	})
}

func (c *cluster) get(ctx context.Context, name string) *v1beta1.CloneSet {
	c.t.Helper()
	cs := &v1beta1.CloneSet{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, cs); err != nil && ctx.Err() == nil {
		c.t.Fatal(err)
	}
	return cs
}

// until waits until want returns nil for the CloneSet, and returns the CloneSet.
func (c *cluster) until(name string, want func(*v1beta1.CloneSet) error) *v1beta1.CloneSet {
	c.t.Helper()
	defer c.tellPods()
	var cs *v1beta1.CloneSet
	controlplanetest.Eventually(c.t, 2*time.Minute, func(ctx context.Context) error {
		cs = c.get(ctx, name)
		if err := ctx.Err(); err != nil {
			return err // and cs is empty
		}
		return want(cs)
	})
	return cs
}

// tellPods logs, after a failure, the Pods and claims of the Namespace, so that the log shows what a CloneSet waits
// for.
func (c *cluster) tellPods() {
	if !c.t.Failed() {
		return
	}
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	if err := errors.Join(c.List(c.t.Context(), &pods, client.InNamespace(c.namespace)), c.List(c.t.Context(), &claims, client.InNamespace(c.namespace))); err != nil {
		c.t.Log(err)
	}
	for i := range pods.Items {
		c.t.Logf("Pod %s on Node %q: %s, %+v", pods.Items[i].Name, pods.Items[i].Spec.NodeName, pods.Items[i].Status.Phase, pods.Items[i].Status.Conditions)
	}
	for i := range claims.Items {
		c.t.Logf("claim %s of volume %q: %s", claims.Items[i].Name, claims.Items[i].Spec.VolumeName, claims.Items[i].Status.Phase)
	}
}

// history contains every version of a CloneSet that a watch has seen. Polling would miss versions on a busy machine.
type history struct {
	c      *cluster
	events <-chan watch.Event
}

// history follows a CloneSet from now on, even before the CloneSet's creation.
func (c *cluster) history(name string) *history {
	c.t.Helper()
	watcher, err := c.Watch(c.t.Context(), &v1beta1.CloneSetList{}, client.InNamespace(c.namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(watcher.Stop)
	return &history{c: c, events: watcher.ResultChan()}
}

// until waits for the first version for which want returns nil, after the versions that earlier calls have read.
func (h *history) until(want func(*v1beta1.CloneSet) error) *v1beta1.CloneSet {
	h.c.t.Helper()
	ctx, cancel := context.WithTimeout(h.c.t.Context(), 2*time.Minute)
	defer cancel()
	last := errors.New("no version came")
	for {
		select {
		case <-ctx.Done():
			h.c.t.Fatalf("no version was as wanted: %v", last)
		case event, open := <-h.events:
			if !open {
				h.c.t.Fatalf("the watch ended; the last version was not as wanted: %v", last)
			}
			cs, ok := event.Object.(*v1beta1.CloneSet)
			if !ok {
				continue
			}
			if last = want(cs); last == nil {
				return cs
			}
		}
	}
}

// settled returns nil if the status is about the newest spec, all Pods are available, and all Pods beyond the
// partition are at the update revision.
func settled(cs *v1beta1.CloneSet) error {
	s := &cs.Status
	if s.ObservedGeneration != cs.Generation || s.Replicas != *cs.Spec.Replicas || s.AvailableReplicas != s.Replicas ||
		s.UpdatedAvailableReplicas < s.ExpectedUpdatedReplicas {
		return fmt.Errorf("generation %d, status %+v", cs.Generation, *s)
	}
	return nil
}

// pods lists the CloneSet's Pods without terminating Pods.
func (c *cluster) pods(name string) []corev1.Pod {
	c.t.Helper()
	var list corev1.PodList
	if err := c.List(c.t.Context(), &list, client.InNamespace(c.namespace), client.MatchingLabels{"app": name}); err != nil {
		c.t.Fatal(err)
	}
	var out []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			out = append(out, pod)
		}
	}
	return out
}

func setImage(container int, image string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[container].Image = image }
}
