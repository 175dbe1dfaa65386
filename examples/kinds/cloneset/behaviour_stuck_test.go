package cloneset_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestStuck: the controller repeats every refused request with a back-off, and continues once the API server accepts
// the request.
func TestStuck(t *testing.T) {
	behave(t, "", []string{"failed calling webhook"}, []behaviour{
		{"a quota on Pods", stuckOnQuota},
		{"a quota on Pods of a CloneSet with claims", stuckOnQuotaWithClaims},
		{"a quota on claims", stuckOnClaims},
		{"PodSecurity", stuckOnSecurity},
		{"a Pod that is not valid", stuckOnInvalid},
		{"a policy that takes the selector's label from new Pods", func(c *cluster) {
			stuckOnMutation(c, "/metadata/labels/app", "labels that the selector asks for")
		}},
		{"a policy that takes the owner from new Pods", func(c *cluster) {
			stuckOnMutation(c, "/metadata/ownerReferences", "owner reference")
		}},
		{"a deletion that is refused", func(c *cluster) { stuckOnDeletion(c, "undeletable", v1beta1.InPlaceIfPossible, setReplicas(0)) }},
		{"a recreation that is refused", func(c *cluster) {
			stuckOnDeletion(c, "recreate", v1beta1.ReCreate, setImage(0, "example.test/app:v2"))
		}},
		{"a webhook that is down, and claims", stuckOnWebhook},
		{"a Pod that may be neither changed nor deleted", stuckOnProtected},
		{"one protected Pod among others", protectedAmongOthers},
		{"a deletion whose cancellation is refused", stuckCancellation},
		{"a release that is refused", stuckRelease},
		{"Pods of the old revision that are refused", stuckOnOldRevision},
		{"updates in place that are refused", stuckInPlace},
		{"updates in place that are impossible", stuckOnPolicy},
	})
}

// fewWrites checks that the controller sends few requests in the case's own namespace. At most five concurrent
// requests are refused at first. Then one request follows after two seconds, and another after four more seconds.
// Each reconciliation, also an earlier one, may write the status.
func (c *cluster) fewWrites() {
	c.t.Helper()
	controllertest.FewWrites(c.t, c.cp.AuditLog(), "kruise-manager/", c.namespace, 10*time.Second, 12)
}

// ownNamespace moves the case to a new namespace with a ResourceQuota. lift deletes the quota.
func (c *cluster) ownNamespace(hard corev1.ResourceList) (lift func()) {
	c.t.Helper()
	c.moveOut()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if err := c.Create(c.t.Context(), quota); err != nil {
		c.t.Fatal(err)
	}
	// The quota limits creations only after the quota controller has counted for the first time.
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if len(quota.Status.Hard) != len(hard) {
			return errors.New("the quota does not bind yet")
		}
		return nil
	})
	return func() {
		if err := c.Delete(c.t.Context(), quota); err != nil {
			c.t.Error(err)
		}
	}
}

// stuck creates a CloneSet whose Pods the API server refuses, and waits until a condition reports the refusal.
func (c *cluster) stuck(cs *v1beta1.CloneSet, texts ...string) {
	c.t.Helper()
	if err := c.Create(c.t.Context(), cs); err != nil {
		c.t.Fatal(err)
	}
	c.until(cs.Name, hasCondition(apps.ConditionFailedScale, corev1.ConditionTrue, "", texts...))
}

