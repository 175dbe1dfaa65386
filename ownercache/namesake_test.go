package ownercache_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ownercache"
)

// TestNamesake: a Pod whose name has the form of an owner's name with an ordinal enqueues this owner.
func TestNamesake(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	w.add(newOwner("web"))
	other := newOwner("other")
	labelled := func(pod *corev1.Pod) *corev1.Pod {
		pod.Labels = map[string]string{"app": "web"}
		return pod
	}
	ready := podOf(nil, "web-0")
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	elsewhere := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "web-0"}}
	deployed := podOf(newOwner("web"), "web-0")
	deployed.OwnerReferences[0].Kind, deployed.OwnerReferences[0].APIVersion = "Game", "example.com/v1"
	create := func(pod *corev1.Pod) func(handler.EventHandler, queue) {
		return func(h handler.EventHandler, q queue) { h.Create(t.Context(), event.CreateEvent{Object: pod}, q) }
	}
	remove := func(pod *corev1.Pod) func(handler.EventHandler, queue) {
		return func(h handler.EventHandler, q queue) { h.Delete(t.Context(), event.DeleteEvent{Object: pod}, q) }
	}
	update := func(before, after *corev1.Pod) func(handler.EventHandler, queue) {
		return func(h handler.EventHandler, q queue) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	for _, tc := range []struct {
		name string
		send func(handler.EventHandler, queue)
		want bool
	}{
		{"nobody's Pod", create(podOf(nil, "web-0")), true},
		{"nobody's Pod goes", remove(podOf(nil, "web-0")), true},
		{"another owner's Pod goes", remove(podOf(other, "web-0")), true},
		{"an owner of another kind with its name", remove(deployed), true},
		{"its own Pod, which wakes it anyway", create(podOf(newOwner("web"), "web-0")), false},
		{"no name of its Pods", create(podOf(nil, "web-x")), false},
		{"a name of no owner's Pods", create(podOf(nil, "api-0")), false},
		{"another namespace", create(elsewhere), false},
		{"nobody's Pod may match now", update(podOf(nil, "web-0"), labelled(podOf(nil, "web-0"))), true},
		{"it has lost its owner", update(podOf(other, "web-0"), podOf(nil, "web-0")), true},
		{"its status", update(podOf(nil, "web-0"), ready), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			tc.send(ownercache.Namesake[*appsv1.ReplicaSet](w.Cache), q)
			got := []string{}
			for q.Len() > 0 {
				r, _ := q.Get()
				got = append(got, r.String())
				q.Done(r)
			}
			want := slices.Repeat([]string{"default/web"}, map[bool]int{true: 1}[tc.want])
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
