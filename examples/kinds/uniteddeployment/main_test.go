package uniteddeployment_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// The control plane runs Kubernetes' controllers of Deployments and StatefulSets.
var env = controlplanetest.NewShared(controlplane.Options{Nodes: 10, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// agent is the user agent of the controller.
const agent = "kruise-manager/test uniteddeployment-controller"

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

// run runs the controllers of UnitedDeployments and workloads in the cluster's namespace.
func (c *cluster) run() (stop func()) {
	c.t.Helper()
	names := []string{"UnitedDeployment", "CloneSet", "StatefulSet"}
	rows := slices.DeleteFunc(kinds.All(), func(k kind.Row) bool { return !slices.Contains(names, k.Kind.Kind) })
	return controllertest.Manager(c.t, c.cp, manager.Options{Namespace: c.namespace, Kinds: rows, Loops: []kinds.Loop{}})
}

const podTemplate = `
        template:
          metadata: {labels: {app: web}}
          spec: {terminationGracePeriodSeconds: 0, containers: [{name: app, image: "example.test/app:v1"}]}`

// create creates a UnitedDeployment from a template and a topology.
func (c *cluster) create(template, more, topology string) {
	c.t.Helper()
	ud := &v1beta1.UnitedDeployment{}
	text := `
metadata: {name: web}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    ` + template + `:
      metadata: {labels: {app: web}}
      spec:
        selector: {matchLabels: {app: web}}` + more + podTemplate + `
  topology: ` + topology
	if err := yaml.UnmarshalStrict([]byte(text), ud); err != nil {
		c.t.Fatalf("%v in %s", err, text)
	}
	ud.Namespace = c.namespace
	if err := c.Create(c.t.Context(), ud); err != nil {
		c.t.Fatal(err)
	}
}

// change edits the UnitedDeployment. After a conflict, change tries again.
func (c *cluster) change(f func(*v1beta1.UnitedDeployment)) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 20*time.Second, func(ctx context.Context) error {
		ud, err := c.get(ctx)
		if err != nil {
			return err
		}
		f(ud)
		return c.Update(ctx, ud)
	})
}

func (c *cluster) get(ctx context.Context) (*v1beta1.UnitedDeployment, error) {
	ud := &v1beta1.UnitedDeployment{}
	return ud, c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "web"}, ud)
}

// until waits until want returns true for the UnitedDeployment.
func (c *cluster) until(what string, want func(*v1beta1.UnitedDeployment) bool) *v1beta1.UnitedDeployment {
	c.t.Helper()
	var ud *v1beta1.UnitedDeployment
	controlplanetest.Eventually(c.t, 3*time.Minute, func(ctx context.Context) (err error) {
		if ud, err = c.get(ctx); err != nil {
			return err
		}
		if ud.Status.ObservedGeneration != ud.Generation || !want(ud) {
			return fmt.Errorf("not %s: %+v", what, ud.Status)
		}
		return nil
	})
	return ud
}

// settled reports whether all Pods are ready at the newest revision.
func settled(ud *v1beta1.UnitedDeployment) bool {
	n, s := *ud.Spec.Replicas, &ud.Status
	return s.Replicas == n && s.ReadyReplicas == n && s.UpdatedReplicas == n && s.UpdatedReadyReplicas == n && s.CurrentRevision == s.UpdatedRevision
}

func replicas(ud *v1beta1.UnitedDeployment) (out []int32) {
	for _, s := range ud.Status.SubsetStatuses {
		out = append(out, s.Replicas)
	}
	return out
}

