package ownercache_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/ownercache"
)

// TestPassesAreHeldApart: between the beginnings of two reconciles of an owner with many Pods, some time
// must pass. Reconciles after a failure, and reconciles of owners with few Pods, are not delayed.
func TestPassesAreHeldApart(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	many, few := newOwner("many"), newOwner("few")
	w.add(many, few, podOf(few, "few-0"))
	const pods = 400
	var members []client.Object
	for i := range pods {
		members = append(members, podOf(many, fmt.Sprintf("many-%d", i)))
	}
	w.add(members...)
	passes, oops := map[string]int{}, error(nil)
	loop := ownercache.Forgetful(w.Cache, reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		if _, _, err := w.Observe(ctx, req); err != nil {
			t.Fatal(err)
		}
		passes[req.Name]++
		return ctrl.Result{}, oops
	}))
	pass := func(name string) ctrl.Result {
		t.Helper()
		result, err := loop.Reconcile(t.Context(), request(name))
		if !errors.Is(err, oops) {
			t.Fatal(err)
		}
		return result
	}
	check := func(after string, wantPasses int, wantRest, rest time.Duration) {
		t.Helper()
		if passes["many"] != wantPasses || rest != wantRest {
			t.Errorf("%s: %d passes, the next in %v; want %d, in %v", after, passes["many"], rest, wantPasses, wantRest)
		}
	}
	check("the first", 1, 0, pass("many").RequeueAfter)
	w.clock.SetTime(w.clock.Now().Add(5 * time.Millisecond))
	check("too early", 1, 15*time.Millisecond, pass("many").RequeueAfter) // 400 times 50 us
	pass("few")
	pass("few")
	w.clock.SetTime(w.clock.Now().Add(15 * time.Millisecond))
	check("in time", 2, 0, pass("many").RequeueAfter)

	w.clock.SetTime(w.clock.Now().Add(time.Second))
	oops = errors.New("oops")
	check("it fails", 3, 0, pass("many").RequeueAfter)
	check("back-off says when to try again", 4, 0, pass("many").RequeueAfter)
	if diff := cmp.Diff(map[string]int{"many": 4, "few": 2}, passes); diff != "" {
		t.Errorf("passes (-want +got):\n%s", diff)
	}
}
