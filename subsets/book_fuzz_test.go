package subsets_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/workloadkit/workloadkit/subsets"
)

// FuzzBook simulates eight webhooks and a controller that write the same book, and read stale versions of the book
// and of the Pods. No subset ever gets more Pods than its maximum, and no Pod takes two places. In the end, the book
// has exactly the taken places.
func FuzzBook(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := newHall(t, seed)
		for range 300 {
			w.step()
			w.check()
		}
		w.settle()
	})
}

// These are the longest delays. A Pod reaches the controller's cache within the times of a Policy.
const (
	latestCreation = 10 * time.Second // from the webhook's answer to the creation
	latestDeletion = 2 * time.Second  // from the webhook's answer to the deletion
	latestCache    = 10 * time.Second // from a change of a Pod to the cache
)

// guest is a Pod of the simulation: the Pod exists, or a webhook has admitted the Pod and the Pod will be created.
type guest struct {
	subsets.Member

	due     time.Time // when the Pod is created; zero for never
	exists  bool
	letGo   time.Time // when the Pod's deletion was admitted; zero if not
	refused bool      // whether the Pod is never created
}

func (g *guest) isGone(now time.Time) bool {
	return g.exists && !g.letGo.IsZero() && now.After(g.letGo.Add(latestDeletion))
}

func (g *guest) active() bool { return g.exists && g.letGo.IsZero() }

// request is a webhook between reading and storing the book.
type request struct {
	version int
	key     string
	named   bool
	reuses  bool // whether the name belonged to a deleted Pod
	release *guest
}

// glance is a snapshot of the Pods at a given time.
type glance struct {
	at      time.Time
	members []subsets.Member
}

// hall is the simulated world of the test.
type hall struct {
	*testing.T

	rng      *rand.Rand
	now      time.Time
	places   places
	books    []subsets.Book // all stored versions
	guests   []*guest
	requests []request
	glances  []glance
	seen     time.Time // time of the snapshot in the controller's cache, which never goes back
	made     int
}

func newHall(t *testing.T, seed uint64) *hall {
	w := &hall{T: t, rng: rand.New(rand.NewPCG(seed, 3)), now: start, books: []subsets.Book{nil}}
	for i := range 1 + w.rng.IntN(3) {
		w.places = append(w.places, limited(fmt.Sprint("s", i), w.rng.IntN(4)))
	}
	if w.rng.IntN(2) == 0 {
		w.places = append(w.places, unlimited("rest"))
	}
	w.look()
	return w
}

func (w *hall) newest() int { return len(w.books) - 1 }

// read returns the index of the version of the book that a webhook reads, often not the newest version.
func (w *hall) read() int { return max(w.newest()-w.rng.IntN(3), 0) }

func (w *hall) step() {
	switch w.rng.IntN(9) {
	case 0, 1, 2:
		if len(w.requests) < 8 {
			w.begin()
		}
	case 3, 4:
		w.answer()
	case 5:
		w.count()
	case 6:
		w.letGo()
	case 7:
		i := w.rng.IntN(len(w.places))
		w.places[i].Closed = !w.places[i].Closed
	default:
		w.pass(time.Duration(w.rng.Int64N(int64(5 * time.Second))))
	}
}

// begin starts a request for a new Pod, for a Pod whose request was answered already, or for a Pod with the name of a
// deleted Pod.
func (w *hall) begin() {
	w.made++
	r := request{version: w.read(), key: fmt.Sprint("pod-", w.made), named: w.rng.IntN(2) == 0}
	for _, g := range w.guests {
		again := !g.exists && !g.due.IsZero() && w.now.Before(g.due)
		reused := g.Key == "" && g.isGone(w.now) && w.now.Sub(g.due) > 31*time.Second
		if again && w.rng.IntN(3) == 0 || reused && !w.isUsed(g.Name) && w.rng.IntN(2) == 0 {
			r.key, r.named, r.reuses = g.Name, g.Key == "", !again
			if g.Key != "" {
				r.key = g.Key
			}
			break
		}
	}
	w.requests = append(w.requests, r)
}

// isUsed reports whether a Pod has the name, or a pending request is for the name.
func (w *hall) isUsed(name string) bool {
	return slices.ContainsFunc(w.guests, func(g *guest) bool { return g.Name == name && (g.active() || !g.exists && !g.refused) }) ||
		slices.ContainsFunc(w.requests, func(r request) bool { return r.key == name })
}