func stuckOnQuota(c *cluster) {
	lift := c.ownNamespace(corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")})
	c.stuck(c.cloneSet("hot", 5), "exceeded quota", "hot-*")
	c.untilPods("hot", count(2))
	c.until("hot", func(cs *v1beta1.CloneSet) error {
		if cs.Status.AvailableReplicas != 2 {
			return errors.New("the first two are not available yet")
		}
		return nil
	})
	c.fewWrites()
	lift()
	c.until("hot", settled)
	c.until("hot", withoutCondition(apps.ConditionFailedScale))
}

func stuckOnQuotaWithClaims(c *cluster) {
	lift := c.ownNamespace(corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")})
	c.stuck(c.cloneSet("hotclaims", 3, c.withClaims(3)), "exceeded quota")
	c.fewWrites()
	if n := len(c.claims("hotclaims")); n != 1 {
		c.t.Errorf("%d claims wait for a Pod that cannot be created, want 1", n)
	}
	lift()
	c.until("hotclaims", settled)
	if n := len(c.claims("hotclaims")); n != 3 {
		c.t.Errorf("%d claims, want 3", n)
	}
}

func stuckOnClaims(c *cluster) {
	lift := c.ownNamespace(corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("1")})
	second := func(cs *v1beta1.CloneSet) {
		other := cs.Spec.VolumeClaimTemplates[0].DeepCopy()
		other.Name = "tmp"
		cs.Spec.VolumeClaimTemplates = append(cs.Spec.VolumeClaimTemplates, *other)
	}
	c.stuck(c.cloneSet("fewclaims", 2, c.withClaims(4), second), "tmp-fewclaims-*", "exceeded quota")
	c.fewWrites()
	lift()
	c.until("fewclaims", settled)
}

func stuckOnSecurity(c *cluster) {
	c.moveOut()
	enforce := func(level string) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
		body := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"` + level + `"}}}`
		if err := c.Patch(c.t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			c.t.Fatal(err)
		}
	}
	enforce("restricted")
	c.stuck(c.cloneSet("insecure", 3), "violates PodSecurity")
	c.fewWrites()
	enforce("privileged")
	c.until("insecure", settled)
}

func stuckOnInvalid(c *cluster) {
	c.moveOut()
	c.stuck(c.cloneSet("invalid", 3, func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[0].Name = "Bad_Name" }), "Bad_Name")
	c.fewWrites()
	// A change of the spec does not wait for the back-off to end.
	c.change("invalid", func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[0].Name = "good" })
	c.until("invalid", settled)
}

// stuckOnMutation installs an admission policy that removes a field from new Pods. Without the field the controller
// does not find the Pods.
func stuckOnMutation(c *cluster, path, what string) {
	c.moveOut()
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-strip"},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints:   c.matching(admissionv1.Create, "pods"),
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: fmt.Sprintf(`[JSONPatch{op: "remove", path: %q}]`, path)},
			}},
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy.Name},
	}
	if err := errors.Join(c.Create(c.t.Context(), policy), c.Create(c.t.Context(), binding)); err != nil {
		c.t.Fatal(err)
	}
	stop := func() {
		ctx := context.WithoutCancel(c.t.Context())
		_, _ = c.Delete(ctx, binding), c.Delete(ctx, policy)
	}
	c.t.Cleanup(stop)
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.namespace, Name: "probe", Labels: map[string]string{"app": "probe"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "b"}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
	}
	c.untilDenied(func(ctx context.Context) error {
		pod := probe.DeepCopy()
		if err := c.Create(ctx, pod, client.DryRunAll); err != nil || len(pod.Labels)*len(pod.OwnerReferences) == 0 {
			return errors.New("the policy is in force")
		}
		return nil
	})
	c.stuck(c.cloneSet("stripped", 3), "Pod stripped-*", what)
	c.fewWrites()
	var pods corev1.PodList
	if err := c.List(c.t.Context(), &pods, client.InNamespace(c.namespace)); err != nil || len(pods.Items) != 0 {
		c.t.Errorf("%d Pods are left behind: %v", len(pods.Items), err)
	}
	stop()
	c.change("stripped", setReplicas(2)) // without waiting for the back-off to end
	c.until("stripped", settled)
}

// untilDenied waits until the API server refuses the dry run try.
func (c *cluster) untilDenied(try func(ctx context.Context) error) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := try(ctx); err == nil {
			return errors.New("the policy is not in force yet")
		}
		return nil
	})
}

func stuckOnDeletion(c *cluster, name string, p v1beta1.CloneSetPodUpdatePolicy, change func(*v1beta1.CloneSet)) {
	c.moveOut()
	c.create(c.cloneSet(name, 6, policy(p), rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.MaxUnavailable = new(intstr.FromString("100%")) })))
	stop := c.deny("delete", admissionv1.Delete, "false")
	c.untilDenied(func(ctx context.Context) error { return c.Delete(ctx, &c.pods(name)[0], client.DryRunAll) })
	c.change(name, change)
	c.fewWrites()
	stop()
	if name == "recreate" {
		c.untilPods(name, images(map[string]int{"v2": 6}))
		return
	}
	c.untilPods(name, count(0))
}

func stuckInPlace(c *cluster) {
	c.refuse("stuck", "pods", "object.spec.containers.all(c, c.image.endsWith(':v1'))")
	c.create(c.cloneSet("stuck", 6, policy(v1beta1.InPlaceOnly), templateAnnotation("a", "b"), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxUnavailable = new(intstr.FromString("100%"))
	})))
	c.untilRefused(&c.pods("stuck")[0], "")
	c.change("stuck", setImage(0, "example.test/app:v2"))
	c.until("stuck", hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, "", "frozen by policy"))
	// The Pods that the controller tried to update become ready again, perhaps only after the write of the status
	// that reports the refusal.
	c.untilPods("stuck", func(pods []corev1.Pod) error {
		for i := range pods {
			if !gate(&pods[i], corev1.ConditionTrue) {
				return fmt.Errorf("the gate of Pod %s is closed", pods[i].Name)
			}
		}
		return nil
	})
	c.until("stuck", func(cs *v1beta1.CloneSet) error {
		if cs.Status.AvailableReplicas != 6 {
			return errors.New("not all Pods are available")
		}
		return nil
	})
	c.fewWrites()
}

func stuckOnPolicy(c *cluster) {
	c.moveOut()
	c.create(c.cloneSet("impossible", 6, policy(v1beta1.InPlaceOnly), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxUnavailable = new(intstr.FromString("100%"))
	})))
	c.change("impossible", setEnv("A", "1"))
	c.until("impossible", hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, "ImmutableField", "env"))
	c.fewWrites()
}

func stuckOnWebhook(c *cluster) {
	c.moveOut()
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-down"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "down.example.test", FailurePolicy: ptr.To(admissionv1.Fail), SideEffects: ptr.To(admissionv1.SideEffectClassNone),
			TimeoutSeconds: ptr.To(int32(1)), AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.namespace}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}
	if err := c.Create(c.t.Context(), hook); err != nil {
		c.t.Fatal(err)
	}
	stop := func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), hook) }
	c.t.Cleanup(stop)
	c.untilDenied(func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "probe"}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
		return c.Create(ctx, pod, client.DryRunAll)
	})
	c.stuck(c.cloneSet("whdown", 1, c.withClaims(3)), "failed calling webhook")
	c.fewWrites()
	stop()
	c.until("whdown", settled)
	if n := len(c.claims("whdown")); n != 1 {
		c.t.Errorf("%d claims, want 1", n)
	}
}

// notProtected is a CEL rule that admits operations on Pods without the label.
const notProtected = "!('protected' in oldObject.metadata.labels)"

func stuckOnProtected(c *cluster) {
	c.moveOut()
	c.deny("delete", admissionv1.Delete, "false")
	c.deny("freeze", admissionv1.Update, "object.spec.containers.all(c, c.image.endsWith(':v1'))")
	c.create(c.cloneSet("flap", 1, rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.MaxUnavailable = new(intstr.FromInt32(1)) })))
	pod := c.pods("flap")[0]
	c.untilDenied(func(ctx context.Context) error { return c.Delete(ctx, pod.DeepCopy(), client.DryRunAll) })
	c.change("flap", setImage(0, "example.test/app:v2"))
	c.until("flap", hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, "", "kept by policy"))
	since := c.mark()
	c.fewWrites()
	if n := c.writes("flap", since)["patch pods/status"]; n > 2 {
		c.t.Errorf("the gate was written %d times within 10 s", n)
	}
}

func protectedAmongOthers(c *cluster) {
	c.moveOut()
	c.deny("delete", admissionv1.Delete, notProtected)
	c.deny("freeze", admissionv1.Update, notProtected+" || object.spec.containers.all(c, c.image.endsWith(':v1'))")
	c.create(c.cloneSet("prot", 6, rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxUnavailable = new(intstr.FromInt32(2))
		ru.PriorityStrategy = &pub.PriorityStrategy{WeightPriority: []pub.WeightPriorityTerm{{
			Weight: 100, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"protected": "yes"}},
		}}}
	})))
	pod := c.pods("prot")[0]
	c.label(pod.Name, "protected", "yes")
	c.untilDenied(func(ctx context.Context) error { return c.Delete(ctx, pod.DeepCopy(), client.DryRunAll) })
	c.change("prot", setImage(0, "example.test/app:v2"))
	c.untilPods("prot", images(map[string]int{"v1": 1, "v2": 5}))
}

func stuckCancellation(c *cluster) {
	c.moveOut()
	c.deny("frozen", admissionv1.Update, notProtected+" || object.metadata.labels == oldObject.metadata.labels")
	c.create(c.cloneSet("cancel", 2, hooked(onPreDelete, false)))
	c.change("cancel", setReplicas(1))
	var dying string
	c.untilPods("cancel", func(pods []corev1.Pod) error {
		for i := range pods {
			if state(apps.LifecyclePreparingDelete)(&pods[i]) == nil {
				dying = pods[i].Name
				return nil
			}
		}
		return errors.New("no Pod waits for its hook")
	})
	c.label(dying, "protected", "yes")
	c.untilDenied(func(ctx context.Context) error {
		return c.Patch(ctx, c.pod(dying), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`)), client.DryRunAll)
	})
	c.change("cancel", setReplicas(6))
	c.untilPods("cancel", count(6))
}

