package podunavailablebudget_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruisev1beta1 "github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

var env = controlplanetest.NewShared(controlplane.Options{Nodes: 3, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// cluster is a test's client of the control plane.
type cluster struct {
	client.WithWatch
	t         testing.TB
	namespace string
	log       string
	election  *manager.LeaderElection // nil for none
	run       func(others ...string) (stop func())
}

// idle returns a cluster without the controller.
func idle(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	c := &cluster{WithWatch: controllertest.Client(t, cp), t: t, namespace: env.Namespace(t), log: cp.AuditLog()}
	c.run = func(others ...string) func() {
		t.Helper()
		var own []kind.Row
		for _, k := range kinds.All() {
			if k.Kind.Kind == "PodUnavailableBudget" || slices.Contains(others, k.Kind.Kind) {
				own = append(own, k)
			}
		}
		return controllertest.Manager(t, cp, manager.Options{Namespace: c.namespace, Kinds: own, Loops: []kinds.Loop{}, LeaderElection: c.election})
	}
	return c
}

func (c *cluster) create(object client.Object) {
	c.t.Helper()
	object.SetNamespace(c.namespace)
	if err := c.Create(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
}

// until waits for a status: total, desired, current, allowed.
func (c *cluster) until(name string, want ...int32) *v1beta1.PodUnavailableBudget {
	c.t.Helper()
	b := &v1beta1.PodUnavailableBudget{}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, b); err != nil {
			return err
		}
		s := b.Status
		if got := []int32{s.TotalReplicas, s.DesiredAvailable, s.CurrentAvailable, s.UnavailableAllowed}; s.ObservedGeneration != b.Generation || fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("of generation %d, total, desired, current, allowed are %v, want %v", s.ObservedGeneration, got, want)
		}
		return nil
	})
	return b
}

func (c *cluster) untilEvent(name, why string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 20*time.Second, func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := c.List(ctx, events, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.Name == name && e.Reason == why {
				return nil
			}
		}
		return fmt.Errorf("%s has no event %s", name, why)
	})
}

func budget(name string, edit func(*v1beta1.PodUnavailableBudgetSpec)) *v1beta1.PodUnavailableBudget {
	b := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	edit(&b.Spec)
	return b
}

func pod(app, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}}}
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	return p
}

// TestTakeOver: the controller does not write OpenKruise's objects, whether all Pods are in service or not.
func TestTakeOver(t *testing.T) {
	for _, state := range []string{"settled", "midway"} {
		t.Run("PUB "+state, func(t *testing.T) {
			c := idle(t)
			controllertest.Restore(t, c, c.namespace, "testdata/openkruise-1.9-"+state+".yaml")
			offset := controllertest.End(t, c.log)
			c.run()
			c.create(budget("witness", func(s *v1beta1.PodUnavailableBudgetSpec) { s.MaxUnavailable = ptr.To(intstr.FromInt32(1)) }))
			c.until("witness", 0, 0, 0, 0) // by then any wrong write to the first budget would have happened
			c.untilEvent("witness", "NoPods")
			requests, _ := controllertest.Requests(t, c.log, offset, "kruise-manager/")
			for _, r := range requests {
				if r.Namespace == c.namespace && r.IsWrite() && r.Name != "witness" && r.Resource != "events" {
					t.Errorf("%s %s", r, r.Name)
				}
			}
		})
	}
}

