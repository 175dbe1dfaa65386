package revision_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/revision"
)

var keys = revision.Keys{HashLabel: "controller.kubernetes.io/hash"}

func owner() revision.Owner {
	return revision.Owner{
		Namespace: "default", Name: "web",
		Reference:   metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Web", Name: "web", UID: "u1", Controller: new(true)},
		Annotations: map[string]string{"note": "n"},
	}
}

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
	}
}

// decide returns the decision for a template.
func decide(t testing.TB, k revision.Keys, tmpl *corev1.PodTemplateSpec, collisions *int32, d *revision.Decoder, existing ...*appsv1.ControllerRevision) revision.Decision {
	t.Helper()
	decision, err := history(t, k, collisions, d, existing...).Decide(tmpl)
	if err != nil {
		t.Fatal(err)
	}
	return decision
}

func history(t testing.TB, k revision.Keys, collisions *int32, d *revision.Decoder, existing ...*appsv1.ControllerRevision) *revision.History {
	t.Helper()
	histories, err := revision.NewHistories(k, d)
	if err != nil {
		t.Fatal(err)
	}
	return histories.Of(owner(), collisions, existing)
}

func newDecoder() *revision.Decoder { return revision.NewDecoder(100, nil) }

// stored returns a revision as stored by the API server.
func stored(t *testing.T, image string, number int64) *appsv1.ControllerRevision {
	t.Helper()
	d := decide(t, keys, template(image), nil, newDecoder())
	d.Revision.Revision = number
	d.Revision.UID = types.UID(fmt.Sprintf("%s-%d", image, number))
	return d.Revision
}

