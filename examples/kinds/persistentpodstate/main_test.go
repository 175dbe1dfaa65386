package persistentpodstate_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// This package has a control plane of its own, because the API server calls the webhooks for all Pods.
var env = controlplanetest.New(controlplane.Options{Nodes: 6, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const (
	minute = time.Minute
	system = "kruise-system"
	zone   = corev1.LabelTopologyZone
	host   = corev1.LabelHostname
)

type records = map[string]v1beta1.PodState

func pairs(list ...string) map[string]string {
	var out map[string]string
	for _, pair := range list {
		if out == nil {
			out = map[string]string{}
		}
		key, value, _ := strings.Cut(pair, "=")
		out[key] = value
	}
	return out
}

// cluster is a test's client of the control plane.
type cluster struct {
	client.WithWatch
	t         testing.TB
	cp        *controlplane.ControlPlane
	namespace string
}

func idle(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	c := &cluster{controllertest.Client(t, cp), t, cp, env.Namespace(t)}
	for _, node := range c.nodes() {
		if node.Labels[host] == "" {
			t.Fatalf("Node %s has no hostname", node.Name)
		}
	}
	return c
}

func (c *cluster) nodes() []corev1.Node {
	c.t.Helper()
	var list corev1.NodeList
	if err := c.List(c.t.Context(), &list); err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

// on returns a copy of the cluster for another test, in a new namespace.
func (c *cluster) on(t *testing.T) *cluster {
	return &cluster{c.WithWatch, t, c.cp, env.Namespace(t)}
}

// run runs the whole manager with its webhooks until the test ends.
func (c *cluster) run() {
	c.t.Helper()
	controllertest.Serve(c.t, c.cp, c, manager.Options{Gates: apps.ResolveGates(map[apps.Gate]bool{apps.GateStatefulSetStartOrdinal: true})})
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers:                    []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
		},
	}
}

// builtIn returns a StatefulSet of Kubernetes.
func (c *cluster) builtIn(name string, replicas int32, annotations ...string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name, Annotations: pairs(annotations...)},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "db", Template: template(), PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		},
	}
}

// advanced returns a StatefulSet of this group.
func (c *cluster) advanced(name string, replicas int32) *v1beta1.StatefulSet {
	return &v1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec: v1beta1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "db", Template: template(), PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		},
	}
}

// keep returns a PersistentPodState for a workload. The test must create the object.
func (c *cluster) keep(apiVersion, kind, name string, edits ...func(*v1beta1.PersistentPodStateSpec)) *v1beta1.PersistentPodState {
	state := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "keep-" + name}}
	state.Spec.TargetReference = v1beta1.PersistentPodStateTarget{APIVersion: apiVersion, Kind: kind, Name: name}
	state.Spec.RequiredPersistentTopology = &v1beta1.NodeTopologyTerm{Keys: []string{host}}
	for _, edit := range edits {
		edit(&state.Spec)
	}
	return state
}

func (c *cluster) create(objects ...client.Object) {
	c.t.Helper()
	for _, object := range objects {
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
}

// edit changes an object.
func edit[O client.Object](c *cluster, object O, change func(O)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return c.Update(ctx, object)
	})
}

// recorded waits until exactly the ready Pods with the given ordinals have records, with the labels that the spec
// names.
func (c *cluster) recorded(state *v1beta1.PersistentPodState, of string, ordinals ...int) records {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		want := records{}
		for _, ordinal := range ordinals {
			pod := &corev1.Pod{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: fmt.Sprintf("%s-%d", of, ordinal)}, pod); err != nil {
				return err
			}
			if !podstate.IsReady(pod) {
				return fmt.Errorf("Pod %s is not ready: %+v", pod.Name, pod.Status.Conditions)
			}
			want[pod.Name] = c.stateOf(ctx, state, pod)
		}
		return c.compare(ctx, state, want)
	})
	return state.Status.PodStates
}

// records waits until the records equal the wanted records.
func (c *cluster) records(state *v1beta1.PersistentPodState, want records) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error { return c.compare(ctx, state, want) })
}

func (c *cluster) compare(ctx context.Context, state *v1beta1.PersistentPodState, want records) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(state), state); err != nil {
		return err
	}
	if diff := cmp.Diff(want, state.Status.PodStates, cmpopts.EquateEmpty()); diff != "" || state.Status.ObservedGeneration != state.Generation {
		return fmt.Errorf("records of generation %d (-want +got):\n%s", state.Status.ObservedGeneration, diff)
	}
	return nil
}

func (c *cluster) stateOf(ctx context.Context, state *v1beta1.PersistentPodState, pod *corev1.Pod) v1beta1.PodState {
	c.t.Helper()
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		c.t.Fatal(err)
	}
	out := v1beta1.PodState{NodeName: node.Name, NodeTopologyLabels: map[string]string{}}
	for _, key := range state.Spec.RequiredPersistentTopology.Keys {
		out.NodeTopologyLabels[key] = node.Labels[key]
	}
	for _, annotation := range state.Spec.PersistentPodAnnotations {
		if value, ok := pod.Annotations[annotation.Key]; ok {
			out.Annotations = map[string]string{annotation.Key: value}
		}
	}
	return out
}

// restart deletes a Pod, and waits until the new Pod of the same name is ready.
func (c *cluster) restart(name string) *corev1.Pod {
	c.t.Helper()
	before := &corev1.Pod{}
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, before); err != nil {
		c.t.Fatal(err)
	}
	if err := c.Delete(c.t.Context(), before); err != nil {
		c.t.Fatal(err)
	}
	after := &corev1.Pod{}
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(before), after); err != nil {
			return err
		}
		if after.UID == before.UID || !podstate.IsReady(after) {
			return fmt.Errorf("Pod %s on %q has no ready successor", name, after.Spec.NodeName)
		}
		return nil
	})
	return after
}
