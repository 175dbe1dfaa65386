package conversion_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const distributionAlpha = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"ResourceDistribution","metadata":{"name":"share"},
	"spec":{"resource":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"namespaceSelector":"<&>"},"unknown":123456789012345678901234567890},
		"targets":{"allNamespaces":true,"includedNamespaces":{"list":[{"name":"a"}]},"namespaceLabelSelector":{"matchLabels":{"a":"b"}}}},
	"status":{"desired":2,"conditions":[{"type":"NamespaceNotExists","status":"True","failedNamespace":["x","y"]},{"type":"ConflictOccurred","status":"False"}]}}`

const distributionBeta = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"ResourceDistribution","metadata":{"name":"share"},
	"spec":{"resource":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"namespaceSelector":"<&>"},"unknown":123456789012345678901234567890},
		"targets":{"allNamespaces":true,"includedNamespaces":{"list":[{"name":"a"}]},"namespaceSelector":{"matchLabels":{"a":"b"}}}},
	"status":{"desired":2,"conditions":[{"type":"NamespaceNotExists","status":"True","failedNamespaces":["x","y"]},{"type":"ConflictOccurred","status":"False"}]}}`

func treeOf(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := utiljson.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestResourceDistributionRenames: conversion renames the two fields whose names differ between the versions, and
// changes nothing else.
func TestResourceDistributionRenames(t *testing.T) {
	for _, c := range []struct{ name, from, version, want string }{
		{"RD to v1beta1", distributionAlpha, "v1beta1", distributionBeta},
		{"RD to v1alpha1", distributionBeta, "v1alpha1", distributionAlpha},
		{
			"RD what has no sense is carried over", `{"apiVersion":"apps.kruise.io/v1beta1","kind":"ResourceDistribution","metadata":{},"spec":{"targets":7},"status":{"conditions":[null,{"failedNamespaces":7}]}}`, "v1alpha1",
			`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"ResourceDistribution","metadata":{},"spec":{"targets":7},"status":{"conditions":[null,{"failedNamespace":7}]}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := conversion.JSON([]byte(c.from), "apps.kruise.io/"+c.version)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(treeOf(t, []byte(c.want)), treeOf(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if problems := conversion.Check([]byte(c.from)); len(problems) > 0 {
				t.Errorf("Check: %v", problems)
			}
		})
	}
}

func checkDistribution(t *testing.T, data []byte) {
	t.Helper()
	beta, alpha := &v1beta1.ResourceDistribution{}, &v1alpha1.ResourceDistribution{}
	beta.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("ResourceDistribution"))
	alpha.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ResourceDistribution"))
	f := &filler{data}
	f.object(&beta.ObjectMeta, &beta.Spec.Targets, &beta.Status)
	f.object(&alpha.ObjectMeta, &alpha.Spec.Targets, &alpha.Status)
	beta.Spec.Resource.Raw = fmt.Appendf(nil, `{"data":{"k":%q}}`, fmt.Sprint(len(data)))
	alpha.Spec.Resource.Raw = beta.Spec.Resource.Raw
	checkBothWays(t, beta, alpha, to[v1alpha1.ResourceDistribution, v1beta1.ResourceDistribution], to[v1beta1.ResourceDistribution, v1alpha1.ResourceDistribution])
}

func FuzzResourceDistributionRoundTrip(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, data []byte) { checkDistribution(t, data) })
}

// TestResourceDistributionRoundTrips checks a fixed set of random objects in every run; the fuzz test checks further
// objects.
func TestResourceDistributionRoundTrips(t *testing.T) {
	repeat(t, 7, checkDistribution)
}
