package conversion_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func sidecarSetToBeta(t *testing.T, obj *v1alpha1.SidecarSet) *v1beta1.SidecarSet {
	t.Helper()
	result, err := to[v1beta1.SidecarSet](obj)
	if err != nil {
		t.Fatalf("SidecarSetToV1beta1() = %v", err)
	}
	return result
}

func sidecarSetToAlpha(t *testing.T, obj *v1beta1.SidecarSet) *v1alpha1.SidecarSet {
	t.Helper()
	result, err := to[v1alpha1.SidecarSet](obj)
	if err != nil {
		t.Fatalf("SidecarSetToV1alpha1() = %v", err)
	}
	return result
}

// sidecarSetWords sets values that conversion treats specially, because the filler rarely produces such values.
func (f *filler) sidecarSetWords(meta *metav1.ObjectMeta, selector **metav1.LabelSelector) {
	if value := []string{"-", "", "v1", "v2"}[f.choose(4)]; value != "-" {
		if meta.Labels == nil {
			meta.Labels = map[string]string{}
		}
		meta.Labels[apps.LabelSidecarSetCustomVersion] = value
	}
	if f.choose(2) == 1 {
		*selector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: []string{"a", "true"}[f.choose(2)]}}
	}
}

func randomBetaSidecarSet(data []byte) *v1beta1.SidecarSet {
	obj := &v1beta1.SidecarSet{}
	obj.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("SidecarSet"))
	f := &filler{data}
	f.object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	f.sidecarSetWords(&obj.ObjectMeta, &obj.Spec.NamespaceSelector)
	return obj
}

func randomAlphaSidecarSet(data []byte) *v1alpha1.SidecarSet {
	obj := &v1alpha1.SidecarSet{}
	obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SidecarSet"))
	f := &filler{data}
	f.object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	f.sidecarSetWords(&obj.ObjectMeta, &obj.Spec.NamespaceSelector)
	return obj
}

// checkBetaSidecarSet converts an object to the second version and back, twice, as Go types and as JSON. The original
// object must not change.
func checkBetaSidecarSet(t *testing.T, obj *v1beta1.SidecarSet) {
	t.Helper()
	untouched := obj.DeepCopy()
	shown := sidecarSetToAlpha(t, obj)
	shownBefore := shown.DeepCopy()
	back := sidecarSetToBeta(t, shown)
	for _, difference := range []string{
		cmp.Diff(obj, back, cmpopts.EquateEmpty()), cmp.Diff(shown, sidecarSetToAlpha(t, back), cmpopts.EquateEmpty()),
		cmp.Diff(untouched, obj), cmp.Diff(shownBefore, shown),
	} {
		if difference != "" {
			t.Errorf("SC-6 through v1alpha1 (-want +got):\n%s", difference)
		}
	}
	viaJSON := fromJSON[v1alpha1.SidecarSet](t, converted(t, encoded(t, obj), "v1alpha1"))
	if diff := cmp.Diff(*shown, viaJSON, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("serialised (-want +got):\n%s", diff)
	}
	sameHashes(t, obj, shown)
}

func checkAlphaSidecarSet(t *testing.T, obj *v1alpha1.SidecarSet) {
	t.Helper()
	untouched := obj.DeepCopy()
	stored := sidecarSetToBeta(t, obj)
	back := sidecarSetToAlpha(t, stored)
	for _, difference := range []string{
		cmp.Diff(obj, back, cmpopts.EquateEmpty()), cmp.Diff(stored, sidecarSetToBeta(t, back), cmpopts.EquateEmpty()), cmp.Diff(untouched, obj),
	} {
		if difference != "" {
			t.Errorf("SC-6 through v1beta1 (-want +got):\n%s", difference)
		}
	}
	viaJSON := fromJSON[v1beta1.SidecarSet](t, converted(t, encoded(t, obj), "v1beta1"))
	if diff := cmp.Diff(*stored, viaJSON, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("serialised (-want +got):\n%s", diff)
	}
	sameHashes(t, stored, obj)
}

func sameHashes(t *testing.T, beta *v1beta1.SidecarSet, alpha *v1alpha1.SidecarSet) {
	t.Helper()
	var hashes [4]string
	var errs [2]error
	hashes[0], hashes[1], errs[0] = sidecarset.Hashes(beta.Spec.Containers, beta.Spec.InitContainers)
	hashes[2], hashes[3], errs[1] = sidecarset.Hashes(alpha.Spec.Containers, alpha.Spec.InitContainers)
	if hashes[0] != hashes[2] || hashes[1] != hashes[3] || errs[0] != nil || errs[1] != nil {
		t.Errorf("SC-6 hashes %v, errors %v", hashes, errs)
	}
}

