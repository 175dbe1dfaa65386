package containerrecreaterequest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/workloadkit/workloadkit/ownercache"
)

// knowing returns a Reconciler whose cache contains the given requests.
func knowing(t *testing.T, requests ...*object) *Reconciler {
	t.Helper()
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &object{}, 0, toolscache.Indexers{})
	index, err := ownercache.IndexOf[*object](informer)
	if err != nil {
		t.Fatal(err)
	}
	if err := index.Add(podIndex, byPod); err != nil {
		t.Fatal(err)
	}
	for _, obj := range requests {
		if err := informer.GetIndexer().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	return &Reconciler{cache: &ownercache.Cache[*object]{Owners: index}}
}

// woken returns the names of the enqueued requests.
func woken(wake func(q queue)) (names []string) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer q.ShutDown()
	wake(q)
	for q.Len() > 0 {
		request, _ := q.Get()
		names = append(names, request.Name)
	}
	slices.Sort(names)
	return names
}

// TestWatch: an event of a Pod enqueues the request in progress, and all requests if the Pod has ended. The end of a
// request enqueues the waiting requests. A write of the agent's progress enqueues no request.
func TestWatch(t *testing.T) {
	named := func(name string, edits ...func(*object)) *object {
		return accepted(append(edits, func(obj *object) { obj.Name, obj.UID = name, types.UID(name) })...)
	}
	first, second := named("first", phase("Recreating")), named("second", phase("Pending"))
	other := named("other", phase("Recreating"), func(obj *object) { obj.Spec.PodName = "web-1" })
	former := named("former", phase("Pending"), func(obj *object) { obj.Labels["crr.apps.kruise.io/pod-uid"] = "u0" })
	over := named("over", completed(1))
	all := []*object{first, second, other, former, over}
	changed := func(obj *object, edit func(*object)) event.UpdateEvent {
		after := obj.DeepCopy()
		edit(after)
		return event.UpdateEvent{ObjectOld: obj, ObjectNew: after}
	}
	for _, tc := range []struct {
		name string
		wake func(r *Reconciler, q queue)
		want []string
	}{
		{"CR-13 a Pod changes", func(r *Reconciler, q queue) { r.podSeen(q, podWith(), false) }, []string{"first"}},
		{"CR-10 a Pod ends", func(r *Reconciler, q queue) { r.podSeen(q, podWith(), true) }, []string{"first", "former", "second"}},
		{"CR-10 a Pod of another namespace", func(r *Reconciler, q queue) {
			r.podSeen(q, podWith(func(pod *corev1.Pod) { pod.Namespace = "other" }), true)
		}, nil},
		{"CR-15 an end by the agent", func(r *Reconciler, q queue) { r.requestChanged(t.Context(), changed(over, phase("Recreating")), q) }, []string{"first", "over", "second"}},
		{"CR-61 a request begins", func(r *Reconciler, q queue) {
			before := first.DeepCopy()
			before.Status.Phase = "Pending"
			r.requestChanged(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: first}, q)
		}, []string{"first", "second"}},
		{"CR-61 a request is deleted", func(r *Reconciler, q queue) { r.wakeLine(q, over) }, []string{"first", "second"}},
		{"a record of containers", func(r *Reconciler, q queue) {
			r.requestChanged(t.Context(), changed(first, func(obj *object) { obj.Status.ContainerRecreateStates = []state{{Name: "app", Phase: "Recreating"}} }), q)
		}, nil},
		{"CR-14 a finalizer", func(r *Reconciler, q queue) { r.requestChanged(t.Context(), changed(first, holding), q) }, []string{"first"}},
		{"CR-14 a time", func(r *Reconciler, q queue) {
			r.requestChanged(t.Context(), changed(first, graced("True", metav1.Now())), q)
		}, []string{"first"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := knowing(t, all...)
			if diff := cmp.Diff(tc.want, woken(func(q queue) { tc.wake(r, q) })); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("CR-61 of a long line a few", func(t *testing.T) {
		var long []*object
		for i := range 100 {
			long = append(long, named(fmt.Sprintf("r-%02d", i), phase("Pending")))
		}
		r := knowing(t, long...)
		if names := woken(func(q queue) { r.wakeLine(q, over) }); len(names) != inLine+2 || names[0] != "r-00" {
			t.Errorf("woken %v", names)
		}
	})
}
