package conversion_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

// TestResourceDistributionRenames: the two fields have their names, and nothing else is touched.
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
	shown, err := conversion.ResourceDistributionToV1alpha1(beta)
	if err != nil {
		t.Fatal(err)
	}
	back, err := conversion.ResourceDistributionToV1beta1(shown)
	if diff := cmp.Diff(beta, back, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("through v1alpha1 (-want +got): %v\n%s", err, diff)
	}
	kept, err := conversion.ResourceDistributionToV1beta1(alpha)
	if err != nil {
		t.Fatal(err)
	}
	again, err := conversion.ResourceDistributionToV1alpha1(kept)
	if diff := cmp.Diff(alpha, again, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("through v1beta1 (-want +got): %v\n%s", err, diff)
	}
}

func FuzzResourceDistributionRoundTrip(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, data []byte) { checkDistribution(t, data) })
}

// TestResourceDistributionRoundTrips is the part of the fuzzing that every run repeats.
func TestResourceDistributionRoundTrips(t *testing.T) {
	random, data := rand.NewChaCha8([32]byte{7}), make([]byte, 400)
	for range 300 {
		if _, err := random.Read(data); err != nil {
			t.Fatal(err)
		}
		checkDistribution(t, data)
		if t.Failed() {
			t.Fatalf("with data %q", data)
		}
	}
}