func FuzzSidecarSetV1beta1RoundTrip(f *testing.F) {
	addDaemonSetSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkBetaSidecarSet(t, randomBetaSidecarSet(data)) })
}

func FuzzSidecarSetV1alpha1RoundTrip(f *testing.F) {
	addDaemonSetSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkAlphaSidecarSet(t, randomAlphaSidecarSet(data)) })
}

// TestRandomSidecarSetRoundTrips checks a fixed set of random objects in every run; the fuzz test checks further
// objects.
func TestRandomSidecarSetRoundTrips(t *testing.T) {
	const rounds, length = 300, 600
	random := rand.NewChaCha8([32]byte{3})
	data := make([]byte, length)
	for range rounds {
		if _, err := random.Read(data); err != nil {
			t.Fatal(err)
		}
		// Short inputs leave bytes for the important values.
		for _, part := range [][]byte{data, data[:random.Uint64()%uint64(length)]} {
			checkBetaSidecarSet(t, randomBetaSidecarSet(part))
			checkAlphaSidecarSet(t, randomAlphaSidecarSet(part))
		}
		if t.Failed() {
			t.Fatalf("with data %q", data)
		}
	}
}

func inNamespace(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
}

func TestSidecarSetToV1beta1(t *testing.T) {
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
	version := func(value string) map[string]string {
		return map[string]string{apps.LabelSidecarSetCustomVersion: value, "other": "1"}
	}
	for _, tc := range []struct {
		name         string
		namespace    string
		selector     *metav1.LabelSelector
		labels       map[string]string
		want         *metav1.LabelSelector
		version      string
		wantedLabels map[string]string
		note         bool
	}{
		{name: "SC-3 none"},
		{name: "SC-3 a namespace", namespace: "team-a", want: inNamespace("team-a"), note: true},
		{name: "SC-3 a namespace goes before a selector", namespace: "team-a", selector: team, want: inNamespace("team-a"), note: true},
		{name: "SC-3 a selector", selector: team, want: team},
		{name: "SC-4 a selector that is that of a namespace", selector: inNamespace("team-a"), want: inNamespace("team-a")},
		{name: "SC-4 a namespace and its own selector", namespace: "team-a", selector: inNamespace("team-a"), want: inNamespace("team-a"), note: true},
		{name: "SC-5 a version", labels: version("v1"), version: "v1", wantedLabels: map[string]string{"other": "1"}},
		{name: "SC-5 an empty version", labels: version(""), wantedLabels: map[string]string{"other": "1"}, note: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := &v1alpha1.SidecarSet{}
			in.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("SidecarSet"))
			in.Labels, in.Spec.Namespace, in.Spec.NamespaceSelector = tc.labels, tc.namespace, tc.selector
			got := sidecarSetToBeta(t, in)
			if _, note := got.Annotations[apps.AnnotationV1alpha1Only]; note != tc.note {
				t.Errorf("note %q, want one: %t", got.Annotations[apps.AnnotationV1alpha1Only], tc.note)
			}
			if diff := cmp.Diff(v1beta1.SidecarSetSpec{NamespaceSelector: tc.want, CustomVersion: tc.version}, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantedLabels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			checkAlphaSidecarSet(t, in)
		})
	}
}

func TestSidecarSetToV1alpha1(t *testing.T) {
	label := func(value string) map[string]string {
		return map[string]string{apps.LabelSidecarSetCustomVersion: value}
	}
	for _, tc := range []struct {
		name, version string
		selector      *metav1.LabelSelector
		labels, want  map[string]string
		note          bool
	}{
		{name: "SC-4 a namespace is none", selector: inNamespace("team-a")},
		{name: "SC-5 a version", version: "v1", want: label("v1")},
		{name: "SC-5 a version that is no label", version: "v 1", note: true},
		{name: "SC-5 a label that is no version", labels: label("v2"), note: true},
		{name: "SC-5 a version and a label", version: "v1", labels: label("v2"), want: label("v1"), note: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := &v1beta1.SidecarSet{}
			in.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("SidecarSet"))
			in.Labels, in.Spec.NamespaceSelector, in.Spec.CustomVersion = tc.labels, tc.selector, tc.version
			got := sidecarSetToAlpha(t, in)
			if _, note := got.Annotations[apps.AnnotationV1beta1Only]; note != tc.note {
				t.Errorf("note %q, want one: %t", got.Annotations[apps.AnnotationV1beta1Only], tc.note)
			}
			if diff := cmp.Diff(v1alpha1.SidecarSetSpec{NamespaceSelector: tc.selector}, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			checkBetaSidecarSet(t, in)
		})
	}
}

