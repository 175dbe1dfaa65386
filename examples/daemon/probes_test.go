package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

func execProbe(name, command string) v1alpha1.PodContainerProbe {
	return v1alpha1.PodContainerProbe{
		Name: name, ContainerName: "app", PodConditionType: "example.com/" + name,
		Probe: v1alpha1.ContainerProbeSpec{Probe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{command}}}}},
		MarkerPolicy: []v1alpha1.ProbeMarkerPolicy{
			{State: v1alpha1.ProbeSucceeded, Labels: map[string]string{name: "yes"}, Annotations: map[string]string{"example.com/" + name: "passed"}},
			{State: v1alpha1.ProbeFailed, Labels: map[string]string{name: "no"}},
		},
	}
}

// marked waits until a Pod has the given labels and conditions; an empty value means that the key is missing.
func (n *node) marked(pod *corev1.Pod, labels map[string]string, conditions map[string]corev1.ConditionStatus) {
	n.t.Helper()
	controlplanetest.Eventually(n.t, within, func(ctx context.Context) error {
		if err := n.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		for key, value := range labels {
			if pod.Labels[key] != value {
				return fmt.Errorf("labels %v, want %v", pod.Labels, labels)
			}
		}
		for name, status := range conditions {
			c := podstate.Condition(pod, corev1.PodConditionType(name))
			if c == nil && status != "" || c != nil && c.Status != status {
				return fmt.Errorf("condition %s is %+v, want %q", name, c, status)
			}
		}
		return nil
	})
}

// TestProbes: the results of two probes of a container are written into the Pod's labels and conditions, only when
// the results change. The labels and conditions are removed when a probe or the PodProbeMarker is deleted, or when
// the selector does not match any more.
func TestProbes(t *testing.T) {
	n := newNode(t)
	controllertest.Serve(t, n.cp, n, manager.Options{})
	d := n.agent()
	pod := n.pod("web", "app")
	n.patch(pod, map[string]any{"metadata": map[string]any{"labels": map[string]string{"app": "web"}}})
	marker := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "m"}}
	marker.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	marker.Spec.Probes = []v1alpha1.PodContainerProbe{execProbe("good", "true"), execProbe("bad", "false")}
	if err := n.Create(t.Context(), marker); err != nil {
		t.Fatal(err)
	}
	n.marked(pod, map[string]string{"good": "yes", "bad": "no"}, map[string]corev1.ConditionStatus{"example.com/good": "True", "example.com/bad": "False"})
	if pod.Annotations["example.com/good"] != "passed" {
		t.Errorf("annotations %v", pod.Annotations)
	}
	if code, text := health(d); code != 200 {
		t.Errorf("health %d: %s", code, text)
	}
	n.told(pod, apps.EventProbeSucceeded, apps.EventProbeFailed)
	since := controllertest.End(t, n.cp.AuditLog())
	n.checked(8)
	requests, _ := controllertest.Requests(t, n.cp.AuditLog(), since, "agent-"+n.namespace)
	if tally := controllertest.Tally(requests, ""); tally["patch nodepodprobes/status"] > 0 {
		t.Errorf("ND-35 unchanged results are written: %v", tally)
	}
	n.patch(marker, map[string]any{"spec": map[string]any{"probes": []v1alpha1.PodContainerProbe{execProbe("good", "true")}}})
	n.marked(pod, map[string]string{"good": "yes", "bad": ""}, map[string]corev1.ConditionStatus{"example.com/good": "True", "example.com/bad": "Unknown"})
	n.patch(pod, map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "other"}}})
	n.marked(pod, map[string]string{"good": ""}, map[string]corev1.ConditionStatus{"example.com/good": "Unknown"})
	n.patch(pod, map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}})
	n.marked(pod, map[string]string{"good": "yes"}, map[string]corev1.ConditionStatus{"example.com/good": "True"})
	if err := n.Delete(t.Context(), marker); err != nil {
		t.Fatal(err)
	}
	n.marked(pod, map[string]string{"good": ""}, map[string]corev1.ConditionStatus{"example.com/good": "Unknown"})
	if _, left := pod.Annotations[apps.AnnotationProbeMarks]; left || pod.Annotations["example.com/good"] != "" {
		t.Errorf("PP-12 annotations are left: %v", pod.Annotations)
	}
	controlplanetest.Eventually(t, within, func(ctx context.Context) error {
		if err := n.Get(ctx, client.ObjectKeyFromObject(marker), marker); !apierrors.IsNotFound(err) {
			return fmt.Errorf("PP-6 the marker is still there: %w", errors.Join(err))
		}
		return nil
	})
}

// checked waits until the runtime has run the given number of further commands.
func (n *node) checked(more int) {
	n.t.Helper()
	calls := func() int { return n.runtime.Calls()["ExecSync"] }
	before := calls()
	controlplanetest.Eventually(n.t, within, func(context.Context) error {
		if got := calls() - before; got < more {
			return fmt.Errorf("%d commands, want %d", got, more)
		}
		return nil
	})
}

