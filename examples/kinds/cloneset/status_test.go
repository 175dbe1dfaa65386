package cloneset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// TestProgress checks the reason of the condition Progressing for Pods in different states. A rollout counts as
// complete with outdated Pods only if a partition keeps these Pods.
func TestProgress(t *testing.T) {
	available := podcontrol.Pod{Facts: podcontrol.Facts{Ready: true, State: lifecycle.Normal}, Updated: true, Available: true}
	old := podcontrol.Pod{Facts: podcontrol.Facts{Ready: true, State: lifecycle.Normal}, Available: true}
	leaving := podcontrol.Pod{Facts: podcontrol.Facts{Ready: true, State: lifecycle.PreparingDelete}, Updated: true, Leaving: true}
	for _, tc := range []struct {
		name string
		spec rollout.Spec
		pods []podcontrol.Pod
		want string
	}{
		{"C-50 all there", rollout.Spec{Replicas: 2}, []podcontrol.Pod{available, available}, apps.ReasonProgressAvailable},
		{"C-50 the partition is reached", rollout.Spec{Replicas: 3, Partition: 1}, []podcontrol.Pod{available, available, old}, apps.ReasonProgressPartitionAvailable},
		{"C-50 the partition is not reached", rollout.Spec{Replicas: 3, Partition: 1}, []podcontrol.Pod{available, old, old}, apps.ReasonProgressUpdated},
		{"C-50 a surplus waits for its hook", rollout.Spec{Replicas: 2}, []podcontrol.Pod{available, available, leaving}, apps.ReasonProgressUpdated},
		{"C-50 a surplus waits for its hook, with a partition", rollout.Spec{Replicas: 2, Partition: 1}, []podcontrol.Pod{available, old, leaving}, apps.ReasonProgressPartitionAvailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rev := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-2"}}
			cs := &v1beta1.CloneSet{Spec: v1beta1.CloneSetSpec{Replicas: ptr.To(int32(tc.spec.Replicas))}}
			selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}})
			if err != nil {
				t.Fatal(err)
			}
			o := &observation{
				cs: cs, settings: &settings{rollout: tc.spec, selector: selector, progressDeadline: new(10 * time.Minute)},
				pods:    &podcontrol.Set{Active: tc.pods},
				history: &revision.History{}, current: rev, update: rev,
			}
			status, _ := nextStatus(o, &todo{}, metav1.Unix(1, 0), nil, nil)
			got := status.Conditions.Find(apps.ConditionProgressing)
			if got == nil || got.Status != corev1.ConditionTrue {
				t.Fatalf("condition is %+v", got)
			}
			if diff := cmp.Diff(tc.want, got.Reason); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
		})
	}
}