// TestSidecarSetMergeRule edits the converted object, in the version that lacks some of the original's fields, and
// converts the object back.
func TestSidecarSetMergeRule(t *testing.T) {
	applied := &v1alpha1.SidecarSet{}
	applied.Spec.Namespace, applied.Spec.NamespaceSelector = "team-a", &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
	stored := sidecarSetToBeta(t, applied)
	for _, tc := range []struct {
		name      string
		edit      func(*v1beta1.SidecarSet)
		namespace string
		selector  *metav1.LabelSelector
	}{
		{"SC-4 another field", func(obj *v1beta1.SidecarSet) { obj.Spec.CustomVersion = "v2" }, "team-a", applied.Spec.NamespaceSelector},
		{"SC-4 another namespace", func(obj *v1beta1.SidecarSet) { obj.Spec.NamespaceSelector = inNamespace("team-b") }, "", inNamespace("team-b")},
		{"SC-4 one more label", func(obj *v1beta1.SidecarSet) { obj.Spec.NamespaceSelector.MatchLabels["z"] = "1" }, "", &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: "team-a", "z": "1"},
		}},
		{"SC-4 all namespaces", func(obj *v1beta1.SidecarSet) { obj.Spec.NamespaceSelector = nil }, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			edited := stored.DeepCopy()
			tc.edit(edited)
			got := sidecarSetToAlpha(t, edited)
			if got.Spec.Namespace != tc.namespace || !cmp.Equal(tc.selector, got.Spec.NamespaceSelector) {
				t.Errorf("namespace %q, selector (-want +got):\n%s", got.Spec.Namespace, cmp.Diff(tc.selector, got.Spec.NamespaceSelector))
			}
		})
	}
	t.Run("SC-3 the namespace goes in v1alpha1", func(t *testing.T) {
		edited := sidecarSetToAlpha(t, stored)
		edited.Spec.Namespace = ""
		if got := sidecarSetToBeta(t, edited); !cmp.Equal(applied.Spec.NamespaceSelector, got.Spec.NamespaceSelector) || len(got.Annotations) > 0 {
			t.Errorf("selector %v, annotations %v", got.Spec.NamespaceSelector, got.Annotations)
		}
	})
	t.Run("SC-5 the version changes in v1alpha1", func(t *testing.T) {
		edited := sidecarSetToAlpha(t, &v1beta1.SidecarSet{Spec: v1beta1.SidecarSetSpec{CustomVersion: "v 1"}})
		edited.Labels = map[string]string{apps.LabelSidecarSetCustomVersion: "v2"}
		if got := sidecarSetToBeta(t, edited); got.Spec.CustomVersion != "v2" {
			t.Errorf("version %q", got.Spec.CustomVersion)
		}
	})
}

