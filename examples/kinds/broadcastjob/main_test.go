package broadcastjob_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// A BroadcastJob runs on all Nodes, so this package has a control plane of its own. Tests add Nodes of their own.
var env = controlplanetest.New(controlplane.Options{Nodes: 1, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// owned is the key of a label and a taint on a test's own Nodes; the value is the test's namespace.
const owned = "example.test/owned"

// cluster is a test's client of the control plane.
type cluster struct {
	client.WithWatch
	t         testing.TB
	cp        *controlplane.ControlPlane
	namespace string
}

// idle returns a new namespace with n Nodes and without controllers. The Nodes are named after the namespace, with
// n0, n1 and so on.
func idle(t testing.TB, n int) *cluster {
	t.Helper()
	cp := env.Start(t)
	c := &cluster{WithWatch: controllertest.Client(t, cp), t: t, cp: cp, namespace: env.Namespace(t)}
	for i := range n {
		c.addNode(fmt.Sprintf("n%d", i))
	}
	return c
}

// start is like idle, but the controllers run.
func start(t testing.TB, n int) *cluster {
	t.Helper()
	c := idle(t, n)
	c.run()
	return c
}

func (c *cluster) run() (stop func()) {
	c.t.Helper()
	return controllertest.Manager(c.t, c.cp, manager.Options{Namespace: c.namespace})
}

// addNode adds a Node for the test. Pods of other tests do not tolerate the Node's taint.
func (c *cluster) addNode(short string) {
	c.t.Helper()
	node := controlplane.NewNode(c.namespace + "-" + short)
	node.Labels[owned] = c.namespace
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: owned, Value: c.namespace, Effect: corev1.TaintEffectNoSchedule})
	c.createNode(node)
}

func (c *cluster) createNode(node *corev1.Node) {
	c.t.Helper()
	if err := c.Create(c.t.Context(), node); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), node) })
}

func (c *cluster) changeNode(short string, f func(*corev1.Node)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: c.namespace + "-" + short}, node); err != nil {
			return err
		}
		f(node)
		return c.Update(ctx, node)
	})
}

// job creates a job for the test's own Nodes, after edits. The Pods run until the test ends them.
func (c *cluster) job(name string, edits ...func(*v1beta1.BroadcastJob)) {
	c.t.Helper()
	j := &v1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	j.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To[int64](0), NodeSelector: map[string]string{owned: c.namespace},
		Tolerations: []corev1.Toleration{{Key: owned, Operator: corev1.TolerationOpExists}}, Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}},
	}
	for _, edit := range edits {
		edit(j)
	}
	if err := c.Create(c.t.Context(), j); err != nil {
		c.t.Fatal(err)
	}
}

// ends makes the job's Pods succeed as soon as they run.
func ends(j *v1beta1.BroadcastJob) {
	j.Spec.Template.Annotations = map[string]string{controlplane.Complete: "true"}
}

func (c *cluster) get(ctx context.Context, name string) (*v1beta1.BroadcastJob, error) {
	j := &v1beta1.BroadcastJob{}
	return j, c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, j)
}

func (c *cluster) change(name string, f func(*v1beta1.BroadcastJob)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		j, err := c.get(ctx, name)
		if err != nil {
			return err
		}
		f(j)
		return c.Update(ctx, j)
	})
}

// until waits for the phase and the numbers: desired, active, succeeded and failed.
func (c *cluster) until(name string, phase v1beta1.BroadcastJobPhase, numbers ...int32) *v1beta1.BroadcastJob {
	c.t.Helper()
	var j *v1beta1.BroadcastJob
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) (err error) {
		if j, err = c.get(ctx, name); err != nil {
			return err
		}
		if s := &j.Status; s.Phase != phase || !slices.Equal(numbers, []int32{s.Desired, s.Active, s.Succeeded, s.Failed}) {
			return fmt.Errorf("%+v, want %s %v", *s, phase, numbers)
		}
		return nil
	})
	return j
}

// pods returns the Pods of a job, ordered by the names of their Nodes.
func (c *cluster) pods(ctx context.Context, name string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := c.List(ctx, &list, client.InNamespace(c.namespace), client.MatchingLabels{apps.LabelBroadcastJobName: name})
	var out []*corev1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return cmp.Compare(c.nodeOf(a), c.nodeOf(b)) })
	return out, err
}

func (c *cluster) nodeOf(pod *corev1.Pod) string {
	node, err := nodefit.NodeOf(pod)
	if err != nil {
		c.t.Error(err)
	}
	return strings.TrimPrefix(node, c.namespace+"-")
}

// untilPods waits until exactly the Nodes have running Pods, and no further Pods exist.
func (c *cluster) untilPods(name string, within time.Duration, want ...string) (pods []*corev1.Pod) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, within, func(ctx context.Context) (err error) {
		if pods, err = c.pods(ctx, name); err != nil {
			return err
		}
		var got []string
		for _, pod := range pods {
			if got = append(got, c.nodeOf(pod)); pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("Pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("Pods on %v, want %v", got, want)
		}
		return nil
	})
	return pods
}

// steer makes a Pod fail or succeed.
func (c *cluster) steer(pod *corev1.Pod, annotation string) {
	c.t.Helper()
	changed := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, annotation, "true")
	if err := c.Patch(c.t.Context(), changed, client.MergeFrom(pod)); err != nil {
		c.t.Fatal(err)
	}
}

// told counts the events of a job by their reason.
func (c *cluster) told(ctx context.Context, name string) (map[string]int32, error) {
	var list corev1.EventList
	err := c.List(ctx, &list, client.InNamespace(c.namespace))
	out := map[string]int32{}
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.Name == name && e.InvolvedObject.Kind == "BroadcastJob" {
			out[e.Reason] += max(e.Count, 1)
		}
	}
	return out, err
}

// untilTold waits until a job has exactly the wanted events. Events about created and deleted Pods do not count.
func (c *cluster) untilTold(name string, want map[string]int32) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 20*time.Second, func(ctx context.Context) error {
		got, err := c.told(ctx, name)
		if err != nil {
			return err
		}
		delete(got, apps.EventSuccessfulCreate)
		delete(got, apps.EventSuccessfulDelete)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("events %v, want %v", got, want)
		}
		return nil
	})
}

// writes counts the requests of the manager since an offset in the audit log, without events.
func (c *cluster) writes(offset int64) map[string]int {
	c.t.Helper()
	requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), offset, "kruise-manager/")
	requests = slices.DeleteFunc(requests, func(r controllertest.Request) bool { return !r.IsWrite() || r.Resource == "events" })
	return controllertest.Tally(requests, c.namespace)
}