// answer stores the book of a request and admits the Pod, or lets the request read the book again.
func (w *hall) answer() {
	if len(w.requests) == 0 {
		return
	}
	i := w.rng.IntN(len(w.requests))
	r := w.requests[i]
	w.requests = slices.Delete(w.requests, i, i+1)
	if r.release != nil {
		after, changed := subsets.Policy{}.Release(w.books[r.version], w.places, r.release.Member, w.now)
		if w.store(r, after, changed) {
			r.release.letGo = w.now
		}
		return
	}
	after, choice := subsets.Policy{}.Take(w.books[r.version], w.places, r.key, w.now)
	if !w.store(r, after, choice.Changed) || choice.Subset == "" {
		return
	}
	if slices.ContainsFunc(w.guests, func(g *guest) bool {
		return (g.Name == r.key || g.Key == r.key) && !g.refused && (!r.reuses || !g.isGone(w.now))
	}) {
		return // a second request for the same Pod
	}
	g := &guest{Member: subsets.Member{Name: r.key, Subset: choice.Subset}, due: w.now.Add(time.Duration(w.rng.Int64N(int64(latestCreation))))}
	g.Created = g.due.Truncate(time.Second)
	if !r.named {
		g.Name, g.Key = "generated-"+r.key, r.key
	}
	if w.rng.IntN(5) == 0 {
		g.refused, g.due = true, time.Time{}
	}
	w.guests = append(w.guests, g)
}

// store stores the book, and reports whether the webhook may answer. After a conflict, the request reads the newest
// book.
func (w *hall) store(r request, after subsets.Book, changed bool) bool {
	if !changed {
		return true
	}
	if r.version != w.newest() {
		r.version = w.newest()
		w.requests = append(w.requests, r)
		return false
	}
	w.books = append(w.books, after)
	return true
}

func (w *hall) letGo() {
	for _, g := range w.guests {
		waits := slices.ContainsFunc(w.requests, func(r request) bool { return r.release == g })
		if g.active() && !waits && w.rng.IntN(3) == 0 {
			w.requests = append(w.requests, request{version: w.read(), release: g})
			return
		}
	}
}

func (w *hall) count() {
	version := w.read()
	var known []glance
	for _, g := range w.glances {
		if !g.at.Before(w.seen) && w.now.Sub(g.at) <= latestCache {
			known = append(known, g)
		}
	}
	view := known[w.rng.IntN(len(known))]
	w.seen = view.at
	tally := subsets.Policy{}.Count(w.books[version], w.places, view.members, w.now)
	if version == w.newest() {
		w.books = append(w.books, tally.Book)
	}
}

// pass advances the time.
func (w *hall) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.look() {
		w.now = w.now.Add(500 * time.Millisecond)
		for _, g := range w.guests {
			g.exists = g.exists || !g.due.IsZero() && !w.now.Before(g.due)
		}
	}
}

// look adds a snapshot of the Pods. A Pod whose deletion was admitted still exists for a while.
func (w *hall) look() {
	g := glance{at: w.now}
	for _, pod := range w.guests {
		if pod.active() || pod.exists && w.now.Before(pod.letGo.Add(latestDeletion)) {
			g.members = append(g.members, pod.Member)
		}
	}
	w.glances = append(w.glances, g)
}

func (w *hall) in(subset string) (n int) {
	for _, g := range w.guests {
		if g.active() && g.Subset == subset {
			n++
		}
	}
	return n
}

func (w *hall) check() {
	for _, p := range w.places {
		if n := w.in(p.Name); p.Max >= 0 && n > p.Max {
			w.Fatalf("%d Pods in %s, %d may be there", n, p.Name, p.Max)
		}
	}
}

// settle finishes all requests, and waits until the delays are over.
func (w *hall) settle() {
	for i := 0; len(w.requests) > 0; i++ {
		if i > 1000 {
			w.Fatal("requests do not end")
		}
		w.answer()
		w.check()
	}
	w.pass(time.Minute)
	w.check()
	last := w.glances[len(w.glances)-1]
	tally := subsets.Policy{}.Count(w.books[w.newest()], w.places, last.members, w.now)
	for i, p := range w.places {
		if p.Max >= 0 && tally.Book[i].Missing(p) != p.Max-w.in(p.Name) {
			w.Fatalf("%s lacks %d, with %d of %d Pods", p.Name, tally.Book[i].Missing(p), w.in(p.Name), p.Max)
		}
	}
	if tally.RequeueAfter != 0 {
		w.Fatalf("something is awaited for %v", tally.RequeueAfter)
	}
}
