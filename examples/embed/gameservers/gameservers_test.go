package gameservers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
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

func newScheme(t *testing.T) *runtime.Scheme {
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

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// start installs the kind, calls before, and runs the operator until it is ready.
func start(t *testing.T, before func(*fixture)) *fixture {
	t.Helper()
	cp := env.Start(t)
	c, err := client.New(cp.Config(), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Client: c, t: t, namespace: env.Namespace(t)}
	if err := install.CRD(t.Context(), c, CRD); err != nil {
		t.Fatal(err)
	}
	before(f)
	if err := install.Manifest(t.Context(), c, Webhook); err != nil {
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

func (f *fixture) game(name string, replicas int) *GameServers {
	g := &GameServers{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	g.Spec.Replicas, g.Spec.HistoryLimit = replicas, 3
	g.Spec.Template.Labels = map[string]string{"game": name}
	g.Spec.Template.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "app", Image: "app:v1"}},
	}
	return g
}

func (f *fixture) create(g *GameServers) {
	f.t.Helper()
	if err := f.Create(f.t.Context(), g); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) change(g *GameServers, edit func(*Spec)) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, 10*time.Second, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		edit(&g.Spec)
		return f.Update(ctx, g)
	})
}

func image(image string) func(*Spec) {
	return func(s *Spec) { s.Template.Spec.Containers[0].Image = image }
}

// settle waits until exactly the wanted Pods exist, all ready and with their images, and returns the Pods by name.
func (f *fixture) settle(name string, want map[string]string) map[string]corev1.Pod {
	f.t.Helper()
	var pods map[string]corev1.Pod
	controlplanetest.Eventually(f.t, time.Minute, func(ctx context.Context) error {
		var list corev1.PodList
		if err := f.List(ctx, &list, client.InNamespace(f.namespace), client.MatchingLabels{"game": name}); err != nil {
			return err
		}
		pods = map[string]corev1.Pod{}
		got := map[string]string{}
		for _, pod := range list.Items {
			pods[pod.Name] = pod
			got[pod.Name] = "not ready"
			if podstate.IsReady(&pod) && pod.DeletionTimestamp == nil {
				got[pod.Name] = pod.Status.ContainerStatuses[0].Image
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("Pods (-want +got):\n%s", diff)
		}
		return nil
	})
	return pods
}

// images maps the name of each ordinal's Pod to the image.
func images(name, image string, ordinals ...int) map[string]string {
	out := map[string]string{}
	for _, o := range ordinals {
		out[fmt.Sprintf("%s-%d", name, o)] = image
	}
	return out
}

func both(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// kept counts the Pods in before that still exist.
func kept(before, after map[string]corev1.Pod) (n int) {
	for name, pod := range after {
		if pod.UID == before[name].UID {
			n++
		}
	}
	return n
}

func TestGameServers(t *testing.T) {
	var bad *GameServers
	f := start(t, func(f *fixture) {
		bad = f.game("old", 1)
		bad.Spec.Partition = -1
		f.create(bad)
	})
	f.lifeOfOrdinals()
	f.matchMaker()
	f.pastAdmission(bad)
	t.Run("bad specs are refused", f.refusals)
}

func (f *fixture) lifeOfOrdinals() {
	t := f.t
	g := f.game("chess", 4)
	g.Spec.Reserved = []intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("3-4")}
	f.create(g)
	created := f.settle("chess", images("chess", "app:v1", 0, 2, 5, 6))

	f.change(g, func(s *Spec) { s.Partition = 2; image("app:v2")(s) })
	updated := f.settle("chess", both(images("chess", "app:v1", 0, 2), images("chess", "app:v2", 5, 6)))
	if n := kept(created, updated); n != 4 {
		t.Errorf("%d of 4 Pods are the same after a change of image", n)
	}
	victim := updated["chess-0"]
	if err := f.Delete(t.Context(), &victim); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, time.Minute, func(context.Context) error {
		again := f.settle("chess", both(images("chess", "app:v1", 0, 2), images("chess", "app:v2", 5, 6)))
		if again["chess-0"].UID == victim.UID {
			return errors.New("Pod chess-0 is the old one")
		}
		return nil
	})

	f.change(g, func(s *Spec) { s.Partition, s.Start = 0, 2 })
	f.settle("chess", images("chess", "app:v2", 2, 5, 6, 7))
	f.change(g, func(s *Spec) { s.Reserved, s.Replicas = []intstr.IntOrString{intstr.FromString("5-6")}, 3 })
	moved := f.settle("chess", images("chess", "app:v2", 2, 3, 4))
	f.change(g, func(s *Spec) { s.Template.Spec.Containers[0].Command = []string{"serve"}; image("app:v3")(s) })
	if recreated := f.settle("chess", images("chess", "app:v3", 2, 3, 4)); kept(moved, recreated) != 0 {
		t.Error("a change of command has left Pods as they are")
	}
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		got := fmt.Sprint(g.Status.Pods, g.Status.Available, g.Status.Updated, g.Status.ObservedGeneration == g.Generation,
			g.Status.Revision == g.Status.CurrentRevision, meta.IsStatusConditionFalse(g.Status.Conditions, "Failed"),
			meta.IsStatusConditionFalse(g.Status.Conditions, "Progressing"))
		if want := "3 3 3 true true true true"; got != want {
			return fmt.Errorf("status %s, want %s: %+v", got, want, g.Status)
		}
		return nil
	})
}

