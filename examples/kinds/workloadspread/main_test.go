package workloadspread_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/kinds/workloadspread"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// This package has a control plane of its own, because the API server calls the webhooks for all Pods.
var env = controlplanetest.New(controlplane.Options{Nodes: 6, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// cluster is a test's client of the control plane.
type cluster struct {
	client.WithWatch
	t         testing.TB
	cp        *controlplane.ControlPlane
	namespace string
}

func idle(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	return &cluster{controllertest.Client(t, cp), t, cp, env.Namespace(t)}
}

// count runs only the controller.
func (c *cluster) count() {
	rows := slices.DeleteFunc(kinds.All(), func(k kind.Row) bool { return k.Kind.Kind != "WorkloadSpread" })
	controllertest.Manager(c.t, c.cp, manager.Options{Namespace: c.namespace, Kinds: rows, Loops: []kinds.Loop{}})
}

func (c *cluster) create(objects ...client.Object) {
	c.t.Helper()
	for _, object := range objects {
		object.SetNamespace(c.namespace)
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
}

// spreadOf returns a WorkloadSpread named web.
func (c *cluster) spreadOf(apiVersion, kind, subsets string) *v1beta1.WorkloadSpread {
	c.t.Helper()
	spread := &v1beta1.WorkloadSpread{}
	text := "metadata: {name: web}\nspec:\n  targetRef: {apiVersion: " + apiVersion + ", kind: " + kind + ", name: web}\n" + subsets
	if err := yaml.UnmarshalStrict([]byte(text), spread); err != nil {
		c.t.Fatal(err)
	}
	return spread
}

func deployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	d.Spec.Replicas, d.Spec.Selector, d.Spec.Template.Labels = &replicas, &metav1.LabelSelector{MatchLabels: labels}, labels
	d.Spec.Template.Spec = corev1.PodSpec{TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}}
	return d
}

// until waits until the given numbers of active Pods have the labels of the subsets' patches, and the status has the
// same numbers.
func (c *cluster) until(spread *v1beta1.WorkloadSpread, want string) []corev1.Pod {
	c.t.Helper()
	var list corev1.PodList
	controlplanetest.Eventually(c.t, 90*time.Second, func(ctx context.Context) error {
		if err := errors.Join(c.List(ctx, &list, client.InNamespace(c.namespace)), c.Get(ctx, client.ObjectKeyFromObject(spread), spread)); err != nil {
			return err
		}
		list.Items = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !podstate.IsActive(&pod) || pod.Labels["app"] != "web" })
		counts := map[string]int{}
		for i := range list.Items {
			counts[list.Items[i].Labels["subset"]]++
		}
		status := map[string]int{}
		for _, s := range spread.Status.SubsetStatuses {
			status[s.Name] += int(s.Replicas)
		}
		for _, versions := range spread.Status.VersionedSubsetStatuses {
			for _, s := range versions {
				if len(s.CreatingPods)+len(s.DeletingPods) > 0 {
					return fmt.Errorf("not at rest: %+v", s)
				}
			}
		}
		if spread.Status.ObservedGeneration != spread.Generation {
			return errors.New("not looked at")
		}
		got := fmt.Sprintf("a:%d b:%d status a:%d b:%d", counts["a"], counts["b"], status["a"], status["b"])
		if got != fmt.Sprintf("%s status %s", want, want) {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
	return list.Items
}

// untilEvent waits for an event about a WorkloadSpread that has the texts.
func (c *cluster) untilEvent(why string, texts ...string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 20*time.Second, func(ctx context.Context) error {
		var list corev1.EventList
		if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == why && e.InvolvedObject.Kind == "WorkloadSpread" && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(e.Message, text) }) {
				return nil
			}
		}
		return fmt.Errorf("no event %s with %q", why, texts)
	})
}

const twoSubsets = `
  subsets:
  - {name: a, maxReplicas: 2, tolerations: [{key: x, operator: Exists}], patch: {metadata: {labels: {subset: a}}}}
  - {name: b, patch: {metadata: {labels: {subset: b}}}}`

