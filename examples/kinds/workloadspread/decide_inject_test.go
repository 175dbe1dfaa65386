package workloadspread

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

func pod(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: "w", Controller: ptr.To(true)}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "v1"}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func withMark(subset string) func(*corev1.Pod) {
	return markedWith(mark{Name: "zones", Subset: subset})
}

func markedWith(m mark) func(*corev1.Pod) {
	return func(p *corev1.Pod) { put(&p.Annotations, apps.AnnotationMatchedWorkloadSpread, m.text()) }
}

func put(to *map[string]string, key, value string) {
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[key] = value
}

func label(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { put(&p.Labels, key, value) }
}

func needing(terms ...*corev1.NodeSelectorTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}
		for _, term := range terms {
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = append(
				p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, *term)
		}
	}
}

func preferring(terms ...corev1.PreferredSchedulingTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func tolerating(keys ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, key := range keys {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
	}
}

func both(a, b *corev1.NodeSelectorTerm) *corev1.NodeSelectorTerm {
	return &corev1.NodeSelectorTerm{
		MatchExpressions: append(a.DeepCopy().MatchExpressions, b.MatchExpressions...), MatchFields: append(a.DeepCopy().MatchFields, b.MatchFields...),
	}
}

// TestInject injects each subset twice: the second time changes nothing.
func TestInject(t *testing.T) {
	zone, disk := term("zone", "In", "a"), term("disk", "Exists")
	here := &corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}}}
	wish := corev1.PreferredSchedulingTerm{Weight: 5, Preference: *disk}
	former := corev1.PreferredSchedulingTerm{Weight: 1, Preference: *zone}
	priority := func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = "low", ptr.To[int32](5), ptr.To(corev1.PreemptLowerPriority)
	}
	for _, c := range []struct {
		name      string
		pod, want *corev1.Pod
		to        subset
	}{
		{"WS-24 nothing to inject, and no empty affinity", pod("p"), pod("p", withMark("a")), subset{name: "a"}},
		{"WS-24 tolerations come after those of the Pod", pod("p", tolerating("x")), pod("p", tolerating("x", "y"), withMark("a")), subset{name: "a", tolerations: pod("", tolerating("y")).Spec.Tolerations}},
		{"WS-24 the requirement is the only one", pod("p"), pod("p", needing(zone), withMark("a")), subset{name: "a", required: zone}},
		{"WS-24 the requirement joins each alternative", pod("p", needing(disk, here)), pod("p", needing(both(disk, zone), both(here, zone)), withMark("a")), subset{name: "a", required: zone}},
		{"WS-24 a requirement on a field, too", pod("p", needing(disk)), pod("p", needing(both(disk, here)), withMark("a")), subset{name: "a", required: here}},
		{"an alternative that matches no Node stays so", pod("p", needing(&corev1.NodeSelectorTerm{}, disk)), pod("p", needing(&corev1.NodeSelectorTerm{}, both(disk, zone)), withMark("a")), subset{name: "a", required: zone}},
		{"WS-24 preferences come after those of the Pod", pod("p", preferring(former)), pod("p", preferring(former, wish), withMark("a")), subset{name: "a", preferred: []corev1.PreferredSchedulingTerm{wish}}},
		{"WS-25 a patch", pod("p"), pod("p", label("zone", "a"), func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ZONE", Value: "a"}}
		}, withMark("a")), subset{name: "a", patch: []byte(`{"metadata":{"labels":{"zone":"a"}},"spec":{"containers":[{"name":"main","env":[{"name":"ZONE","value":"a"}]}]}}`)}},
		{"WS-25 a patch after the terms", pod("p"), pod("p", tolerating("x"), withMark("a")), subset{name: "a", required: zone, tolerations: pod("", tolerating("x")).Spec.Tolerations, patch: []byte(`{"spec":{"affinity":null}}`)}},
		{"WS-25 another priority", pod("p", priority), pod("p", func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }, withMark("a")), subset{name: "a", patch: []byte(`{"spec":{"priorityClassName":"high"}}`)}},
		{"WS-25 the same priority", pod("p", priority), pod("p", priority, withMark("a")), subset{name: "a", patch: []byte(`{"spec":{"priorityClassName":"low"}}`)}},
		{"WS-26 the mark wins over the patch", pod("p"), pod("p", withMark("a")), subset{name: "a", patch: []byte(`{"metadata":{"annotations":{"apps.kruise.io/matched-workloadspread":"x"}}}`)}},
		{"a Pod keeps what tells who the Pod is", pod("p"), pod("p", withMark("a")), subset{name: "a", patch: []byte(`{"metadata":{"name":"q","namespace":"else","ownerReferences":null}}`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, time := range []string{"first", "second"} {
				if err := inject(c.pod, &c.to, mark{Name: "zones", Subset: "a"}); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, c.pod); diff != "" {
					t.Errorf("%s time (-want +got):\n%s", time, diff)
				}
			}
		})
	}
}

