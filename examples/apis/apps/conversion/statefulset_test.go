package conversion_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func setToBeta(t *testing.T, obj *v1alpha1.StatefulSet) *v1beta1.StatefulSet {
	t.Helper()
	result, err := to[v1beta1.StatefulSet](obj)
	if err != nil {
		t.Fatalf("StatefulSetToV1beta1() = %v", err)
	}
	return result
}

func setToAlpha(t *testing.T, obj *v1beta1.StatefulSet) *v1alpha1.StatefulSet {
	t.Helper()
	result, err := to[v1alpha1.StatefulSet](obj)
	if err != nil {
		t.Fatalf("StatefulSetToV1alpha1() = %v", err)
	}
	return result
}

func randomBetaSet(data []byte) *v1beta1.StatefulSet {
	obj := &v1beta1.StatefulSet{}
	obj.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("StatefulSet"))
	(&filler{data}).object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	return obj
}

func randomAlphaSet(data []byte) *v1alpha1.StatefulSet {
	obj := &v1alpha1.StatefulSet{}
	obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("StatefulSet"))
	(&filler{data}).object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	return obj
}

// checkBetaSet converts an object to v1alpha1 and back, as Go types and as JSON. The original object must not change.
func checkBetaSet(t *testing.T, obj *v1beta1.StatefulSet) {
	t.Helper()
	untouched := obj.DeepCopy()
	shown := setToAlpha(t, obj)
	shownBefore := shown.DeepCopy()
	if diff := cmp.Diff(obj, setToBeta(t, shown), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("through v1alpha1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(untouched, obj); diff != "" {
		t.Errorf("StatefulSetToV1alpha1() changed its argument:\n%s", diff)
	}
	if diff := cmp.Diff(shownBefore, shown); diff != "" {
		t.Errorf("StatefulSetToV1beta1() changed its argument:\n%s", diff)
	}
	var typed v1alpha1.StatefulSet
	convertedJSON(t, obj, "v1alpha1", &typed)
	if diff := cmp.Diff(shown, &typed, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Go types and JSON of v1alpha1 (-types +JSON):\n%s", diff)
	}
}

func checkAlphaSet(t *testing.T, obj *v1alpha1.StatefulSet) {
	t.Helper()
	stored := setToBeta(t, obj)
	if diff := cmp.Diff(obj, setToAlpha(t, stored), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("through v1beta1 (-want +got):\n%s", diff)
	}
	var typed v1beta1.StatefulSet
	convertedJSON(t, obj, "v1beta1", &typed)
	if diff := cmp.Diff(stored, &typed, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Go types and JSON of v1beta1 (-types +JSON):\n%s", diff)
	}
}

func convertedJSON(t *testing.T, obj any, version string, into any) {
	t.Helper()
	encoded, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err = conversion.JSON(encoded, "apps.kruise.io/"+version)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encoded, into); err != nil {
		t.Fatal(err)
	}
}

func FuzzStatefulSetV1beta1RoundTrip(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) { checkBetaSet(t, randomBetaSet(data)) })
}

func FuzzStatefulSetV1alpha1RoundTrip(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) { checkAlphaSet(t, randomAlphaSet(data)) })
}

// TestRandomStatefulSetRoundTrips checks a fixed set of random objects in every run; the fuzz test checks further
// objects.
func TestRandomStatefulSetRoundTrips(t *testing.T) {
	const rounds, length = 400, 400
	random := rand.NewChaCha8([32]byte{2})
	data := make([]byte, length)
	for range rounds {
		if _, err := random.Read(data); err != nil {
			t.Fatal(err)
		}
		checkBetaSet(t, randomBetaSet(data))
		checkAlphaSet(t, randomAlphaSet(data))
		if t.Failed() {
			t.Fatalf("with data %q", data)
		}
	}
}