func stuckRelease(c *cluster) {
	c.moveOut()
	c.deny("owners", admissionv1.Update, notProtected+" || (has(object.metadata.ownerReferences) && has(object.metadata.ownerReferences[0].controller))")
	cs := c.create(c.cloneSet("rel", 1, c.withClaims(4), func(cs *v1beta1.CloneSet) { cs.Spec.ScaleStrategy.EnablePVCReuse = true }))
	pod := c.pods("rel")[0]
	c.label(pod.Name, "protected", "yes")
	c.untilDenied(func(ctx context.Context) error {
		return c.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`)), client.DryRunAll)
	})
	c.label(pod.Name, "app", "away")
	c.until("rel", hasCondition(apps.ConditionFailedScale, corev1.ConditionTrue, "", "kept by policy"))
	c.label(pod.Name, "app", "rel") // the user restores the label, so the Pod is never released
	c.until("rel", withoutCondition(apps.ConditionFailedScale))
	claim := c.claims("rel")[pod.Labels[apps.LabelInstanceID]]
	if len(claim.OwnerReferences) != 1 || claim.OwnerReferences[0].UID != cs.UID {
		c.t.Errorf("claim %s, which is to be reused, belongs to %+v", claim.Name, claim.OwnerReferences)
	}
}

func stuckOnOldRevision(c *cluster) {
	c.moveOut()
	c.create(c.cloneSet("old", 3, policy(v1beta1.ReCreate), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxUnavailable, ru.Partition = new(intstr.FromInt32(2)), new(intstr.FromInt32(1))
	})))
	c.change("old", setImage(0, "example.test/app:v2"))
	c.until("old", settled)
	c.deny("nov1", admissionv1.Create, "object.spec.containers.all(c, !c.image.endsWith('app:v1'))")
	c.untilDenied(func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "probe"}}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
		return c.Create(ctx, pod, client.DryRunAll)
	})
	for _, pod := range c.pods("old") {
		if pod.Spec.Containers[0].Image == "example.test/app:v1" {
			if err := c.Delete(c.t.Context(), &pod); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	c.change("old", setReplicas(6))
	c.untilPods("old", images(map[string]int{"v2": 5}))
}
