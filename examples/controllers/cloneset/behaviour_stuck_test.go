package cloneset_test

import (
	"context"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/controllertest"
	"github.com/workloadkit/workloadkit/examples/controlplane/controlplanetest"
)

// TestStuck: what the API server refuses is tried again with back-off, whatever it is, and goes on once it is accepted.
func TestStuck(t *testing.T) {
	behave(t, "", nil, []behaviour{
		{"a quota on Pods", stuckOnQuota},
		{"a quota on Pods of a CloneSet with claims", stuckOnQuotaWithClaims},
		{"a quota on claims", stuckOnClaims},
		{"PodSecurity", stuckOnSecurity},
		{"a Pod that is not valid", stuckOnInvalid},
		{"a deletion that is refused", func(c *cluster) { stuckOnDeletion(c, "undeletable", v1beta1.InPlaceIfPossible, setReplicas(0)) }},
		{"a recreation that is refused", func(c *cluster) {
			stuckOnDeletion(c, "recreate", v1beta1.ReCreate, setImage(0, "example.test/app:v2"))
		}},
		{"updates in place that are refused", stuckInPlace},
		{"updates in place that are impossible", stuckOnPolicy},
	})
}

// fewWrites watches the namespace, which is the case's own.
func (c *cluster) fewWrites() {
	c.t.Helper()
	controllertest.FewWrites(c.t, c.cp.AuditLog(), "kruise-manager/", c.namespace, 10*time.Second, 10)
}

// ownNamespace moves the case to a namespace with a quota.
func (c *cluster) ownNamespace(hard corev1.ResourceList) (lift func()) {
	c.t.Helper()
	c.namespace = env.Namespace(c.t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if err := c.Create(c.t.Context(), quota); err != nil {
		c.t.Fatal(err)
	}
	// The quota binds once its controller has counted.
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

// stuck creates a CloneSet and waits until its trouble is reported.
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
	c.stuck(c.cloneSet("fewclaims", 2, c.withClaims(4), second), "PersistentVolumeClaim tmp-fewclaims-*", "exceeded quota")
	c.fewWrites()
	lift()
	c.until("fewclaims", settled)
}

func stuckOnSecurity(c *cluster) {
	c.namespace = env.Namespace(c.t)
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
	c.namespace = env.Namespace(c.t)
	c.stuck(c.cloneSet("invalid", 3, func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[0].Name = "Bad_Name" }), "Bad_Name")
	c.fewWrites()
	// A change of the spec does not wait for the back-off to end.
	c.change("invalid", func(cs *v1beta1.CloneSet) { cs.Spec.Template.Spec.Containers[0].Name = "good" })
	c.until("invalid", settled)
}

// refuseDeletion has the API server refuse the deletion of Pods.
func (c *cluster) refuseDeletion() (stop func()) {
	c.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-delete"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "kept by policy"}},
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

func stuckOnDeletion(c *cluster, name string, p v1beta1.CloneSetPodUpdatePolicy, change func(*v1beta1.CloneSet)) {
	c.namespace = env.Namespace(c.t)
	c.create(c.cloneSet(name, 6, policy(p), rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.MaxUnavailable = new(intstr.FromString("100%")) })))
	stop := c.refuseDeletion()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Delete(ctx, &c.pods(name)[0], client.DryRunAll); err == nil {
			return errors.New("the policy is not in force yet")
		}
		return nil
	})
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
	c.fewWrites()
}

func stuckOnPolicy(c *cluster) {
	c.namespace = env.Namespace(c.t)
	c.create(c.cloneSet("impossible", 6, policy(v1beta1.InPlaceOnly), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
		ru.MaxUnavailable = new(intstr.FromString("100%"))
	})))
	c.change("impossible", setEnv("A", "1"))
	c.until("impossible", hasCondition(apps.ConditionFailedUpdate, corev1.ConditionTrue, "ImmutableField", "env"))
	c.fewWrites()
}
