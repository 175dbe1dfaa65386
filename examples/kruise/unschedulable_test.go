package kruise

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDated: a Pod that had a scheduling gate counts as unschedulable since the first reconciliation with the
// condition, not since the Pod's creation.
func TestDated(t *testing.T) {
	at := func(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(1_800_000_000+seconds, 0)) }
	pod := func(name, reason string, status corev1.ConditionStatus, since metav1.Time) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: at(-3600)}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: status, Reason: reason, LastTransitionTime: since}}
		return p
	}
	pods := []*corev1.Pod{
		pod("gated", corev1.PodReasonSchedulingGated, corev1.ConditionFalse, metav1.Time{}), pod("ungated", corev1.PodReasonUnschedulable, corev1.ConditionFalse, metav1.Time{}),
		pod("usual", corev1.PodReasonUnschedulable, corev1.ConditionFalse, at(-60)), pod("scheduled", "", corev1.ConditionTrue, metav1.Time{}),
		{},
	}
	stored := pods[1].DeepCopy()
	var known map[types.UID]time.Time
	for _, pass := range []int64{0, 40} {
		var dated []*corev1.Pod
		dated, known = Dated(pods, known, at(pass).Time)
		if diff := cmp.Diff(map[types.UID]time.Time{"ungated": at(0).Time}, known); diff != "" {
			t.Errorf("known after %d s (-want +got):\n%s", pass, diff)
		}
		var got []metav1.Time
		for _, p := range dated[:4] {
			got = append(got, p.Status.Conditions[0].LastTransitionTime)
		}
		if diff := cmp.Diff([]metav1.Time{{}, at(0), at(-60), {}}, got); diff != "" {
			t.Errorf("times after %d s (-want +got):\n%s", pass, diff)
		}
	}
	if diff := cmp.Diff(stored, pods[1]); diff != "" {
		t.Errorf("a Pod of the cache is changed (-want +got):\n%s", diff)
	}
	if _, known = Dated(pods[2:], known, at(60).Time); len(known) > 0 {
		t.Errorf("remembered: %v", known)
	}
}
