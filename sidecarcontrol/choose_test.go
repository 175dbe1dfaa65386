package sidecarcontrol_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// TestChooseDoesNotDependOnTheOrderOfPods: caches return Pods in any order, and the same Pods must lead to the same
// choice in each reconcile and in each process.
func TestChooseDoesNotDependOnTheOrderOfPods(t *testing.T) {
	var standings []sidecarcontrol.Standing
	for i := range 6 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("shop-%d", i%2), Name: fmt.Sprintf("web-%d", i)}}
		standings = append(standings, sidecarcontrol.Standing{Pod: pod, Injected: true, Ready: true})
	}
	want := []string{"shop-0/web-0", "shop-0/web-2", "shop-0/web-4"}
	for range 6 {
		standings = append(standings[1:], standings[0])
		given := slices.Clone(standings)
		var got []string
		for _, s := range sidecarcontrol.Choose(standings, sidecarcontrol.Rollout{Partition: 2, MaxUnavailable: 3}).Upgrade {
			got = append(got, s.Pod.Namespace+"/"+s.Pod.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("chosen Pods (-want +got):\n%s", diff)
		}
		if !slices.EqualFunc(given, standings, func(a, b sidecarcontrol.Standing) bool { return a.Pod == b.Pod }) {
			t.Error("the argument was reordered")
		}
	}
}
