package advancedcronjob_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// The control plane runs Kubernetes' controller of Jobs.
var env = controlplanetest.NewShared(controlplane.Options{Nodes: 10, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const minute = time.Minute

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

// run runs the controllers of the named kinds in the cluster's namespace.
func (c *cluster) run(names ...string) (stop func()) {
	c.t.Helper()
	rows := slices.DeleteFunc(kinds.All(), func(k kind.Row) bool { return !slices.Contains(names, k.Kind.Kind) })
	return controllertest.Manager(c.t, c.cp, manager.Options{Namespace: c.namespace, Kinds: rows, Loops: []kinds.Loop{}})
}

func pods() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "example.test/job:v1"}}, TerminationGracePeriodSeconds: new(int64(0)),
	}}
}

// create creates an AdvancedCronJob that is due every second.
func (c *cluster) create(name string, edit func(*v1beta1.AdvancedCronJobSpec)) *v1beta1.AdvancedCronJob {
	c.t.Helper()
	obj := &v1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	obj.Spec.Schedule = "@every 1s"
	edit(&obj.Spec)
	if err := c.Create(c.t.Context(), obj); err != nil {
		c.t.Fatal(err)
	}
	return obj
}

// jobTemplate returns a template of Jobs that end quickly: with success because no Pods are wanted, or with a failure
// after a second.
func jobTemplate(well bool) *batchv1.JobTemplateSpec {
	t := &batchv1.JobTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b"}},
		Spec:       batchv1.JobSpec{Template: pods()},
	}
	if well {
		t.Spec.Completions, t.Spec.Parallelism = new(int32(0)), new(int32(0))
	} else {
		t.Spec.ActiveDeadlineSeconds = new(int64(1))
	}
	return t
}

// eventually waits until want returns no error for an AdvancedCronJob.
func (c *cluster) eventually(obj *v1beta1.AdvancedCronJob, want func(context.Context) error) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 2*minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		if err := want(ctx); err != nil {
			return fmt.Errorf("%w; status %+v", err, obj.Status)
		}
		return nil
	})
}

func (c *cluster) change(obj *v1beta1.AdvancedCronJob, edit func(*v1beta1.AdvancedCronJobSpec)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit(&obj.Spec)
		return c.Update(ctx, obj)
	})
}

// jobs returns the Jobs in the namespace.
func (c *cluster) jobs(ctx context.Context) ([]batchv1.Job, error) {
	var list batchv1.JobList
	err := c.List(ctx, &list, client.InNamespace(c.namespace))
	return list.Items, err
}

// writes returns the controller's writes to a resource since an offset in the audit log.
func (c *cluster) writes(since int64, resource string) (out []string) {
	c.t.Helper()
	requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), since, "kruise-manager/test advancedcronjob-controller")
	for _, r := range requests {
		if r.IsWrite() && r.Resource == resource && r.Namespace == c.namespace {
			out = append(out, fmt.Sprintf("%s %s %d", r.Verb, r.Name, r.Code))
		}
	}
	return out
}