// told waits for events of a Pod with the given reasons.
func (n *node) told(pod *corev1.Pod, reasons ...string) {
	n.t.Helper()
	controlplanetest.Eventually(n.t, within, func(ctx context.Context) error {
		var events corev1.EventList
		if err := n.List(ctx, &events, client.InNamespace(pod.Namespace)); err != nil {
			return err
		}
		for _, want := range reasons {
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == want && e.InvolvedObject.UID == pod.UID }) {
				return fmt.Errorf("no event %s in %d events", want, len(events.Items))
			}
		}
		return nil
	})
}

// TestLiveness: containers that fail liveness probes restart, with growing waits, and only as a PodUnavailableBudget
// of one Pod allows. The Pod's spec has no liveness probe for the kubelet, and each restart has an event.
func TestLiveness(t *testing.T) {
	n := newNode(t)
	gates := apps.DefaultGates()
	gates[apps.GatePodUnavailableBudgetUpdate], gates[apps.GateEnhancedLivenessProbe] = true, true
	controllertest.Serve(t, n.cp, n, manager.Options{Gates: gates})
	n.agent()
	labels := map[string]string{"app": "live"}
	cs := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "live"}}
	cs.Spec.Replicas, cs.Spec.Selector, cs.Spec.Template.Labels = ptr.To[int32](3), &metav1.LabelSelector{MatchLabels: labels}, labels
	cs.Spec.Template.Annotations = map[string]string{controlplane.StartDelay: "1s", apps.AnnotationUsingEnhancedLiveness: "true"}
	cs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:1"}, {Name: "log", Image: "log:1"}}
	cs.Spec.Template.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}, PeriodSeconds: 1, FailureThreshold: 1, InitialDelaySeconds: 5,
	}
	budget := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "live"}}
	budget.Spec.Selector, budget.Spec.MaxUnavailable = cs.Spec.Selector, ptr.To(intstr.FromInt32(1))
	for _, object := range []client.Object{budget, cs} {
		if err := n.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	var pods corev1.PodList
	restarts := map[types.UID]v1beta1.ContainerRecreateRequest{}
	controlplanetest.Eventually(t, 3*within, func(ctx context.Context) error {
		if err := n.List(ctx, &pods, client.InNamespace(n.namespace), client.MatchingLabels(labels)); err != nil {
			return err
		}
		n.collect(ctx, restarts)
		if len(pods.Items) != 3 {
			return fmt.Errorf("%d Pods", len(pods.Items))
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; podstate.ContainerStatus(pod, "app") == nil || podstate.ContainerStatus(pod, "app").RestartCount == 0 {
				return fmt.Errorf("Pod %s: %+v", pod.Name, pod.Status.ContainerStatuses)
			}
		}
		return nil
	})
	n.oneByOne(restarts)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.Containers[0].LivenessProbe != nil || pod.Annotations[apps.AnnotationContainerProbeContext] == "" {
			t.Errorf("EL-1 Pod %s has %+v, %v", pod.Name, pod.Spec.Containers[0].LivenessProbe, pod.Annotations)
		}
		if s := podstate.ContainerStatus(pod, "log"); s.RestartCount != 0 {
			t.Errorf("EL-2 container log of Pod %s has restarted %d times", pod.Name, s.RestartCount)
		}
		if s := podstate.ContainerStatus(pod, "app"); s.RestartCount > 3 {
			t.Errorf("container app of Pod %s has restarted %d times", pod.Name, s.RestartCount)
		}
	}
	n.told(&pods.Items[0], apps.EventLivenessFailed)
}

// collect adds the existing ContainerRecreateRequests to known.
func (n *node) collect(ctx context.Context, known map[types.UID]v1beta1.ContainerRecreateRequest) {
	n.t.Helper()
	var list v1beta1.ContainerRecreateRequestList
	if err := n.List(ctx, &list, client.InNamespace(n.namespace)); err != nil {
		n.t.Error(err)
	}
	for _, r := range list.Items {
		known[r.UID] = r
	}
}

// oneByOne checks that each restart begins after the end of the previous restart.
func (n *node) oneByOne(restarts map[types.UID]v1beta1.ContainerRecreateRequest) {
	n.t.Helper()
	sorted := slices.SortedFunc(maps.Values(restarts), func(a, b v1beta1.ContainerRecreateRequest) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	if len(sorted) < 3 {
		n.t.Errorf("EL-2 %d requests for restarts, want 3 at least", len(sorted))
	}
	for i := range sorted[:max(len(sorted)-1, 0)] {
		if end := sorted[i].Status.CompletionTime; end == nil || end.After(sorted[i+1].CreationTimestamp.Time) {
			n.t.Errorf("EL-2 request %s of Pod %s ends at %v, and %s of Pod %s was made at %v", sorted[i].Name, sorted[i].Spec.PodName, end,
				sorted[i+1].Name, sorted[i+1].Spec.PodName, sorted[i+1].CreationTimestamp)
		}
	}
}
