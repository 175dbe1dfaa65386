package admission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// refused tries to delete an object, and fails the test unless the deletion is refused with the text.
func (c *cluster) refused(t *testing.T, object client.Object, says string) {
	t.Helper()
	if err := c.Delete(t.Context(), object); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says) {
		t.Errorf("deleting %T %s: %v; want a refusal that says %q", object, object.GetName(), err, says)
	}
}

func (c *cluster) made(t *testing.T, object client.Object, protection string) {
	t.Helper()
	if protection != "" {
		object.SetLabels(map[string]string{apps.LabelDeleteProtection: protection})
	}
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// removed deletes an object that is not protected.
func (c *cluster) removed(t *testing.T, object client.Object) {
	t.Helper()
	if err := c.Delete(t.Context(), object); err != nil {
		t.Error(err)
	}
}

func TestProtectionOnTheAPIServer(t *testing.T) {
	t.Parallel()
	c := start(t)
	t.Run("workloads", c.protectsWorkloads)
	t.Run("Services and Ingresses", c.protectsServices)
	t.Run("Namespaces", c.protectsNamespaces)
	t.Run("CustomResourceDefinitions", c.protectsCRDs)
	t.Run("what is in a Namespace", c.namesWhatHoldsNamespaces)
}

func (c *cluster) protectsWorkloads(t *testing.T) {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Selector: selector, Template: template},
	}
	c.made(t, deployment, apps.DeleteProtectionCascading)
	c.refused(t, deployment, "2 replicas (>0)")
	if err := c.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace(c.namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("4.3 a collection: %v", err)
	}
	if err := c.Patch(t.Context(), deployment, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))); err != nil {
		t.Fatal(err)
	}
	c.removed(t, deployment)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "web"},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0), Selector: selector, Template: template},
	}
	c.made(t, set, apps.DeleteProtectionAlways)
	c.refused(t, set, "remove or change the label")
	relabelled := `{"metadata":{"labels":{"` + apps.LabelDeleteProtection + `":"Never"}}}`
	if err := c.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, []byte(relabelled))); err != nil {
		t.Fatal(err)
	}
	c.removed(t, set)
}

func (c *cluster) protectsServices(t *testing.T) {
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	always, cascading := service("always"), service("cascading")
	c.made(t, always, apps.DeleteProtectionAlways)
	c.made(t, cascading, apps.DeleteProtectionCascading)
	c.refused(t, always, "Always")
	c.removed(t, cascading)
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "web"},
		Spec:       networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "always", Port: networkingv1.ServiceBackendPort{Number: 80}}}},
	}
	c.made(t, ingress, apps.DeleteProtectionAlways)
	c.refused(t, ingress, "Always")
}

func (c *cluster) protectsNamespaces(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-kept"}}
	c.made(t, namespace, apps.DeleteProtectionCascading)
	var pods []*corev1.Pod
	for i, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: fmt.Sprint("web-", i)},
			Spec:       corev1.PodSpec{NodeName: "none", Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}, TerminationGracePeriodSeconds: ptr.To[int64](0)},
		}
		c.made(t, pod, "")
		pod.Status.Phase = phase
		if err := c.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	claim := func(name, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: volume, StorageClassName: ptr.To(""),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: namespace.Name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		},
	}
	c.made(t, volume, "")
	bound, pending := claim("bound", volume.Name), claim("pending", "nothing")
	c.made(t, bound, "")
	c.made(t, pending, "")
	controlplanetest.Eventually(t, 20*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(bound), bound); err != nil || bound.Status.Phase == corev1.ClaimBound {
			return err
		}
		return fmt.Errorf("the claim is %s", bound.Status.Phase)
	})
	c.refused(t, namespace, "2 active Pods (>0)")
	for _, pod := range pods[:2] {
		if err := c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	c.refused(t, namespace, "1 bound PersistentVolumeClaims (>0)")
	c.removed(t, bound) // a finalizer may delay the deletion, and terminating objects do not count
	c.removed(t, namespace)
}

// namesWhatHoldsNamespaces checks the deletion of a Namespace without the label. All objects in the Namespace are
// deleted except protected objects, and the status of the Namespace names the protected objects. A request to delete
// a collection of objects also deletes all objects except protected objects.
func (c *cluster) namesWhatHoldsNamespaces(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-held"}}
	c.made(t, namespace, "")
	protect := func(object tree) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: object}
		out.SetNamespace(namespace.Name)
		c.made(t, out, apps.DeleteProtectionAlways)
		return out
	}
	held := map[string]*unstructured.Unstructured{
		`clonesets.apps.kruise.io "kept"`:    protect(admissiontest.Edit(t, small(t, "v1beta1"), "/metadata/name", "kept")),
		`statefulsets.apps.kruise.io "kept"`: protect(admissiontest.Edit(t, smallOf(t, "StatefulSet", "v1beta1"), "/metadata/name", "kept")),
		`services "kept"`:                    protect(admissiontest.Manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: kept}, spec: {ports: [{port: 80}]}}`)),
	}
	for said, object := range held {
		err := c.DeleteAllOf(t.Context(), object.DeepCopy(), client.InNamespace(namespace.Name))
		if want := said + " is forbidden: forbidden by ResourcesProtectionDeletion"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("4.3 a collection: %v, want %s", err, want)
		}
	}
	c.removed(t, namespace)
	controlplanetest.Eventually(t, 60*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
			return err
		}
		text := fmt.Sprint(namespace.Status.Conditions)
		for said := range held {
			if !strings.Contains(text, said) {
				return fmt.Errorf("the Namespace says %s, and not %s", text, said)
			}
		}
		return nil
	})
}

func (c *cluster) protectsCRDs(t *testing.T) {
	crd := &unstructured.Unstructured{Object: admissiontest.Manifest(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crates.protection.example.test, labels: {policy.kruise.io/delete-protection: Cascading}}
spec:
  group: protection.example.test
  names: {kind: Crate, plural: crates, singular: crate, listKind: CrateList}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`)}
	if err := c.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	crate := &unstructured.Unstructured{Object: admissiontest.Manifest(t, `{apiVersion: protection.example.test/v1, kind: Crate, metadata: {name: one, namespace: `+c.namespace+`}}`)}
	controlplanetest.Eventually(t, 20*time.Second, func(ctx context.Context) error { return c.Create(ctx, crate) })
	c.refused(t, crd, "1 custom resources (>0)")
	c.removed(t, crate)
	controlplanetest.Eventually(t, 20*time.Second, func(ctx context.Context) error { return c.Delete(ctx, crd) })
}
