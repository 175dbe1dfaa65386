package ephemeraljob_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

var env = controlplanetest.NewShared(controlplane.Options{Nodes: 3, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const (
	minute = time.Minute
	agent  = "kruise-manager/test ephemeraljob-controller"
)

// cluster is a test's client of the control plane.
type cluster struct {
	client.WithWatch
	t         testing.TB
	cp        *controlplane.ControlPlane
	namespace string
}

// start returns a new namespace with Pods that are created one after the other, and with the controller running. The
// test fails if more Pods than parallelism allows have running containers at any time.
func start(t testing.TB, parallelism int, pods ...string) *cluster {
	t.Helper()
	cp := env.Start(t)
	c := &cluster{WithWatch: controllertest.Client(t, cp), t: t, cp: cp, namespace: env.Namespace(t)}
	for _, name := range pods {
		c.pod(name)
	}
	controllertest.Watch(t, c, c.namespace, func(pods map[types.UID]*corev1.Pod) {
		busy := 0
		for _, pod := range pods {
			for i := range pod.Spec.EphemeralContainers {
				container := &pod.Spec.EphemeralContainers[i]
				ours := len(container.Env) > 0 && container.Env[0].Name == apps.EnvEphemeralJobID
				ended := slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, func(s corev1.ContainerStatus) bool {
					return s.Name == container.Name && s.State.Terminated != nil
				})
				if ours && !ended {
					busy++
				}
			}
		}
		if busy > parallelism {
			t.Errorf("EJ-7 containers go on in %d Pods, want at most %d", busy, parallelism)
		}
	})
	c.run()
	return c
}

func (c *cluster) run() (stop func()) {
	c.t.Helper()
	rows := slices.DeleteFunc(kinds.All(), func(k kind.Row) bool { return k.Kind.Kind != "EphemeralJob" })
	return controllertest.Manager(c.t, c.cp, manager.Options{Namespace: c.namespace, Kinds: rows, Loops: []kinds.Loop{}})
}

// pod creates a Pod that runs forever.
func (c *cluster) pod(name string) {
	c.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name, Labels: map[string]string{"app": "web"}}}
	pod.Spec = corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}}
	if err := c.Create(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
}

// job creates the job of the sample, with a command, after edits.
func (c *cluster) job(command string, edits ...func(*v1alpha1.EphemeralJobSpec)) {
	c.t.Helper()
	raw, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	j := &v1alpha1.EphemeralJob{}
	if err := yaml.UnmarshalStrict(raw, j); err != nil {
		c.t.Fatal(err)
	}
	j.Namespace, j.Spec.Template.EphemeralContainers[0].Command = c.namespace, strings.Fields(command)
	for _, edit := range edits {
		edit(&j.Spec)
	}
	if err := c.Create(c.t.Context(), j); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) get(ctx context.Context) (*v1alpha1.EphemeralJob, error) {
	j := &v1alpha1.EphemeralJob{}
	return j, c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "look"}, j)
}

// until waits for a phase with numbers: matching, running, waiting, succeeded and failed Pods.
func (c *cluster) until(phase v1alpha1.EphemeralJobPhase, numbers ...int32) *v1alpha1.EphemeralJob {
	c.t.Helper()
	var j *v1alpha1.EphemeralJob
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) (err error) {
		if j, err = c.get(ctx); err != nil {
			return err
		}
		s := &j.Status
		if got := []int32{s.Matches, s.Running, s.Waiting, s.Succeeded, s.Failed}; s.Phase != phase || !slices.Equal(got, numbers) {
			return fmt.Errorf("the job is %s %v, want %s %v: %+v", s.Phase, got, phase, numbers, s.Conditions)
		}
		return nil
	})
	return j
}

// with returns the Pods that have an ephemeral container of a name.
func (c *cluster) with(name string) (names []string) {
	c.t.Helper()
	pods := &corev1.PodList{}
	if err := c.List(c.t.Context(), pods, client.InNamespace(c.namespace)); err != nil {
		c.t.Fatal(err)
	}
	for i := range pods.Items {
		if slices.ContainsFunc(pods.Items[i].Spec.EphemeralContainers, func(e corev1.EphemeralContainer) bool { return e.Name == name }) {
			names = append(names, pods.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// add adds an ephemeral container as another client, with the UID of a job or with none.
func (c *cluster) add(pod, name, command string, job types.UID) {
	c.t.Helper()
	body := fmt.Sprintf(`{"spec":{"ephemeralContainers":[{"name":%q,"image":"example.test/shell:v1","command":["sh","-c",%q],"env":[{"name":%q,"value":%q}]}]}}`,
		name, command, apps.EnvEphemeralJobID, job)
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: pod}}
	if err := c.SubResource("ephemeralcontainers").Patch(c.t.Context(), object, client.RawPatch(types.StrategicMergePatchType, []byte(body))); err != nil {
		c.t.Fatal(err)
	}
}

// change edits the job. After a conflict, change tries again.
func (c *cluster) change(f func(*v1alpha1.EphemeralJob)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 20*time.Second, func(ctx context.Context) error {
		j, err := c.get(ctx)
		if err != nil {
			return err
		}
		f(j)
		return c.Update(ctx, j)
	})
}

// condition waits until a condition has a reason.
func (c *cluster) condition(t v1alpha1.EphemeralJobConditionType, reason string) *v1alpha1.EphemeralJobCondition {
	c.t.Helper()
	var found *v1alpha1.EphemeralJobCondition
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		j, err := c.get(ctx)
		if err != nil {
			return err
		}
		if found = j.Status.Conditions.Get(t); found == nil || found.Reason != reason {
			return fmt.Errorf("no condition %s with %s: %+v", t, reason, j.Status)
		}
		return nil
	})
	return found
}

// told waits for an event about the job that contains a text.
func (c *cluster) told(name, text string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := c.List(ctx, events, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		var got []string
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.Kind == "EphemeralJob" {
				if got = append(got, e.Reason+": "+e.Message); e.Reason == name && strings.Contains(e.Message, text) {
					return nil
				}
			}
		}
		return fmt.Errorf("no event %s with %q: %q", name, text, got)
	})
}
