package ephemeraljob_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

type spec = v1alpha1.EphemeralJobSpec

func parallelism(n int32) func(*spec) { return func(s *spec) { s.Parallelism = &n } }
func all(s *spec)                     { s.Replicas = nil }

// TestSample runs the sample in two of three Pods, one Pod at a time: the controller sends one patch for each Pod,
// besides writes of the status. Then the controller deletes the job after its TTL.
func TestSample(t *testing.T) {
	c := start(t, 1, "a", "b", "c")
	offset := controllertest.End(t, c.cp.AuditLog())
	c.job("sleep 1")
	done := c.until(v1alpha1.EphemeralJobSucceeded, 3, 0, 0, 2, 0)
	if diff := cmp.Diff([]string{"a", "b"}, c.with("debugger")); diff != "" {
		t.Errorf("EJ-3 (-want +got):\n%s", diff)
	}
	if done.Status.StartTime == nil || done.Status.CompletionTime == nil || done.Status.Conditions.Get(v1alpha1.EJobSucceeded) == nil {
		t.Errorf("EJ-8 %+v", done.Status)
	}
	if diff := cmp.Diff([]string{apps.FinalizerEphemeralJob}, done.Finalizers); diff != "" {
		t.Errorf("EJ-2 (-want +got):\n%s", diff)
	}
	c.told(apps.EventContainersAdded, "a")
	c.told(apps.EventEphemeralJobSucceeded, "of 2 Pods 2 have succeeded")
	requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, agent)
	tally := controllertest.Tally(requests, c.namespace)
	for what, most := range map[string]int{"patch pods/ephemeralcontainers": 2, "patch ephemeraljobs": 1, "patch ephemeraljobs/status": 10} {
		if n := tally[what]; n == 0 || n > most {
			t.Errorf("%s: %d times, want 1 to %d: %v", what, n, most, tally)
		}
		delete(tally, what)
	}
	delete(tally, "create events")
	if len(tally) > 0 {
		t.Errorf("further requests: %v", tally)
	}
	c.change(func(j *v1alpha1.EphemeralJob) { j.Spec.TTLSecondsAfterFinished = ptr.To[int32](0) })
	c.untilGone("EJ-13")
}

func (c *cluster) untilGone(id string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if j, err := c.get(ctx); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s the job is there: %+v, %w", id, j.Status, err)
		}
		return nil
	})
}

// TestEnds checks the end of the job for containers that end in different ways.
func TestEnds(t *testing.T) {
	c := start(t, 3, "a", "b", "c")
	c.job("sh -c false", all, parallelism(3), func(s *spec) { s.Template.EphemeralContainers[0].Command[2] = "sleep 1; exit 4" })
	c.until(v1alpha1.EphemeralJobFailed, 3, 0, 0, 0, 3)
	if got := c.condition(v1alpha1.EJobFailed, "CreateFailed"); got.Message != "of 3 Pods 0 have succeeded and 3 have failed: a, b, c" {
		t.Errorf("EJ-8 %s", got.Message)
	}
	c.told(apps.EventEphemeralJobFailed, "a, b, c")
}

// TestNameTaken: a Pod in which another client has used the container's name is not changed.
func TestNameTaken(t *testing.T) {
	c := start(t, 2, "a", "b", "c")
	c.add("b", "debugger", "sleep infinity", "") // the name is taken there
	c.job("sleep 1", all)
	c.until(v1alpha1.EphemeralJobSucceeded, 2, 0, 0, 2, 0)
	pod := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "b"}, pod); err != nil || len(pod.Spec.EphemeralContainers) != 1 || pod.Spec.EphemeralContainers[0].Image != "example.test/shell:v1" {
		t.Errorf("EJ-3 %+v, %v", pod.Spec.EphemeralContainers, err)
	}
}

