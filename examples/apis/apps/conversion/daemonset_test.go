package conversion_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func daemonSetToBeta(t *testing.T, obj *v1alpha1.DaemonSet) *v1beta1.DaemonSet {
	t.Helper()
	result, err := to[v1beta1.DaemonSet](obj)
	if err != nil {
		t.Fatalf("DaemonSetToV1beta1() = %v", err)
	}
	return result
}

func daemonSetToAlpha(t *testing.T, obj *v1beta1.DaemonSet) *v1alpha1.DaemonSet {
	t.Helper()
	result, err := to[v1alpha1.DaemonSet](obj)
	if err != nil {
		t.Fatalf("DaemonSetToV1alpha1() = %v", err)
	}
	return result
}

// daemonSetWords sets values that conversion treats specially, because the filler rarely produces such values.
func (f *filler) daemonSetWords(meta *metav1.ObjectMeta, strategy *v1beta1.DaemonSetUpdateStrategy) {
	types := []v1beta1.RollingUpdateType{"", "Standard", "InPlaceIfPossible", "Surging"}
	if rolling := strategy.RollingUpdate; rolling != nil {
		rolling.RollingUpdateType = types[f.choose(len(types))]
	}
	if value := []string{"", "true", "false", "yes"}[f.choose(4)]; value != "" {
		if meta.Annotations == nil {
			meta.Annotations = map[string]string{}
		}
		meta.Annotations[apps.AnnotationProgressiveCreate] = value
	}
}

func randomBetaDaemonSet(data []byte) *v1beta1.DaemonSet {
	obj := &v1beta1.DaemonSet{}
	obj.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("DaemonSet"))
	f := &filler{data}
	f.object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	f.daemonSetWords(&obj.ObjectMeta, &obj.Spec.UpdateStrategy)
	return obj
}

func randomAlphaDaemonSet(data []byte) *v1alpha1.DaemonSet {
	obj := &v1alpha1.DaemonSet{}
	obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DaemonSet"))
	f := &filler{data}
	f.object(&obj.ObjectMeta, &obj.Spec, &obj.Status)
	f.daemonSetWords(&obj.ObjectMeta, &obj.Spec.UpdateStrategy)
	return obj
}

