package expectations_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/reason"
)

var (
	pods   = expectations.Store{GroupResource: schema.GroupResource{Resource: "pods"}}
	claims = expectations.Store{GroupResource: schema.GroupResource{Resource: "persistentvolumeclaims"}}
	meta   = expectations.Store{GroupResource: schema.GroupResource{Resource: "pods"}, Name: "metadata"}
	t0     = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
)

// progress is a store whose version the test sets.
type progress struct{ version atomic.Value }

func at(version string) *progress {
	p := &progress{}
	p.version.Store(version)
	return p
}

func (p *progress) set(version string)                   { p.version.Store(version) }
func (p *progress) LastStoreSyncResourceVersion() string { return p.version.Load().(string) }

// observed counts the calls of an observer.
type observed struct{ Waiting, Late atomic.Int32 }

type observer struct{ *observed }

func (o observer) Waiting(expectations.Pending) { o.observed.Waiting.Add(1) }
func (o observer) Late(expectations.Pending)    { o.observed.Late.Add(1) }

// world has a tracker with three stores at version 100, and a clock at t0.
type world struct {
	*expectations.Tracker

	pods, claims, meta *progress
	clock              *testclock.FakePassiveClock
	observed           *observed
}

func newWorld(barrier bool) *world {
	w := &world{pods: at("100"), claims: at("100"), meta: at("100"), clock: testclock.NewFakePassiveClock(t0), observed: &observed{}}
	w.Tracker = expectations.New(map[expectations.Store]expectations.Progress{pods: w.pods, claims: w.claims, meta: w.meta},
		expectations.Options{Clock: w.clock, Alarm: time.Minute, Observer: observer{w.observed}, NoBarrier: !barrier})
	return w
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func (w *world) mustWrite(t *testing.T, owner types.UID, store expectations.Store, version string) {
	t.Helper()
	if err := w.Wrote(owner, store, version); err != nil {
		t.Fatal(err)
	}
}

// expect compares the result of Check for an owner.
func (w *world) expect(t *testing.T, owner types.UID, live expectations.Present, want *expectations.Pending) {
	t.Helper()
	got, err := w.Check(owner, live)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("answer (-want +got):\n%s", diff)
	}
}

func liveAre(uids ...types.UID) expectations.Present {
	return func(_ expectations.Store, uid types.UID) bool {
		return slices.Contains(uids, uid)
	}
}

func Example() {
	store := at("100")
	tracker := expectations.New(map[expectations.Store]expectations.Progress{pods: store},
		expectations.Options{Clock: testclock.NewFakePassiveClock(t0), NoBarrier: true})
	owner := types.UID("web-uid")

	_ = tracker.Wrote(owner, pods, "105") // the version in the response to a create request
	if pending, _ := tracker.Check(owner, nil); pending != nil {
		fmt.Println(pending)
		fmt.Println("again in", pending.RequeueAfter)
	}
	store.set("107") // the watch delivers the events
	pending, _ := tracker.Check(owner, nil)
	fmt.Println(pending == nil, tracker.Len())
	// Output:
	// AwaitingCache: pods: 100 -> 105: waiting since 2026-07-01T12:00:00Z; wait until the cache has caught up
	// again in 10ms
	// true 0
}

func TestWritten(t *testing.T) {
	w := newWorld(false)
	w.expect(t, "o", nil, nil)
	w.mustWrite(t, "o", pods, "105")
	w.mustWrite(t, "o", pods, "103") // responses may arrive in any order; the highest version counts
	w.pass(4 * time.Second)
	w.mustWrite(t, "o", claims, "99") // visible already
	pending := &expectations.Pending{
		Owner: "o", Since: t0, RequeueAfter: time.Second,
		Awaited: []expectations.Awaited{{Store: pods, Want: "105", Seen: "100", Since: t0}},
	}
	w.expect(t, "o", nil, pending)
	w.expect(t, "another", nil, nil)
	w.pods.set("104")
	pending.Awaited[0].Seen = "104"
	w.expect(t, "o", nil, pending)
	w.meta.set("1000") // the version of another cache of the same resource does not count
	w.expect(t, "o", nil, pending)
	w.pods.set("105")
	w.expect(t, "o", nil, nil)
	if w.Len() != 0 {
		t.Errorf("%d owners left after all is visible", w.Len())
	}
	if n := w.observed.Waiting.Load(); n != 3 {
		t.Errorf("observer told of %d waits, want 3", n)
	}
}