func TestInjectFails(t *testing.T) {
	t.Run("WS-26", func(t *testing.T) {
		p := pod("p")
		err := inject(p, &subset{name: "a", tolerations: pod("", tolerating("x")).Spec.Tolerations, patch: []byte(`{"spec":7}`)}, mark{Name: "zones", Subset: "a"})
		if err == nil {
			t.Error("no error")
		}
		if diff := cmp.Diff(pod("p"), p); diff != "" {
			t.Errorf("the Pod has changed: %s", diff)
		}
	})
}

// TestMark: the annotation with a Pod's subset has OpenKruise's format.
func TestMark(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       mark
		ok         bool
	}{
		{"WS 1.3", `{"name":"zones","subset":"a","uid":"3f0c"}`, mark{"zones", "a", "3f0c"}, true},
		{"WS 1.3 without a key", `{"name":"zones","subset":"a"}`, mark{"zones", "a", ""}, true},
		{"WS-30 of another WorkloadSpread", `{"name":"other","subset":"a"}`, mark{}, false},
		{"WS-30 no JSON", `a`, mark{}, false},
		{"WS-30 no subset", `{"name":"zones"}`, mark{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := markOf(pod("p", func(p *corev1.Pod) { put(&p.Annotations, apps.AnnotationMatchedWorkloadSpread, c.text) }), "zones")
			if diff := cmp.Diff(c.want, got); diff != "" || ok != c.ok {
				t.Errorf("ok %v (-want +got):\n%s", ok, diff)
			}
			if c.ok && got.text() != c.text {
				t.Errorf("written %s, want %s", got.text(), c.text)
			}
		})
	}
}