// checkBetaDaemonSet converts an object to the second version and back, twice, as Go types and as JSON. The original
// object must not change.
func checkBetaDaemonSet(t *testing.T, obj *v1beta1.DaemonSet) {
	t.Helper()
	untouched := obj.DeepCopy()
	shown := daemonSetToAlpha(t, obj)
	shownBefore := shown.DeepCopy()
	back := daemonSetToBeta(t, shown)
	for _, difference := range []string{
		cmp.Diff(obj, back, cmpopts.EquateEmpty()), cmp.Diff(shown, daemonSetToAlpha(t, back), cmpopts.EquateEmpty()),
		cmp.Diff(untouched, obj), cmp.Diff(shownBefore, shown),
	} {
		if difference != "" {
			t.Errorf("through v1alpha1 (-want +got):\n%s", difference)
		}
	}
	var viaJSON v1alpha1.DaemonSet
	decodeJSON(t, converted(t, encoded(t, obj), "v1alpha1"), &viaJSON)
	if diff := cmp.Diff(*shown, viaJSON, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("serialised (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(string(encoded(t, obj)), string(encoded(t, fromJSON[v1beta1.DaemonSet](t, converted(t, encoded(t, shown), "v1beta1"))))); diff != "" {
		t.Errorf("serialised, back (-want +got):\n%s", diff)
	}
}

func checkAlphaDaemonSet(t *testing.T, obj *v1alpha1.DaemonSet) {
	t.Helper()
	stored := daemonSetToBeta(t, obj)
	back := daemonSetToAlpha(t, stored)
	if diff := cmp.Diff(obj, back, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("through v1beta1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stored, daemonSetToBeta(t, back), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("second conversion to v1beta1 (-first +second):\n%s", diff)
	}
	var viaJSON v1beta1.DaemonSet
	decodeJSON(t, converted(t, encoded(t, obj), "v1beta1"), &viaJSON)
	if diff := cmp.Diff(*stored, viaJSON, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("serialised (-want +got):\n%s", diff)
	}
}

func encoded(t *testing.T, obj any) []byte {
	t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func decodeJSON(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func fromJSON[T any](t *testing.T, raw []byte) T {
	t.Helper()
	var obj T
	decodeJSON(t, raw, &obj)
	return obj
}

func converted(t *testing.T, object []byte, version string) []byte {
	t.Helper()
	raw, err := conversion.JSON(object, "apps.kruise.io/"+version)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func FuzzDaemonSetV1beta1RoundTrip(f *testing.F) {
	addDaemonSetSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkBetaDaemonSet(t, randomBetaDaemonSet(data)) })
}

func FuzzDaemonSetV1alpha1RoundTrip(f *testing.F) {
	addDaemonSetSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkAlphaDaemonSet(t, randomAlphaDaemonSet(data)) })
}

func addDaemonSetSeeds(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, length := range []int{0, 20, 100, 300} {
		data := make([]byte, length)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
}

// TestRandomDaemonSetRoundTrips checks a fixed set of random objects in every run; the fuzz test checks further
// objects.
func TestRandomDaemonSetRoundTrips(t *testing.T) {
	const rounds, length = 300, 400
	random := rand.NewChaCha8([32]byte{2})
	data := make([]byte, length)
	for range rounds {
		if _, err := random.Read(data); err != nil {
			t.Fatal(err)
		}
		checkBetaDaemonSet(t, randomBetaDaemonSet(data))
		checkAlphaDaemonSet(t, randomAlphaDaemonSet(data))
		if t.Failed() {
			t.Fatalf("with data %q", data)
		}
	}
}

func rollingUpdate(kind v1beta1.RollingUpdateType) v1beta1.DaemonSetUpdateStrategy {
	return v1beta1.DaemonSetUpdateStrategy{
		Type: "RollingUpdate", RollingUpdate: &v1beta1.RollingUpdateDaemonSet{RollingUpdateType: kind, MaxUnavailable: ptr(intstr.FromInt32(2))},
	}
}

func TestDaemonSetToV1beta1(t *testing.T) {
	progressive := func(value string) map[string]string {
		return map[string]string{apps.AnnotationProgressiveCreate: value, "other": "1"}
	}
	tests := []struct {
		name            string
		annotations     map[string]string
		in, want        v1beta1.DaemonSetUpdateStrategy
		wantScale       *v1beta1.DaemonSetScaleStrategy
		wantAnnotations map[string]string
		wantNote        bool
	}{
		{name: "V-44 no annotation"},
		{
			name: "V-44 the annotation becomes a field, V-45 and stays", annotations: progressive("true"), wantAnnotations: progressive("true"),
			wantScale: &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true},
		},
		{name: "V-44 another value is none", annotations: progressive("True"), wantAnnotations: progressive("True")},
		{name: "V-44 Surging, D-30 with the numbers as they are", in: rollingUpdate("Surging"), want: rollingUpdate("Standard"), wantNote: true},
		{name: "V-44 another type", in: rollingUpdate("InPlaceIfPossible"), want: rollingUpdate("InPlaceIfPossible")},
		{name: "V-44 an unknown type", in: rollingUpdate("Blue"), want: rollingUpdate("Blue")},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in := &v1alpha1.DaemonSet{}
			in.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DaemonSet"))
			in.Annotations, in.Spec.UpdateStrategy = tc.annotations, tc.in
			in.Status = v1alpha1.DaemonSetStatus{DaemonSetHash: "abc", NumberReady: 3}
			got := daemonSetToBeta(t, in)
			if _, note := got.Annotations[apps.AnnotationV1alpha1Only]; note != tc.wantNote {
				t.Errorf("note = %q, want one: %t", got.Annotations[apps.AnnotationV1alpha1Only], tc.wantNote)
			}
			delete(got.Annotations, apps.AnnotationV1alpha1Only)
			if diff := cmp.Diff(tc.wantAnnotations, got.Annotations, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			want := v1beta1.DaemonSetSpec{UpdateStrategy: tc.want, ScaleStrategy: tc.wantScale}
			if diff := cmp.Diff(want, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(v1beta1.DaemonSetStatus{UpdateRevision: "abc", NumberReady: 3}, got.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			checkAlphaDaemonSet(t, in)
		})
	}
}

func TestDaemonSetToV1alpha1(t *testing.T) {
	annotated := func(value string) map[string]string {
		return map[string]string{apps.AnnotationProgressiveCreate: value}
	}
	on, off := &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}, &v1beta1.DaemonSetScaleStrategy{}
	tests := []struct {
		name        string
		annotations map[string]string
		scale       *v1beta1.DaemonSetScaleStrategy
		want        map[string]string
		wantNote    bool
	}{
		{name: "V-44 unset"},
		{name: "V-44 true", scale: on, want: annotated("true"), wantNote: true},
		{name: "V-44 true with the annotation", scale: on, annotations: annotated("true"), want: annotated("true")},
		{name: "V-44 true with the annotation false", scale: on, annotations: annotated("false"), want: annotated("true"), wantNote: true},
		{name: "V-44 false", scale: off, wantNote: true},
		{name: "V-44 false takes the annotation away", scale: off, annotations: annotated("true"), wantNote: true},
		{name: "V-44 unset takes the annotation away", annotations: annotated("true"), wantNote: true},
		{name: "V-44 unset with the annotation false", annotations: annotated("false"), want: annotated("false")},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in := &v1beta1.DaemonSet{}
			in.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("DaemonSet"))
			in.Annotations, in.Spec.ScaleStrategy = tc.annotations, tc.scale
			got := daemonSetToAlpha(t, in)
			if _, note := got.Annotations[apps.AnnotationV1beta1Only]; note != tc.wantNote {
				t.Errorf("note = %q, want one: %t", got.Annotations[apps.AnnotationV1beta1Only], tc.wantNote)
			}
			delete(got.Annotations, apps.AnnotationV1beta1Only)
			if diff := cmp.Diff(tc.want, got.Annotations, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			checkBetaDaemonSet(t, in)
		})
	}
}