func TestVersionsCompareAsNumbers(t *testing.T) {
	w := newWorld(false)
	w.mustWrite(t, "o", pods, "1000")
	w.pods.set("999")
	if p, _ := w.Check("o", nil); p == nil {
		t.Error("999 passes for 1000: compared as text")
	}
	w.pods.set("1000000000000000000000000000000")
	w.expect(t, "o", nil, nil)
}

func TestDeleted(t *testing.T) {
	w := newWorld(false)
	for _, uid := range []types.UID{"b", "a", "b"} {
		if err := w.Deleted("o", pods, uid); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Millisecond)
	}
	if err := w.Deleted("o", claims, "c"); err != nil {
		t.Fatal(err)
	}
	w.mustWrite(t, "o", pods, "101")
	w.expect(t, "o", liveAre("a", "b", "c"), &expectations.Pending{
		Owner: "o", Since: t0, RequeueAfter: 10 * time.Millisecond,
		Awaited: []expectations.Awaited{
			{Store: pods, Want: "101", Seen: "100", Since: t0.Add(3 * time.Millisecond)},
			{Store: claims, UIDs: []types.UID{"c"}, Since: t0.Add(3 * time.Millisecond)},
			{Store: pods, UIDs: []types.UID{"a", "b"}, Since: t0},
		},
	})
	w.pods.set("102")
	w.expect(t, "o", liveAre("b"), &expectations.Pending{
		Owner: "o", Since: t0, RequeueAfter: 10 * time.Millisecond,
		Awaited: []expectations.Awaited{{Store: pods, UIDs: []types.UID{"b"}, Since: t0}},
	})
	if p, err := w.Check("o", nil); p == nil || err != nil {
		t.Errorf("without a lookup a deletion passed: %v, %v", p, err)
	}
	w.expect(t, "o", liveAre(), nil)
	if w.Len() != 0 {
		t.Errorf("%d owners left", w.Len())
	}
}

// TestDeletedBeforeItArrived: an object is created and deleted before the cache has seen either event. As long as the
// cache has not seen the creation, the missing object must not count as deleted.
func TestDeletedBeforeItArrived(t *testing.T) {
	w := newWorld(false)
	w.mustWrite(t, "o", pods, "105")
	if err := w.Deleted("o", pods, "a"); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "o", liveAre(), &expectations.Pending{
		Owner: "o", Since: t0, RequeueAfter: 10 * time.Millisecond,
		Awaited: []expectations.Awaited{{Store: pods, Want: "105", Seen: "100", Since: t0}},
	})
	w.pods.set("105") // the creation arrives, the deletion does not
	w.expect(t, "o", liveAre("a"), &expectations.Pending{
		Owner: "o", Since: t0, RequeueAfter: 10 * time.Millisecond,
		Awaited: []expectations.Awaited{{Store: pods, UIDs: []types.UID{"a"}, Since: t0}},
	})
	w.expect(t, "o", liveAre(), nil)
}

func TestTimeAloneNeverPasses(t *testing.T) {
	w := newWorld(false)
	w.mustWrite(t, "o", pods, "200")
	type answer struct{ Late, LiveRead bool }
	for _, step := range []struct {
		wait   time.Duration
		want   answer
		alarms int32
	}{
		{time.Minute, answer{}, 0},
		{time.Second, answer{Late: true, LiveRead: true}, 1},
		{time.Second, answer{Late: true}, 1},
		{58 * time.Second, answer{Late: true}, 1},
		{time.Second, answer{Late: true, LiveRead: true}, 1},
		{10000 * time.Hour, answer{Late: true, LiveRead: true}, 1},
	} {
		w.pass(step.wait)
		p, err := w.Check("o", nil)
		if p == nil || err != nil {
			t.Fatalf("after %v: %v, %v; time must not satisfy anything", w.clock.Since(t0), p, err)
		}
		if diff := cmp.Diff(step.want, answer{p.Late, p.LiveRead}); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", w.clock.Since(t0), diff)
		}
		if n := w.observed.Late.Load(); n != step.alarms {
			t.Errorf("after %v: %d alarms, want %d", w.clock.Since(t0), n, step.alarms)
		}
		if step.want.Late && p.Reasons()[0].Code != expectations.CacheLate {
			t.Errorf("reason = %v, want CacheLate", p)
		}
	}
	w.pods.set("200")
	w.expect(t, "o", nil, nil)
	w.mustWrite(t, "o", pods, "300")
	w.pass(2 * time.Minute)
	if p, _ := w.Check("o", nil); !p.LiveRead || w.observed.Late.Load() != 2 {
		t.Error("a new wait that is late is not told")
	}
}

