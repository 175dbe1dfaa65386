package admission_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// distribute creates a ResourceDistribution, and deletes the object when the test ends.
func (c *cluster) distribute(t *testing.T, name string, object tree) (*unstructured.Unstructured, error) {
	t.Helper()
	sent := &unstructured.Unstructured{Object: object}
	sent.SetName(name)
	err := c.Create(t.Context(), sent)
	if err == nil {
		t.Cleanup(func() {
			if err := c.Delete(context.WithoutCancel(t.Context()), sent); err != nil {
				t.Error(err)
			}
		})
	}
	return sent, err
}

// TestResourceDistributionsOnTheAPIServer writes and reads ResourceDistributions in both versions.
func TestResourceDistributionsOnTheAPIServer(t *testing.T) {
	c := bare(t)
	options := admission.Options{Client: c, Reader: c, Namespace: "default", Gates: map[apps.Gate]bool{apps.GateResourceDistribution: true}}
	c.serveAlone(t, "resourcedistribution", options, endpointOf("ResourceDistribution", options))
	t.Run("E-2 the manifest, and its selector in both versions", func(t *testing.T) {
		sent, err := c.distribute(t, "sample", admissiontest.Edit(t, smallOf(t, "ResourceDistribution", "v1alpha1"), "/spec/targets/namespaceLabelSelector", tree{"matchLabels": tree{"a": "b"}}))
		if err != nil {
			t.Fatal(err)
		}
		shown := &unstructured.Unstructured{Object: tree{"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution"}}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(sent), shown); err != nil {
			t.Fatal(err)
		}
		targets := shown.Object["spec"].(tree)["targets"].(tree)
		if diff := cmp.Diff(tree{"matchLabels": tree{"a": "b"}}, targets["namespaceSelector"]); diff != "" || targets["namespaceLabelSelector"] != nil {
			t.Errorf("targets %v\n%s", targets, diff)
		}
		shown.SetFinalizers([]string{"a.test/b"})
		if err := c.Update(t.Context(), shown); err != nil {
			t.Error(err)
		}
		shown.SetFinalizers(nil)
		if err := c.Update(t.Context(), shown); err != nil {
			t.Error(err)
		}
		other := admissiontest.Edit(t, shown.Object, "/spec/resource/metadata/name", "other")
		if err := c.Update(t.Context(), &unstructured.Unstructured{Object: other}); !cmp.Equal(causes(err), []string{"spec.resource.metadata.name"}) {
			t.Error(err)
		}
	})
	t.Run("RD-1 what is wrong has its path", func(t *testing.T) {
		for _, r := range []struct {
			version, path, field string
			value                any
		}{
			{"v1beta1", "/spec/resource/data/player", "spec.resource.data.player", 7},
			{"v1beta1", "/spec/resource/kind", "spec.resource.kind", "Pod"},
			{"v1beta1", "/spec/resource/data", "spec.resource.data[no key!]", tree{"no key!": "x"}}, // found by the API server
			{"v1beta1", "/spec/resource/metadata", "spec.resource.metadata.labels", tree{"name": "a", "labels": tree{"a": "no label!"}}},
			{"v1alpha1", "/spec/targets/excludedNamespaces", "spec.targets.excludedNamespaces.list[0].name", tree{"list": []any{tree{"name": "a"}}}},
			{
				"v1alpha1", "/spec/targets/namespaceLabelSelector", "spec.targets.namespaceLabelSelector.matchExpressions[0].operator",
				tree{"matchExpressions": []any{tree{"key": "a", "operator": "Is"}}},
			},
		} {
			_, err := c.distribute(t, "bad", admissiontest.Edit(t, smallOf(t, "ResourceDistribution", r.version), r.path, r.value))
			if !apierrors.IsInvalid(err) || !cmp.Equal(causes(err), []string{r.field}) {
				t.Errorf("%s: %v, causes %q", r.field, err, causes(err))
			}
		}
	})
	t.Run("RD-1 a resource of the name may be there", func(t *testing.T) {
		there := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "game-demo"}}
		if err := c.Create(t.Context(), there); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), there) })
		if _, err := c.distribute(t, "there", smallOf(t, "ResourceDistribution", "v1beta1")); err != nil {
			t.Error(err)
		}
	})
}
