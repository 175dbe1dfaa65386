package manager_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestBudgets checks PodUnavailableBudgets with two managers: the API server sends each webhook request to either of
// the two.
func TestBudgets(t *testing.T) {
	c := newCluster(t)
	c.install()
	for range 2 {
		c.run("--feature-gates=PodUnavailableBudgetUpdateGate=true,InPlacePodVerticalScaling=true").untilReady()
	}
	c.untilInjected()
	for _, step := range []struct {
		name string
		test func(*cluster)
	}{
		{"PUB-26 PUB-20 PUB-23 a Deployment is evicted one by one", (*cluster).evictsOneByOne},
		{"PUB-5 Pods that were there before are marked, and deleted within the budget", (*cluster).marksPods},
		{"PUB-14 a workload that is scaled down or deleted is not held up", (*cluster).scalesDown},
		{"PUB-22 100 evictions by 8 clients", (*cluster).evictsAtOnce},
		{"PUB-27 C-44 a CloneSet asks before it updates in place", (*cluster).updatesInPlace},
		{"PUB-17 PUB-18 PUB-24 changes and resizes of Pods", (*cluster).changesPods},
		{"all budgets of a Pod have to agree", (*cluster).sharesPods},
		{"PUB-28 beside a PodDisruptionBudget each refuses on its own", (*cluster).besidesPDB},
		{"PUB-2 PUB-3 what is wrong has its path", (*cluster).refusesBudgets},
		{"kubectl drain ends by itself", (*cluster).drains},
	} {
		t.Run(step.name, func(t *testing.T) { step.test(c.on(t)) })
	}
}

func (c *cluster) deployment(name string, replicas int32) *appsv1.Deployment {
	c.t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	if err := c.Create(c.t.Context(), d); err != nil {
		c.t.Fatal(err)
	}
	return d
}

// budget creates a budget for the Pods of an app, or for the Deployment of the same name.
func (c *cluster) budget(app string, edit func(*policyv1beta1.PodUnavailableBudgetSpec)) *policyv1beta1.PodUnavailableBudget {
	c.t.Helper()
	b := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	edit(&b.Spec)
	if err := c.Create(c.t.Context(), b); err != nil {
		c.t.Fatal(err)
	}
	return b
}

func atMost(text string) func(*policyv1beta1.PodUnavailableBudgetSpec) {
	return func(s *policyv1beta1.PodUnavailableBudgetSpec) { s.MaxUnavailable = ptr.To(intstr.Parse(text)) }
}

// untilCounted waits until the status of a budget has the given numbers, in this order: total, desired, current and
// allowed.
func (c *cluster) untilCounted(name string, want ...int32) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		b := &policyv1beta1.PodUnavailableBudget{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, b); err != nil {
			return err
		}
		s := b.Status
		if got := []int32{s.TotalReplicas, s.DesiredAvailable, s.CurrentAvailable, s.UnavailableAllowed}; s.ObservedGeneration != b.Generation || fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("total, desired, current, allowed are %v, want %v; %+v", got, want, s)
		}
		return nil
	})
}

func (c *cluster) podsOf(app string) (pods []*corev1.Pod) {
	c.t.Helper()
	list := &corev1.PodList{}
	if err := c.List(c.t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{"app": app}); err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		if podstate.IsReady(&list.Items[i]) && podstate.IsActive(&list.Items[i]) {
			pods = append(pods, &list.Items[i])
		}
	}
	return pods
}

func (c *cluster) evict(ctx context.Context, pod *corev1.Pod, dryRun ...string) error {
	return c.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun},
	})
}

// isSpent reports whether an error is the error that the eviction API returns if a budget allows no further
// disruption.
func isSpent(err error) bool {
	status := apierrors.APIStatus(nil)
	return apierrors.IsTooManyRequests(err) && errors.As(err, &status) && len(status.Status().Details.Causes) == 1 &&
		status.Status().Details.Causes[0].Type == policyv1.DisruptionBudgetCause
}