func TestReasons(t *testing.T) {
	await := func(uids ...types.UID) []expectations.Awaited {
		return []expectations.Awaited{{Store: pods, UIDs: uids, Since: t0}}
	}
	floor := []expectations.Awaited{{Store: pods, Want: "9", Seen: "8", Barrier: true, Since: t0}}
	for _, tc := range []struct {
		name string
		p    expectations.Pending
		want string
	}{
		{"one deletion", expectations.Pending{Awaited: await("a")}, "AwaitingCache: pods: deletion of a: waiting since 2026-07-01T12:00:00Z; wait until the cache has caught up"},
		{"several deletions", expectations.Pending{Awaited: await("a", "b", "c")}, "AwaitingCache: pods: deletion of a and 2 more: waiting since 2026-07-01T12:00:00Z; wait until the cache has caught up"},
		{"late barrier", expectations.Pending{Awaited: floor, Late: true}, "CacheLate: pods: 8 -> 9: waiting since 2026-07-01T12:00:00Z; check the watch on this resource and the load on API server and controller"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.p.String()); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfirm(t *testing.T) {
	w := newWorld(false)
	w.mustWrite(t, "o", pods, "200")
	w.mustWrite(t, "o", claims, "201")
	if err := w.Deleted("o", pods, "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.Confirm("o", pods, "199"); !errors.Is(err, expectations.StaleRead) {
		t.Errorf("an old read confirms: %v", err)
	}
	for version, want := range map[string]reason.Code{"": expectations.IncomparableVersion, "abc": expectations.IncomparableVersion} {
		if err := w.Confirm("o", pods, version); !errors.Is(err, want) {
			t.Errorf("Confirm(%q) = %v, want %s", version, err, want)
		}
	}
	if p, _ := w.Check("o", liveAre("a")); p == nil || len(p.Awaited) != 3 {
		t.Fatalf("failed confirmations changed something: %v", p)
	}
	if err := w.Confirm("o", pods, "200"); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "o", liveAre("a"), &expectations.Pending{
		Owner: "o", Since: t0, RequeueAfter: 10 * time.Millisecond,
		Awaited: []expectations.Awaited{{Store: claims, Want: "201", Seen: "100", Since: t0}},
	})
	if err := w.Confirm("o", claims, "300"); err != nil || w.Len() != 0 {
		t.Errorf("Confirm = %v, %d owners left", err, w.Len())
	}
	if err := w.Confirm("nobody", claims, "300"); err != nil {
		t.Errorf("Confirm without a record = %v", err)
	}
}

func TestIncomparableVersionsNeverPass(t *testing.T) {
	for _, version := range []string{"", "abc", "0", "007", "-1", "1.5"} {
		t.Run("version "+version, func(t *testing.T) {
			w := newWorld(false)
			w.mustWrite(t, "o", pods, "50")
			if err := w.Wrote("o", pods, version); !errors.Is(err, expectations.IncomparableVersion) {
				t.Fatalf("Wrote(%q) = %v, want IncomparableVersion", version, err)
			}
			w.mustWrite(t, "o", pods, "60") // a later comparable version does not replace the incomparable version
			if p, err := w.Check("o", nil); p != nil || !errors.Is(err, expectations.IncomparableVersion) {
				t.Errorf("Check = %v, %v; want IncomparableVersion", p, err)
			}
			if err := w.Confirm("o", pods, "100"); err != nil {
				t.Fatal(err)
			}
			w.expect(t, "o", nil, nil)
		})
	}
}

func TestStoresWithoutProgress(t *testing.T) {
	w := newWorld(false)
	if err := w.Verify(); err != nil {
		t.Errorf("Verify of good stores = %v", err)
	}
	w.pods.set("")
	w.claims.set("v7")
	want := reason.List{
		{
			Code: expectations.IncomparableVersion, Path: "persistentvolumeclaims", New: `"v7"`,
			Remedy: "use an API server whose resourceVersions are decimal numbers",
		},
		{
			Code: expectations.NoProgress, Path: "pods", New: `""`, Detail: "the store does not tell how far it is",
			Remedy: "use a cache of client-go 0.36 or later, and wait until it has synced",
		},
	}
	if diff := cmp.Diff(want, reason.From(w.Verify())); diff != "" {
		t.Errorf("Verify (-want +got):\n%s", diff)
	}
	w.mustWrite(t, "o", pods, "50")
	if p, err := w.Check("o", nil); p != nil || !errors.Is(err, expectations.NoProgress) {
		t.Errorf("Check = %v, %v; want NoProgress and no pass", p, err)
	}
	w.pods.set("50")
	w.expect(t, "o", nil, nil)
}

func TestUnknownStore(t *testing.T) {
	w := newWorld(false)
	other := expectations.Store{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Name: "x"}
	for name, err := range map[string]error{
		"Wrote": w.Wrote("o", other, "1"), "Deleted": w.Deleted("o", other, "u"), "Confirm": w.Confirm("o", other, "1"),
		"Require": w.Require(other, "1"),
	} {
		want := reason.List{{Code: expectations.UnknownStore, Path: "deployments.apps (x)", Remedy: "pass the store to New"}}
		if diff := cmp.Diff(want, reason.From(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if w.Len() != 0 {
		t.Error("something was recorded")
	}
}

func TestBarrier(t *testing.T) {
	w := newWorld(true)
	p, err := w.Check("o", nil)
	if err != nil || p == nil || len(p.Awaited) != 3 || p.Reasons()[0].Code != expectations.AwaitingBarrier {
		t.Fatalf("before the quorum reads: %v, %v; want to wait for all stores", p, err)
	}
	for _, store := range w.Stores() {
		if err := w.Require(store, "100"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Require(pods, "150"); err != nil {
		t.Fatal(err)
	}
	if err := w.Require(pods, "120"); err != nil { // lower than the required version
		t.Fatal(err)
	}
	if err := w.Require(pods, "x"); !errors.Is(err, expectations.IncomparableVersion) {
		t.Errorf("Require(x) = %v", err)
	}
	w.pass(time.Second)
	w.pods.set("149")
	w.expect(t, "o", nil, &expectations.Pending{
		Owner: "o", Since: t0, RequeueAfter: 250 * time.Millisecond,
		Awaited: []expectations.Awaited{{Store: pods, Want: "150", Seen: "149", Barrier: true, Since: t0}},
	})
	w.pass(2 * time.Minute)
	for range 3 {
		if p, _ := w.Check("o", nil); !p.Late || p.LiveRead {
			t.Errorf("late barrier = %+v, want it late, and no live read of one owner", p)
		}
	}
	if n := w.observed.Late.Load(); n != 1 {
		t.Errorf("%d alarms, want 1", n)
	}
	w.pods.set("150")
	w.expect(t, "o", nil, nil)
	w.pods.set("") // a barrier that has ended does not begin again
	w.expect(t, "o", nil, nil)
	if err := w.Require(pods, "160"); err != nil {
		t.Fatal(err)
	}
	if p, err := w.Check("o", nil); p != nil || !errors.Is(err, expectations.NoProgress) {
		t.Errorf("barrier on a store without progress: %v, %v", p, err)
	}
}

// TestIgnores: Check does not wait for an ignored store, neither for its barrier nor for writes and deletions.
func TestIgnores(t *testing.T) {
	ignored := true
	podStore, claimStore := at("10"), at("10")
	tracker := expectations.New(map[expectations.Store]expectations.Progress{pods: podStore, claims: claimStore}, expectations.Options{
		Ignores: func(store expectations.Store) bool { return ignored && store == claims },
	})
	waits := func(want ...expectations.Store) {
		t.Helper()
		pending, err := tracker.Check("o", liveAre("d"))
		if err != nil {
			t.Fatal(err)
		}
		var got []expectations.Store
		if pending != nil {
			for i := range pending.Awaited {
				got = append(got, pending.Awaited[i].Store)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("awaited (-want +got):\n%s", diff)
		}
	}
	waits(pods)
	if err := tracker.Require(pods, "10"); err != nil {
		t.Fatal(err)
	}
	waits()
	for _, err := range []error{tracker.Wrote("o", claims, "20"), tracker.Deleted("o", claims, "d"), tracker.Wrote("o", pods, "20")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	waits(pods)
	ignored = false
	waits(claims, claims, pods, claims) // the claims barrier and write, the write, the deletion
	if err := tracker.Require(claims, "15"); err != nil {
		t.Fatal(err)
	}
	claimStore.set("20")
	podStore.set("20")
	waits(claims)
	ignored = true
	waits()
}

func TestForgetLeavesNothing(t *testing.T) {
	w := newWorld(false)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	owner := func(i int) types.UID { return types.UID(fmt.Sprintf("%032d", i)) }
	const owners = 50_000
	before := heap()
	for i := range owners {
		w.mustWrite(t, owner(i), pods, "500")
		if err := w.Deleted(owner(i), pods, "p"); err != nil {
			t.Fatal(err)
		}
	}
	full := heap()
	for i := range owners {
		if i%2 == 0 {
			w.Forget(owner(i))
		}
	}
	w.pods.set("500")
	for i := range owners {
		if i%2 == 1 {
			w.expect(t, owner(i), liveAre(), nil)
		}
	}
	after := heap()
	runtime.KeepAlive(w)
	if w.Len() != 0 {
		t.Errorf("%d owners left", w.Len())
	}
	grown := int64(after) - int64(before)
	// The heap of a test process always changes a little; a leak would be megabytes.
	if grown > int64(full-before)/100 {
		t.Errorf("%d bytes left of %d after all owners are gone", grown, full-before)
	}
}

func TestForgottenOwnersGiveRoomBack(t *testing.T) {
	w := newWorld(false)
	for i := range 20_000 {
		w.mustWrite(t, types.UID(fmt.Sprintf("%032d", i)), pods, "500")
	}
	for i := range 19_000 {
		w.Forget(types.UID(fmt.Sprintf("%032d", i)))
	}
	if w.Len() != 1000 {
		t.Fatalf("Len = %d, want 1000", w.Len())
	}
	for i := 19_000; i < 20_000; i++ {
		if p, err := w.Check(types.UID(fmt.Sprintf("%032d", i)), nil); p == nil || err != nil {
			t.Fatalf("owner %d was forgotten with the others", i)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	w := newWorld(true)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				owner := types.UID(fmt.Sprintf("owner-%d", i%10))
				version := fmt.Sprint(101 + i)
				_ = w.Wrote(owner, pods, version)
				_ = w.Deleted(owner, claims, types.UID(version))
				_ = w.Require(w.Stores()[g%3], "100")
				_, _ = w.Check(owner, liveAre())
				_ = w.Confirm(owner, pods, "9999")
				if i%50 == 0 {
					w.Forget(owner)
				}
			}
		})
	}
	wg.Wait()
	w.pods.set("9999")
	for i := range 10 {
		w.expect(t, types.UID(fmt.Sprintf("owner-%d", i)), liveAre(), nil)
	}
	if w.Len() != 0 {
		t.Errorf("%d owners left", w.Len())
	}
}

// FuzzTracker runs a random schedule of writes, deletions, cache progress and checks, and compares each result with a
// simple model: Check returns nil exactly when all of the owner's writes are visible.
func FuzzTracker(f *testing.F) {
	f.Add([]byte{0, 10, 3, 0, 2, 10, 3, 0})
	f.Add([]byte{0, 10, 1, 7, 2, 200, 4, 7, 3, 0, 5, 0})
	f.Add([]byte{0, 1, 0, 255, 2, 100, 3, 0, 2, 255, 3, 0, 6, 0})
	f.Fuzz(func(t *testing.T, schedule []byte) {
		schedule = schedule[:min(len(schedule), 200)]
		w := newWorld(false)
		seen := 100
		want := map[types.UID]int{}            // highest version written
		live := map[types.UID]bool{}           // objects in the cache
		deleted := map[types.UID][]types.UID{} // per owner
		inCache := func(_ expectations.Store, uid types.UID) bool { return live[uid] }
		for i := 0; i+1 < len(schedule); i += 2 {
			arg := int(schedule[i+1])
			owner := types.UID(fmt.Sprintf("o%d", arg%3))
			object := types.UID(fmt.Sprintf("p%d", arg))
			switch schedule[i] % 7 {
			case 0:
				version := seen + arg
				w.mustWrite(t, owner, pods, fmt.Sprint(version))
				want[owner] = max(want[owner], version)
			case 1:
				live[object] = true
				if err := w.Deleted(owner, pods, object); err != nil {
					t.Fatal(err)
				}
				deleted[owner] = append(deleted[owner], object)
			case 2:
				seen += arg
				w.pods.set(fmt.Sprint(seen))
			case 3:
				w.pass(time.Duration(arg) * time.Second)
			case 4:
				delete(live, object)
			case 5:
				w.Forget(owner)
				delete(want, owner)
				delete(deleted, owner)
			case 6:
				version := seen + arg
				err := w.Confirm(owner, pods, fmt.Sprint(version))
				if (err != nil) != (version < want[owner]) {
					t.Fatalf("Confirm(%d) = %v with %d awaited", version, err, want[owner])
				}
				if err == nil {
					delete(want, owner)
					delete(deleted, owner)
				}
			}
			for _, o := range []types.UID{"o0", "o1", "o2"} {
				var stillThere []types.UID
				for _, uid := range deleted[o] {
					if live[uid] {
						stillThere = append(stillThere, uid)
					}
				}
				if want[o] <= seen {
					deleted[o] = stillThere // a missing object is deleted for ever if all writes are visible
				} else {
					stillThere = deleted[o]
				}
				passes := want[o] <= seen && len(stillThere) == 0
				if want[o] <= seen {
					delete(want, o)
				}
				p, err := w.Check(o, inCache)
				if err != nil || (p == nil) != passes {
					t.Fatalf("step %d: Check(%s) = %v, %v; want to pass: %v", i, o, p, err, passes)
				}
				if p != nil && (p.RequeueAfter <= 0 || p.RequeueAfter > time.Second || len(p.Awaited) == 0) {
					t.Fatalf("answer %+v", p)
				}
			}
		}
	})
}

func BenchmarkWrote(b *testing.B) {
	w := newWorld(false)
	owners := make([]types.UID, 1000)
	for i := range owners {
		owners[i] = types.UID(fmt.Sprintf("6f1ed002-ab5f-4a2a-9d2f-%012d", i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_ = w.Wrote(owners[i%len(owners)], pods, "4711123")
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "observe/s")
}

func BenchmarkCheckNothingOutstanding(b *testing.B) {
	w := newWorld(false)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = w.Check("6f1ed002-ab5f-4a2a-9d2f-000000000001", nil)
	}
}

func BenchmarkWroteAndSatisfied(b *testing.B) {
	w := newWorld(false)
	b.ReportAllocs()
	for b.Loop() {
		_ = w.Wrote("6f1ed002-ab5f-4a2a-9d2f-000000000001", pods, "99")
		_, _ = w.Check("6f1ed002-ab5f-4a2a-9d2f-000000000001", nil)
	}
}

// TestLift: Lift ends the barrier of a store, if the list is at least as new as required.
func TestLift(t *testing.T) {
	w := newWorld(true)
	for _, store := range w.Stores() {
		floor := "500"
		if store != pods && store != claims {
			floor = "100" // reached already
		}
		if err := w.Require(store, floor); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Lift(pods, "499"); !errors.Is(err, expectations.StaleRead) {
		t.Errorf("an old list lifts: %v", err)
	}
	if err := w.Lift(pods, "abc"); !errors.Is(err, expectations.IncomparableVersion) {
		t.Errorf("Lift(abc) = %v", err)
	}
	if err := w.Lift(expectations.Store{Name: "none"}, "500"); !errors.Is(err, expectations.UnknownStore) {
		t.Errorf("Lift of an unknown store = %v", err)
	}
	if p, _ := w.Check("o", nil); p == nil || len(p.Awaited) != 2 {
		t.Fatalf("failed calls changed something: %v", p)
	}
	for _, version := range []string{"501", "502"} { // the second call finds no barrier
		if err := w.Lift(pods, version); err != nil {
			t.Fatal(err)
		}
	}
	p, err := w.Check("o", nil)
	if err != nil || p == nil || len(p.Awaited) != 1 || p.Awaited[0].Store != claims {
		t.Fatalf("Check = %v, %v; want the other store to be awaited", p, err)
	}
	if p.Wait() != p.RequeueAfter || (*expectations.Pending)(nil).Wait() != 0 {
		t.Errorf("Wait = %v, want %v, and 0 of nothing", p.Wait(), p.RequeueAfter)
	}
	if err := w.Lift(claims, "500"); err != nil {
		t.Fatal(err)
	}
	if p, err := w.Check("o", nil); p != nil || err != nil {
		t.Errorf("Check = %v, %v", p, err)
	}
}
