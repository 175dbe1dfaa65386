package manager_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const (
	budgetsCRD     = "podunavailablebudgets.policy.kruise.io"
	sidecarSetsCRD = "sidecarsets.apps.kruise.io"
)

// TestKindsComeAndGo: a manager that starts before the CRDs exist works as usual once the CRDs are installed. The
// manager also continues after a CRD was removed and installed again.
func TestKindsComeAndGo(t *testing.T) {
	c := newCluster(t)
	m := c.run()
	m.untilReady()
	c.deployment("before", 1)
	c.untilPods("before", 1, nil)
	c.install()
	c.untilInjected()
	c.untilWebhooksAnswer()
	for _, step := range []struct {
		name string
		test func(*cluster)
	}{
		{"controllers run", (*cluster).rollsOutLate},
		{"budgets have an effect at once", func(c *cluster) { c.protectsLate("late") }},
		{"sidecars are injected at once", func(c *cluster) { c.injectsLate("late") }},
		{"the CRD of budgets goes and comes back", (*cluster).budgetsComeBack},
		{"a version is not served for a while", (*cluster).versionComesBack},
		{"a version is not served, and the CRD goes then", (*cluster).goesUnserved},
	} {
		t.Run(step.name, func(t *testing.T) { step.test(c.on(t)) })
	}
	if text := m.read(); strings.Count(text, "sidecarsets") > 100 {
		t.Error("what is not installed fills the log")
	}
}

// untilPods waits for n ready Pods of an app, and checks each Pod with look.
func (c *cluster) untilPods(app string, n int, look func(*corev1.Pod) error) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(context.Context) error {
		pods := c.podsOf(app)
		if len(pods) != n {
			return fmt.Errorf("%d Pods of %s are ready, want %d", len(pods), app, n)
		}
		for _, pod := range pods {
			if look == nil {
				break
			}
			if err := look(pod); err != nil {
				return err
			}
		}
		return nil
	})
}

// untilWebhooksAnswer waits until the API server trusts the certificate of the webhooks.
func (c *cluster) untilWebhooksAnswer() {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		return c.Create(ctx, newCloneSet("probe", 1), client.DryRunAll)
	})
}

func (c *cluster) rollsOutLate() {
	if err := c.Create(c.t.Context(), newCloneSet("late-clones", 2)); err != nil {
		c.t.Fatal(err)
	}
	c.untilRolledOut("late-clones")
}

// protectsLate tries to evict all Pods of a Deployment right after the creation of a budget for the Pods.
func (c *cluster) protectsLate(name string) {
	c.t.Helper()
	c.deployment(name, 3)
	c.untilPods(name, 3, nil)
	c.budget(name, atMost("1"))
	c.evictsOne(name)
}

// evictsOne tries to evict all Pods of an app, and fails unless exactly one eviction is allowed.
func (c *cluster) evictsOne(name string) {
	c.t.Helper()
	c.cordon(true)
	defer c.cordon(false)
	gone := map[types.UID]bool{}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		for _, pod := range c.podsOf(name) {
			switch err := c.evict(ctx, pod); {
			case err == nil:
				gone[pod.UID] = true
			case !apierrors.IsTooManyRequests(err):
				return err
			}
		}
		if len(gone) == 0 {
			return errors.New("nothing is let go")
		}
		return nil
	})
	for _, pod := range c.podsOf(name) {
		if err := c.evict(c.t.Context(), pod); err == nil {
			gone[pod.UID] = true
		}
	}
	if len(gone) > 1 {
		c.t.Errorf("%d of 3 Pods were let go, and 1 may be away", len(gone))
	}
}

// injectsLate creates a SidecarSet, and at once a Pod for the SidecarSet.
func (c *cluster) injectsLate(name string) {
	c.t.Helper()
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"mesh": name}}
	set.Spec.Containers = []pub.SidecarContainer{{Container: corev1.Container{Name: "mesh", Image: "example.test/mesh:v1"}}}
	if err := c.Create(c.t.Context(), set); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error { return c.hasSidecar(ctx, name) })
}

// hasSidecar creates a Pod, and returns an error unless the Pod has the sidecar of a SidecarSet.
func (c *cluster) hasSidecar(ctx context.Context, set string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: set + "-", Labels: map[string]string{"mesh": set}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	if err := c.Create(ctx, pod); err != nil {
		return err
	}
	if len(pod.Spec.Containers) != 2 {
		return errNoSidecar
	}
	return nil
}

var errNoSidecar = errors.New("the Pod has no sidecar")

func (c *cluster) definition(name string) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(name)
	return crd
}

// budgetsComeBack removes the CRD of PodUnavailableBudgets, together with all budgets, while the annotations of Pods
// still name a budget. Then the CRD is installed again.
func (c *cluster) budgetsComeBack() {
	c.protectsLate("held")
	ctx := c.t.Context()
	if err := c.Delete(ctx, c.definition(budgetsCRD)); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Name: budgetsCRD}, c.definition(budgetsCRD)); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the CRD is still there: %w", err)
		}
		return nil
	})
	c.untilPods("held", 3, nil)
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error { // no budgets are left
		for _, pod := range c.podsOf("held") {
			if err := c.evict(ctx, pod); err != nil {
				return err
			}
		}
		return nil
	})
	if err := config.InstallCRDs(ctx, c); err != nil {
		c.t.Fatal(err)
	}
	c.untilInjected()
	c.untilPods("held", 3, nil)
	c.protectsLate("back")
}

