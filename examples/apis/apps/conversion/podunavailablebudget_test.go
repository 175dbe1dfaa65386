package conversion_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	policyv1alpha1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1alpha1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

func budgetToBeta(t *testing.T, obj *policyv1alpha1.PodUnavailableBudget) *policyv1beta1.PodUnavailableBudget {
	t.Helper()
	result, err := to[policyv1beta1.PodUnavailableBudget](obj)
	if err != nil {
		t.Fatalf("PodUnavailableBudgetToV1beta1() = %v", err)
	}
	return result
}

func budgetToAlpha(t *testing.T, obj *policyv1beta1.PodUnavailableBudget) *policyv1alpha1.PodUnavailableBudget {
	t.Helper()
	result, err := to[policyv1alpha1.PodUnavailableBudget](obj)
	if err != nil {
		t.Fatalf("PodUnavailableBudgetToV1alpha1() = %v", err)
	}
	return result
}

// budgetWords sets values that conversion treats specially, because the filler rarely produces such values.
func (f *filler) budgetWords(meta *metav1.ObjectMeta) {
	for _, word := range []struct {
		key    string
		values []string
	}{
		{policy.AnnotationProtectOperations, []string{"-", "", "DELETE", "EVICT, DELETE", "DELETE,", "MOVE,EVICT"}},
		{policy.AnnotationProtectTotalReplicas, []string{"-", "", "5", "+5", "0", "99999999999", "many"}},
	} {
		if value := word.values[f.choose(len(word.values))]; value != "-" {
			if meta.Annotations == nil {
				meta.Annotations = map[string]string{}
			}
			meta.Annotations[word.key] = value
		}
	}
}

func randomBetaBudget(data []byte) *policyv1beta1.PodUnavailableBudget {
	obj := &policyv1beta1.PodUnavailableBudget{}
	obj.SetGroupVersionKind(policyv1beta1.GroupVersion.WithKind("PodUnavailableBudget"))
	f := &filler{data}
	f.object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	f.budgetWords(&obj.ObjectMeta)
	for i := range obj.Spec.ProtectOperations {
		obj.Spec.ProtectOperations[i] = []policyv1beta1.Operation{"DELETE", "EVICT", "MOVE", ""}[f.choose(4)]
	}
	return obj
}

func randomAlphaBudget(data []byte) *policyv1alpha1.PodUnavailableBudget {
	obj := &policyv1alpha1.PodUnavailableBudget{}
	obj.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("PodUnavailableBudget"))
	f := &filler{data}
	f.object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	f.budgetWords(&obj.ObjectMeta)
	return obj
}

// checkBetaBudget converts an object to the second version and back, twice, as Go types and as JSON. The original
// object must not change.
func checkBetaBudget(t *testing.T, obj *policyv1beta1.PodUnavailableBudget) {
	t.Helper()
	untouched := obj.DeepCopy()
	shown := budgetToAlpha(t, obj)
	shownBefore := shown.DeepCopy()
	back := budgetToBeta(t, shown)
	for _, difference := range []string{
		cmp.Diff(obj, back, cmpopts.EquateEmpty()), cmp.Diff(shown, budgetToAlpha(t, back), cmpopts.EquateEmpty()),
		cmp.Diff(untouched, obj), cmp.Diff(shownBefore, shown),
	} {
		if difference != "" {
			t.Errorf("through v1alpha1 (-want +got):\n%s", difference)
		}
	}
	raw, err := conversion.JSON(encoded(t, obj), "policy.kruise.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*shown, fromJSON[policyv1alpha1.PodUnavailableBudget](t, raw), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("serialised (-want +got):\n%s", diff)
	}
}

