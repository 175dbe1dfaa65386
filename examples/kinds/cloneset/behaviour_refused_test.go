package cloneset_test

import (
	"context"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestRefused: an admission policy of the cluster refuses changes of existing Pods.
func TestRefused(t *testing.T) {
	behave(t, "InPlaceWorkloadVerticalScaling=true", nil, []behaviour{
		{"InPlaceIfPossible recreates a Pod whose change is refused, and says why", refusedRecreates},
		{"InPlaceIfPossible recreates a Pod whose resize is refused", refusedResize},
		{"InPlaceOnly waits in service, without trying for ever", refusedWaits},
		{"an update that is refused at the end of its grace period is taken back", func(c *cluster) {
			refusedAfterGrace(c, "graceback", setImage(0, "example.test/app:v1"), "v1")
		}},
		{"an update that is refused at the end of its grace period gives way to the next", func(c *cluster) {
			refusedAfterGrace(c, "gracenext", setImage(0, "example.test/app:v1-fixed"), "v1-fixed")
		}},
		{"InPlaceOnly says that a resize is refused, and goes on with the next one", refusedResizeWaits},
	})
}

// refuse moves the case to a new namespace, and makes the API server refuse changes of Pods there. The rule is a CEL
// expression that is true for allowed new objects.
func (c *cluster) refuse(name, resource, rule string) (stop func()) {
	c.t.Helper()
	c.moveOut()
	return c.enforce(name, admissionv1.Update, resource,
		admissionv1.Validation{Expression: "!('probe' in object.metadata.annotations)", Message: "in force"},
		admissionv1.Validation{Expression: rule, Message: "frozen by policy"},
	)
}

// deny makes the API server refuse operations on Pods in the case's own namespace. The rule is a CEL expression that
// is true for allowed operations.
func (c *cluster) deny(name string, operation admissionv1.OperationType, rule string) (stop func()) {
	c.t.Helper()
	return c.enforce(name, operation, "pods", admissionv1.Validation{Expression: rule, Message: "kept by policy"})
}

// enforce creates an admission policy for the case's namespace, which exists until stop is called or the case ends.
func (c *cluster) enforce(name string, operation admissionv1.OperationType, resource string, rules ...admissionv1.Validation) (stop func()) {
	c.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-" + name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: c.matching(operation, resource),
			Validations:      rules,
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
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

// matching returns the match rules for the operation on the resource in the case's namespace.
func (c *cluster) matching(operation admissionv1.OperationType, resource string) *admissionv1.MatchResources {
	return &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.namespace}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{operation},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		}}},
	}
}

// untilAllowed waits until no policy refuses changes of the Pod.
func (c *cluster) untilAllowed(pod *corev1.Pod) {
	c.t.Helper()
	probe := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"probe":"1"}}}`))
	resize := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"app","resources":{}}]}}`))
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		return errors.Join(
			c.Patch(ctx, pod.DeepCopy(), probe, client.DryRunAll),
			c.SubResource("resize").Patch(ctx, pod.DeepCopy(), resize, client.DryRunAll))
	})
}

// untilRefused waits until the policy refuses changes of the Pod.
func (c *cluster) untilRefused(pod *corev1.Pod, subresource string) {
	c.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"probe":"1"}}}`))
	if subresource != "" {
		patch = client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"101m"}}}]}}`))
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		var err error
		if subresource == "" {
			err = c.Patch(ctx, pod.DeepCopy(), patch, client.DryRunAll)
		} else {
			err = c.SubResource(subresource).Patch(ctx, pod.DeepCopy(), patch, client.DryRunAll)
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		return errors.Join(err, errors.New("the policy is not in force yet"))
	})
}

func refusedRecreates(c *cluster) {
	c.refuse("image", "pods", "object.spec.containers.all(c, c.image.endsWith(':v1'))")
	c.create(c.cloneSet("noimage", 2, templateAnnotation("a", "b")))
	before := identities(c.pods("noimage"))
	c.untilRefused(&c.pods("noimage")[0], "")
	c.change("noimage", setImage(0, "example.test/app:v2"))
	c.until("noimage", settled)
	for uid := range identities(c.untilPods("noimage", images(map[string]int{"v2": 2}))) {
		if _, ok := before[uid]; ok {
			c.t.Error("a Pod survived that cannot be changed")
		}
	}
	c.untilEvent("noimage", apps.EventSuccessfulUpdatePodReCreate, string(podwrite.Refused), "frozen by policy")
}

func refusedResize(c *cluster) {
	c.refuse("resize", "pods/resize", "false")
	c.create(c.cloneSet("noresize", 1, setResources(resources("100m", "64Mi", false))))
	pod := c.pods("noresize")[0]
	c.untilRefused(&pod, "resize")
	c.change("noresize", setResources(resources("200m", "64Mi", false)))
	c.untilGone(pod.Name)
	c.untilResized("noresize", resources("200m", "64Mi", false))
	c.untilEvent("noresize", apps.EventSuccessfulUpdatePodReCreate, pod.Name, string(podwrite.Refused), "frozen by policy")
}