func ExampleHistory_Decide() {
	histories, err := revision.NewHistories(keys, revision.NewDecoder(100, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	var stored []*appsv1.ControllerRevision
	for _, image := range []string{"app:v1", "app:v1", "app:v2", "app:v1"} {
		d, err := histories.Of(owner(), nil, stored).Decide(template(image))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(image, d.Action, d.Revision.Name, d.Number)
		if d.Action == revision.Create {
			stored = append(stored, d.Revision)
		}
		d.Revision.Revision = d.Number // as package revision/history does
	}
	// Output:
	// app:v1 Create web-fd86758d8 1
	// app:v1 Keep web-fd86758d8 1
	// app:v2 Create web-579d7c9d49 2
	// app:v1 Bump web-fd86758d8 3
}

type fixture struct {
	Revisions []*appsv1.ControllerRevision       `json:"revisions"`
	Templates map[string]*corev1.PodTemplateSpec `json:"templates"`
}

func openKruise(t testing.TB) fixture {
	t.Helper()
	raw, err := os.ReadFile("testdata/openkruise-1.9.json")
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	for _, rev := range f.Revisions { // the file is indented, but API servers return compact JSON
		var b bytes.Buffer
		if err := json.Compact(&b, rev.Data.Raw); err != nil {
			t.Fatal(err)
		}
		rev.Data.Raw = b.Bytes()
	}
	return f
}

// TestNewHistoriesRefuses: an empty key and a missing decoder are refused.
func TestNewHistoriesRefuses(t *testing.T) {
	if _, err := revision.NewHistories(revision.Keys{}, newDecoder()); err == nil {
		t.Error("an empty key is accepted")
	}
	if _, err := revision.NewHistories(keys, nil); err == nil {
		t.Error("no decoder is accepted")
	}
}

func TestCurrent(t *testing.T) {
	v1, v2 := stored(t, "app:v1", 1), stored(t, "app:v2", 2)
	h := history(t, keys, nil, newDecoder(), v2, v1)
	if got := h.Current(v1.Name); got != v1 {
		t.Errorf("Current before Sync = %v, want v1", got)
	}
	h.Update = v2
	for name, want := range map[string]*appsv1.ControllerRevision{v1.Name: v1, v2.Name: v2, "": v2, "gone": v2} {
		if got := h.Current(name); got != want {
			t.Errorf("Current(%q) = %s, want %s", name, got.Name, want.Name)
		}
	}
	if h.Find(v1.Name) != v1 || h.Find(revision.ShortName(v2.Name)) != v2 || h.Find("web-x") != nil {
		t.Error("Find does not find revisions by name and hash")
	}
	if _, err := h.Template(h.Find("web-x")); !errors.Is(err, revision.UnknownRevision) {
		t.Errorf("template of an unknown revision: %v", err)
	}
}

// TestForgedNumbers: whatever numbers a user writes into revisions, a reconcile writes at most once, and the next
// reconcile writes nothing.
func TestForgedNumbers(t *testing.T) {
	for _, number := range []int64{0, 1, math.MaxInt64/2 - 2, math.MaxInt64/2 - 1, math.MaxInt64 / 2, math.MaxInt64} {
		for name, have := range map[string][]*appsv1.ControllerRevision{
			"another revision":                {numbered(stored(t, "app:v1", 1), number)},
			"one that nobody can read":        {{ObjectMeta: metav1.ObjectMeta{Name: "web-forged"}, Revision: number}},
			"today's":                         {numbered(stored(t, "app:v2", 1), number)},
			"another's, and today's is older": {stored(t, "app:v2", 1), numbered(stored(t, "app:v1", 2), number)},
			"today's, and another is newer":   {numbered(stored(t, "app:v2", 1), number), stored(t, "app:v1", 7)},
			"both":                            {numbered(stored(t, "app:v1", 1), number), numbered(stored(t, "app:v2", 1), number)},
		} {
			first := decide(t, keys, template("app:v2"), nil, newDecoder(), have...)
			written := numbered(first.Revision, first.Number)
			after := slices.DeleteFunc(slices.Clone(have), func(rev *appsv1.ControllerRevision) bool { return rev.Name == written.Name })
			if first.Action == revision.Create && len(after) < len(have) {
				t.Errorf("%s has the number %d: creates %s, which exists", name, number, written.Name)
			}
			if again := decide(t, keys, template("app:v2"), nil, newDecoder(), append(after, written)...); again.Action != revision.Keep || again.Revision.Name != written.Name {
				t.Errorf("%s has the number %d: after %s to %d the next pass wants to %s %s", name, number, first.Action, first.Number, again.Action, again.Revision.Name)
			}
		}
	}
}

func numbered(rev *appsv1.ControllerRevision, number int64) *appsv1.ControllerRevision {
	rev = rev.DeepCopy()
	rev.Revision = number
	return rev
}

// TestTakeOver: revisions written by OpenKruise 1.9 remain the revisions of their templates, and the package writes
// revisions with the same bytes and names.
func TestTakeOver(t *testing.T) {
	f := openKruise(t)
	if len(f.Revisions) < 4 {
		t.Fatalf("fixture holds %d revisions, want at least 4", len(f.Revisions))
	}
	for _, rev := range f.Revisions {
		t.Run("R-2 "+rev.Name, func(t *testing.T) {
			content, err := revision.Decode(rev)
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := revision.Encode(content.Template)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(rev.Data.Raw), string(encoded)); diff != "" {
				t.Errorf("bytes differ from OpenKruise's (-theirs +ours):\n%s", diff)
			}
			hash := revision.Hash(encoded, ptr.To[int32](0))
			if got := revision.Name(metav1.GetControllerOf(rev).Name, hash); got != rev.Name {
				t.Errorf("R-3: name %q, want %q", got, rev.Name)
			}
		})
	}
	for name, tmpl := range f.Templates {
		t.Run("R-2 no new revision for "+name, func(t *testing.T) {
			var own []*appsv1.ControllerRevision
			for _, rev := range f.Revisions {
				if strings.TrimSuffix(rev.Name, name[strings.LastIndex(name, "-"):]) == name[:strings.LastIndex(name, "-")] ||
					metav1.GetControllerOf(rev).Name == name[:strings.LastIndex(name, "-")] {
					own = append(own, rev)
				}
			}
			d := decide(t, keys, tmpl, ptr.To[int32](0), newDecoder(), own...)
			if d.Action == revision.Create || d.Revision.Name != name {
				t.Errorf("decided %s %s, want the existing %s", d.Action, d.Revision.Name, name)
			}
		})
	}
}

func TestEqualitySurvivesSerializers(t *testing.T) {
	today := template("app:v1")
	today.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	rev := func(data string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: "web-old", UID: types.UID(data)},
			Data:       runtime.RawExtension{Raw: []byte(data)}, Revision: 1,
		}
	}
	const container = `{"name":"app","image":"app:v1","resources":{"requests":{"cpu":"1"}}}`
	for _, tc := range []struct {
		name, data string
		same       bool
	}{
		{"R-2 with creationTimestamp null", `{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"containers":[` + container + `]}}}}`, true},
		{"R-2 without it", `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[` + container + `]}}}}`, true},
		{"R-2 other key order, spaces and no directive", `{ "spec": { "template": { "spec": {"containers":[` + container + `]}, "metadata":{"labels":{"app":"web"}} } } }`, true},
		{"R-2 nulls and empties of an older library", `{"spec":{"template":{"metadata":{"annotations":null,"labels":{"app":"web"}},"spec":{"volumes":null,"tolerations":[],"nodeSelector":{},"containers":[` + container + `]}}}}`, true},
		{"R-2 quantity spelled otherwise", `{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"app:v1","resources":{"requests":{"cpu":"1000m"}}}]}}}}`, true},
		{"another image", `{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"app:v2","resources":{"requests":{"cpu":"1"}}}]}}}}`, false},
		{"another label", `{"spec":{"template":{"metadata":{"labels":{"app":"web","x":""}},"spec":{"containers":[` + container + `]}}}}`, false},
		{"U-4 something beside the template", `{"spec":{"replicas":3,"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[` + container + `]}}}}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := decide(t, keys, today, nil, newDecoder(), rev(tc.data))
			if got := d.Action == revision.Keep; got != tc.same {
				t.Errorf("action %s, want kept = %v", d.Action, tc.same)
			}
		})
	}
}

func TestEqualitySurvivesNewDefaults(t *testing.T) {
	newDefault := func(t *corev1.PodTemplateSpec) {
		if t.Spec.EnableServiceLinks == nil {
			t.Spec.EnableServiceLinks = new(true)
		}
	}
	old := stored(t, "app:v1", 1) // written before the default existed
	today := template("app:v1")
	newDefault(today)
	for name, tc := range map[string]struct {
		defaults func(*corev1.PodTemplateSpec)
		want     revision.Action
	}{
		"known default":   {newDefault, revision.Keep},
		"unknown default": {nil, revision.Create},
	} {
		d := decide(t, keys, today, nil, revision.NewDecoder(10, tc.defaults), old)
		if d.Action != tc.want {
			t.Errorf("%s: %s, want %s", name, d.Action, tc.want)
		}
	}
}

func TestDecide(t *testing.T) {
	v1, v2, v3 := stored(t, "app:v1", 1), stored(t, "app:v2", 2), stored(t, "app:v3", 5)
	broken := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-broken", UID: "b"}, Revision: 9, Data: runtime.RawExtension{Raw: []byte(`{"spec":17}`)}}
	type answer struct {
		Action revision.Action
		Name   string
		Number int64
	}
	for _, tc := range []struct {
		name     string
		image    string
		existing []*appsv1.ControllerRevision
		want     answer
	}{
		{"R-3 first revision is number 1", "app:v1", nil, answer{revision.Create, v1.Name, 1}},
		{"R-1 newest is kept", "app:v3", []*appsv1.ControllerRevision{v3, v1, v2}, answer{revision.Keep, v3.Name, 5}},
		{"R-1 rollback bumps and keeps the name", "app:v1", []*appsv1.ControllerRevision{v2, v3, v1}, answer{revision.Bump, v1.Name, 6}},
		{"R-1 new template", "app:v4", []*appsv1.ControllerRevision{v1, v2, v3}, answer{revision.Create, stored(t, "app:v4", 0).Name, 6}},
		{"an unreadable revision is passed over", "app:v1", []*appsv1.ControllerRevision{v1, broken}, answer{revision.Bump, v1.Name, 10}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := decide(t, keys, template(tc.image), nil, newDecoder(), tc.existing...)
			if diff := cmp.Diff(tc.want, answer{d.Action, d.Revision.Name, d.Number}); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCreatedRevision(t *testing.T) {
	withVersion := keys
	withVersion.HashVersionAnnotation = "example.com/hash-version"
	h := history(t, withVersion, ptr.To[int32](3), newDecoder())
	d, err := h.Decide(template("app:v1"))
	if err != nil {
		t.Fatal(err)
	}
	hash := revision.Hash(d.Revision.Data.Raw, ptr.To[int32](3))
	want := metav1.ObjectMeta{
		Namespace: "default", Name: "web-" + hash,
		Labels:          map[string]string{"app": "web", "controller.kubernetes.io/hash": hash},
		Annotations:     map[string]string{"note": "n", "example.com/hash-version": "1"},
		OwnerReferences: []metav1.OwnerReference{owner().Reference},
	}
	if diff := cmp.Diff(want, d.Revision.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	renamed := h.Rename(d.Revision)
	if renamed.Name == d.Revision.Name || renamed.Labels[keys.HashLabel] == hash || *h.Collisions != 4 {
		t.Errorf("R-3: another collision count keeps the name %s", renamed.Name)
	}
	if len(d.Revision.Labels) != 2 || d.Revision.Labels[keys.HashLabel] != hash {
		t.Error("Rename modified the original")
	}
}

func TestName(t *testing.T) {
	long := strings.Repeat("a", 240)
	if got := revision.Name(long, "x"); got != strings.Repeat("a", 223)+"-x" {
		t.Errorf("R-3: name of %d characters", len(got))
	}
}

func TestDecodeNamesWhatIsWrong(t *testing.T) {
	for _, raw := range []string{
		``, `null`, `[]`, `{"spec":null}`, `{"spec":{"template":null}}`, `{"spec":{"template":{"spec":{"containers":7}}}}`,
		`{"spec":{"template":{"spec":{"overhead":{"cpu":"1e-200000000"}}}}}`, // slow to parse
	} {
		rev := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web-1"}, Data: runtime.RawExtension{Raw: []byte(raw)}}
		_, err := revision.Decode(rev)
		if !errors.Is(err, revision.UnreadableRevision) || !strings.Contains(fmt.Sprint(err), "n/web-1") {
			t.Errorf("Decode(%s) = %v, want UnreadableRevision that names n/web-1", raw, err)
		}
	}
}

func TestExcess(t *testing.T) {
	var revisions []*appsv1.ControllerRevision
	for i := range 7 {
		revisions = append(revisions, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("r%d", i), CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
				OwnerReferences: []metav1.OwnerReference{owner().Reference},
			},
			Revision: int64(i),
		})
	}
	other := revisions[0].DeepCopy()
	other.Name, other.OwnerReferences[0].UID = "other", "another"
	orphan := revisions[0].DeepCopy()
	orphan.Name, orphan.OwnerReferences = "orphan", nil
	revisions = append(revisions, other, orphan)
	slices.Reverse(revisions)
	names := func(of ...string) func(*appsv1.ControllerRevision) bool {
		return func(r *appsv1.ControllerRevision) bool { return slices.Contains(of, r.Name) }
	}
	for _, tc := range []struct {
		name     string
		limit    int
		counting revision.Counting
		current  []string
		inUse    []string
		want     []string
	}{
		{"R-8 limit 2, 5 unused", 2, revision.CountUnused, []string{"r5", "r6"}, nil, []string{"r0", "r1", "r2"}},
		{"R-8 in use are no history", 2, revision.CountUnused, []string{"r5", "r6"}, []string{"r0", "r2", "r4"}, nil},
		{"R-8 limit 0", 0, revision.CountUnused, []string{"r6"}, []string{"r1"}, []string{"r0", "r2", "r3", "r4", "r5"}},
		{"R-9 limit 2, 5 old of which 3 in use", 2, revision.CountAllOld, []string{"r5", "r6"}, []string{"r0", "r2", "r4"}, []string{"r1", "r3"}},
		{"R-9 all in use", 0, revision.CountAllOld, nil, []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6"}, nil},
		{"negative limit counts as zero", -5, revision.CountUnused, []string{"r1", "r2", "r3", "r4", "r5", "r6"}, nil, []string{"r0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			h := history(t, keys, nil, newDecoder(), revisions...)
			if len(tc.current) > 0 {
				h.Update = &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: tc.current[0]}}
				tc.current = tc.current[1:]
			}
			for _, r := range h.Excess(tc.limit, tc.counting, names(tc.inUse...), tc.current...) {
				got = append(got, r.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Excess (-want +got):\n%s", diff)
			}
		})
	}
}

// reference encodes a template in a simple, slow way: encoding/json writes maps with sorted keys.
func reference(t testing.TB, tmpl *corev1.PodTemplateSpec) string {
	t.Helper()
	raw, err := json.Marshal(tmpl)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	stamp(m)
	m["$patch"] = "replace"
	out, err := json.Marshal(map[string]any{"spec": map[string]any{"template": m}})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func stamp(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if meta, ok := inner.(map[string]any); ok && key == "metadata" {
				if _, ok := meta["creationTimestamp"]; !ok {
					meta["creationTimestamp"] = nil
				}
			}
			stamp(inner)
		}
	case []any:
		for _, inner := range v {
			stamp(inner)
		}
	}
}

func FuzzEncode(f *testing.F) {
	f.Add(`{"metadata":{"labels":{"b":"1","a":"2"}},"spec":{"containers":[{"name":"app","image":"a\"b\\","command":["x<y","{","[","}"]}]}}`)
	f.Add(`{"metadata":{"annotations":{"z":"\u2028","aa":"","creationTimestamp":"q"}},"spec":{"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"requests":{"storage":"1Gi"}}}}}}],"containers":[]}}`)
	f.Add(`{"spec":{"containers":[{"name":"a","livenessProbe":{"periodSeconds":3,"tcpSocket":{"port":80}}}],"terminationGracePeriodSeconds":0}}`)
	f.Fuzz(func(t *testing.T, in string) {
		var tmpl corev1.PodTemplateSpec
		if json.Unmarshal([]byte(in), &tmpl) != nil {
			return
		}
		got, err := revision.Encode(&tmpl)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(reference(t, &tmpl), string(got)); diff != "" {
			t.Errorf("Encode (-maps +ours):\n%s", diff)
		}
	})
}

func BenchmarkNewRevision(b *testing.B) {
	f := openKruise(b)
	content, err := revision.Decode(f.Revisions[1])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(f.Revisions[1].Data.Raw)))
	h := history(b, keys, nil, newDecoder())
	for b.Loop() {
		if _, err := h.Decide(content.Template); err != nil {
			b.Fatal(err)
		}
	}
}