func (c *cluster) evictsOneByOne() {
	c.deployment("one", 5)
	c.budget("one", atMost("1"))
	c.untilCounted("one", 5, 4, 5, 1)
	pods := c.podsOf("one")
	for _, pod := range pods {
		if pod.Annotations[policy.AnnotationRelatedBudget] != "one" || pod.Annotations[policy.AnnotationRelatedBudgetOld] != "one" {
			c.t.Errorf("PUB-4 annotations %v", pod.Annotations)
		}
	}
	ctx := c.t.Context()
	c.cordon(true) // the replacement of an evicted Pod must not be ready before the next eviction
	if err := c.evict(ctx, pods[0], metav1.DryRunAll); err != nil {
		c.t.Errorf("PUB-21 a dry run: %v", err)
	}
	if err := c.evict(ctx, pods[1]); err != nil {
		c.t.Fatalf("PUB-26 the first eviction: %v", err)
	}
	if err := c.evict(ctx, pods[2]); !isSpent(err) {
		c.t.Errorf("PUB-26 the second eviction: %v; want 429 and a cause", err)
	}
	for _, version := range []string{"", pods[2].ResourceVersion, "1"} { // the empty version means any version
		err := c.SubResource("eviction").Create(ctx, pods[2], &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: pods[2].Namespace, Name: pods[2].Name}, DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}},
		})
		if !isSpent(err) {
			c.t.Errorf("an eviction with the precondition of version %q: %v; want 429 and a cause", version, err)
		}
	}
	if err := c.Delete(ctx, pods[3]); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `podunavailablebudgets.policy.kruise.io "one" is forbidden`) {
		c.t.Errorf("PUB-23 a deletion: %v", err)
	}
	c.untilEvent("Pod", pods[2].Name, "PubPreventPodDeletion")
	c.patch(pods[4], types.MergePatchType, `{"metadata":{"annotations":{"pub.kruise.io/no-protect":"true"}}}`)
	if err := c.evict(ctx, pods[4]); err != nil {
		c.t.Errorf("PUB-19 A-24 a Pod that is not protected: %v", err)
	}
	c.cordon(false)
	c.untilCounted("one", 5, 4, 5, 1)
}

// cordon makes all Nodes unschedulable, or schedulable again.
func (c *cluster) cordon(is bool) {
	c.t.Helper()
	nodes := &corev1.NodeList{}
	if err := c.List(c.t.Context(), nodes); err != nil {
		c.t.Fatal(err)
	}
	for i := range nodes.Items {
		c.patch(&nodes.Items[i], types.MergePatchType, fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, is))
	}
}

func (c *cluster) untilEvent(kind, name, why string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := c.List(ctx, events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && e.Reason == why {
				return nil
			}
		}
		return fmt.Errorf("%s %s has no event %s", kind, name, why)
	})
}

func (c *cluster) marksPods() {
	c.deployment("before", 3)
	controlplanetest.Eventually(c.t, time.Minute, func(context.Context) error {
		if n := len(c.podsOf("before")); n != 3 {
			return fmt.Errorf("%d Pods", n)
		}
		return nil
	})
	c.budget("before", func(s *policyv1beta1.PodUnavailableBudgetSpec) {
		s.Selector, s.TargetReference = nil, &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "before"}
		s.MinAvailable = ptr.To(intstr.FromString("100%"))
	})
	if err := c.evict(c.t.Context(), c.podsOf("before")[0]); !apierrors.IsTooManyRequests(err) {
		c.t.Errorf("3.4 before it was counted: %v", err)
	}
	c.untilCounted("before", 3, 3, 3, 0)
	if err := c.Delete(c.t.Context(), c.podsOf("before")[1]); !apierrors.IsForbidden(err) {
		c.t.Errorf("PUB-5 a Pod that was there before: %v", err)
	}
}

func (c *cluster) scalesDown() {
	d := c.deployment("scaled", 6)
	c.budget("scaled", atMost("1"))
	c.untilCounted("scaled", 6, 5, 6, 1)
	c.patch(d, types.MergePatchType, `{"spec":{"replicas":2}}`)
	c.untilCounted("scaled", 2, 1, 2, 1)
	if err := c.Delete(c.t.Context(), d); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, time.Minute, func(context.Context) error {
		if n := len(c.podsOf("scaled")); n != 0 {
			return fmt.Errorf("%d Pods are left", n)
		}
		return nil
	})
	c.untilCounted("scaled", 0, 0, 0, 0)
}

