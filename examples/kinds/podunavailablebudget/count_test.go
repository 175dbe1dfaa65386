package podunavailablebudget

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// TestDoubtfulPods: after a change of the image, a Pod counts as in service only after the grace period, because a
// kubelet writes status.observedGeneration before the container of the old image has ended.
func TestDoubtfulPods(t *testing.T) {
	start := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	serving, err := NewServing(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newCounter(nil, nil, serving, newShares())
	changed := func(edit func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "u", Generation: 2}}
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
		p.Spec.Containers = []corev1.Container{{Name: "app", Image: "app@sha256:2"}}
		p.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 2, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", ImageID: "app@sha256:1", ContainerID: "c://1", Ready: true}},
		}
		if edit != nil {
			edit(p)
		}
		return p
	}
	type look struct {
		after  time.Duration
		edit   func(*corev1.Pod)
		serves bool
	}
	restarted := func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "c://2" }
	for name, looks := range map[string][]look{
		"the old container is about to end":                               {{0, nil, false}, {29 * time.Second, nil, false}},
		"it goes on: the Node knows the image by the digest of its index": {{0, nil, false}, {31 * time.Second, nil, true}},
		"restarted meanwhile":                                             {{0, nil, false}, {20 * time.Second, restarted, false}, {31 * time.Second, restarted, false}, {51 * time.Second, restarted, true}},
		"changed once more":                                               {{0, nil, false}, {31 * time.Second, nil, true}, {32 * time.Second, func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 3, 3 }, false}},
		"never changed":                                                   {{0, func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 1, 1 }, true}},
		"the digest of the spec":                                          {{0, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ImageID = "app@sha256:2" }, true}},
		"an update in place tells by itself": {{0, func(p *corev1.Pod) {
			p.Annotations = map[string]string{apps.AnnotationInPlaceUpdateState: `{"revision":"web-2","updateTimestamp":"2026-01-05T09:00:00Z"}`}
		}, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var j judged
			for _, l := range looks {
				if j = c.judged(j, changed(l.edit), start.Add(l.after)); j.serves != l.serves || !l.serves && j.again <= 0 {
					t.Errorf("after %s: serves %t, again in %s", l.after, j.serves, j.again)
				}
			}
		})
	}
}