func (c *cluster) pods(selector string) []corev1.Pod {
	c.t.Helper()
	parsed, err := labels.Parse(selector)
	if err != nil {
		c.t.Fatal(err)
	}
	var list corev1.PodList
	if err := c.List(c.t.Context(), &list, client.InNamespace(c.namespace), client.MatchingLabelsSelector{Selector: parsed}); err != nil {
		c.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

const twoSubsets = `{subsets: [{name: a, replicas: 2, tolerations: [{key: x, operator: Exists}]}, {name: b, patch: {metadata: {labels: {zone: b}}}}]}`

// TestKinds: workloads of every kind are created, updated, scaled and deleted. Between the steps nothing is written.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"cloneSetTemplate", "deploymentTemplate", "statefulSetTemplate", "advancedStatefulSetTemplate"} {
		t.Run("UD-7 "+template, func(t *testing.T) {
			t.Parallel()
			c := idle(t)
			c.run()
			more := ""
			if strings.HasSuffix(template, "StatefulSetTemplate") || template == "statefulSetTemplate" {
				more = "\n        podManagementPolicy: Parallel"
			}
			c.create(template, more, twoSubsets)
			ud := c.until("settled", settled)
			if got := replicas(ud); !slices.Equal(got, []int32{2, 3}) {
				t.Errorf("UD-17 %v", got)
			}
			if a, b := c.pods("apps.kruise.io/subset-name=a"), c.pods("apps.kruise.io/subset-name=b,zone=b,apps.kruise.io/controller-revision-hash="+ud.Status.CurrentRevision); len(a) != 2 || len(b) != 3 {
				t.Errorf("UD-8 UD-11 %d and %d Pods", len(a), len(b))
			}
			offset := controllertest.End(t, c.cp.AuditLog())
			c.change(func(ud *v1beta1.UnitedDeployment) {
				ud.Spec.UpdateStrategy.ManualUpdate = &v1beta1.ManualUpdate{Partitions: map[string]int32{"a": 1, "b": 3}}
				setImage(ud, "example.test/app:v2")
			})
			if template != "deploymentTemplate" { // Deployments have no partitions
				c.until("updated in part", func(ud *v1beta1.UnitedDeployment) bool {
					return ud.Status.UpdatedReadyReplicas == 1 && ud.Status.ReadyReplicas == 5 && ud.Status.CurrentRevision != ud.Status.UpdatedRevision
				})
			}
			c.change(func(ud *v1beta1.UnitedDeployment) { ud.Spec.UpdateStrategy.ManualUpdate = nil })
			if ud = c.until("updated", settled); ud.Status.CurrentRevision == "" || len(c.pods("app=web")) != 5 {
				t.Errorf("UD-38 %+v", ud.Status)
			}
			c.scale(7)
			c.change(func(ud *v1beta1.UnitedDeployment) { ud.Spec.Topology.Subsets = ud.Spec.Topology.Subsets[1:] })
			c.until("a single subset", func(ud *v1beta1.UnitedDeployment) bool { return settled(ud) && slices.Equal(replicas(ud), []int32{7}) })
			controlplanetest.Eventually(t, time.Minute, func(context.Context) error {
				if n := len(c.pods("apps.kruise.io/subset-name=a")); n > 0 {
					return fmt.Errorf("UD-13 %d Pods of a subset that is gone", n)
				}
				return nil
			})
			c.noConflicts(offset)
			controllertest.FewWrites(t, c.cp.AuditLog(), agent, c.namespace, 3*time.Second, 0)
		})
	}
}

func setImage(ud *v1beta1.UnitedDeployment, image string) {
	t := &ud.Spec.Template
	var pod *corev1.PodTemplateSpec
	switch {
	case t.CloneSetTemplate != nil:
		pod = &t.CloneSetTemplate.Spec.Template
	case t.DeploymentTemplate != nil:
		pod = &t.DeploymentTemplate.Spec.Template
	case t.StatefulSetTemplate != nil:
		pod = &t.StatefulSetTemplate.Spec.Template
	default:
		pod = &t.AdvancedStatefulSetTemplate.Spec.Template
	}
	pod.Spec.Containers[0].Image = image
}

// scale uses the scale subresource, like an autoscaler.
func (c *cluster) scale(n int32) {
	c.t.Helper()
	ud := &v1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "web"}}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	if err := c.SubResource("scale").Update(c.t.Context(), ud, client.WithSubResourceBody(scale)); err != nil {
		c.t.Fatal(err)
	}
}

// noConflicts fails the test if writes of the controller were refused, or if the controller has read objects that its
// caches contain.
func (c *cluster) noConflicts(offset int64) {
	c.t.Helper()
	requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), offset, agent)
	if len(requests) == 0 {
		c.t.Error("the controller has made no request")
	}
	for _, r := range requests {
		if r.Namespace == c.namespace && (r.Code >= 400 || r.Verb == "get" || r.Verb == "list") {
			c.t.Errorf("UD-41 %s %s %s: %d", r.Verb, r.Resource, r.Name, r.Code)
		}
	}
}

// TestAdaptive: Pods that no Node of a subset can run are recreated in other subsets.
func TestAdaptive(t *testing.T) {
	t.Parallel()
	c := idle(t)
	c.run()
	c.create("cloneSetTemplate", "", `{scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 2, unschedulableDuration: 600}}, subsets: [
		{name: a, maxReplicas: 3, nodeSelectorTerm: {matchExpressions: [{key: nowhere, operator: Exists}]}}, {name: b}]}`)
	ud := c.until("moved on", func(ud *v1beta1.UnitedDeployment) bool {
		return settled(ud) && slices.Equal(replicas(ud), []int32{0, 5})
	})
	s := ud.Status.SubsetStatuses[0]
	if is := s.Conditions.Find(apps.ConditionSubsetSchedulable); is == nil || is.Status != corev1.ConditionFalse || is.Reason != apps.ReasonSubsetReschedule || is.Message == "" {
		t.Errorf("UD-21 %+v", s)
	}
	if !strings.Contains(s.Conditions[0].Message, "make room in the subset") {
		t.Errorf("why not there: %+v", s)
	}
	c.untilEvent(apps.EventSuccessfulUpdateSubset, "because SubsetClosed: spec.topology.subsets[a]")
	c.untilEvent(apps.EventSubsetUnschedulable, "subset a")
}

