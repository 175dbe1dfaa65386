package adopt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/adopt"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/reason"
)

var (
	selector = labels.SelectorFromSet(labels.Set{"app": "web"})
	owner    = adopt.Owner{UID: "mine", Namespace: "default", Selector: selector}
)

type edit func(*corev1.Pod)

// newPod returns a matching orphan.
func newPod(name string, edits ...edit) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
	}}
	for _, e := range edits {
		e(pod)
	}
	return pod
}

func controlledBy(uid types.UID) edit {
	return func(p *corev1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences,
			metav1.OwnerReference{Kind: "Node", Name: "n", UID: "no controller"},
			metav1.OwnerReference{Kind: "Set", Name: "set-" + string(uid), UID: uid, Controller: ptr.To(true)})
	}
}

func other(p *corev1.Pod)       { p.Labels = map[string]string{"app": "db"} }
func terminating(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }
func elsewhere(p *corev1.Pod)   { p.Namespace = "elsewhere" }

func Example() {
	pods := []*corev1.Pod{newPod("a", controlledBy("mine")), newPod("b", controlledBy("mine"), other), newPod("c")}
	decision, err := adopt.Split(owner, "Pod", pods, adopt.Options{Adopt: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(decision.Owned), "owned,", len(decision.Adopt), "to adopt,", len(decision.Release), "to release")
	for _, why := range decision.Reasons {
		fmt.Println(why)
	}
	// Output:
	// 1 owned, 1 to adopt, 1 to release
	// NotSelected: Pod default/b: metadata.labels; restore the labels to have it adopted again, where its owner adopts
	// Orphaned: Pod default/c
}

func TestSplit(t *testing.T) {
	takes := adopt.Options{Adopt: true}
	deleting := owner
	deleting.Deleting = true
	numbered := adopt.Options{Adopt: true, Match: func(o metav1.Object) bool {
		name, _, ok := ordinals.ParseName(o.GetName())
		return ok && name == "web"
	}}
	type answer struct {
		Owned, Adopt, Release string
		Codes                 []reason.Code
	}
	for _, tc := range []struct {
		name    string
		owner   adopt.Owner
		options adopt.Options
		pod     *corev1.Pod
		want    answer
	}{
		{"owned", owner, takes, newPod("p", controlledBy("mine")), answer{Owned: "p"}},
		{"owned and terminating", owner, takes, newPod("p", controlledBy("mine"), terminating), answer{Owned: "p"}},
		{"owned by a deleting owner", deleting, takes, newPod("p", controlledBy("mine")), answer{Owned: "p"}},
		{"C-4 S-1 released", owner, adopt.Options{}, newPod("p", controlledBy("mine"), other), answer{Release: "p", Codes: []reason.Code{adopt.NotSelected}}},
		{"released while terminating", owner, takes, newPod("p", controlledBy("mine"), other, terminating), answer{Release: "p", Codes: []reason.Code{adopt.NotSelected}}},
		{"a deleting owner does not release", deleting, takes, newPod("p", controlledBy("mine"), other), answer{}},
		{"S-1 adopted", owner, takes, newPod("p"), answer{Adopt: "p", Codes: []reason.Code{adopt.Orphaned}}},
		{"C-4 not adopted", owner, adopt.Options{}, newPod("p"), answer{}},
		{"a terminating orphan is not adopted", owner, takes, newPod("p", terminating), answer{}},
		{"an orphan elsewhere is not adopted", owner, takes, newPod("p", elsewhere), answer{}},
		{"a deleting owner does not adopt", deleting, takes, newPod("p"), answer{}},
		{"an orphan that does not match", owner, takes, newPod("p", other), answer{}},
		{"somebody else's", owner, takes, newPod("p", controlledBy("other")), answer{Codes: []reason.Code{adopt.ControlledByOther}}},
		{"somebody else's that does not match", owner, takes, newPod("p", controlledBy("other"), other), answer{}},
		{"S-1 the name matches", owner, numbered, newPod("web-1"), answer{Adopt: "web-1", Codes: []reason.Code{adopt.Orphaned}}},
		{"S-1 the name does not match", owner, numbered, newPod("web-01"), answer{}},
		{"S-1 an owned name that does not match", owner, numbered, newPod("x", controlledBy("mine")), answer{Release: "x", Codes: []reason.Code{adopt.NotSelected}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := adopt.Split(tc.owner, "Pod", []*corev1.Pod{tc.pod}, tc.options)
			if err != nil {
				t.Fatal(err)
			}
			got := answer{Owned: names(d.Owned), Adopt: names(d.Adopt), Release: names(d.Release)}
			for _, r := range d.Reasons {
				got.Codes = append(got.Codes, r.Code)
				if r.Object.Name != tc.pod.Name || r.Object.UID != tc.pod.UID {
					t.Errorf("reason about %+v", r.Object)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Split (-want +got):\n%s", diff)
			}
		})
	}
}

func names(pods []*corev1.Pod) string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return strings.Join(list, " ")
}

func TestSelectorThatSaysNothing(t *testing.T) {
	for name, s := range map[string]labels.Selector{"nil": nil, "empty": labels.Everything()} {
		d, err := adopt.Split(adopt.Owner{UID: "mine", Selector: s}, "Pod", []*corev1.Pod{newPod("p", controlledBy("mine"))}, adopt.Options{})
		if !errors.Is(err, adopt.InvalidSelector) || len(d.Release)+len(d.Owned) > 0 {
			t.Errorf("%s selector: %+v, %v; want InvalidSelector and nothing done", name, d, err)
		}
	}
}

// FuzzSplit checks that every object is in at most one group, and never in a wrong group.
func FuzzSplit(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 8, 16, 31}, true, false)
	f.Add([]byte{0, 5, 10, 21}, false, true)
	f.Fuzz(func(t *testing.T, kinds []byte, takes, deleting bool) {
		var pods []*corev1.Pod
		for i, kind := range kinds {
			pod := newPod(fmt.Sprint(i))
			for bit, e := range []edit{controlledBy("mine"), controlledBy("other"), other, terminating, elsewhere} {
				if kind>>bit&1 != 0 && (bit != 1 || kind&1 == 0) {
					e(pod)
				}
			}
			pods = append(pods, pod)
		}
		o := owner
		o.Deleting = deleting
		d, err := adopt.Split(o, "Pod", pods, adopt.Options{Adopt: takes})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for group, members := range map[string][]*corev1.Pod{"owned": d.Owned, "adopt": d.Adopt, "release": d.Release} {
			for _, pod := range members {
				if seen[pod.Name] {
					t.Fatalf("Pod %s is in two groups", pod.Name)
				}
				seen[pod.Name] = true
				ref := metav1.GetControllerOf(pod)
				if (group == "adopt") != (ref == nil) || (ref != nil && ref.UID != "mine") {
					t.Fatalf("Pod of %v in group %s", ref, group)
				}
				if (group == "release") != (pod.Labels["app"] == "db") {
					t.Fatalf("Pod with labels %v in group %s", pod.Labels, group)
				}
			}
		}
		if deleting && len(d.Adopt)+len(d.Release) > 0 || !takes && len(d.Adopt) > 0 {
			t.Fatalf("adopts or releases although it must not: %+v", d)
		}
	})
}

func BenchmarkSplit10k(b *testing.B) {
	pods := make([]*corev1.Pod, 10_000)
	for i := range pods {
		pods[i] = newPod(fmt.Sprint(i), controlledBy("mine"))
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = adopt.Split(owner, "Pod", pods, adopt.Options{})
	}
}