// TestTakeOver: containers that OpenKruise has added for a job count as containers of the job.
func TestTakeOver(t *testing.T) {
	c := start(t, 2, "a", "b", "c")
	c.job("sleep 1", func(s *spec) { s.Paused = true })
	j := c.until(v1alpha1.EphemeralJobPaused, 3, 0, 0, 0, 0)
	c.add("b", "debugger", "exit 4", j.UID)
	c.add("c", "debugger", "sleep 5", j.UID)
	c.until(v1alpha1.EphemeralJobPaused, 3, 1, 0, 0, 1)
	offset := controllertest.End(t, c.cp.AuditLog())
	c.change(func(j *v1alpha1.EphemeralJob) { j.Spec.Paused = false })
	c.until(v1alpha1.EphemeralJobFailed, 3, 0, 0, 1, 1)
	if got := c.condition(v1alpha1.EJobFailed, "SomePodsFailed"); got.Message != "of 2 Pods 1 have succeeded and 1 have failed: b" {
		t.Errorf("EJ-9 %s", got.Message)
	}
	requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, agent)
	if n := controllertest.Tally(requests, c.namespace)["patch pods/ephemeralcontainers"]; n > 0 {
		t.Errorf("EJ-5 %d Pods get containers again", n)
	}
}

// TestLabels: a Pod gets the containers when its labels change, or when it is created later.
func TestLabels(t *testing.T) {
	c := start(t, 2)
	c.job("sleep 1", parallelism(2))
	c.condition(v1alpha1.EJobMatchedEmpty, "MatchedEmpty")
	c.pod("b")
	c.until(v1alpha1.EphemeralJobWaiting, 1, 0, 0, 1, 0)
	c.condition(v1alpha1.EJobWaiting, "TooFewPods")
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "a", Labels: map[string]string{"app": "other"}}}
	other.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := c.Patch(t.Context(), other, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"web"}}}`))); err != nil {
		t.Fatal(err)
	}
	c.until(v1alpha1.EphemeralJobSucceeded, 2, 0, 0, 2, 0)
}

// TestPauseAndDeadline: a paused job adds no containers, and a deadline ends a job whose containers still run.
func TestPauseAndDeadline(t *testing.T) {
	c := start(t, 1, "a", "b")
	c.job("sleep infinity", all, func(s *spec) { s.Paused = true })
	c.until(v1alpha1.EphemeralJobPaused, 2, 0, 0, 0, 0)
	if got := c.with("debugger"); len(got) > 0 {
		t.Errorf("EJ-10 added to %q", got)
	}
	c.change(func(j *v1alpha1.EphemeralJob) { j.Spec.Paused = false })
	c.until(v1alpha1.EphemeralJobRunning, 2, 1, 0, 0, 0)
	c.change(func(j *v1alpha1.EphemeralJob) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) })
	c.until(v1alpha1.EphemeralJobFailed, 2, 1, 0, 0, 0)
	c.condition(v1alpha1.EJobFailed, "DeadlineExceeded")
	if err := c.Delete(t.Context(), &v1alpha1.EphemeralJob{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "look"}}); err != nil {
		t.Fatal(err)
	}
	c.untilGone("EJ-12")
	c.told(apps.EventContainersGoOn, "go on in Pods a, until")
	if diff := cmp.Diff([]string{"a"}, c.with("debugger")); diff != "" {
		t.Errorf("EJ-12 (-want +got):\n%s", diff)
	}
}

// TestRefused: if the API server refuses the containers for a Pod, the status says so and the Pod is tried again
// later, while other Pods get the containers. After a change of the spec, the Pod is tried at once.
func TestRefused(t *testing.T) {
	c := start(t, 1)
	odd := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "a", Labels: map[string]string{"app": "web"}}}
	odd.Spec.Containers = []corev1.Container{{Name: "debugger", Image: "example.test/app:v1"}}
	if err := c.Create(t.Context(), odd); err != nil {
		t.Fatal(err)
	}
	c.pod("b")
	offset := controllertest.End(t, c.cp.AuditLog())
	c.job("sleep 1", all, func(s *spec) { s.Template.EphemeralContainers[0].TargetContainerName = "" })
	c.until(v1alpha1.EphemeralJobUnknown, 2, 0, 0, 1, 0)
	c.condition(v1alpha1.EJobInjectionFailed, "Refused")
	c.told(apps.EventContainersNotAdded, "spec.ephemeralContainers[0].name: Duplicate value")
	requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, agent)
	if n := controllertest.Tally(requests, c.namespace)["patch pods/ephemeralcontainers"]; n > 5 {
		t.Errorf("%d requests for two Pods", n)
	}
	c.change(func(j *v1alpha1.EphemeralJob) { j.Spec.Template.EphemeralContainers[0].Name = "tool" })
	c.until(v1alpha1.EphemeralJobSucceeded, 2, 0, 0, 2, 0)
	if diff := cmp.Diff([]string{"a", "b"}, c.with("tool")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if slices.Contains(c.with("debugger"), "a") {
		t.Error("the container of a Pod was taken for an ephemeral container")
	}
}

// TestPolicy: if a policy refuses the finalizer, an event says so, and the job continues after the policy was
// removed.
func TestPolicy(t *testing.T) {
	c := start(t, 1)
	probe, other := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["`+apps.FinalizerEphemeralJob+`"]}}`)), &v1alpha1.EphemeralJob{}
	other.Namespace, other.Name, other.Spec.Selector = c.namespace, "other", &metav1.LabelSelector{}
	other.Spec.Paused, other.Spec.Template.EphemeralContainers = true, []corev1.EphemeralContainer{}
	stop := c.forbid("!has(object.metadata.finalizers)")
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		if err := c.Patch(ctx, other.DeepCopy(), probe, client.DryRunAll); err == nil {
			return errors.New("the policy is not in force")
		}
		return nil
	})
	other.Spec.Template.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "a", Image: "a"}}}
	spec := other.Spec
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error { // the controller writes the status meanwhile
		if err := c.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil {
			return err
		}
		other.Spec = spec
		return c.Update(ctx, other)
	})
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil {
			return err
		}
		if got := other.Status.Conditions.Get(v1alpha1.EJobInjectionFailed); got == nil || !strings.Contains(got.Message, "denied request") {
			return fmt.Errorf("no condition with the policy: %+v", other.Status)
		}
		return nil
	})
	stop()
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil {
			return err
		}
		if got := other.Status.Conditions.Get(v1alpha1.EJobInjectionFailed); got != nil || len(other.Finalizers) == 0 {
			return fmt.Errorf("finalizers %v, status %+v", other.Finalizers, other.Status)
		}
		return nil
	})
}