// TestSpread: a WorkloadSpread may be created before its target. The Pods of a Deployment fill the subsets in order,
// the next Pod gets the subset of a deleted Pod, and an event says why further Pods are created in another subset.
func TestSpread(t *testing.T) {
	c := idle(t)
	controllertest.Serve(t, c.cp, c, manager.Options{})
	spread := c.spreadOf("apps/v1", "Deployment", twoSubsets)
	d := deployment(4)
	c.create(spread, d)
	c.until(spread, "a:2 b:2")
	scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`))
	if err := c.Patch(t.Context(), d, scale); err != nil {
		t.Fatal(err)
	}
	pods := c.until(spread, "a:2 b:3")
	for i := range pods {
		pod := &pods[i]
		tolerates := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "x" })
		if cost := pod.Annotations[apps.AnnotationPodDeletionCost]; tolerates != (pod.Labels["subset"] == "a") || pod.Annotations[apps.AnnotationMatchedWorkloadSpread] == "" {
			t.Errorf("WS-24 %s %v cost %s", pod.Name, pod.Annotations, cost)
		}
	}
	c.untilEvent(apps.EventSubsetChosen, "subset b", "spec.subsets[a]")
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Labels["subset"] == "a" })
	if err := c.Delete(t.Context(), &pods[i]); err != nil {
		t.Fatal(err)
	}
	c.until(spread, "a:2 b:3")
}

// TestQuota: after a quota has refused Pods, a CloneSet creates the Pods again with the same names. The Pods then use
// the same places in the subsets, and no place stays recorded for a Pod that is never created.
func TestQuota(t *testing.T) {
	c := idle(t)
	controllertest.Serve(t, c.cp, c, manager.Options{})
	spread := c.spreadOf("apps.kruise.io/v1beta1", "CloneSet", strings.Replace(twoSubsets, "maxReplicas: 2", "maxReplicas: 3", 1))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
	c.create(spread, quota)
	controlplanetest.Eventually(t, 20*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil || len(quota.Status.Hard) == 0 {
			return errors.Join(err, errors.New("the quota is not in force yet"))
		}
		return nil
	})
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	set.Spec.Replicas, set.Spec.Selector, set.Spec.Template = ptr.To(int32(8)), deployment(0).Spec.Selector, deployment(0).Spec.Template
	c.create(set)
	controlplanetest.Eventually(t, 20*time.Second, func(ctx context.Context) error {
		var list corev1.EventList
		if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == apps.EventFailedCreate && strings.Contains(e.Message, "exceeded quota") {
				return nil
			}
		}
		return errors.New("no Pod was refused yet")
	})
	if err := c.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	c.until(spread, "a:3 b:5")
}

// TestNoCapacity: Pods that no Node of a subset can run are recreated in another subset, and the status says why.
func TestNoCapacity(t *testing.T) {
	c := idle(t)
	controllertest.Serve(t, c.cp, c, manager.Options{})
	spread := c.spreadOf("apps/v1", "Deployment", `
  scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 2}}
  subsets:
  - name: a
    maxReplicas: 3
    requiredNodeSelector: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [`+controlplane.FirstNode+`]}]}
    patch: {metadata: {labels: {subset: a}}}
  - {name: b, patch: {metadata: {labels: {subset: b}}}}`)
	node := &corev1.Node{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: controlplane.FirstNode}, node); err != nil {
		t.Fatal(err)
	}
	d := deployment(4)
	most := node.Status.Allocatable.Cpu().MilliValue()*2/3 + 1 // the Node can run one Pod
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(most, resource.DecimalSI)}
	c.create(spread, d)
	pods := c.until(spread, "a:1 b:3")
	for i := range pods {
		if !podstate.IsScheduled(&pods[i]) {
			t.Errorf("%s waits for a Node", pods[i].Name)
		}
	}
	s := spread.Status.SubsetStatuses[0]
	if len(s.Conditions) != 1 || s.Conditions[0].Status != metav1.ConditionFalse || !strings.Contains(s.Conditions[0].Message, "Insufficient cpu") {
		t.Errorf("why not there: %+v", s.Conditions)
	}
	c.untilEvent(apps.EventSubsetChosen, "subset b", "spec.subsets[a]")
}

// webhooks returns the steps of several processes, each with caches of its own, and the handlers that review new
// Pods.
func (c *cluster) webhooks(n int) (steps []podwebhook.Mutator, judges []webhookadmission.Handler) {
	c.t.Helper()
	for range n {
		mgr, err := ctrl.NewManager(c.cp.Config(), ctrl.Options{Scheme: c.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
		if err != nil {
			c.t.Fatal(err)
		}
		row := workloadspread.Row()
		in := kind.PodInputs{Gates: apps.DefaultGates(), Namespace: c.namespace, Current: func(context.Context) error { return nil }}
		step, err := row.PodMutator(c.t.Context(), mgr, in)
		if err != nil {
			c.t.Fatal(err)
		}
		judge, err := row.PodComes(c.t.Context(), mgr, in)
		if err != nil {
			c.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
		done := make(chan error, 1)
		go func() { done <- mgr.Start(ctx) }()
		c.t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				c.t.Errorf("webhook: %v", err)
			}
		})
		if !mgr.GetCache().WaitForCacheSync(c.t.Context()) {
			c.t.Fatal("no caches")
		}
		steps, judges = append(steps, step), append(judges, judge)
	}
	return steps, judges
}

// TestNewPodsHoldTheirPlaces: a new Pod is admitted only if the status records the Pod's place in the subset,
// whichever process reviews the Pod. Pods of subsets without a maximum need no place.
func TestNewPodsHoldTheirPlaces(t *testing.T) {
	c := idle(t)
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	set.Spec.Selector, set.Spec.Template = deployment(0).Spec.Selector, deployment(0).Spec.Template
	c.create(set, c.spreadOf("apps.kruise.io/v1beta1", "CloneSet", twoSubsets))
	steps, judges := c.webhooks(2)
	marked := func(annotation string, owned bool) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "web-", Labels: map[string]string{"app": "web"}}}
		if pod.Spec = set.Spec.Template.Spec; owned {
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1beta1.GroupVersion.WithKind("CloneSet"))}
		}
		if annotation != "" {
			pod.Annotations = map[string]string{apps.AnnotationMatchedWorkloadSpread: annotation}
		}
		return pod
	}
	admitted := marked("", true)
	controlplanetest.Eventually(t, 20*time.Second, func(ctx context.Context) error { // the caches may be stale
		if err := steps[0].Mutate(ctx, admitted, &webhookadmission.Request{}); err != nil {
			return err
		}
		if admitted.Labels["subset"] != "a" {
			return fmt.Errorf("in no subset: %v", admitted.Labels)
		}
		return nil
	})
	if since, err := strconv.ParseInt(admitted.Annotations[apps.AnnotationPlaceSince], 10, 64); err != nil || time.Since(time.Unix(since, 0)).Abs() > time.Minute {
		t.Errorf("the time of the place: %v", admitted.Annotations)
	}
	const lost = `{"name":"web","subset":"a","uid":"lost"}`
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		dry  bool
		want bool
	}{
		{"WS-60 a place just taken", admitted, false, true},
		{"WS-60 a place that is gone", marked(lost, true), false, false},
		{"a dry run", marked(lost, true), true, true},
		{"nobody's Pod", marked(lost, false), false, true},
		{"a subset without a maximum", marked(`{"name":"web","subset":"b","uid":"lost"}`, true), false, true},
		{"a subset that is gone", marked(`{"name":"web","subset":"z","uid":"lost"}`, true), false, true},
		{"another WorkloadSpread", marked(`{"name":"other","subset":"a","uid":"lost"}`, true), false, true},
		{"no mark", marked("{", true), false, true},
	} {
		raw, err := json.Marshal(tc.pod)
		if err != nil {
			t.Fatal(err)
		}
		request := webhookadmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: c.namespace, DryRun: &tc.dry, Object: runtime.RawExtension{Raw: raw}}}
		for i, judge := range judges {
			got := judge.Handle(t.Context(), request)
			if got.Allowed != tc.want || !tc.want && (got.Result.Code != http.StatusServiceUnavailable || !strings.Contains(got.Result.Message, "create the Pod again")) {
				t.Errorf("%s, process %d: %+v", tc.name, i, got)
			}
		}
	}
}

// TestLatePodsAreReviewed: the API server calls the validating webhook for Pods whose places in subsets were taken 2
// s ago or earlier, and for Pods whose annotations name a subset but no time. The webhook in the test has a port on
// which no process listens, so each called Pod is refused.
func TestLatePodsAreReviewed(t *testing.T) {
	c := idle(t)
	raw, err := os.ReadFile("../../config/webhook/validating.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all admissionregistrationv1.ValidatingWebhookConfiguration
	if err := yaml.UnmarshalStrict(raw, &all); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == "vpodplace.kb.io" })
	if i < 0 {
		t.Fatal("no webhook vpodplace.kb.io")
	}
	reviews := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}, Webhooks: all.Webhooks[i : i+1]}
	reviews.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")}
	reviews.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.namespace}}
	if err := c.Create(t.Context(), reviews); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(t.Context()), reviews); err != nil {
			t.Errorf("deleting the webhook: %v", err)
		}
	})
	isReviewed := func(annotations map[string]string) bool {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "p-", Annotations: annotations}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
		err := c.Create(t.Context(), pod)
		if err != nil && !strings.Contains(err.Error(), `failed calling webhook "vpodplace.kb.io"`) {
			t.Errorf("creating a Pod: %v", err)
		}
		return err != nil
	}
	const mark = `{"name":"web","subset":"a"}`
	controlplanetest.Eventually(t, 20*time.Second, func(context.Context) error {
		if !isReviewed(map[string]string{apps.AnnotationMatchedWorkloadSpread: mark}) {
			return errors.New("the webhook is not called yet")
		}
		return nil
	})
	for _, tc := range []struct {
		name string
		age  time.Duration
		text string
		want bool
	}{
		{"just taken", 0, "", false},
		{"2 s ago", 2500 * time.Millisecond, "", true},
		{"an hour ago", time.Hour, "", true},
		{"by a clock that is fast", -3 * time.Second, "", true},
		{"words", 0, "yesterday", true},
		{"a number that is too long", 0, "99999999999999999999", true},
		{"empty", 0, " ", true},
	} {
		text := tc.text
		if text == "" {
			text = strconv.FormatInt(time.Now().Add(-tc.age).Unix(), 10)
		}
		if got := isReviewed(map[string]string{apps.AnnotationMatchedWorkloadSpread: mark, apps.AnnotationPlaceSince: text}); got != tc.want {
			t.Errorf("%s (%s): reviewed: %t", tc.name, text, got)
		}
	}
	for _, annotations := range []map[string]string{nil, {"a": "b"}, {apps.AnnotationPlaceSince: "1"}} {
		if isReviewed(annotations) {
			t.Errorf("%v: reviewed, without a place", annotations)
		}
	}
}

// TestConcurrentWebhooks: eight webhooks, each with a cache of its own, never assign more Pods to a subset than its
// maximum. A dry run and a second call for the same Pod do not count. The places of Pods that are never created are
// used again.
func TestConcurrentWebhooks(t *testing.T) {
	c := idle(t)
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	set.Spec.Selector, set.Spec.Template = deployment(0).Spec.Selector, deployment(0).Spec.Template
	spread := c.spreadOf("apps.kruise.io/v1beta1", "CloneSet", strings.Replace(twoSubsets, "maxReplicas: 2", "maxReplicas: 10", 1))
	c.create(set, spread)
	steps, _ := c.webhooks(8)
	c.count()
	wave := func(n int, dry bool) (pods []*corev1.Pod) {
		var group sync.WaitGroup
		pods = make([]*corev1.Pod, n)
		for i := range pods {
			pods[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Namespace: c.namespace, Labels: map[string]string{"app": "web"}}, Spec: set.Spec.Template.Spec}
			pods[i].OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1beta1.GroupVersion.WithKind("CloneSet"))}
			request := &webhookadmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{DryRun: &dry}}
			group.Go(func() {
				for _, step := range []podwebhook.Mutator{steps[i%8], steps[(i+1)%8]} { // the second webhook is called for the same Pod
					if err := step.Mutate(t.Context(), pods[i], request); err != nil {
						t.Errorf("Pod %d: %v", i, err)
					}
				}
			})
		}
		group.Wait()
		return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod.Labels["subset"] != "a" })
	}
	if n := len(wave(8, true)); n != 0 {
		t.Errorf("WS-10 %d Pods of a dry run are sent to a", n)
	}
	first := wave(40, false)
	if len(first) != 10 {
		t.Fatalf("%d Pods have a place, and there are 10", len(first))
	}
	for _, pod := range first[:6] { // the requests for the other Pods have failed later
		c.create(pod)
	}
	c.until(spread, "a:6 b:0")
	c.untilEvent(apps.EventCreatePodFailed, "not there when the API server was asked") // within seconds
	second := wave(16, false)
	if len(second) != 4 {
		t.Errorf("%d Pods have one of the 4 places given back", len(second))
	}
	for _, pod := range second {
		c.create(pod)
	}
	c.until(spread, "a:10 b:0")
}

// TestTakeOver: the controller writes no Pod that OpenKruise has assigned to a subset.
func TestTakeOver(t *testing.T) {
	for _, name := range []string{"main", "1.9.0-settled", "1.9.0-midway"} {
		t.Run(name, func(t *testing.T) {
			c := idle(t)
			controllertest.RestoreConverted(t, c, c.namespace, "testdata/takeover/"+name+".yaml")
			offset := controllertest.End(t, c.cp.AuditLog())
			c.count()
			spread := &v1beta1.WorkloadSpread{}
			key := client.ObjectKey{Namespace: c.namespace, Name: "spread"}
			controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
				if err := c.Get(ctx, key, spread); err != nil {
					return err
				}
				spread.Spec.ScheduleStrategy.Type = v1beta1.WorkloadSpreadFixed // the observed generation shows that the controller has reconciled
				return c.Update(ctx, spread)
			})
			controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
				if err := c.Get(ctx, key, spread); err != nil || spread.Status.ObservedGeneration != spread.Generation {
					return fmt.Errorf("%+v, %w", spread.Status, err)
				}
				return nil
			})
			witness := c.spreadOf("apps/v1", "Deployment", twoSubsets)
			c.create(witness, deployment(0))
			c.until(witness, "a:0 b:0")
			requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
			for _, r := range requests {
				if r.Namespace == c.namespace && r.IsWrite() && r.Resource == "pods" {
					t.Errorf("%s %s %s (%d)", r.Verb, r.Resource, r.Name, r.Code)
				}
			}
		})
	}
}