func checkAlphaBudget(t *testing.T, obj *policyv1alpha1.PodUnavailableBudget) {
	t.Helper()
	untouched := obj.DeepCopy()
	stored := budgetToBeta(t, obj)
	back := budgetToAlpha(t, stored)
	for _, difference := range []string{
		cmp.Diff(obj, back, cmpopts.EquateEmpty()), cmp.Diff(stored, budgetToBeta(t, back), cmpopts.EquateEmpty()), cmp.Diff(untouched, obj),
	} {
		if difference != "" {
			t.Errorf("through v1beta1 (-want +got):\n%s", difference)
		}
	}
	raw, err := conversion.JSON(encoded(t, obj), "policy.kruise.io/v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*stored, fromJSON[policyv1beta1.PodUnavailableBudget](t, raw), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("serialised (-want +got):\n%s", diff)
	}
}

func FuzzPodUnavailableBudgetV1beta1RoundTrip(f *testing.F) {
	addDaemonSetSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkBetaBudget(t, randomBetaBudget(data)) })
}

func FuzzPodUnavailableBudgetV1alpha1RoundTrip(f *testing.F) {
	addDaemonSetSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkAlphaBudget(t, randomAlphaBudget(data)) })
}

// TestRandomPodUnavailableBudgetRoundTrips checks a fixed set of random objects in every run; the fuzz test checks
// further objects.
func TestRandomPodUnavailableBudgetRoundTrips(t *testing.T) {
	const rounds, length = 500, 300
	random := rand.NewChaCha8([32]byte{4})
	data := make([]byte, length)
	for range rounds {
		if _, err := random.Read(data); err != nil {
			t.Fatal(err)
		}
		for _, part := range [][]byte{data, data[:random.Uint64()%uint64(length)]} {
			checkBetaBudget(t, randomBetaBudget(part))
			checkAlphaBudget(t, randomAlphaBudget(part))
		}
		if t.Failed() {
			t.Fatalf("with data %q", data)
		}
	}
}

func TestPodUnavailableBudgetAnnotations(t *testing.T) {
	type fields struct {
		Operations []policyv1beta1.Operation
		Replicas   *int32
	}
	for _, tc := range []struct {
		name                 string
		operations, replicas string
		want                 fields
	}{
		{"3.1 operations", "DELETE,EVICT", "", fields{Operations: []policyv1beta1.Operation{"DELETE", "EVICT"}}},
		{"3.1 operations with space", "DELETE, RESIZE", "", fields{Operations: []policyv1beta1.Operation{"DELETE", "RESIZE"}}},
		{"3.1 an unknown operation stands for nothing", "DELETE,MOVE", "", fields{}},
		{"3.1 replicas", "", "15", fields{Replicas: new(int32(15))}},
		{"3.1 replicas that are no number stand for nothing", "", "many", fields{}},
		{"3.1 no replicas stand for nothing", "", "0", fields{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := &policyv1alpha1.PodUnavailableBudget{}
			in.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("PodUnavailableBudget"))
			in.Annotations = map[string]string{policy.AnnotationProtectOperations: tc.operations, policy.AnnotationProtectTotalReplicas: tc.replicas}
			got := budgetToBeta(t, in)
			if diff := cmp.Diff(tc.want, fields{got.Spec.ProtectOperations, got.Spec.ProtectTotalReplicas}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(in.Annotations, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIgnoredPodsAreKept: v1alpha1 has no field ignoredPodSelector, but an edit in v1alpha1 does not lose the
// selector.
func TestIgnoredPodsAreKept(t *testing.T) {
	stored := &policyv1beta1.PodUnavailableBudget{}
	stored.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"debug": "yes"}}
	shown := budgetToAlpha(t, stored)
	shown.Annotations[policy.AnnotationProtectOperations] = "EVICT"
	back := budgetToBeta(t, shown)
	if diff := cmp.Diff(stored.Spec.IgnoredPodSelector, back.Spec.IgnoredPodSelector); diff != "" || len(back.Spec.ProtectOperations) != 1 {
		t.Errorf("operations %v, ignored Pods (-want +got):\n%s", back.Spec.ProtectOperations, diff)
	}
	if _, left := back.Annotations[apps.AnnotationV1beta1Only]; left {
		t.Error("the note of the other version is still there")
	}
}
