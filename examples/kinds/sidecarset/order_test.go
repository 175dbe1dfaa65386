package sidecarset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// TestOrder checks the order in which Pods are upgraded. The Pods have the labels number and zone.
func TestOrder(t *testing.T) {
	scatter := func(terms ...pub.ScatterTerm) pub.SidecarSetUpdateStrategy {
		return pub.SidecarSetUpdateStrategy{ScatterStrategy: terms}
	}
	for _, tc := range []struct {
		name   string
		update pub.SidecarSetUpdateStrategy
		pods   []string // the number, a space, and the zone
		want   []string
	}{
		{"equal Pods by name", pub.SidecarSetUpdateStrategy{}, []string{"", "sts-2", "sts-10"}, []string{"", "sts-10", "sts-2"}},
		{
			"SU-19 by a key",
			pub.SidecarSetUpdateStrategy{PriorityStrategy: &pub.PriorityStrategy{OrderPriority: []pub.OrderPriorityTerm{{OrderedKey: "number"}}}},
			[]string{"sts-2", "", "sts-10", "sts-3"},
			[]string{"", "sts-10", "sts-3", "sts-2"},
		},
		{
			"SU-18 one term: spread, and one is last", scatter(pub.ScatterTerm{Key: "zone", Value: "a"}),
			[]string{"1 a", "2 a", "3 b", "4 c"},
			[]string{"1 a", "3 b", "4 c", "2 a"},
		},
		{
			"SU-18 any value stands for a term of each", scatter(pub.ScatterTerm{Key: "zone", Value: "*"}),
			[]string{"1 a", "2 a", "3", "4"},
			[]string{"1 a", "3", "4", "2 a"},
		},
		{
			"SU-18 any value, and one of them", scatter(pub.ScatterTerm{Key: "zone", Value: "a"}, pub.ScatterTerm{Key: "zone", Value: "*"}),
			[]string{"1 a", "2 a", "3", "4"},
			[]string{"1 a", "3", "4", "2 a"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := intstr.FromString("100%")
			tc.update.MaxUnavailable = &all
			s, problems, _ := resolve(&v1beta1.SidecarSet{Spec: v1beta1.SidecarSetSpec{UpdateStrategy: tc.update}}, byIndex)
			if problems != nil {
				t.Fatal(problems.Reasons())
			}
			var pods []sidecarcontrol.Standing
			for _, text := range tc.pods {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-" + text, Labels: map[string]string{}}}
				number, zone, _ := strings.Cut(text, " ")
				for key, value := range map[string]string{"number": number, "zone": zone} {
					if value != "" {
						pod.Labels[key] = value
					}
				}
				pods = append(pods, sidecarcontrol.Standing{Pod: pod, Injected: true, Ready: true})
			}
			var got []string
			for _, standing := range sidecarcontrol.Choose(pods, s.rollout(pods)).Upgrade {
				got = append(got, strings.TrimPrefix(standing.Pod.Name, "web-"))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