// versionComesBack makes the API server stop serving the version of budgets that the manager watches. During this
// time, evictions of Pods whose annotations name a budget are refused with status 429. When the version is served
// again, the budget decides about evictions.
func (c *cluster) versionComesBack() {
	c.deployment("unserved", 3)
	c.budget("unserved", atMost("1"))
	c.untilCounted("unserved", 3, 2, 3, 1)
	c.untilPods("unserved", 3, func(pod *corev1.Pod) error {
		if pod.Annotations[policy.AnnotationRelatedBudget] != "unserved" {
			return errors.New("the Pod does not name its budget")
		}
		return nil
	})
	c.serveBudgets(false)
	path := "/api/v1/namespaces/" + namespace + "/pods/" + c.podsOf("unserved")[0].Name
	eviction := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q}}`, c.podsOf("unserved")[0].Name)
	for _, r := range []struct{ verb, path, body string }{{http.MethodPost, path + "/eviction", eviction}, {http.MethodDelete, path, "{}"}} {
		if code := c.code(r.verb, r.path, r.body); code != http.StatusTooManyRequests {
			c.t.Errorf("nobody can read the budget, and the answer to %s %s is %d; want 429", r.verb, r.path, code)
		}
	}
	c.serveBudgets(true)
	c.evictsOne("unserved")
}

// serveBudgets sets whether the API server serves the watched version of budgets.
func (c *cluster) serveBudgets(is bool) {
	c.t.Helper()
	c.patch(c.definition(budgetsCRD), types.JSONPatchType, fmt.Sprintf(`[{"op":"test","path":"/spec/versions/1/name","value":"v1beta1"},{"op":"replace","path":"/spec/versions/1/served","value":%t}]`, is))
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		if err := c.List(ctx, &policyv1beta1.PodUnavailableBudgetList{}); (err == nil) != is {
			return fmt.Errorf("served %t: %w", is, err)
		}
		return nil
	})
}

// goesUnserved removes the CRD of budgets while the watched version is not served, so no watch can report the
// deletion of the budgets. Afterwards the Pods can be evicted.
func (c *cluster) goesUnserved() {
	c.deployment("freed", 3)
	c.budget("freed", atMost("0"))
	c.untilCounted("freed", 3, 3, 3, 0)
	c.serveBudgets(false)
	if err := c.Delete(c.t.Context(), c.definition(budgetsCRD)); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(context.Context) error {
		path := "/api/v1/namespaces/" + namespace + "/pods/" + c.podsOf("freed")[0].Name
		if code := c.code(http.MethodDelete, path, "{}"); code != http.StatusOK {
			return fmt.Errorf("there is no budget any more, and the answer to a deletion is %d", code)
		}
		return nil
	})
}

// TestVersionIsNotServed: a manager that starts while a kind is not served in the watched version runs the
// controllers of all other kinds.
func TestVersionIsNotServed(t *testing.T) {
	c := newCluster(t)
	c.install()
	c.serveBudgets(false)
	m := c.run()
	m.untilLogged("a watch is down")
	c.untilInjected()
	c.untilWebhooksAnswer()
	c.rollsOutLate()
	c.deployment("unread", 2)
	c.untilPods("unread", 2, nil)
	path := "/api/v1/namespaces/" + namespace + "/pods/" + c.podsOf("unread")[0].Name
	if code := c.code(http.MethodDelete, path, "{}"); code != http.StatusOK {
		t.Errorf("a Pod without a budget cannot be deleted: %d", code)
	}
	c.serveBudgets(true)
	m.untilReady()
	c.protectsLate("read")
}

// code sends a request once, and returns the status code. Kubernetes clients would repeat a request answered with
// 429.
func (c *cluster) code(verb, path, body string) int {
	c.t.Helper()
	sender, err := rest.HTTPClientFor(c.cp.Config())
	if err != nil {
		c.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(c.t.Context(), verb, c.cp.Config().Host+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := sender.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode
}

// TestWatchesThatAreClosed: each write to a CRD makes the API server close the watches of the CRD's kind. Even so,
// Pods get their sidecars, and no Pod is evicted against its budget.
func TestWatchesThatAreClosed(t *testing.T) {
	c := newCluster(t)
	c.install()
	m := c.run()
	m.untilReady()
	c.untilInjected()
	c.injectsLate("first")
	without, refused := 0, 0
	for i := range 8 {
		name := fmt.Sprint("closed-", i)
		c.deployment(name, 3)
		c.untilPods(name, 3, nil)
		for _, crd := range []string{budgetsCRD, sidecarSetsCRD} {
			c.patch(c.definition(crd), types.MergePatchType, fmt.Sprintf(`{"spec":{"names":{"categories":["round-%d"]}}}`, i))
		}
		set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"mesh": name}}
		set.Spec.Containers = []pub.SidecarContainer{{Container: corev1.Container{Name: "mesh", Image: "example.test/mesh:v1"}}}
		if err := c.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		c.budget(name, atMost("1"))
		begin, noticed := time.Now(), false
		for range 5 {
			switch err := c.hasSidecar(t.Context(), name); {
			case errors.Is(err, errNoSidecar) && noticed:
				t.Errorf("round %d: a Pod has no sidecar after a Pod with the sidecar", i)
			case errors.Is(err, errNoSidecar):
				without++
			case err != nil:
				refused++
			default:
				noticed = true
			}
		}
		t.Logf("round %d: 5 Pods in %v", i, time.Since(begin).Round(time.Millisecond))
		c.evictsOne(name)
	}
	// The first Pod of a round may lack the sidecar: the manager notices a moment later that a watch was closed. Without
	// the wait for the next list, which takes a second, all Pods of a round would lack the sidecar.
	if without > 8 {
		t.Errorf("%d of 40 Pods have no sidecar; %d were refused", without, refused)
	}
	t.Logf("%d of 40 Pods without a sidecar, %d refused", without, refused)
}