// TestDaemonSetMergeRule edits the converted object, in the version that lacks some of the original's fields, and
// converts the object back.
func TestDaemonSetMergeRule(t *testing.T) {
	t.Run("V-44 switched off in v1beta1, it stays off when v1alpha1 writes", func(t *testing.T) {
		stored := &v1beta1.DaemonSet{}
		stored.Annotations = map[string]string{apps.AnnotationProgressiveCreate: "true"}
		stored.Spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{}
		shown := daemonSetToAlpha(t, stored)
		shown.Spec.MinReadySeconds = 5
		got := daemonSetToBeta(t, shown)
		if scale := got.Spec.ScaleStrategy; scale == nil || scale.PartitionedScaling {
			t.Errorf("scaleStrategy %+v", scale)
		}
	})
	t.Run("V-44 switched on in v1alpha1", func(t *testing.T) {
		stored := &v1beta1.DaemonSet{}
		stored.Spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{}
		shown := daemonSetToAlpha(t, stored)
		shown.Annotations[apps.AnnotationProgressiveCreate] = "true"
		got := daemonSetToBeta(t, shown)
		if scale := got.Spec.ScaleStrategy; scale == nil || !scale.PartitionedScaling {
			t.Errorf("scaleStrategy %+v", scale)
		}
	})
	t.Run("V-44 switched off in v1alpha1", func(t *testing.T) {
		stored := &v1beta1.DaemonSet{}
		stored.Spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
		shown := daemonSetToAlpha(t, stored)
		delete(shown.Annotations, apps.AnnotationProgressiveCreate)
		if got := daemonSetToBeta(t, shown); got.Spec.ScaleStrategy != nil || len(got.Annotations) > 0 {
			t.Errorf("scaleStrategy %+v, annotations %v", got.Spec.ScaleStrategy, got.Annotations)
		}
	})
	t.Run("V-44 Surging goes with the type of update", func(t *testing.T) {
		stored := daemonSetToBeta(t, &v1alpha1.DaemonSet{Spec: v1alpha1.DaemonSetSpec{UpdateStrategy: rollingUpdate("Surging")}})
		stored.Spec.UpdateStrategy.Type = "OnDelete"
		if got := daemonSetToAlpha(t, stored).Spec.UpdateStrategy.RollingUpdate.RollingUpdateType; got != "Standard" {
			t.Errorf("rollingUpdateType %q", got)
		}
	})
	surging := &v1alpha1.DaemonSet{Spec: v1alpha1.DaemonSetSpec{UpdateStrategy: rollingUpdate("Surging")}}
	for name, tc := range map[string]struct {
		edit func(*v1beta1.RollingUpdateDaemonSet)
		want v1beta1.RollingUpdateType
	}{
		"V-44 an unrelated edit keeps Surging":    {func(ru *v1beta1.RollingUpdateDaemonSet) { ru.Paused = ptr(true) }, "Surging"},
		"V-44 another type replaces Surging":      {func(ru *v1beta1.RollingUpdateDaemonSet) { ru.RollingUpdateType = "InPlaceIfPossible" }, "InPlaceIfPossible"},
		"V-44 no type is no edit back to Surging": {func(ru *v1beta1.RollingUpdateDaemonSet) { ru.RollingUpdateType = "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			stored := daemonSetToBeta(t, surging)
			tc.edit(stored.Spec.UpdateStrategy.RollingUpdate)
			if got := daemonSetToAlpha(t, stored).Spec.UpdateStrategy.RollingUpdate.RollingUpdateType; got != tc.want {
				t.Errorf("rollingUpdateType %q, want %q", got, tc.want)
			}
		})
	}
}