// forbid creates an admission policy that refuses updates of jobs.
func (c *cluster) forbid(unless string) (stop func()) {
	c.t.Helper()
	name := metav1.ObjectMeta{Name: c.namespace + "-jobs"}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		Validations: []admissionv1.Validation{{Expression: unless}},
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.namespace}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{apps.Group}, APIVersions: []string{"v1alpha1"}, Resources: []string{"ephemeraljobs"}},
			}}},
		},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	if err := errors.Join(c.Create(c.t.Context(), policy), c.Create(c.t.Context(), binding)); err != nil {
		c.t.Fatal(err)
	}
	stop = func() {
		ctx := context.WithoutCancel(c.t.Context())
		if err := errors.Join(client.IgnoreNotFound(c.Delete(ctx, binding)), client.IgnoreNotFound(c.Delete(ctx, policy))); err != nil {
			c.t.Error(err)
		}
	}
	c.t.Cleanup(stop)
	return stop
}

// TestUnusable: a condition reports an invalid spec that was stored without admission, and the job works after the
// spec was repaired.
func TestUnusable(t *testing.T) {
	c := start(t, 1, "a", "b")
	c.job("sleep 1", func(s *spec) { s.Template.EphemeralContainers = []corev1.EphemeralContainer{} })
	c.until(v1alpha1.EphemeralJobError, 0, 0, 0, 0, 0)
	c.condition(v1alpha1.EJobError, "NoContainers")
	c.told(apps.EventInvalidEphemeralJob, "there is nothing to run")
	c.change(func(j *v1alpha1.EphemeralJob) {
		j.Spec.Template.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "x", Image: "example.test/tool:v1", Command: []string{"true"}}}}
	})
	if done := c.until(v1alpha1.EphemeralJobSucceeded, 2, 0, 0, 2, 0); done.Status.Conditions.Get(v1alpha1.EJobError) != nil {
		t.Errorf("EJ-8 %+v", done.Status.Conditions)
	}
}
