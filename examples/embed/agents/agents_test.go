package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/install"
)

var env = controlplanetest.NewShared(controlplane.Options{})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// fixture is a running operator with a client for its kind.
type fixture struct {
	client.Client
	t         *testing.T
	namespace string
}

func start(t *testing.T) *fixture {
	t.Helper()
	cp := env.Start(t)
	c, err := client.New(cp.Config(), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := install.CRD(t.Context(), c, CRD); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cp.Config()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("operator: %v", err)
		}
	})
	return &fixture{Client: c, t: t, namespace: env.Namespace(t)}
}

// owned is the key of a label and a taint on the test's own Nodes; the value is the test's namespace.
const owned = "agents.example.com/owned"

// node returns the full name of a Node of this test, for a short name that is unique in the test.
func (f *fixture) node(short string) string { return f.namespace + "-" + short }

func (f *fixture) addNode(short string) {
	f.t.Helper()
	node := controlplane.NewNode(f.node(short))
	node.Labels[owned] = f.namespace
	node.Spec.Taints = []corev1.Taint{{Key: owned, Effect: corev1.TaintEffectNoSchedule}}
	if err := f.Create(f.t.Context(), node); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = f.Delete(context.WithoutCancel(f.t.Context()), node)
	})
}

func (f *fixture) changeNode(short string, edit func(*corev1.Node)) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, 10*time.Second, func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := f.Get(ctx, client.ObjectKey{Name: f.node(short)}, node); err != nil {
			return err
		}
		edit(node)
		return f.Update(ctx, node)
	})
}

// agent returns an Agent for the test's own Nodes.
func (f *fixture) agent(name string) *Agent {
	agent := &Agent{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	agent.Spec.Template.Labels = map[string]string{"agent": name}
	agent.Spec.Template.Spec = corev1.PodSpec{
		NodeSelector:                  map[string]string{owned: f.namespace},
		Tolerations:                   []corev1.Toleration{{Key: owned, Operator: corev1.TolerationOpExists}},
		TerminationGracePeriodSeconds: ptr.To[int64](0),
		Containers:                    []corev1.Container{{Name: "app", Image: "app:v1"}},
	}
	return agent
}

func (f *fixture) change(agent *Agent, edit func(*Agent)) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, 10*time.Second, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(agent), agent); err != nil {
			return err
		}
		edit(agent)
		return f.Update(ctx, agent)
	})
}

// settle waits until the Agent has a ready Pod on exactly the given Nodes, all with the image and the command. settle
// returns the UIDs of the Pods by Node, and the smallest number of ready Pods seen meanwhile.
func (f *fixture) settle(name, image string, command []string, nodes ...string) (uids map[string]types.UID, fewest int) {
	f.t.Helper()
	fewest = len(nodes)
	controlplanetest.Eventually(f.t, time.Minute, func(ctx context.Context) error {
		var list corev1.PodList
		if err := f.List(ctx, &list, client.InNamespace(f.namespace), client.MatchingLabels{"agent": name}); err != nil {
			return err
		}
		var on []string
		var wrong error
		uids = map[string]types.UID{}
		for _, pod := range list.Items {
			at, _ := nodefit.NodeOf(&pod)
			switch on = append(on, at); {
			case !podstate.IsActive(&pod) || !podstate.IsReady(&pod):
				wrong = fmt.Errorf("Pod %s is not ready", pod.Name)
				continue
			case pod.Status.ContainerStatuses[0].Image != image || !slices.Equal(pod.Spec.Containers[0].Command, command):
				wrong = fmt.Errorf("Pod %s has not %s %v", pod.Name, image, command)
			}
			uids[at] = pod.UID
		}
		fewest = min(fewest, len(uids))
		want := make([]string, len(nodes))
		for i := range nodes {
			want[i] = f.node(nodes[i])
		}
		if slices.Sort(on); !slices.Equal(want, on) {
			return fmt.Errorf("Pods on %q, want %q", on, want)
		}
		return wrong
	})
	return uids, fewest
}