// TestSidecarSetStored converts OpenKruise's stored form of a v1alpha1 object. The object has no note, so the namespace
// is a selector.
func TestSidecarSetStored(t *testing.T) {
	raw, err := os.ReadFile("../sidecarset/testdata/mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	object, err := yaml.YAMLToJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	shown := converted(t, object, "v1alpha1")
	if diff := cmp.Diff(strings.Replace(compact(t, object), "v1beta1", "v1alpha1", 1), compact(t, shown)); diff != "" {
		t.Errorf("SC-4 as v1alpha1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(compact(t, object), compact(t, converted(t, shown, "v1beta1"))); diff != "" {
		t.Errorf("SC-6 and back (-want +got):\n%s", diff)
	}
}

func compact(t *testing.T, object []byte) string {
	t.Helper()
	return string(encoded(t, fromJSON[map[string]any](t, object)))
}

func TestSidecarSetJSON(t *testing.T) {
	const object = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"SidecarSet","metadata":{"future":1,"labels":{"apps.kruise.io/sidecarset-custom-version":"v1"}},` +
		`"spec":{"containers":[{"name":"a","future":{"b":1.0}}],"namespaceSelector":{"matchLabels":{"a":"b"}}},"status":{"future":2}}`
	const want = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"future":1},` +
		`"spec":{"containers":[{"name":"a","future":{"b":1.0}}],"customVersion":"v1","namespaceSelector":{"matchLabels":{"a":"b"}}},"status":{"future":2}}`
	beta := converted(t, []byte(object), "v1beta1")
	if diff := cmp.Diff(want, string(beta)); diff != "" {
		t.Errorf("SC-5 as v1beta1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(object, string(converted(t, beta, "v1alpha1"))); diff != "" {
		t.Errorf("SC-6 and back (-want +got):\n%s", diff)
	}
	old := strings.Replace(object, `"spec":{`, `"spec":{"strategy":{"rollingUpdate":{}},`, 1)
	if diff := cmp.Diff(want, string(converted(t, []byte(old), "v1beta1"))); diff != "" {
		t.Errorf("C-9 spec.strategy is dropped (-want +got):\n%s", diff)
	}
}

// TestHostileSidecarSets converts unusual objects that users can store. No conversion may fail, or lose the
// containers.
func TestHostileSidecarSets(t *testing.T) {
	for name, object := range map[string]string{
		"containers that are a number":   `{"spec":{"containers":5}}`,
		"a quantity that is none":        `{"spec":{"containers":[{"resources":{"limits":{"cpu":"oops"}}}]}}`,
		"nulls":                          `{"metadata":null,"spec":null,"status":null}`,
		"a version that is no label":     `{"spec":{"customVersion":"` + strings.Repeat("x", 300_000) + `"}}`,
		"annotations that leave no room": `{"metadata":{"annotations":{"a":"` + strings.Repeat("x", 262_100) + `"}},"spec":{"namespace":"team-a"}}`,
		"a note that makes a number of the selector": `{"metadata":{"annotations":{"workloadkit.io/v1alpha1-only":` +
			`"{\"when\":[\"null\"],\"fields\":[{\"path\":[\"spec\",\"namespaceSelector\"],\"kept\":5},{\"path\":[\"spec\",\"containers\"],\"kept\":5}]}"}},"spec":{"containers":[]}}`,
		"a note that makes a number of the version": `{"metadata":{"annotations":{"workloadkit.io/v1beta1-only":` +
			`"{\"fields\":[{\"path\":[\"spec\",\"customVersion\"],\"shown\":\"\",\"kept\":5}]}"}},"spec":{"containers":[]}}`,
		"a note that makes a label of what is none": `{"metadata":{"annotations":{"workloadkit.io/v1beta1-only":` +
			`"{\"fields\":[{\"path\":[\"metadata\",\"labels\",\"apps.kruise.io/sidecarset-custom-version\"],\"kept\":\"a b\"}]}"}},"spec":{"containers":[]}}`,
	} {
		for from, to := range map[string]string{"v1beta1": "v1alpha1", "v1alpha1": "v1beta1"} {
			t.Run(from+" "+name, func(t *testing.T) {
				head := `{"apiVersion":"apps.kruise.io/` + from + `","kind":"SidecarSet",`
				there := converted(t, []byte(head+strings.TrimPrefix(object, "{")), to)
				stored(t, there)
				back := converted(t, there, from)
				stored(t, back)
				was, is := fromJSON[struct{ Spec map[string]json.RawMessage }](t, []byte(object)), fromJSON[struct{ Spec map[string]json.RawMessage }](t, back)
				if diff := cmp.Diff(string(was.Spec["containers"]), string(is.Spec["containers"])); diff != "" {
					t.Errorf("containers (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestCheckSidecarSet: Check refuses an object if the values to keep do not fit into the annotation on the converted
// object.
func TestCheckSidecarSet(t *testing.T) {
	object := func(version, spec string, annotation int) string {
		return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"SidecarSet","metadata":{"annotations":{"a":"` + strings.Repeat("x", annotation) +
			`"}},"spec":` + spec + `}`
	}
	for _, tc := range []struct {
		name, object string
		want         []string
	}{
		{"little", object("v1alpha1", `{"namespace":"a"}`, 1), nil},
		{"room", object("v1alpha1", `{"namespace":"a"}`, 200_000), nil},
		{"no room for the namespace", object("v1alpha1", `{"namespace":"a"}`, 262_100), []string{"spec.namespace", "spec.namespaceSelector"}},
		{"no room for a version that is no label", object("v1beta1", `{"customVersion":"a b"}`, 262_100), []string{"spec.customVersion"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range conversion.Check([]byte(tc.object)) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
