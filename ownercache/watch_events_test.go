package ownercache_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ownercache"
)

// wokenBy returns the names of the owners that an update event enqueues.
func wokenBy(t *testing.T, h handler.EventHandler, e event.UpdateEvent) (names []string) {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	h.Update(t.Context(), e, q)
	for q.Len() > 0 {
		item, _ := q.Get()
		names = append(names, item.Name)
		q.Done(item)
	}
	return names
}

func TestStatusEvents(t *testing.T) {
	before, after := newOwner("web"), newOwner("web")
	after.Status.Replicas = 3
	for _, tc := range []struct {
		name    string
		changed func(before, after *appsv1.ReplicaSet) bool
		want    []string
	}{
		{"nil stands for any change", nil, []string{"web"}},
		{"a change that matters", func(a, b *appsv1.ReplicaSet) bool { return a.Status.Replicas != b.Status.Replicas }, []string{"web"}},
		{"no change that matters", func(a, b *appsv1.ReplicaSet) bool { return a.Status.ReadyReplicas != b.Status.ReadyReplicas }, nil},
	} {
		got := wokenBy(t, ownercache.StatusEvents(tc.changed), event.UpdateEvent{ObjectOld: before, ObjectNew: after})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestOrphanEvents(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	w.add(newOwner("web"))
	owned, orphan := podOf(newOwner("web"), "web-0"), podOf(nil, "web-0")
	for _, tc := range []struct {
		name    string
		selects func(*appsv1.ReplicaSet, *corev1.Pod) bool
		before  *corev1.Pod
		want    []string
	}{
		{"nil selects all Pods", nil, owned, []string{"web"}},
		{"selected", func(owner *appsv1.ReplicaSet, pod *corev1.Pod) bool { return pod.Name == owner.Name+"-0" }, owned, []string{"web"}},
		{"not selected", func(*appsv1.ReplicaSet, *corev1.Pod) bool { return false }, owned, nil},
		{"an orphan as before", nil, orphan, nil},
	} {
		got := wokenBy(t, ownercache.OrphanEvents(w.Cache, tc.selects), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: orphan})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestWatchesNil: nil event sources are ignored.
func TestWatchesNil(t *testing.T) {
	called := 0
	ownercache.Watches(nil, func(b *builder.Builder) *builder.Builder { called++; return b })(nil)
	if called != 1 {
		t.Errorf("%d event sources were added, want 1", called)
	}
}

// TestZeroMemory: the zero values of Memory and Told remember nothing.
func TestZeroMemory(t *testing.T) {
	var memory ownercache.Memory[int]
	memory.Change("a", func(n *int) { *n++ })
	var told ownercache.Told
	got := []any{memory.Of("a"), told.IsNews("a", "s", "text"), told.IsNews("a", "s", "text"), told.IsNews("a", "s", "")}
	if diff := cmp.Diff([]any{0, true, true, false}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