func (c *cluster) evictsAtOnce() {
	const pods, budget = 100, 5
	c.budget("many", func(s *policyv1beta1.PodUnavailableBudgetSpec) {
		atMost(fmt.Sprint(budget))(s)
		s.ProtectTotalReplicas = ptr.To[int32](pods) // no controller creates replacements
	})
	for i := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("many-%d", i), Labels: map[string]string{"app": "many"}}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
		if err := c.Create(c.t.Context(), pod); err != nil {
			c.t.Fatal(err)
		}
	}
	c.untilCounted("many", pods, pods-budget, pods, budget)
	todo := make(chan *corev1.Pod, pods)
	for _, pod := range c.podsOf("many") {
		todo <- pod
	}
	close(todo)
	var admitted, refused atomic.Int32
	var all sync.WaitGroup
	began := time.Now()
	for range 8 {
		all.Go(func() {
			for pod := range todo {
				switch err := c.evict(c.t.Context(), pod); {
				case err == nil:
					admitted.Add(1)
				case apierrors.IsTooManyRequests(err):
					refused.Add(1)
				default:
					c.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	c.t.Logf("%d evictions: %d admitted, %d refused with 429 in %v", pods, admitted.Load(), refused.Load(), time.Since(began).Round(time.Millisecond))
	if admitted.Load() != budget || refused.Load() != pods-budget {
		c.t.Errorf("%d admitted, %d refused; want %d and %d", admitted.Load(), refused.Load(), budget, pods-budget)
	}
	c.untilCounted("many", pods, pods-budget, pods-budget, 0)
}

func (c *cluster) updatesInPlace() {
	set := newCloneSet("inplace", 10)
	set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromString("100%"))
	set.Spec.Template.Annotations = map[string]string{controlplane.BrokenImage: "example.test/app:broken"}
	if err := c.Create(c.t.Context(), set); err != nil {
		c.t.Fatal(err)
	}
	c.untilRolledOut("inplace")
	c.budget("inplace", atMost("2"))
	c.untilCounted("inplace", 10, 8, 10, 2)
	c.patch(set, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.test/app:broken"}]}}}}`)
	before := c.settledLog(c.t)
	c.untilCounted("inplace", 10, 8, 8, 0)
	requests, _, err := audit.Read(c.cp.AuditLog(), before, "kruise-manager/")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, r := range requests {
		if strings.HasPrefix(r.Resource, "pods") && r.Code == http.StatusForbidden {
			c.t.Errorf("the controller runs into refusals: %s", r)
		}
	}
	if n := len(c.podsOf("inplace")); n != 8 {
		c.t.Errorf("%d Pods serve, want 8", n)
	}
	live := &v1beta1.CloneSet{}
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(set), live); err != nil || live.Status.UpdatedReplicas != 2 {
		c.t.Errorf("%d updated, %v; want 2", live.Status.UpdatedReplicas, err)
	}
	c.patch(set, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.test/app:v2"}]}}}}`)
	c.untilRolledOut("inplace")
	if err := c.Delete(c.t.Context(), set); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) changesPods() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "changed", Labels: map[string]string{"app": "changed"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
	}}}
	if err := c.Create(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	c.budget("changed", func(s *policyv1beta1.PodUnavailableBudgetSpec) {
		atMost("0")(s)
		s.ProtectOperations = []policyv1beta1.Operation{policyv1beta1.OperationUpdate, policyv1beta1.OperationResize}
	})
	c.untilCounted("changed", 1, 1, 1, 0)
	ctx := c.t.Context()
	image := []byte(`{"spec":{"containers":[{"name":"app","image":"example.test/app:v2"}]}}`)
	if err := c.Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, image)); !apierrors.IsForbidden(err) {
		c.t.Errorf("PUB-17 another image: %v", err)
	}
	hidden := []byte(`{"metadata":{"annotations":{"pub.kruise.io/related-pub":null,"kruise.io/related-pub":null}},"spec":{"containers":[{"name":"app","image":"example.test/app:v2"}]}}`)
	if err := c.Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, hidden)); !apierrors.IsForbidden(err) {
		c.t.Errorf("3.4 another image, and the annotations go: %v", err)
	}
	resize := []byte(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`)
	if err := c.SubResource("resize").Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, resize)); !apierrors.IsForbidden(err) {
		c.t.Errorf("3.4 PUB-18 a resize: %v", err)
	}
	if err := c.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"unavailable-pod.kruise.io/x":""}}}`))); !apierrors.IsForbidden(err) {
		c.t.Errorf("PUB-17 a label that takes it out of service: %v", err)
	}
	c.patch(pod, types.MergePatchType, `{"metadata":{"labels":{"any":"other"}}}`)
	if err := c.Delete(ctx, pod); err != nil {
		c.t.Errorf("PUB-25 an operation that is not protected: %v", err)
	}
}