// TestCounts checks the status of a budget after every kind of change.
func TestCounts(t *testing.T) {
	c := idle(t)
	c.run("CloneSet")
	set := &kruisev1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	set.Spec.Replicas, set.Spec.Selector = ptr.To[int32](4), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.Labels, set.Spec.Template.Spec = set.Spec.Selector.MatchLabels, pod("", "").Spec
	c.create(set)
	c.create(budget("web", func(s *v1beta1.PodUnavailableBudgetSpec) {
		s.Selector, s.TargetReference = nil, &v1beta1.TargetReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web"}
		s.MinAvailable = ptr.To(intstr.FromString("75%"))
	}))
	b := c.until("web", 4, 3, 4, 1)
	pods := &corev1.PodList{}
	if err := c.List(t.Context(), pods, client.InNamespace(c.namespace), client.MatchingLabels{"app": "web"}); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if a := pods.Items[i].Annotations; a[policy.AnnotationRelatedBudget] != "web" || a[policy.AnnotationRelatedBudgetOld] != "web" {
			t.Errorf("PUB-5 Pod %s: %v", pods.Items[i].Name, a)
		}
	}
	merge := func(object client.Object, body string) {
		t.Helper()
		if err := c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	one := &pods.Items[0]
	merge(one, `{"metadata":{"labels":{"unavailable-pod.kruise.io/x":"y"}}}`)
	c.until("web", 4, 3, 3, 0)
	merge(one, `{"metadata":{"labels":{"unavailable-pod.kruise.io/x":null}}}`)
	c.until("web", 4, 3, 4, 1)
	merge(set, `{"spec":{"replicas":8}}`)
	c.until("web", 8, 6, 8, 2)
	b.Status.UnavailableAllowed = 100
	if err := c.Status().Patch(t.Context(), b, client.RawPatch(types.MergePatchType, []byte(`{"status":{"unavailableAllowed":100}}`))); err != nil {
		t.Fatal(err)
	}
	c.until("web", 8, 6, 8, 2) // the controller reverts a user's write of the status
	if err := c.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	owner := one.OwnerReferences[0]
	owner.APIVersion = "apps.kruise.io/v1alpha1" // as OpenKruise 1.9.0 wrote the reference
	owners, err := json.Marshal(owner)
	if err != nil {
		t.Fatal(err)
	}
	merge(one, `{"metadata":{"ownerReferences":[`+string(owners)+`]}}`)
	c.create(budget("heir", func(s *v1beta1.PodUnavailableBudgetSpec) {
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		s.MaxUnavailable = ptr.To(intstr.FromInt32(3))
	}))
	c.until("heir", 8, 5, 8, 3) // the new budget protects the Pods of the deleted budget
}

// TestExpiry: if the deletion of a Pod was admitted but the Pod still exists after some time, the Pod counts as in
// service again, and an event reports the Pod.
func TestExpiry(t *testing.T) {
	c := idle(t)
	c.create(pod("stay", "stay-0"))
	b := budget("stay", func(s *v1beta1.PodUnavailableBudgetSpec) {
		s.MaxUnavailable, s.ProtectTotalReplicas = ptr.To(intstr.FromInt32(1)), ptr.To[int32](1)
	})
	c.create(b)
	c.run()
	c.until("stay", 1, 0, 1, 1)
	since := time.Now().UTC().Format(time.RFC3339)
	body := fmt.Sprintf(`{"status":{"disruptedPods":{"stay-0":%q,"gone":%q},"unavailableAllowed":0}}`, since, since)
	if err := c.Status().Patch(t.Context(), b, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		t.Fatal(err)
	}
	c.until("stay", 1, 0, 0, 0)
	if b = c.until("stay", 1, 0, 1, 1); len(b.Status.DisruptedPods) > 0 {
		t.Errorf("PUB-12 %v", b.Status.DisruptedPods)
	}
	c.untilEvent("stay-0", "NotDeleted")
}