// TestMarking: Pods that are older than their WorkloadSpread get the annotation with the subset, and only the labels
// and annotations of the subset's patch.
func TestMarking(t *testing.T) {
	of := &subset{name: "a", patch: []byte(`{"metadata":{"labels":{"zone":"a","old":null},"annotations":{"note":"n"}},"spec":{"priorityClassName":"high"}}`)}
	for _, c := range []struct {
		name  string
		of    *subset
		whole bool
		want  string
	}{
		{"WS-32 with the metadata of the patch", of, true, `{"labels":{"old":null,"zone":"a"},"annotations":{"apps.kruise.io/matched-workloadspread":"{\"name\":\"zones\",\"subset\":\"a\"}","note":"n"}}`},
		{"WS-32 the mark alone", of, false, `{"annotations":{"apps.kruise.io/matched-workloadspread":"{\"name\":\"zones\",\"subset\":\"a\"}"}}`},
		{"WS-32 no patch", &subset{name: "a"}, true, `{"annotations":{"apps.kruise.io/matched-workloadspread":"{\"name\":\"zones\",\"subset\":\"a\"}"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(marking(pod("p", label("old", "x")), c.of, mark{Name: "zones", Subset: "a"}, c.whole))
			if diff := cmp.Diff(c.want, string(got)); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// FuzzPlainMark: for any text, plainMark returns the same mark as a JSON decoder, or returns false.
func FuzzPlainMark(f *testing.F) {
	for _, text := range []string{
		`{"name":"web","subset":"a"}`, `{"name":"web","subset":"a","uid":"k"}`, `{"name":"w\"eb","subset":"a"}`, `{"name":"web","subset":"a"} `,
		`{"name":"","subset":""}`, `{"name":"a","subset":"b","uid":"c","uid":"d"}`, `{"name":"x","name":"y","subset":"z"}`, `{"name":"ä","subset":"b"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := plainMark(text)
		if !ok {
			return
		}
		var want mark
		if err := json.Unmarshal([]byte(text), &want); err != nil || got != want {
			t.Errorf("%q: %+v, JSON says %+v, %v", text, got, want, err)
		}
	})
}

// TestMarksArePlain: plainMark can parse the marks that this package writes.
func TestMarksArePlain(t *testing.T) {
	for _, m := range []mark{{"web", "a", ""}, {"web", "zone-a", "0b63e5a1-6d1a-4a1a-8a58-4b1f6a2f9d1c"}} {
		if got, ok := plainMark(m.text()); !ok || got != m {
			t.Errorf("%s: %+v, %t", m.text(), got, ok)
		}
	}
}

// FuzzPlainPatch: for a patch of labels and annotations, plainPatch leads to the same Pod as a strategic merge patch.
func FuzzPlainPatch(f *testing.F) {
	for _, patch := range []string{
		`{"metadata":{"labels":{"zone":"a","app":null},"annotations":{"note":"x"}}}`, `{"metadata":{"labels":{}}}`, `{"metadata":{}}`, `{"metadata":null}`,
		`{"metadata":{"labels":null}}`, `{"metadata":{"labels":{"$patch":"replace"}}}`, `{"Metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"Labels":{"a":"b"}}}`,
		`{"metadata":{"labels":{"a":"b"},"labels":{"c":"d"}}}`, `{"metadata":{"annotations":{"a":1}}}`, `{"metadata":{"labels":{"a":"b"}},"spec":{}}`,
	} {
		f.Add([]byte(patch))
	}
	f.Fuzz(func(t *testing.T, patch []byte) {
		if _, ok := plainPatch(patch); !ok {
			return
		}
		for _, of := range []*corev1.Pod{pod("p"), pod("p", label("app", "web"), label("zone", "b"), withMark("a"))} {
			before := of.DeepCopy()
			got, err := patched(of, patch)
			want, wantErr := strategicallyPatched(of, patch)
			if err != nil || wantErr != nil {
				t.Fatalf("%s: errors %v and %v", patch, err, wantErr)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-of any fields +plain):\n%s", patch, diff)
			}
			if diff := cmp.Diff(before, of); diff != "" {
				t.Errorf("%s has changed its argument: %s", patch, diff)
			}
		}
	})
}

// TestPlainPatch: only patches of labels and annotations are plain.
func TestPlainPatch(t *testing.T) {
	for patch, want := range map[string]bool{
		`{"metadata":{"labels":{"zone":"a","app":null},"annotations":{"note":"x"}}}`: true,
		`{"metadata":{"labels":{"$patch":"replace"}}}`:                               false,
		`{"metadata":{"labels":null}}`:                                               false,
		`{"metadata":null}`:                                                          false,
		`{"metadata":{"labels":{"a":"b"},"name":"x"}}`:                               false,
		`{"metadata":{"labels":{"a":"b"}},"spec":{"priorityClassName":"low"}}`:       false,
		`{"Metadata":{"labels":{"a":"b"}}}`:                                          false,
	} {
		if _, ok := plainPatch([]byte(patch)); ok != want {
			t.Errorf("%s: plain %t, want %t", patch, ok, want)
		}
	}
}

// BenchmarkPatched compares a patch of a label with a patch of the spec.
func BenchmarkPatched(b *testing.B) {
	of := pod("p", label("app", "web"), withMark("a"))
	for name, patch := range map[string]string{"label": `{"metadata":{"labels":{"zone":"a"}}}`, "spec": `{"spec":{"priorityClassName":"low"}}`} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := patched(of, []byte(patch)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