// waits waits until the status has the given numbers, all Pods are available, and the condition Waiting has the
// reason in why, or is False if why is nil.
func (f *fixture) waits(agent *Agent, nodes, updated int32, why error) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, time.Minute, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(agent), agent); err != nil {
			return err
		}
		s := agent.Status
		want := Status{ObservedGeneration: agent.Generation, Revision: s.Revision, Nodes: nodes, Available: nodes, Updated: updated, Conditions: s.Conditions}
		if diff := cmp.Diff(want, s); diff != "" {
			return fmt.Errorf("status (-want +got):\n%s", diff)
		}
		waiting := meta.FindStatusCondition(s.Conditions, "Waiting")
		if waiting == nil || why == nil && waiting.Status != metav1.ConditionFalse || why != nil && waiting.Reason != why.Error() {
			return fmt.Errorf("condition %+v, want %w", waiting, why)
		}
		if meta.IsStatusConditionTrue(s.Conditions, "Failed") {
			return fmt.Errorf("conditions %+v", s.Conditions)
		}
		return nil
	})
}

func TestAgent(t *testing.T) {
	f := start(t)
	f.addNode("n1")
	f.addNode("n2")
	agent := f.agent("logs")
	if err := f.Create(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	f.settle("logs", "app:v1", nil, "n1", "n2")
	f.addNode("n3")
	created, _ := f.settle("logs", "app:v1", nil, "n1", "n2", "n3")
	f.waits(agent, 3, 3, nil)

	f.change(agent, func(a *Agent) { a.Spec.Partition = 1; a.Spec.Template.Spec.Containers[0].Image = "app:v2" })
	f.waits(agent, 3, 2, rollout.PartitionReached)
	f.change(agent, func(a *Agent) { a.Spec.Partition = 0 })
	updated, fewest := f.settle("logs", "app:v2", nil, "n1", "n2", "n3")
	if diff := cmp.Diff(created, updated); diff != "" || fewest < 2 {
		t.Errorf("an image change left %d Pods ready, and recreated some (-before +after):\n%s", fewest, diff)
	}
	f.waits(agent, 3, 3, nil)

	f.change(agent, func(a *Agent) { a.Spec.Template.Spec.Containers[0].Command = []string{"serve"} })
	recreated, fewest := f.settle("logs", "app:v2", []string{"serve"}, "n1", "n2", "n3")
	for node, uid := range recreated {
		if uid == updated[node] || fewest < 2 {
			t.Errorf("Node %s had Pod %s and has %s, %d Pods were ready at times", node, updated[node], uid, fewest)
		}
	}

	f.changeNode("n2", func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "example.test/broken", Effect: corev1.TaintEffectNoExecute})
	})
	f.settle("logs", "app:v2", []string{"serve"}, "n1", "n3")
	f.waits(agent, 2, 2, nil)
	stopsNobody(f)
}

// stopsNobody checks that the operator still reconciles valid Agents while invalid Agents exist, and reconciles the
// invalid Agents after their correction.
func stopsNobody(f *fixture) {
	t := f.t
	t.Helper()
	good, pod := f.agent("good"), f.agent("typo").Spec.Template.Spec
	pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: "Inn"}}}},
	}}}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	if err != nil {
		t.Fatal(err)
	}
	spec["overhead"] = map[string]any{"cpu": "oops"}
	bad := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": GroupVersion.String(), "kind": "Agent", "metadata": map[string]any{"name": "typo", "namespace": f.namespace},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"agent": "typo"}}, "spec": spec}},
	}}
	if err := errors.Join(f.Create(t.Context(), bad), f.Create(t.Context(), good)); err != nil {
		t.Fatal(err)
	}
	f.settle("good", "app:v1", nil, "n1", "n3")
	for _, mend := range []struct {
		path string
		why  reason.Code
	}{{"overhead", decode.Undecodable}, {"affinity", nodefit.InvalidNodeTerm}} {
		controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
			agent := &Agent{}
			if err := f.Get(ctx, client.ObjectKeyFromObject(bad), agent); err != nil {
				return err
			}
			if failed := meta.FindStatusCondition(agent.Status.Conditions, "Failed"); failed == nil || failed.Reason != string(mend.why) {
				return fmt.Errorf("condition %+v, want %w", failed, mend.why)
			}
			return nil
		})
		f.settle("typo", "", nil)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"`+mend.path+`":null}}}}`))
		if err := f.Patch(t.Context(), bad, patch); err != nil {
			t.Fatal(err)
		}
	}
	f.settle("typo", "app:v1", nil, "n1", "n3")
}
