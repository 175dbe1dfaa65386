package workloadspread

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TestLongPatches: applying a strategic merge patch of 20,000 containers would take minutes for each new Pod, so long
// patches are refused before they are applied. If a patch were applied, the test would exceed its time.
func TestLongPatches(t *testing.T) {
	for _, tc := range []struct {
		name, item, patch string
		items             int
		refused           bool
	}{
		{"containers", `{"name":"%x"}`, `{"spec":{"containers":[%s]}}`, 500, false},
		{"more containers", `{"name":"%x"}`, `{"spec":{"containers":[%s]}}`, 501, true},
		{"environment", `{"name":"%x"}`, `{"spec":{"containers":[{"name":"c","env":[%s]}]}}`, 40_000, true},
		{"an order", `"%x"`, `{"metadata":{"$setElementOrder/finalizers":[%s]}}`, 60_000, true},
		{"removals", `{"name":"%x","$patch":"delete"}`, `{"spec":{"containers":[%s]}}`, 20_000, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var items []string
			for i := range tc.items {
				items = append(items, fmt.Sprintf(tc.item, i))
			}
			patch := fmt.Sprintf(tc.patch, strings.Join(items, ","))
			_, problems, _ := resolve(&v1beta1.WorkloadSpreadSpec{
				TargetReference: v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
				Subsets:         []v1beta1.WorkloadSpreadSubset{{Name: "a", Patch: &runtime.RawExtension{Raw: []byte(patch)}}},
			})
			if refused := problems != nil; refused != tc.refused {
				t.Errorf("refused: %t, want %t: %v", refused, tc.refused, problems.Reasons())
			}
		})
	}
}

// TestReadOnce: a spec is parsed once for all Pods, and parsed again after an edit.
func TestReadOnce(t *testing.T) {
	f := &finder{listed: &listed{}, read: map[types.UID]reading{}}
	spread := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "a", Generation: 1}}
	spread.Spec.TargetReference = v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	spread.Spec.Subsets = []v1beta1.WorkloadSpreadSubset{{Name: "a"}}
	first, ok := f.settingsOf(spread)
	if again, _ := f.settingsOf(spread.DeepCopy()); !ok || again != first {
		t.Errorf("usable %t, read twice %t", ok, again != first)
	}
	edited := spread.DeepCopy()
	edited.Generation, edited.Spec.Subsets[0].Name = 2, "b"
	if s, _ := f.settingsOf(edited); len(s.subsets) != 1 || s.subsets[0].name != "b" {
		t.Errorf("after an edit: %+v", s.subsets)
	}
	twin := spread.DeepCopy()
	twin.UID, twin.Spec.Subsets = "b", nil
	if _, ok := f.settingsOf(twin); ok {
		t.Error("another WorkloadSpread of the generation counts as read")
	}
	if len(f.read) != 2 {
		t.Errorf("%d readings of 2 WorkloadSpreads are kept", len(f.read))
	}
}

// TestLongMarks: a long mark is not parsed. The mark is the annotation with the Pod's subset; any user can write the
// annotation, and the controller reads the annotation at each event of the Pod.
func TestLongMarks(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want bool
	}{
		"longest": {mark{Name: strings.Repeat("n", 253), Subset: strings.Repeat("s", longestName), UID: strings.Repeat("u", 36)}.text(), true},
		"longer":  {`{"name":"web","subset":"a","x":"` + strings.Repeat("x", longestMark) + `"}`, false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{apps.AnnotationMatchedWorkloadSpread: tc.text}}}
		kept := &corev1.Pod{}
		podFields(kept, pod)
		if _, ok := marked(pod); ok != tc.want || (kept.Annotations != nil) != tc.want {
			t.Errorf("%s: a mark %t, kept %v, want %t", name, ok, kept.Annotations, tc.want)
		}
	}
}
