package workloadspread

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TestOverlappingFilters: if two WorkloadSpreads are created at the same moment, admission cannot compare them. The
// Pods belong to the older WorkloadSpread, and an event on the younger WorkloadSpread reports the overlap.
func TestOverlappingFilters(t *testing.T) {
	for _, tc := range []struct {
		name   string
		filter map[string]string // of the older
		kind   string            // of the older's target
		want   []string
		why    string
	}{
		{"all Pods", nil, "Deployment", nil, "FiltersOverlap: spec.targetFilter: 2 Pods belong to the older WorkloadSpread early; give the WorkloadSpreads of a workload disjoint filters, or delete one"},
		{
			"one Pod",
			map[string]string{"part": "a"},
			"Deployment",
			[]string{"b"},
			"FiltersOverlap: spec.targetFilter: 1 Pods belong to the older WorkloadSpread early; give the WorkloadSpreads of a workload disjoint filters, or delete one",
		},
		{"no Pod", map[string]string{"part": "c"}, "Deployment", []string{"a", "b"}, ""},
		{"another kind of the name", nil, "ReplicaSet", []string{"a", "b"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOffice(t)
			made := func(name, kind string) *v1beta1.WorkloadSpread {
				spread := &v1beta1.WorkloadSpread{ObjectMeta: inShop(name)}
				spread.Spec.TargetReference = v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: kind, Name: "web"}
				spread.Spec.Subsets = []v1beta1.WorkloadSpreadSubset{{Name: "a"}}
				return spread
			}
			older, younger := made("early", tc.kind), made("late", "Deployment") // the names decide, because both are created in the same second
			if tc.filter != nil {
				older.Spec.TargetFilter = &v1beta1.WorkloadSpreadTargetFilter{Selector: &metav1.LabelSelector{MatchLabels: tc.filter}}
			}
			o.create(true, &appsv1.Deployment{ObjectMeta: inShop("web")}, older, younger)
			var pods []*corev1.Pod
			for _, name := range []string{"a", "b"} {
				pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"part": name}}})
			}
			s, _ := o.webhook.settingsOf(younger)
			own, why := o.webhook.withoutOlder(younger, s, pods)
			var got []string
			for _, pod := range own {
				got = append(got, pod.Name)
			}
			text := ""
			if err := why.Err(); err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff([]any{tc.want, tc.why}, []any{got, text}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			s, _ = o.webhook.settingsOf(older)
			if all, why := o.webhook.withoutOlder(older, s, pods); len(all) != 2 || why != nil {
				t.Errorf("the older has %d Pods: %v", len(all), why)
			}
		})
	}
}