// FuzzStatefulSetForeignNote: whatever users write into the annotation, the conversion result is valid.
func FuzzStatefulSetForeignNote(f *testing.F) {
	f.Add(`{"fields":[{"path":["spec","reserveOrdinals"],"kept":7}]}`)
	f.Add(`{"fields":[{"path":["spec","reserveOrdinals"],"kept":[3000000000]}]}`)
	f.Add(`{"fields":[{"path":["spec","template"],"kept":{}},{"path":["spec"],"kept":{}},{"path":[]}]}`)
	f.Add(`{"fields":[{"path":["spec","lifecycle","preDelete"],"kept":{}},{"path":["spec","lifecycle"],"shown":{},"kept":{}}]}`)
	f.Add(`{"fields":[{"path":["spec","ordinals"],"kept":{"start":1}},{"path":["spec","ordinals"],"kept":{"start":2}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		alpha := randomAlphaSet(nil)
		alpha.Annotations = map[string]string{"workloadkit.io/v1beta1-only": text}
		stored, err := to[v1beta1.StatefulSet](alpha)
		var problem decode.Problem
		switch {
		case err == nil:
			checkBetaSet(t, stored)
		case !errors.As(err, &problem) || problem.Path == "":
			t.Errorf("%v does not say where", err)
		}
		encoded, err := json.Marshal(alpha)
		if err == nil {
			encoded, err = conversion.JSON(encoded, "apps.kruise.io/v1beta1")
		}
		if err != nil {
			t.Error(err)
		}
		var whole v1beta1.StatefulSet
		if err := json.Unmarshal(encoded, &whole); err != nil {
			t.Errorf("v1beta1 as JSON is %s: %v", encoded, err)
		}
	})
}

// TestStatefulSetToV1alpha1: only the annotation contains the fields that v1alpha1 lacks, and the fields come back
// unless a user edits the annotation.
func TestStatefulSetToV1alpha1(t *testing.T) {
	budget := intstr.FromString("30%")
	tests := []struct {
		name string
		edit func(*v1beta1.StatefulSetSpec)
		note string // the fields of the note
	}{
		{"V-43 nothing", func(*v1beta1.StatefulSetSpec) {}, ""},
		{"V-43 what both versions have", func(spec *v1beta1.StatefulSetSpec) {
			spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateStatefulSet{Partition: ptr[int32](2), UnorderedUpdate: &v1beta1.UnorderedUpdate{}}
		}, ""},
		{
			"V-43 volumeClaimUpdateStrategy", func(spec *v1beta1.StatefulSetSpec) { spec.VolumeClaimUpdateStrategy.Type = "OnPodRollingUpdate" },
			`{"path":["spec","volumeClaimUpdateStrategy"],"kept":{"type":"OnPodRollingUpdate"}}`,
		},
		{"V-43 reserveOrdinals", func(spec *v1beta1.StatefulSetSpec) {
			spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(-1), intstr.FromString("x<y")}
		}, `{"path":["spec","reserveOrdinals"],"kept":[-1,"x\u003cy"]}`},
		{"V-43 lifecycle", func(spec *v1beta1.StatefulSetSpec) {
			spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{MarkPodNotReady: true}}
		}, `{"path":["spec","lifecycle"],"kept":{"preDelete":{"markPodNotReady":true}}}`},
		{"V-43 scaleStrategy", func(spec *v1beta1.StatefulSetSpec) {
			spec.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: &budget}
		}, `{"path":["spec","scaleStrategy"],"kept":{"maxUnavailable":"30%"}}`},
		{"V-43 persistentVolumeClaimRetentionPolicy and ordinals", func(spec *v1beta1.StatefulSetSpec) {
			spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Blue"}
			spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
		}, `{"path":["spec","ordinals"],"kept":{"start":5}},{"path":["spec","persistentVolumeClaimRetentionPolicy"],"kept":{"whenScaled":"Blue"}}`},
		{"V-43 empty objects", func(spec *v1beta1.StatefulSetSpec) {
			spec.Lifecycle, spec.ScaleStrategy, spec.Ordinals = &pub.Lifecycle{}, &v1beta1.StatefulSetScaleStrategy{}, &appsv1.StatefulSetOrdinals{}
		}, `{"path":["spec","lifecycle"],"kept":{}},{"path":["spec","ordinals"],"kept":{"start":0}},{"path":["spec","scaleStrategy"],"kept":{}}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in := &v1beta1.StatefulSet{}
			in.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("StatefulSet"))
			in.Labels, in.Annotations, in.Finalizers = map[string]string{"a": "b"}, map[string]string{"c": "d"}, []string{"e"}
			in.Status.VolumeClaims, in.Status.UpdatedReadyReplicas = []v1beta1.VolumeClaimStatus{{VolumeClaimName: "data"}}, 2
			tc.edit(&in.Spec)
			shown := setToAlpha(t, in)
			want := *in.ObjectMeta.DeepCopy()
			if tc.note != "" {
				want.Annotations[apps.AnnotationV1beta1Only] = `{"fields":[` + tc.note + `]}`
			}
			if diff := cmp.Diff(want, shown.ObjectMeta); diff != "" {
				t.Errorf("V-45 metadata (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(in.Status, shown.Status); diff != "" {
				t.Errorf("V-43 status (-want +got):\n%s", diff)
			}
			checkBetaSet(t, in)
			shown.Spec.Replicas, shown.Spec.UpdateStrategy.Type = ptr[int32](7), "OnDelete"
			in.Spec.Replicas, in.Spec.UpdateStrategy.Type = ptr[int32](7), "OnDelete"
			if diff := cmp.Diff(in, setToBeta(t, shown)); diff != "" {
				t.Errorf("V-43 after an edit of v1alpha1 (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStatefulSetShares: writes to the result of a conversion do not change the source.
func TestStatefulSetShares(t *testing.T) {
	in := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	in.Spec.Template.Labels = map[string]string{"a": "b"}
	shown := setToAlpha(t, in)
	shown.Labels["a"], shown.Spec.Template.Labels["a"] = "c", "c"
	back := setToBeta(t, shown)
	back.Labels["a"], back.Spec.Template.Labels["a"] = "d", "d"
	if in.Labels["a"] != "b" || in.Spec.Template.Labels["a"] != "b" || shown.Labels["a"] != "c" || shown.Spec.Template.Labels["a"] != "c" {
		t.Errorf("memory is shared: %v, %v", in, shown)
	}
}

// TestStatefulSetReservedKeys: conversion drops a note on an object of the wrong version, and unknown entries of a
// note.
func TestStatefulSetReservedKeys(t *testing.T) {
	const kept = `{"fields":[{"path":["spec","ordinals"],"kept":{"start":3}}]}`
	alpha := &v1alpha1.StatefulSet{}
	alpha.Annotations = map[string]string{apps.AnnotationV1alpha1Only: kept}
	stored := setToBeta(t, alpha)
	if stored.Annotations != nil || stored.Spec.Ordinals != nil {
		t.Errorf("on v1beta1: %v, %v", stored.Annotations, stored.Spec.Ordinals)
	}
	stored.Annotations = map[string]string{apps.AnnotationV1beta1Only: kept, apps.AnnotationV1alpha1Only: kept}
	if shown := setToAlpha(t, stored); shown.Annotations != nil {
		t.Errorf("on v1alpha1: %v", shown.Annotations)
	}
}

// TestStatefulSetJSONKeepsAll: conversion keeps values that the Go types lack or cannot hold, and invalid values come
// back unchanged.
func TestStatefulSetJSONKeepsAll(t *testing.T) {
	for name, spec := range map[string]string{
		"unknown fields": `{"selector":{},"template":{"metadata":{"creationTimestamp":null},"spec":{"future":{"b":1.0,"a":[null]}}},` +
			`"volumeClaimTemplates":[{"future":true}],"future":1,"updateStrategy":{"future":2},"lifecycle":{"future":3}}`,
		"numbers of more than 32 bits":  `{"reserveOrdinals":[3000000000,9007199254740993,"5-3"],"scaleStrategy":{"maxUnavailable":-3000000000},"ordinals":{"start":3000000000}}`,
		"values that mean nothing":      `{"reserveOrdinals":["x",""],"volumeClaimUpdateStrategy":{"type":"Blue"},"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Blue"}}`,
		"empty ones":                    `{"reserveOrdinals":[],"lifecycle":{},"ordinals":{}}`,
		"templates that make no sense":  `{"template":5,"volumeClaimTemplates":[7],"reserveOrdinals":[1]}`,
		"a quantity that takes minutes": `{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e-200000000"}}}]}},"ordinals":{"start":1}}`,
		"keys in another case":          `{"ReserveOrdinals":5,"LIFECYCLE":6,"lifecycle":{"PreDelete":7}}`,
	} {
		t.Run(name, func(t *testing.T) {
			object := `{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":{"name":"db","future":1,"annotations":{"a":"b"}},` +
				`"spec":` + spec + `,"status":{"future":1,"conditions":[{"lastTransitionTime":"2026-01-01t00:00:00z"}]}}`
			alpha, err := conversion.JSON([]byte(object), "apps.kruise.io/v1alpha1")
			if err != nil {
				t.Fatal(err)
			}
			var shown struct{ Spec map[string]json.RawMessage }
			if err := json.Unmarshal(alpha, &shown); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"lifecycle", "ordinals", "persistentVolumeClaimRetentionPolicy", "reserveOrdinals", "scaleStrategy", "volumeClaimUpdateStrategy"} {
				if raw, ok := shown.Spec[key]; ok {
					t.Errorf("v1alpha1 has %s: %s", key, raw)
				}
			}
			beta, err := conversion.JSON(alpha, "apps.kruise.io/v1beta1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(numbersAsTheyAre(t, object), numbersAsTheyAre(t, string(beta))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func numbersAsTheyAre(t *testing.T, object string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(object))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestStatefulSetHostile converts notes written by users. No conversion may fail, or bring back values refused by the
// API server.
func TestStatefulSetHostile(t *testing.T) {
	for name, fields := range map[string]string{
		"a template":               `{"path":["spec","template"],"kept":5}`,
		"no path":                  `{"path":[],"kept":5}`,
		"metadata":                 `{"path":["metadata","labels"],"kept":{"a":"b"}}`,
		"a label":                  `{"path":["metadata","labels","apps.kruise.io/cloneset-scaling-exclude-preparing-delete"],"kept":"true"}`,
		"below a field":            `{"path":["spec","lifecycle","preDelete"],"kept":{}}`,
		"a type that is wrong":     `{"path":["spec","lifecycle"],"kept":[]}`,
		"a number that is broken":  `{"path":["spec","ordinals"],"kept":{"start":1.5}}`,
		"an entry that is no text": `{"path":["spec","reserveOrdinals"],"kept":[{}]}`,
		"a value that was shown":   `{"path":["spec","ordinals"],"shown":{"start":2},"kept":{"start":1}}`,
		"nothing":                  `{"path":["spec","ordinals"],"kept":null}`,
		"another case":             `{"path":["spec","Ordinals"],"kept":{"start":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			note, err := json.Marshal(`{"fields":[` + fields + `]}`)
			if err != nil {
				t.Fatal(err)
			}
			object := fmt.Sprintf(`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","metadata":{"annotations":{%q:%s}},"spec":{"replicas":1}}`,
				apps.AnnotationV1beta1Only, note)
			got, err := conversion.JSON([]byte(object), "apps.kruise.io/v1beta1")
			if err != nil {
				t.Fatal(err)
			}
			const want = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":{},"spec":{"replicas":1}}`
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for object, want := range map[string]string{
		`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","metadata":{"annotations":{"workloadkit.io/v1beta1-only":` +
			`"{\"fields\":[{\"path\":[\"spec\",\"ordinals\"],\"kept\":{\"start\":1}}]}"}},"spec":{"ordinals":{"start":2}}}`: `{"apiVersion":"apps.kruise.io/v1beta1",` +
			`"kind":"StatefulSet","metadata":{},"spec":{"ordinals":{"start":2}}}`,
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","spec":{"lifecycle":null}}`: `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","metadata":{},"spec":{}}`,
	} {
		other := map[bool]string{true: "apps.kruise.io/v1beta1", false: "apps.kruise.io/v1alpha1"}[strings.Contains(object, "v1alpha1\"")]
		got, err := conversion.JSON([]byte(object), other)
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("JSON(%s): %v (-want +got):\n%s", object, err, diff)
		}
	}
	for _, object := range []string{
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":null,"spec":null}`,
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet"}`,
	} {
		if _, err := conversion.JSON([]byte(object), "apps.kruise.io/v1alpha1"); err != nil {
			t.Errorf("JSON(%s) = %v", object, err)
		}
	}
	for _, object := range []string{
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","spec":[]}`,
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":{"annotations":5}}`,
	} {
		if _, err := conversion.JSON([]byte(object), "apps.kruise.io/v1alpha1"); err == nil {
			t.Errorf("JSON(%s) succeeded", object)
		}
	}
}

// TestStatefulSetCheck: Check refuses an object if the values to keep do not fit into the annotation on the converted
// object. Conversion still converts such an object.
func TestStatefulSetCheck(t *testing.T) {
	object := func(reserved, annotation int) string {
		return `{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","metadata":{"annotations":{"a":"` + strings.Repeat("x", annotation) + `"}},` +
			`"spec":{"ordinals":{"start":5},"reserveOrdinals":["` + strings.Repeat("1", reserved) + `"]}}`
	}
	for _, tc := range []struct {
		name, object string
		want         []string
	}{
		{"little", object(1, 1), nil},
		{"much, with room", object(200_000, 1), nil},
		{"too much", object(300_000, 1), []string{"spec.reserveOrdinals"}},
		{"too much beside other annotations", object(100_000, 200_000), []string{"spec.reserveOrdinals"}},
		{"no room for anything", object(100_000, 262_100), []string{"spec.ordinals", "spec.reserveOrdinals"}},
		{"v1alpha1", `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","spec":{"replicas":1}}`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range conversion.Check([]byte(tc.object)) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if _, err := conversion.JSON([]byte(tc.object), "apps.kruise.io/v1alpha1"); err != nil {
				t.Errorf("not converted: %v", err)
			}
		})
	}
}
