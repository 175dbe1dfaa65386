package nodejobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/nodefit"
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

// fixture is a running operator, with a client and with Nodes of the test's own.
type fixture struct {
	client.Client

	t         *testing.T
	namespace string
}

// owned is the key of a label and a taint on the test's own Nodes.
const owned = "nodejobs.example.com/owned"

func start(t *testing.T, nodes int) *fixture {
	t.Helper()
	cp := env.Start(t)
	c, err := client.New(cp.Config(), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := install.CRD(t.Context(), c, CRD); err != nil {
		t.Fatal(err)
	}
	f := &fixture{c, t, env.Namespace(t)}
	for i := range nodes {
		node := controlplane.NewNode(fmt.Sprintf("%s-%d", f.namespace, i))
		node.Labels[owned] = f.namespace
		node.Spec.Taints = []corev1.Taint{{Key: owned, Effect: corev1.TaintEffectNoSchedule}}
		if err := f.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Delete(context.WithoutCancel(t.Context()), node) })
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
	return f
}

func (f *fixture) create(name string, edit func(*Spec)) *NodeJob {
	f.t.Helper()
	job := &NodeJob{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	job.Spec.Template.Annotations = map[string]string{controlplane.Complete: "true"}
	job.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, NodeSelector: map[string]string{owned: f.namespace},
		Tolerations: []corev1.Toleration{{Key: owned, Operator: corev1.TolerationOpExists}},
		Containers:  []corev1.Container{{Name: "app", Image: "app:v1"}},
	}
	edit(&job.Spec)
	if err := f.Create(f.t.Context(), job); err != nil {
		f.t.Fatal(err)
	}
	return job
}

func (f *fixture) until(job *NodeJob, want func(*Status) bool) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, time.Minute, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if !want(&job.Status) {
			return fmt.Errorf("status %+v", job.Status)
		}
		return nil
	})
}

// TestNodeJob: a paused job waits, then runs on every Node, two Nodes at a time, completes, and is deleted after its
// TTL. An invalid job is reported with the name of its field, and has no Pod.
func TestNodeJob(t *testing.T) {
	f := start(t, 5)
	job := f.create("check", func(s *Spec) { s.Paused, s.Parallelism = true, ptr.To(intstr.FromString("40%")) })
	f.until(job, func(s *Status) bool { return s.State == completion.Paused && s.Nodes == 5 })
	if waiting := meta.FindStatusCondition(job.Status.Conditions, "Waiting"); waiting == nil || waiting.Reason != string(completion.JobPaused) {
		t.Errorf("waiting: %+v", waiting)
	}
	job.Spec.Paused = false
	if err := f.Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	f.until(job, func(s *Status) bool { return s.State == completion.Complete && s.Active == 0 })
	if s := job.Status; s.Nodes != 5 || s.Done != 5 || s.Failed != 0 || s.Started == nil || s.Ended == nil {
		t.Errorf("%+v", s)
	}
	var pods corev1.PodList
	if err := f.List(t.Context(), &pods, client.InNamespace(f.namespace)); err != nil {
		t.Fatal(err)
	}
	on := map[string]int{}
	for i := range pods.Items {
		node, _ := nodefit.NodeOf(&pods.Items[i])
		on[node]++
	}
	want := map[string]int{}
	for i := range 5 {
		want[fmt.Sprintf("%s-%d", f.namespace, i)] = 1
	}
	if diff := cmp.Diff(want, on); diff != "" {
		t.Errorf("Pods by Node (-want +got):\n%s", diff)
	}
	job.Spec.TTLSeconds = ptr.To[int64](0)
	if err := f.Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(job), job); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the job is still there: %w", err)
		}
		return nil
	})

	odd := f.create("odd", func(s *Spec) { s.Template.Spec.RestartPolicy = "" })
	controlplanetest.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		if err := f.Get(ctx, client.ObjectKeyFromObject(odd), odd); err != nil {
			return err
		}
		failing := meta.FindStatusCondition(odd.Status.Conditions, "Failing")
		if failing == nil || failing.Status != metav1.ConditionTrue || !strings.Contains(failing.Message, "spec.template.spec.restartPolicy") || odd.Status.Nodes > 0 {
			return fmt.Errorf("status %+v", odd.Status)
		}
		return nil
	})
}