// TestDaemonSetReservedKeys puts the note of each version on an object of the other version. Conversion must remove
// the note.
func TestDaemonSetReservedKeys(t *testing.T) {
	const kept = `{"when":[""],"fields":[{"path":["spec","updateStrategy","type"],"kept":"OnDelete"}]}`
	alpha, beta := &v1alpha1.DaemonSet{}, &v1beta1.DaemonSet{}
	alpha.Annotations = map[string]string{apps.AnnotationV1alpha1Only: kept}
	beta.Annotations = map[string]string{apps.AnnotationV1beta1Only: kept}
	if got := daemonSetToBeta(t, alpha); got.Annotations != nil || got.Spec.UpdateStrategy.Type != "" {
		t.Errorf("on v1beta1: %v", got)
	}
	if got := daemonSetToAlpha(t, beta); got.Annotations != nil || got.Spec.UpdateStrategy.Type != "" {
		t.Errorf("on v1alpha1: %v", got)
	}
}

// TestDaemonSetNotesAreForeign: a note restores only fields in the kind's conversion table, because any user may
// write notes.
func TestDaemonSetNotesAreForeign(t *testing.T) {
	for _, key := range []string{"a", apps.AnnotationImagePreDownloadParallelism, apps.AnnotationV1beta1Only} {
		beta := &v1beta1.DaemonSet{}
		beta.Annotations = map[string]string{apps.AnnotationV1alpha1Only: `{"when":[""],"fields":[{"path":["metadata","annotations","` + key + `"],"kept":"x"}]}`}
		if got := daemonSetToAlpha(t, beta).Annotations; len(got) > 0 {
			t.Errorf("annotations %v", got)
		}
	}
	labels := &v1alpha1.DaemonSet{}
	labels.Annotations = map[string]string{
		apps.AnnotationV1beta1Only: `{"when":[""],"fields":[{"path":["metadata","labels","` + apps.LabelExcludePreparingDelete + `"],"kept":"x"}]}`,
	}
	if got := daemonSetToBeta(t, labels).Labels; len(got) > 0 {
		t.Errorf("labels %v", got)
	}
}

