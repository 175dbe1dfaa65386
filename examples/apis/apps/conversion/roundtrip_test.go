package conversion_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func toBeta(t *testing.T, obj *v1alpha1.CloneSet) *v1beta1.CloneSet {
	t.Helper()
	result, err := to[v1beta1.CloneSet](obj)
	if err != nil {
		t.Fatalf("ToV1beta1() = %v", err)
	}
	return result
}

func toAlpha(t *testing.T, obj *v1beta1.CloneSet) *v1alpha1.CloneSet {
	t.Helper()
	result, err := to[v1alpha1.CloneSet](obj)
	if err != nil {
		t.Fatalf("ToV1alpha1() = %v", err)
	}
	return result
}

func randomBeta(data []byte) *v1beta1.CloneSet {
	obj := &v1beta1.CloneSet{}
	obj.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("CloneSet"))
	(&filler{data}).object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	return obj
}

func randomAlpha(data []byte) *v1alpha1.CloneSet {
	obj := &v1alpha1.CloneSet{}
	obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("CloneSet"))
	(&filler{data}).object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	return obj
}

// checkBeta converts an object to v1alpha1 and back, twice. The original object must not change.
func checkBeta(t *testing.T, obj *v1beta1.CloneSet) {
	t.Helper()
	untouched := obj.DeepCopy()
	shown := toAlpha(t, obj)
	shownBefore := shown.DeepCopy()
	back := toBeta(t, shown)
	if diff := cmp.Diff(obj, back, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("through v1alpha1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(shown, toAlpha(t, back), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("second conversion to v1alpha1 (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(untouched, obj); diff != "" {
		t.Errorf("ToV1alpha1() changed its argument:\n%s", diff)
	}
	if diff := cmp.Diff(shownBefore, shown); diff != "" {
		t.Errorf("ToV1beta1() changed its argument:\n%s", diff)
	}
}

func checkAlpha(t *testing.T, obj *v1alpha1.CloneSet) {
	t.Helper()
	stored := toBeta(t, obj)
	back := toAlpha(t, stored)
	if diff := cmp.Diff(obj, back, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("through v1beta1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stored, toBeta(t, back), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("second conversion to v1beta1 (-first +second):\n%s", diff)
	}
}

func FuzzV1beta1RoundTrip(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) { checkBeta(t, randomBeta(data)) })
}

func FuzzV1alpha1RoundTrip(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) { checkAlpha(t, randomAlpha(data)) })
}

// TestRandomRoundTrips checks a fixed set of random objects in every run; the fuzz test checks further objects.
func TestRandomRoundTrips(t *testing.T) {
	const rounds, length = 400, 400
	random := rand.NewChaCha8([32]byte{1})
	data := make([]byte, length)
	for range rounds {
		if _, err := random.Read(data); err != nil {
			t.Fatal(err)
		}
		checkBeta(t, randomBeta(data))
		checkAlpha(t, randomAlpha(data))
		if t.Failed() {
			t.Fatalf("with data %q", data)
		}
	}
}

// FuzzForeignNote: whatever users write into the annotation, the conversion result is valid.
func FuzzForeignNote(f *testing.F) {
	f.Add(`{"when":["ReCreate"],"fields":[{"path":["spec","updateStrategy"],"kept":7}]}`)
	f.Add(`{"when":["RollingUpdate",""],"fields":[{"path":["spec","scaleStrategy"],"shown":{}}]}`)
	f.Add(`{"fields":[{"path":["metadata","labels"],"shown":{},"kept":[]},{"path":[]}]}`)
	f.Add(`{"when":["RollingUpdate",""],"fields":[{"path":["metadata","annotations","workloadkit.io/v1alpha1-only"],"kept":"x"}]}`)
	f.Add(`{"when":[""],"fields":[{"path":["metadata","annotations","workloadkit.io/v1beta1-only"],"kept":"x"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		alpha, beta := randomAlpha(nil), randomBeta(nil)
		alpha.Annotations = map[string]string{"workloadkit.io/v1beta1-only": text}
		beta.Annotations = map[string]string{"workloadkit.io/v1alpha1-only": text}
		beta = toBeta(t, toAlpha(t, beta))
		beta.Spec.Template = alpha.Spec.Template
		checkBeta(t, toBeta(t, alpha))
		checkAlpha(t, toAlpha(t, beta))
	})
}

// checkBothWays converts an object of each version to the target version and back. The object must not change.
func checkBothWays[B, A any](t *testing.T, beta B, alpha A, toAlpha func(B) (A, error), toBeta func(A) (B, error)) {
	t.Helper()
	shown, err := toAlpha(beta)
	if err != nil {
		t.Fatal(err)
	}
	back, err := toBeta(shown)
	if diff := cmp.Diff(beta, back, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("through v1alpha1 (-want +got): %v\n%s", err, diff)
	}
	kept, err := toBeta(alpha)
	if err != nil {
		t.Fatal(err)
	}
	again, err := toAlpha(kept)
	if diff := cmp.Diff(alpha, again, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("through v1beta1 (-want +got): %v\n%s", err, diff)
	}
}

// repeat runs the check of a fuzz test with a fixed set of random inputs.
func repeat(t *testing.T, seed byte, check func(*testing.T, []byte)) {
	t.Helper()
	random, data := rand.NewChaCha8([32]byte{seed}), make([]byte, 400)
	for range 300 {
		if _, err := random.Read(data); err != nil {
			t.Fatal(err)
		}
		check(t, data)
		if t.Failed() {
			t.Fatalf("with data %q", data)
		}
	}
}
