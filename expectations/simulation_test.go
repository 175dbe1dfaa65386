package expectations_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/expectations"
)

// The tests in this file run a controller on a simulated cache that is behind the API server, or that gets no events
// for a while.

// cluster simulates an API server with a single kind and a global version, and a cache that receives the events
// later.
type cluster struct {
	version int
	objects map[types.UID]bool // value: terminating
	events  []event
	cache   map[types.UID]bool
	applied int // events seen by the cache
	store   *progress
}

type event struct {
	version          int
	uid              types.UID
	terminating, end bool
}

func newCluster() *cluster {
	return &cluster{version: 100, objects: map[types.UID]bool{}, cache: map[types.UID]bool{}, store: at("100")}
}

func (c *cluster) emit(uid types.UID, terminating, end bool) string {
	c.version++
	c.events = append(c.events, event{c.version, uid, terminating, end})
	return fmt.Sprint(c.version)
}

func (c *cluster) create() string {
	uid := types.UID(fmt.Sprintf("p%d", c.version))
	c.objects[uid] = false
	return c.emit(uid, false, false)
}

func (c *cluster) terminate(uid types.UID) {
	if terminating, exists := c.objects[uid]; exists && !terminating {
		c.objects[uid] = true
		c.emit(uid, true, false)
	}
}

// end removes a terminating object.
func (c *cluster) end() {
	for _, uid := range slices.Sorted(maps.Keys(c.objects)) {
		if c.objects[uid] {
			delete(c.objects, uid)
			c.emit(uid, true, true)
			return
		}
	}
}

// deliver brings up to n events to the cache.
func (c *cluster) deliver(n int) {
	for ; n > 0 && c.applied < len(c.events); n-- {
		e := c.events[c.applied]
		c.applied++
		if e.end {
			delete(c.cache, e.uid)
		} else {
			c.cache[e.uid] = e.terminating
		}
		c.store.set(fmt.Sprint(e.version))
	}
}

// relist brings the cache up to date in a single step, as after a broken watch: the cache misses all events in
// between.
func (c *cluster) relist() {
	c.applied = len(c.events)
	clear(c.cache)
	maps.Copy(c.cache, c.objects)
	c.store.set(fmt.Sprint(c.version))
}

func active(objects map[types.UID]bool) []types.UID {
	var list []types.UID
	for _, uid := range slices.Sorted(maps.Keys(objects)) { // sorted, for replays of a seed
		if !objects[uid] {
			list = append(list, uid)
		}
	}
	return list
}

// controller keeps a number of objects, and decides only from the cache.
type controller struct {
	t       *testing.T
	c       *cluster
	tracker *expectations.Tracker
	gated   bool
}

func (k *controller) reconcile(replicas int) {
	live := func(_ expectations.Store, uid types.UID) bool {
		terminating, exists := k.c.cache[uid]
		return exists && !terminating
	}
	if k.gated {
		pending, err := k.tracker.Check("owner", live)
		if err != nil {
			k.t.Fatal(err)
		}
		if pending != nil {
			return
		}
	}
	seen := active(k.c.cache)
	for range replicas - len(seen) {
		if err := k.tracker.Wrote("owner", pods, k.c.create()); err != nil {
			k.t.Fatal(err)
		}
	}
	for _, uid := range seen[:max(len(seen)-replicas, 0)] {
		k.c.terminate(uid)
		if err := k.tracker.Deleted("owner", pods, uid); err != nil {
			k.t.Fatal(err)
		}
	}
}

func newController(t *testing.T, c *cluster, barrier bool) *controller {
	return &controller{t: t, c: c, gated: true, tracker: expectations.New(
		map[expectations.Store]expectations.Progress{pods: c.store}, expectations.Options{NoBarrier: !barrier})}
}

// run runs a random schedule. surplus is the largest number of active objects minus the largest wanted number.
// converged says that in the end the number of objects is right.
func run(t *testing.T, gated bool, seed uint64) (surplus int, converged bool) {
	random := rand.New(rand.NewPCG(seed, 1))
	c := newCluster()
	k := newController(t, c, false)
	k.gated = gated
	replicas, highest := 3, 3
	for range 300 {
		switch random.IntN(10) {
		case 0:
			replicas = random.IntN(6)
			highest = max(highest, replicas)
		case 1, 2, 3:
			k.reconcile(replicas)
		case 4, 5:
			c.deliver(random.IntN(4))
		case 6:
			c.end()
		case 7: // somebody else deletes an object, perhaps a moment after its creation
			if list := active(c.objects); len(list) > 0 {
				c.terminate(list[0])
				c.end()
			}
		case 8:
			if random.IntN(5) == 0 {
				c.relist()
			}
		case 9: // a new leader, with the same cache and an empty tracker
			if random.IntN(5) == 0 {
				k = newController(t, c, true)
				k.gated = gated
				if err := k.tracker.Require(pods, fmt.Sprint(c.version)); err != nil {
					t.Fatal(err)
				}
			}
		}
		surplus = max(surplus, len(active(c.objects))-highest)
	}
	for range 50 {
		k.reconcile(replicas)
		c.end()
		c.deliver(100)
	}
	return surplus, len(active(c.objects)) == replicas && k.tracker.Len() == 0
}

func TestControllerNeverActsOnAnOldView(t *testing.T) {
	for seed := range uint64(300) {
		surplus, converged := run(t, true, seed)
		if surplus > 0 || !converged {
			t.Fatalf("seed %d: %d objects too many, converged: %v", seed, surplus, converged)
		}
	}
}

// TestTheSimulationCanFail runs the simulation without Check: the controller then creates too many objects, which
// shows that the schedules are difficult enough.
func TestTheSimulationCanFail(t *testing.T) {
	worst := 0
	for seed := range uint64(20) {
		surplus, _ := run(t, false, seed)
		worst = max(worst, surplus)
	}
	if worst == 0 {
		t.Error("no schedule makes an ungated controller create too many")
	}
}

// TestLiveReadEndsTheWait: if the watch delivers no more events, but a list from the API server shows the same
// objects as the cache, Confirm ends the wait.
func TestLiveReadEndsTheWait(t *testing.T) {
	w := newWorld(false)
	w.mustWrite(t, "o", pods, "150")
	w.pass(2 * time.Minute)
	p, err := w.Check("o", nil)
	if err != nil || !p.LiveRead {
		t.Fatalf("Check = %+v, %v; want it to ask for a live read", p, err)
	}
	// A read served by a cache is refused. A read from storage ends the wait.
	if err := w.Confirm("o", pods, "149"); !errors.Is(err, expectations.StaleRead) {
		t.Fatalf("Confirm = %v, want StaleRead", err)
	}
	if err := w.Confirm("o", pods, "151"); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "o", nil, nil)
}