func TestDaemonSetJSON(t *testing.T) {
	const object = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"DaemonSet",` +
		`"metadata":{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true"},"future":1,"name":"agent"},"spec":{"selector":{},` +
		`"template":{"metadata":{"creationTimestamp":null},"spec":{"future":{"b":1.0,"a":[null]}}},` +
		`"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"InPlaceIfPossible"}}},"status":{"daemonSetHash":"abc","future":2,"numberReady":1}}`
	const want = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet",` +
		`"metadata":{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true"},"future":1,"name":"agent"},"spec":{` +
		`"scaleStrategy":{"partitionedScaling":true},"selector":{},` +
		`"template":{"metadata":{"creationTimestamp":null},"spec":{"future":{"b":1.0,"a":[null]}}},` +
		`"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"InPlaceIfPossible"}}},"status":{"future":2,"numberReady":1,"updateRevision":"abc"}}`
	beta := converted(t, []byte(object), "v1beta1")
	if diff := cmp.Diff(want, string(beta)); diff != "" {
		t.Errorf("V-44 as v1beta1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(object, string(converted(t, beta, "v1alpha1"))); diff != "" {
		t.Errorf("V-44 and back (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, string(converted(t, beta, "v1beta1"))); diff != "" {
		t.Errorf("to its own version (-want +got):\n%s", diff)
	}
	for object, version := range map[string]string{
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet"}`: "apps.kruise.io/v2",
		`{"apiVersion":"apps.kruise.io/v2","kind":"DaemonSet"}`:      "apps.kruise.io/v1beta1",
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"Daemonset"}`: "apps.kruise.io/v1alpha1",
	} {
		if _, err := conversion.JSON([]byte(object), version); !errors.Is(err, conversion.ErrUnknown) {
			t.Errorf("JSON(%s, %s) = %v, want ErrUnknown", object, version, err)
		}
	}
}

// TestHostileDaemonSets converts unusual objects that users can store. No conversion may fail or lose the template.
func TestHostileDaemonSets(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	for name, object := range map[string]string{
		"a template that is a number":   `{"spec":{"template":5}}`,
		"a quantity that is none":       `{"spec":{"template":{"spec":{"overhead":{"cpu":"oops"}}}}}`,
		"numbers that no Go type takes": `{"spec":{"burstReplicas":3000000000,"updateStrategy":{"rollingUpdate":{"maxSurge":1e30,"partition":-3000000000}}}}`,
		"times that no Go type takes":   `{"spec":{},"status":{"conditions":[{"lastTransitionTime":"2026-01-01t00:00:00z"}]}}`,
		"annotations that leave no room": `{"metadata":{"annotations":{"a":"` + long[:262_100] + `"}},` +
			`"spec":{"scaleStrategy":{"partitionedScaling":true},"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Surging"}}}}`,
		"nulls": `{"metadata":null,"spec":null,"status":null}`,
		"a note that restores a template": `{"metadata":{"annotations":{"workloadkit.io/v1beta1-only":"{\"fields\":[{\"path\":[\"spec\",\"template\"],\"kept\":5}]}",` +
			`"workloadkit.io/v1alpha1-only":"{\"fields\":[{\"path\":[\"spec\",\"template\"],\"kept\":5}]}"}},"spec":{"template":{}}}`,
		"a note that makes a number of the scale strategy": `{"metadata":{"annotations":{` +
			`"workloadkit.io/v1beta1-only":"{\"fields\":[{\"path\":[\"spec\",\"scaleStrategy\"],\"kept\":5}]}"}},"spec":{"template":{}}}`,
	} {
		for from, to := range map[string]string{"v1beta1": "v1alpha1", "v1alpha1": "v1beta1"} {
			t.Run(from+" "+name, func(t *testing.T) {
				head := `{"apiVersion":"apps.kruise.io/` + from + `","kind":"DaemonSet",`
				there := converted(t, []byte(head+strings.TrimPrefix(object, "{")), to)
				stored(t, there)
				back := converted(t, there, from)
				stored(t, back)
				was, is := fromJSON[struct{ Spec map[string]json.RawMessage }](t, []byte(object)), fromJSON[struct{ Spec map[string]json.RawMessage }](t, back)
				if diff := cmp.Diff(string(was.Spec["template"]), string(is.Spec["template"])); diff != "" {
					t.Errorf("template (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestCheckDaemonSet: Check refuses an object if the values to keep do not fit into the annotation on the converted
// object.
func TestCheckDaemonSet(t *testing.T) {
	object := func(version, spec string, annotation int) string {
		return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"DaemonSet","metadata":{"annotations":{"a":"` + strings.Repeat("x", annotation) +
			`"}},"spec":` + spec + `}`
	}
	const scaling, surging = `{"scaleStrategy":{"partitionedScaling":true}}`, `{"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Surging"}}}`
	for _, tc := range []struct {
		name, object string
		want         []string
	}{
		{"little", object("v1beta1", scaling, 1), nil},
		{"room", object("v1beta1", scaling, 200_000), nil},
		{"no room for the annotation", object("v1beta1", scaling, 262_120), []string{"spec.scaleStrategy"}},
		{"room for Surging", object("v1alpha1", surging, 200_000), nil},
		{"no room for Surging", object("v1alpha1", surging, 262_100), []string{"spec.updateStrategy"}},
		{"another kind", `{"apiVersion":"apps.kruise.io/v1beta1","kind":"Other","metadata":{"annotations":{"a":"` + strings.Repeat("x", 99_999) + `"}}}`, []string{"spec"}},
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