func refusedWaits(c *cluster) {
	stop := c.refuse("only", "pods", "object.spec.containers.all(c, c.image.endsWith(':v1'))")
	c.create(c.cloneSet("frozen", 1, policy(v1beta1.InPlaceOnly), templateAnnotation("a", "b")))
	pod := c.pods("frozen")[0]
	c.untilRefused(&pod, "")
	c.change("frozen", setImage(0, "example.test/app:v2"))
	c.until("frozen", hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, string(podwrite.Refused), "frozen by policy"))
	c.untilPod(pod.Name, func(pod *corev1.Pod) error {
		if !podstate.IsReady(pod) {
			return errors.New("the Pod is not back in service")
		}
		return nil
	})
	since := c.mark()
	// The Pod of this second CloneSet starts slowly, so that a controller that wrongly repeats refused requests has a
	// few seconds to do so.
	c.create(c.cloneSet("frozen-slow", 1, templateAnnotation(controlplane.StartDelay, "6s")))
	want := map[string]int{"create pods": 1, "patch pods/status": 1}
	c.wantWrites("writes besides the witness", "frozen", since, want)
	stop()
	c.untilAllowed(&pod)
	// The removal of a policy causes no event for the controller, so the test changes the template.
	c.change("frozen", setImage(0, "example.test/app:v3"))
	c.until("frozen", settled)
	c.until("frozen", withoutCondition(apps.ConditionFailedUpdate))
	if live := c.pod(pod.Name); live.UID != pod.UID || live.Spec.Containers[0].Image != "example.test/app:v3" {
		c.t.Errorf("Pod %s has image %s", live.Name, live.Spec.Containers[0].Image)
	}
}

func refusedResizeWaits(c *cluster) {
	stop := c.refuse("onlyresize", "pods/resize", "false")
	c.create(c.cloneSet("rigid", 1, policy(v1beta1.InPlaceOnly), setResources(resources("100m", "64Mi", false))))
	pod := c.pods("rigid")[0]
	c.untilRefused(&pod, "resize")
	c.change("rigid", setResources(resources("200m", "64Mi", false)))
	c.until("rigid", hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, string(podwrite.Refused), "frozen by policy"))
	c.witness("rigid")
	c.until("rigid", hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, string(podwrite.Refused), "frozen by policy"))
	stop()
	c.untilAllowed(&pod)
	c.change("rigid", setResources(resources("300m", "64Mi", false)))
	c.untilResized("rigid", resources("300m", "64Mi", false))
	if live := c.pod(pod.Name); live.UID != pod.UID || live.Status.ContainerStatuses[0].RestartCount != 0 {
		c.t.Errorf("Pod %s restarted %d times", live.Name, live.Status.ContainerStatuses[0].RestartCount)
	}
}

// refusedAfterGrace checks an update whose image the API server refuses after the grace period, when the Pod is
// already out of service.
func refusedAfterGrace(c *cluster, name string, repair func(*v1beta1.CloneSet), tag string) {
	c.refuse(name, "pods", "object.spec.containers.all(c, c.image.contains(':v1'))")
	c.create(c.cloneSet(name, 1, policy(v1beta1.InPlaceOnly), templateAnnotation("a", "b"), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{GracePeriodSeconds: 1}
	})))
	pod := c.pods(name)[0]
	c.untilRefused(&pod, "")
	c.change(name, setImage(0, "example.test/app:v2"))
	c.until(name, hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, string(podwrite.Refused), pod.Name, "frozen by policy"))
	c.change(name, repair)
	c.until(name, settled)
	c.until(name, withoutCondition(apps.ConditionFailedUpdate))
	if uid := c.untilPods(name, images(map[string]int{tag: 1}))[0].UID; uid != pod.UID {
		c.t.Error("not in place")
	}
}

// TestRightIsMissing: if the controller has no right to patch Pods, the API server's error does not count as a
// refusal of a single Pod.
func TestRightIsMissing(t *testing.T) {
	c := idle(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "web-0"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
	}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(c.cp.Config())
	config.Impersonate.UserName = "nobody"
	nobody, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	relabel := podpatch.Change{Labels: map[string]*string{"a": new("b")}}
	resize := podpatch.Change{Resources: map[string]corev1.ResourceRequirements{"app": {
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}
	for name, change := range map[string]podpatch.Change{"pods": relabel, "pods/resize": resize} {
		_, err := podwrite.Send(t.Context(), nobody, pod, time.Now(), change)
		if !apierrors.IsForbidden(err) || errors.Is(err, podwrite.Refused) {
			t.Errorf("%s: %v; want an error that is forbidden and no refusal", name, err)
		}
	}
}
