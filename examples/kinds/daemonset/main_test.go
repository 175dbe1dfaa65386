package daemonset_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// A DaemonSet runs on all Nodes, so this package has a control plane of its own. Tests add Nodes of their own.
var env = controlplanetest.New(controlplane.Options{Nodes: 1, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const minute = time.Minute

// owned is the key of a label and a taint on a test's own Nodes; the value is the test's namespace.
const owned = "example.test/owned"

// cluster is a test's client of the control plane.
type cluster struct {
	client.WithWatch
	t         testing.TB
	cp        *controlplane.ControlPlane
	namespace string
}

// idle returns a new namespace on the control plane, without controllers and Nodes.
func idle(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	return &cluster{WithWatch: controllertest.Client(t, cp), t: t, cp: cp, namespace: env.Namespace(t)}
}

// start is like idle, but the controllers run and n Nodes exist. The Nodes are named after the namespace, with n1, n2
// and so on.
func start(t testing.TB, n int, change ...func(*manager.Options)) *cluster {
	t.Helper()
	c := idle(t)
	for i := range n {
		c.addNode(fmt.Sprintf("n%d", i+1))
	}
	c.run(change...)
	return c
}

// run runs the controllers in the cluster's namespace.
func (c *cluster) run(change ...func(*manager.Options)) (stop func()) {
	c.t.Helper()
	options := manager.Options{Namespace: c.namespace}
	for _, f := range change {
		f(&options)
	}
	return controllertest.Manager(c.t, c.cp, options)
}

// nodeName returns the whole name of a test's own Node.
func (c *cluster) nodeName(short string) string { return c.namespace + "-" + short }

// addNode adds a Node for the test. Pods of other tests do not tolerate the Node's taint.
func (c *cluster) addNode(short string, change ...func(*corev1.Node)) {
	c.t.Helper()
	c.createNode(c.nodeName(short), append(slices.Clone(change), func(node *corev1.Node) {
		node.Labels[owned] = c.namespace
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: owned, Value: c.namespace, Effect: corev1.TaintEffectNoSchedule})
	})...)
}

func (c *cluster) createNode(name string, change ...func(*corev1.Node)) {
	c.t.Helper()
	node := controlplane.NewNode(name)
	for _, f := range change {
		f(node)
	}
	if err := c.Create(c.t.Context(), node); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = c.Delete(context.WithoutCancel(c.t.Context()), node)
	})
}

// changeNode edits a Node of the test.
func (c *cluster) changeNode(short string, f func(*corev1.Node)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: c.nodeName(short)}, node); err != nil {
			return err
		}
		f(node)
		return c.Update(ctx, node)
	})
}

// daemonSet returns a DaemonSet for the test's own Nodes whose Pods are updated in place, all at the same time.
func (c *cluster) daemonSet(name string, change ...func(*v1beta1.DaemonSet)) *v1beta1.DaemonSet {
	labels := map[string]string{"app": name}
	set := &v1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec: v1beta1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(labels)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector:                  map[string]string{owned: c.namespace},
					Tolerations:                   []corev1.Toleration{{Key: owned, Operator: corev1.TolerationOpExists}},
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					Containers:                    []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
				},
			},
			UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{
				Type: v1beta1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &v1beta1.RollingUpdateDaemonSet{
					RollingUpdateType: v1beta1.InPlaceIfPossibleRollingUpdateType, MaxUnavailable: ptr.To(intstr.FromString("100%")),
				},
			},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

// standard makes updates replace Pods, one Pod at a time.
func standard(set *v1beta1.DaemonSet) {
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
}

// create creates the DaemonSet, and waits until exactly the given Nodes have available Pods.
func (c *cluster) create(set *v1beta1.DaemonSet, nodes ...string) {
	c.t.Helper()
	if err := c.Create(c.t.Context(), set); err != nil {
		c.t.Fatal(err)
	}
	c.untilPods(set.Name, nodes...)
}

func (c *cluster) get(ctx context.Context, name string) (*v1beta1.DaemonSet, error) {
	set := &v1beta1.DaemonSet{}
	return set, c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, set)
}

// change edits the spec, and tries again after a conflict.
func (c *cluster) change(name string, f func(*v1beta1.DaemonSet)) {
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

// until waits until want returns nil for the DaemonSet, and returns the DaemonSet.
func (c *cluster) until(name string, want func(*v1beta1.DaemonSet) error) (set *v1beta1.DaemonSet) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 2*minute, func(ctx context.Context) (err error) {
		if set, err = c.get(ctx, name); err != nil {
			return err
		}
		return want(set)
	})
	return set
}

// settled returns nil if the status is about the newest spec, n Nodes have an available Pod, and updated Nodes have a
// Pod at the newest revision.
func settled(n, updated int32) func(*v1beta1.DaemonSet) error {
	return func(set *v1beta1.DaemonSet) error {
		s := &set.Status
		if s.ObservedGeneration != set.Generation || s.NumberAvailable != n || s.UpdatedNumberScheduled != updated {
			return fmt.Errorf("generation %d, status %+v; want %d available and %d updated", set.Generation, *s, n, updated)
		}
		return nil
	}
}

// pods returns the Pods of a DaemonSet, sorted by the names of their Nodes.
func (c *cluster) pods(ctx context.Context, name string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(c.namespace), client.MatchingLabels{"app": name}); err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(c.nodeOf(a), c.nodeOf(b)), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

// nodeOf returns the short name of a Pod's Node.
func (c *cluster) nodeOf(pod *corev1.Pod) string {
	node, err := nodefit.NodeOf(pod)
	if err != nil {
		c.t.Errorf("Pod %s: %v", pod.Name, err)
	}
	return strings.TrimPrefix(node, c.namespace+"-")
}

// untilPods waits until exactly the given Nodes have an available Pod each, and returns the Pods.
func (c *cluster) untilPods(name string, want ...string) (pods []*corev1.Pod) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 2*minute, func(ctx context.Context) (err error) {
		set, err := c.get(ctx, name)
		if err != nil {
			return err
		}
		if pods, err = c.pods(ctx, name); err != nil {
			return err
		}
		var got []string
		for _, pod := range pods {
			got = append(got, c.nodeOf(pod))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("Pods on Nodes %v, want %v", got, want)
		}
		if set.Status.ObservedGeneration != set.Generation || int(set.Status.NumberAvailable) != len(want) {
			return fmt.Errorf("generation %d, status %+v", set.Generation, set.Status)
		}
		return nil
	})
	return pods
}

// atImage returns the image of the Pod on each Node.
func (c *cluster) atImage(name string) map[string]string {
	c.t.Helper()
	pods, err := c.pods(c.t.Context(), name)
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for _, pod := range pods {
		_, out[c.nodeOf(pod)], _ = strings.Cut(pod.Spec.Containers[0].Image, ":")
	}
	return out
}

func setImage(tag string) func(*v1beta1.DaemonSet) {
	return func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = "example.test/app:" + tag }
}

func metaName(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func rawPatch(kind types.PatchType, text string) client.Patch {
	return client.RawPatch(kind, []byte(text))
}