// sharesPods creates three budgets for the Pods of a Deployment: two budgets select the Pods, and one names the
// Deployment and allows no disruption.
func (c *cluster) sharesPods() {
	c.deployment("shared", 3)
	c.budget("shared", atMost("2"))
	c.untilCounted("shared", 3, 1, 3, 2)
	none := c.budget("shared-none", func(s *policyv1beta1.PodUnavailableBudgetSpec) {
		s.Selector = nil
		s.TargetReference = &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "shared"}
		s.MaxUnavailable = ptr.To(intstr.FromInt32(0))
	})
	c.untilCounted("shared-none", 3, 3, 3, 0)
	for _, pod := range c.podsOf("shared") {
		if a := pod.Annotations; a[policy.AnnotationRelatedBudget] != "shared" || a[policy.AnnotationOtherBudgets] != "shared-none" {
			c.t.Errorf("annotations %v", a)
		}
		if err := c.evict(c.t.Context(), pod); !isSpent(err) || !strings.Contains(err.Error(), "shared-none") {
			c.t.Errorf("an eviction: %v", err)
		}
	}
	c.untilCounted("shared", 3, 1, 3, 2) // the budget has not counted the refused evictions
	c.untilEvent("PodUnavailableBudget", "shared-none", "SharedPods")
	c.untilEvent("PodUnavailableBudget", "shared", "SharedPods")
	if err := c.Delete(c.t.Context(), none); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error { return c.evict(ctx, c.podsOf("shared")[0]) })
}

func (c *cluster) besidesPDB() {
	c.deployment("both", 2)
	ours := c.budget("both", atMost("0"))
	c.untilCounted("both", 2, 2, 2, 0)
	theirs := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "both"}}
	theirs.Spec.Selector, theirs.Spec.MinAvailable = ours.Spec.Selector, ptr.To(intstr.FromInt32(0))
	if err := c.Create(c.t.Context(), theirs); err != nil {
		c.t.Fatal(err)
	}
	untilAllowed := func(want int32) {
		controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(theirs), theirs); err != nil {
				return err
			}
			if theirs.Status.ObservedGeneration != theirs.Generation || theirs.Status.DisruptionsAllowed != want {
				return fmt.Errorf("status %+v", theirs.Status)
			}
			return nil
		})
	}
	untilAllowed(2)
	if err := c.evict(c.t.Context(), c.podsOf("both")[0]); !isSpent(err) || !strings.Contains(err.Error(), "PodUnavailableBudget") {
		c.t.Errorf("the PodDisruptionBudget allows 2, ours none: %v", err)
	}
	c.patch(theirs, types.MergePatchType, `{"spec":{"minAvailable":2}}`)
	c.patch(ours, types.MergePatchType, `{"spec":{"maxUnavailable":2}}`)
	untilAllowed(0)
	c.untilCounted("both", 2, 0, 2, 2)
	if err := c.evict(c.t.Context(), c.podsOf("both")[0]); !isSpent(err) || strings.Contains(err.Error(), "PodUnavailableBudget") {
		c.t.Errorf("ours allows 2, the PodDisruptionBudget none: %v", err)
	}
}

func (c *cluster) refusesBudgets() {
	for name, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"of the same Pods": {&policyv1beta1.PodUnavailableBudget{Spec: policyv1beta1.PodUnavailableBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "one"}}, MaxUnavailable: ptr.To(intstr.FromInt32(1)),
		}}, "spec.selector"},
		"of a number that is none": {&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "policy.kruise.io/v1alpha1", "kind": "PodUnavailableBudget",
			"metadata": map[string]any{"annotations": map[string]any{policy.AnnotationProtectTotalReplicas: "many"}},
			"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "nobody"}}, "maxUnavailable": int64(1)},
		}}, "metadata.annotations[" + policy.AnnotationProtectTotalReplicas + "]"},
	} {
		tc.object.SetNamespace(namespace)
		tc.object.SetName("refused")
		err := c.Create(c.t.Context(), tc.object)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
			c.t.Errorf("%s: %v", name, err)
		}
	}
}

func (c *cluster) drains() {
	c.deployment("drained", 8)
	c.budget("drained", atMost("1"))
	c.untilCounted("drained", 8, 7, 8, 1)
	node := c.podsOf("drained")[0].Spec.NodeName
	began := time.Now()
	kubectl, err := controlplane.Binary(c.t.Context(), "kubectl", controlplane.Options{Progress: os.Stderr})
	if err != nil {
		c.t.Fatal(err)
	}
	drain := exec.CommandContext(c.t.Context(), kubectl, "--kubeconfig", c.cp.Kubeconfig(), "drain", node, "--pod-selector=app=drained", "--timeout=2m")
	if text, err := drain.CombinedOutput(); err != nil {
		c.t.Errorf("kubectl drain: %v\n%s", err, text)
	}
	c.t.Logf("drained in %v", time.Since(began).Round(time.Millisecond))
	c.untilCounted("drained", 8, 7, 8, 1)
	for _, pod := range c.podsOf("drained") {
		if pod.Spec.NodeName == node {
			c.t.Errorf("Pod %s is still there", pod.Name)
		}
	}
}