// TestNeededAgain: a deletion that is admitted while the budget requires no Pods is not recorded in the status. When
// the budget requires Pods again, no second deletion is admitted until all caches must show the first deletion.
func TestNeededAgain(t *testing.T) {
	c := idle(t)
	c.run()
	c.create(pod("again", "again-0"))
	c.create(pod("again", "again-1"))
	b := budget("again", func(s *v1beta1.PodUnavailableBudgetSpec) {
		s.MaxUnavailable, s.ProtectTotalReplicas = ptr.To(intstr.FromInt32(2)), ptr.To[int32](2)
	})
	c.create(b)
	c.until("again", 2, 0, 2, 2)
	if err := c.Patch(t.Context(), b, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"maxUnavailable":1}}`))); err != nil {
		t.Fatal(err)
	}
	c.until("again", 2, 1, 2, 0)
	c.until("again", 2, 1, 2, 1)
}

// TestOneNamespace: a manager that is restricted to a namespace does not wait for events of other namespaces.
func TestOneNamespace(t *testing.T) {
	other := idle(t)
	other.create(pod("x", "x-0"))
	other.create(budget("x", func(s *v1beta1.PodUnavailableBudgetSpec) { s.MaxUnavailable = ptr.To(intstr.FromInt32(1)) }))
	other.create(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Revision: 1, Data: runtime.RawExtension{Raw: []byte("{}")}})
	busy, calm := context.WithCancel(t.Context())
	defer calm()
	go func() { // writes make reads from the API server newer than the caches
		for i := 0; busy.Err() == nil; i++ {
			_ = other.Patch(busy, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: other.namespace, Name: "x-0"}},
				client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"i":"%d"}}}`, i)))
		}
	}()
	c := idle(t)
	c.create(budget("own", func(s *v1beta1.PodUnavailableBudgetSpec) { s.MaxUnavailable = ptr.To(intstr.FromInt32(1)) }))
	c.election = &manager.LeaderElection{Namespace: c.namespace, ID: "lease", LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: time.Second}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lease"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("former"), LeaseDurationSeconds: ptr.To[int32](4)}}
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	c.create(lease) // the caches are filled long before the manager leads
	began := time.Now()
	c.run()
	c.until("own", 0, 0, 0, 0)
	calm()
	if took := time.Since(began); took > 20*time.Second { // bookmarks come only once a minute
		t.Errorf("it took %v", took)
	}
}

// TestInvalid: invalid bounds that were stored without admission cause a single event, and the budget protects no
// Pods.
func TestInvalid(t *testing.T) {
	c := idle(t)
	c.run()
	c.create(pod("odd", "odd-0"))
	c.create(budget("odd", func(s *v1beta1.PodUnavailableBudgetSpec) { s.MaxUnavailable = ptr.To(intstr.FromString("many")) }))
	c.until("odd", 1, 0, 1, 1)
	c.untilEvent("odd", "CalculateExpectedPodCountFailed")
}

// TestUndecodable: a budget that cannot be decoded does not affect other budgets. The controller corrects a status
// that cannot be decoded. A budget whose spec cannot be decoded protects no Pods.
func TestUndecodable(t *testing.T) {
	c := idle(t)
	one := func(s *v1beta1.PodUnavailableBudgetSpec) { s.MaxUnavailable = ptr.To(intstr.FromInt32(1)) }
	c.create(budget("time", one))
	c.create(budget("bound", one))
	patch := func(name, body string, of func(client.Object, client.Patch) error) {
		t.Helper()
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("PodUnavailableBudget"))
		object.SetNamespace(c.namespace)
		object.SetName(name)
		if err := of(object, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	patch("time", `{"status":{"observedGeneration":1,"disruptedPods":{"x":"2026-01-05t10:00:00z"},"unavailableAllowed":7,"currentAvailable":0,"desiredAvailable":0,"totalReplicas":0}}`,
		func(o client.Object, p client.Patch) error { return c.Status().Patch(t.Context(), o, p) })
	patch("bound", `{"spec":{"maxUnavailable":3000000000}}`, func(o client.Object, p client.Patch) error { return c.Patch(t.Context(), o, p) })
	c.create(pod("bound", "bound-0"))
	c.create(budget("good", one))
	c.run()
	c.until("good", 0, 0, 0, 0)
	if b := c.until("time", 0, 0, 0, 0); len(b.Status.Undecodable) > 0 {
		t.Errorf("%+v", b.Status)
	}
	c.until("bound", 1, 0, 1, 1)
	c.untilEvent("bound", "CalculateExpectedPodCountFailed")
}