func (c *cluster) untilEvent(why, text string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 20*time.Second, func(ctx context.Context) error {
		var list corev1.EventList
		if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == why && strings.Contains(e.Message, text) && e.InvolvedObject.Kind == "UnitedDeployment" {
				return nil
			}
		}
		return fmt.Errorf("no event %s with %q", why, text)
	})
}

// TestReserve: pending Pods are kept, have substitutes, and do not count as replicas.
func TestReserve(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"deploymentTemplate", "cloneSetTemplate"} {
		t.Run("UD-32 "+template, func(t *testing.T) {
			t.Parallel()
			c := idle(t)
			c.run()
			c.create(template, "", `{scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 2, unschedulableDuration: 600, reserveUnschedulablePods: true}}, subsets: [
				{name: a, maxReplicas: 2, nodeSelectorTerm: {matchExpressions: [{key: nowhere, operator: Exists}]}}, {name: b}]}`)
			ud := c.until("substituted", func(ud *v1beta1.UnitedDeployment) bool {
				return slices.Equal(replicas(ud), []int32{2, 5}) && ud.Status.ReservedPods == 2 && ud.Status.Replicas == 5 && ud.Status.ReadyReplicas == 5
			})
			if n := len(c.pods(ud.Status.LabelSelector)); n != 5 || !strings.HasSuffix(ud.Status.LabelSelector, ",apps.kruise.io/united-deployment-reserved-pod=false") {
				t.Errorf("UD-27 UD-61 %d Pods with %s", n, ud.Status.LabelSelector)
			}
			if n := len(c.pods("apps.kruise.io/united-deployment-reserved-pod=true,apps.kruise.io/subset-name=a")); n != 2 {
				t.Errorf("UD-27 %d reserved Pods", n)
			}
		})
	}
}

// TestOwnership: workloads that match a subset are adopted, workloads that no longer match are released, and
// additional workloads of a subset are deleted.
func TestOwnership(t *testing.T) {
	t.Parallel()
	c := idle(t)
	c.create("deploymentTemplate", "", twoSubsets)
	deployment := func(name, subset string) *appsv1.Deployment {
		matched := map[string]string{"app": "web", "copy": name}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name, Labels: map[string]string{"app": "web"}}}
		d.Spec.Selector, d.Spec.Replicas = &metav1.LabelSelector{MatchLabels: matched}, new(int32)
		d.Spec.Template.Labels, d.Spec.Template.Spec.Containers = matched, []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
		if subset != "" {
			d.Labels[apps.LabelSubsetName] = subset
		}
		return d
	}
	for _, d := range []*appsv1.Deployment{deployment("stranger", ""), deployment("gone", "c")} {
		if err := c.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	c.run()
	c.until("settled", settled)
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "gone"}, d); !apierrors.IsNotFound(err) {
			return fmt.Errorf("UD-12 the workload of no subset: %+v, %w", d.OwnerReferences, err)
		}
		return nil
	})
	d := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "stranger"}, d); err != nil || len(d.OwnerReferences) > 0 {
		t.Errorf("a workload without subset: %+v, %v", d.OwnerReferences, err)
	}
	ud := c.until("settled", settled)
	if err := c.Delete(t.Context(), ud); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		var left appsv1.DeploymentList
		if err := c.List(ctx, &left, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		if len(left.Items) != 1 || left.Items[0].Name != "stranger" {
			return fmt.Errorf("UD-15 %d workloads are left", len(left.Items))
		}
		return nil
	})
}

// TestTakeOver: objects that OpenKruise has left are not written, and the next rollout is completed.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for name, ud := range map[string]string{"main": "ud", "1.9.0-settled": "united", "1.9.0-midway": "united"} {
		t.Run("UD-37 MG-61 "+name, func(t *testing.T) {
			t.Parallel()
			c := idle(t)
			controllertest.RestoreConverted(t, c, c.namespace, "testdata/takeover/"+name+".yaml")
			offset := controllertest.End(t, c.cp.AuditLog())
			c.run()
			key := client.ObjectKey{Namespace: c.namespace, Name: ud}
			var is v1beta1.UnitedDeployment
			controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error { // the controller has reconciled when the new condition exists
				if err := c.Get(ctx, key, &is); err != nil {
					return err
				}
				is.Spec.Replicas = new(*is.Spec.Replicas)
				is.Annotations = map[string]string{"look": "again"}
				return c.Update(ctx, &is)
			})
			c.create("cloneSetTemplate", "", twoSubsets)
			c.until("the witness is settled", settled) // by then any wrong write would have happened
			requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, agent)
			for _, r := range requests {
				if r.Namespace == c.namespace && strings.HasPrefix(r.Name, ud) && r.Resource != "events" && r.Verb != "get" && r.Resource != "uniteddeployments/status" {
					t.Errorf("%s %s %s (%d)", r.Verb, r.Resource, r.Name, r.Code)
				}
			}
			if err := c.Get(t.Context(), key, &is); err != nil || is.Status.CurrentRevision == "" || is.Status.UpdatedRevision != is.Status.CurrentRevision {
				t.Errorf("%+v, %v", is.Status, err)
			}
		})
	}
}