// matchMaker checks that a Pod is neither updated nor deleted before the end of its match. After the update, the Pod
// has the hold label again.
func (f *fixture) matchMaker() {
	t := f.t
	g := f.game("go", 2)
	g.Spec.AskMatchMaker = true
	f.create(g)
	created := f.settle("go", images("go", "app:v1", 0, 1))
	if got := created["go-1"].Labels[holdLabel]; got != "match" {
		t.Errorf("a new Pod has hold %q", got)
	}
	f.change(g, image("app:v2"))
	f.asked("go-1", "PreparingUpdate")
	f.settle("go", images("go", "app:v1", 0, 1))
	f.release("go-1")
	f.settle("go", both(images("go", "app:v1", 0), images("go", "app:v2", 1)))
	f.asked("go-0", "PreparingUpdate")
	f.asked("go-1", "Normal") // with the hold label, as before
	f.release("go-0")
	updated := f.settle("go", images("go", "app:v2", 0, 1))
	if n := kept(created, updated); n != 2 {
		t.Errorf("%d of 2 Pods are the same", n)
	}
	f.change(g, func(s *Spec) { s.Replicas = 1 })
	f.asked("go-1", "PreparingDelete")
	f.change(g, func(s *Spec) { s.Replicas = 2 })
	f.asked("go-1", "Normal")
	f.change(g, func(s *Spec) { s.Replicas = 1 })
	f.asked("go-1", "PreparingDelete")
	f.release("go-1")
	f.settle("go", images("go", "app:v2", 0))
}

// asked waits until a Pod with the hold label is in a lifecycle state.
func (f *fixture) asked(name, state string) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, time.Minute, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		err := f.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: name}, pod)
		if got := pod.Labels[stateLabel]; err == nil && (got != state || pod.Labels[holdLabel] != "match") {
			err = fmt.Errorf("Pod %s is in state %q with hold %q, want %q", name, got, pod.Labels[holdLabel], state)
		}
		return err
	})
}

func (f *fixture) release(name string) {
	f.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+holdLabel+`":null}}}`))
	if err := f.Patch(f.t.Context(), pod, patch); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) refusals(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec map[string]any
		want []string
	}{
		{"reserved ranges", map[string]any{"reserved": []any{int64(1), "7-3", "x"}}, []string{"spec.reserved[1]", `"7-3"`, "spec.reserved[2]", `"x"`}},
		{"negative reserved", map[string]any{"reserved": []any{int64(-1)}}, []string{"spec.reserved[0]", `"-1"`}},
		{"ordinals run out", map[string]any{"start": int64(2147483647), "replicas": int64(2)}, []string{"OrdinalOverflow", "spec.replicas", "2"}},
		{"negative start", map[string]any{"start": int64(-1)}, []string{"spec.start", "-1"}},
		{"negative replicas", map[string]any{"replicas": int64(-2)}, []string{"spec.replicas", "-2"}},
		{
			"negative numbers",
			map[string]any{"partition": int64(-3), "maxUnavailable": int64(-4), "historyLimit": int64(-5)},
			[]string{"spec.partition: -3", "spec.maxUnavailable: -4", "spec.historyLimit: -5"},
		},
		{"what cannot be decoded", map[string]any{"template": map[string]any{"spec": map[string]any{"overhead": map[string]any{"cpu": "oops"}}}}, []string{"spec.template.spec.overhead", "oops"}},
		{"labels of the operator's", map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{deleteLabel: "1"}}}}, []string{"spec.template.metadata.labels", deleteLabel}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": GroupVersion.String(), "kind": "GameServers", "metadata": map[string]any{"name": "bad", "namespace": f.namespace},
				"spec": map[string]any{"replicas": int64(1), "template": map[string]any{}},
			}}
			maps.Copy(bad.Object["spec"].(map[string]any), tc.spec)
			err := f.Create(t.Context(), bad)
			if err == nil {
				t.Fatal("it is admitted")
			}
			missing := slices.DeleteFunc(slices.Clone(tc.want), func(part string) bool { return strings.Contains(err.Error(), part) })
			if len(missing) > 0 {
				t.Errorf("%v does not name %q", err, missing)
			}
		})
	}
}

// pastAdmission checks an invalid object that was stored before the webhook existed. The operator reports the error
// and changes no Pod. Changes outside the spec are admitted, and after a correction the operator continues.
func (f *fixture) pastAdmission(g *GameServers) {
	t := f.t
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		c := meta.FindStatusCondition(g.Status.Conditions, "Failed")
		if c == nil || c.Reason != string(InvalidSpec) || !strings.Contains(c.Message, "spec.partition: -1") {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	f.settle("old", map[string]string{})
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	if err := f.Patch(t.Context(), g, label); err != nil {
		t.Errorf("a label: %v", err)
	}
	if err := f.Patch(t.Context(), g, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`))); err == nil {
		t.Error("a spec that is still bad is admitted")
	}
	f.change(g, func(s *Spec) { s.Partition = 0 })
	f.settle("old", images("old", "app:v1", 0))
}
