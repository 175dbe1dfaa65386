package cloneset

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/revision"
)

// benchPods are n available Pods, half of them at each revision.
func benchPods(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	since := metav1.NewTime(time.Unix(0, 0))
	for i := range pods {
		rev := "web-old"
		if i%2 == 0 {
			rev = "web-new"
		}
		pods[i] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprintf("web-%05d", (i*7919)%n),
				Labels: map[string]string{apps.LabelRevision: rev, apps.LabelLifecycleState: apps.LifecycleNormal},
			},
			Spec: corev1.PodSpec{NodeName: "n"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: apps.ConditionInPlaceUpdateReady, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since},
			}},
		}
	}
	return pods
}

// BenchmarkDecision10000 is the scale and partition decision from the Pods of one CloneSet.
func BenchmarkDecision10000(b *testing.B) {
	const n = 10_000
	cs := &v1beta1.CloneSet{Spec: v1beta1.CloneSetSpec{
		Replicas: ptr.To[int32](n),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
		UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSet{
			PodUpdatePolicy: v1beta1.InPlaceIfPossible, Partition: ptr.To(intstr.FromString("50%")),
		}},
	}}
	pods := benchPods(n)
	settings, err := resolve(cs, withDefaults(Options{}))
	if err != nil {
		b.Fatal(err)
	}
	decoder := revision.NewDecoder(10, nil)
	planner := inplaceupdate.NewPlanner(inplaceupdate.Config{}, decoder, nil)
	before := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-old", UID: "1"}}
	after := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-new", UID: "2"}}
	b.ReportAllocs()
	for b.Loop() {
		v := &view{cs: cs, now: time.Unix(100, 0), settings: settings}
		v.setPods(pods)
		v.setRevisions(before, after)
		if step := v.step(planner, false); step.Update != 0 || step.Create+step.Delete != 0 {
			b.Fatalf("%+v", step)
		}
	}
}
