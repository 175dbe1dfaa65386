package sharedstatus_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workloadkit/workloadkit/subsets"
)

// world has a Spread, and simulates webhooks in several processes.
type world struct {
	t      *testing.T
	client client.Client
	now    *clocktesting.FakePassiveClock
	hooks  []*spreads
}

func newWorld(t *testing.T, processes int) *world {
	spread := &Spread{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "w"}}
	w := &world{
		t: t, now: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)),
		client: fake.NewClientBuilder().WithScheme(spreadScheme()).WithObjects(spread).WithStatusSubresource(spread).Build(),
	}
	for range processes {
		hook, err := newSpreads(w.client, subsets.Policy{CreatingFor: 5 * time.Second}, w.now)
		if err != nil {
			t.Fatal(err)
		}
		w.hooks = append(w.hooks, hook)
	}
	return w
}

func (w *world) take(process int, name string, dryRun bool) string {
	w.t.Helper()
	choice, err := w.hooks[process].take(w.t.Context(), key, name, dryRun)
	if err != nil {
		w.t.Error(err)
	}
	return choice.Subset
}

func (w *world) stored() *Spread {
	w.t.Helper()
	s := &Spread{}
	if err := w.client.Get(w.t.Context(), key, s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) taken() int {
	line := w.stored().Status.Places.Line("zone-a")
	return line.Taken()
}

// count simulates a reconcile of the controller after the given time: the controller counts the Pods and writes the
// count.
func (w *world) count(after time.Duration, pods ...subsets.Member) subsets.Tally {
	w.t.Helper()
	w.now.SetTime(w.now.Now().Add(after))
	before := w.stored()
	tally := w.hooks[0].policy.Count(before.Status.Places, places(), pods, w.now.Now())
	counted := before.DeepCopyObject().(*Spread) //nolint:forcetypeassert // a copy
	counted.Status.Places = tally.Book
	err := w.client.Status().Patch(w.t.Context(), counted, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		w.t.Error(err)
	}
	return tally
}

// TestTakers: eight concurrent webhooks never exceed the maximum of a subset, while a controller counts the Pods.
func TestTakers(t *testing.T) {
	const pods = 24
	w := newWorld(t, 8)
	var mu sync.Mutex
	chosen := map[string]int{}
	var taking sync.WaitGroup
	for i := range pods {
		taking.Go(func() {
			subset := w.take(i%8, fmt.Sprint("web-", i), false)
			mu.Lock()
			defer mu.Unlock()
			chosen[subset]++
		})
	}
	taking.Go(func() {
		for range 20 {
			w.count(0)
		}
	})
	taking.Wait()
	if diff := cmp.Diff(map[string]int{"zone-a": 3, "zone-b": pods - 3}, chosen); diff != "" || w.taken() != 3 {
		t.Errorf("%d stored, want 3; chosen (-want +got):\n%s", w.taken(), diff)
	}
}

// TestPlaceOfAPod: a second invocation of a webhook for the same Pod reserves no second place, and a dry run reserves
// none.
func TestPlaceOfAPod(t *testing.T) {
	w := newWorld(t, 2)
	for _, step := range []struct {
		process int
		name    string
		dryRun  bool
		subset  string
		taken   int
	}{
		{0, "a", true, "zone-a", 0},
		{0, "a", false, "zone-a", 1},
		{0, "a", false, "zone-a", 1},
		{1, "a", false, "zone-a", 1},
		{1, "a", true, "zone-a", 1},
		{1, "b", false, "zone-a", 2},
		{0, "c", false, "zone-a", 3},
		{0, "d", true, "zone-b", 3},
		{1, "d", false, "zone-b", 3},
		{0, "c", false, "zone-a", 3},
	} {
		if subset := w.take(step.process, step.name, step.dryRun); subset != step.subset || w.taken() != step.taken {
			t.Errorf("%+v: %s, with %d taken", step, subset, w.taken())
		}
	}
}

// TestGivenBack: a place was reserved for a Pod that was never created. The controller's count removes the
// reservation after Policy.CreatingFor, and reports the removal.
func TestGivenBack(t *testing.T) {
	w := newWorld(t, 1)
	w.take(0, "created", false)
	w.take(0, "refused", false)
	created := subsets.Member{Name: "created", Subset: "zone-a"}
	if tally := w.count(2*time.Second, created); w.taken() != 2 || tally.RequeueAfter != 3*time.Second {
		t.Errorf("%d taken, and counted again after %s; want 2, 3s", w.taken(), tally.RequeueAfter)
	}
	tally := w.count(3*time.Second, created)
	if w.taken() != 1 || len(tally.Lost) != 1 || tally.Lost[0].Code != subsets.NotCreated || tally.Lost[0].Object.Name != "refused" {
		t.Errorf("%d taken, want 1; lost: %v", w.taken(), tally.Lost)
	}
	for _, want := range []string{"zone-a", "zone-a", "zone-b"} {
		if got := w.take(0, "next-"+fmt.Sprint(w.taken()), false); got != want {
			t.Errorf("in %s, want %s", got, want)
		}
	}
}
