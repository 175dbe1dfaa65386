package ownercache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ownercache"
)

// TestWake: Wake requeues an owner soon, and WakeAfter after a duration. Both do nothing before the controller
// starts.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ownercache.Options{})
		web := newOwner("web")
		w.add(web)
		v := w.observe("web")
		w.Wake(web)
		v.WakeAfter(time.Second)

		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		ownercache.SetQueue(w.Cache, q)
		w.Wake(web)
		w.Wake(web)
		v.WakeAfter(time.Minute)
		woken := func() (out []types.NamespacedName) {
			synctest.Wait()
			for q.Len() > 0 {
				r, _ := q.Get()
				out = append(out, r.NamespacedName)
				q.Done(r)
			}
			return out
		}
		want := []types.NamespacedName{{Namespace: "default", Name: "web"}}
		if diff := cmp.Diff(want, woken()); diff != "" {
			t.Errorf("woken at once (-want +got):\n%s", diff)
		}
		if time.Sleep(59 * time.Second); len(woken()) > 0 {
			t.Error("woken too soon")
		}
		time.Sleep(2 * time.Second)
		if diff := cmp.Diff(want, woken()); diff != "" {
			t.Errorf("woken after a while (-want +got):\n%s", diff)
		}
		q.ShutDown()
	})
}

func TestAddPodControllerNeedsToKnow(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	r := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
	if err := w.AddPodController(nil, "pods", r, nil, ownercache.ControllerOptions{}); err == nil {
		t.Error("a Pods' controller that does not know which Pods depend on their owner is accepted")
	}
}
