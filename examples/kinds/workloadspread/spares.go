package workloadspread

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/subsets"
)

const (
	// rush is a number of Pods of a version: if as many Pods are created within rushTime, places in subsets are taken
	// in advance, before their Pods are created.
	rush     = 32
	rushTime = time.Second
	// mostSpares is the largest number of places taken in advance for a version.
	mostSpares = 256
	// writing is how long the write of places taken in advance may take.
	writing = 5 * time.Second
)

// spares are places, that is rights to create a Pod in a subset, that were taken and written into the status in
// advance, before their Pods are created. If many Pods are created at the same time, most Pods without a name get
// such a place, and their requests need not wait for a write. An unused place is freed at the latest when
// subsets.RenewedAfter has passed since the place was taken. The places of a process that has died are freed in the
// same way as the places of Pods that were never created. Spares are safe for concurrent use.
type spares struct {
	clock clock.PassiveClock
	calls chan pool // versions that need further places

	mu     sync.Mutex
	stocks map[pool]*stock
}

// pool identifies the spares (places taken in advance) for a version of a WorkloadSpread's Pods.
type pool struct {
	spread  types.UID
	version string
}

// stock contains the spares of a pool, and the requests for them.
type stock struct {
	spread  *v1beta1.WorkloadSpread // as read by the last request; must not be modified
	asked   []time.Time             // times of the requests within rushTime
	spares  []spare                 // the oldest spare first
	filling bool                    // further places are requested
	coming  []string                // keys of the requested places, perhaps stored already
}

func newSpares(now clock.PassiveClock) *spares {
	return &spares{clock: now, calls: make(chan pool, 16), stocks: map[pool]*stock{}}
}

// take returns a place that was taken in advance, in the first of the subsets with such a place, or the zero spare.
// If few such places are left, take requests further places.
func (a *spares) take(spread *v1beta1.WorkloadSpread, version string, among []string) spare {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, now := pool{spread.UID, version}, a.clock.Now()
	s := a.stocks[p]
	if s == nil {
		s = &stock{}
		a.stocks[p] = s
	}
	s.spread = spread
	s.asked = append(s.recent(now), now)
	var taken spare
	for _, subset := range among {
		if i := slices.IndexFunc(s.spares, func(one spare) bool { return one.subset == subset && one.isUsable(now) }); i >= 0 {
			taken = s.spares[i]
			s.spares = slices.Delete(s.spares, i, i+1)
			break
		}
	}
	if s.lacks(now) > s.wanted(now)/2 && !s.filling {
		select {
		case a.calls <- p:
			s.filling = true
		default: // other pools are waiting to be filled, and this pool must ask again
		}
	}
	return taken
}

// recent returns the times of the requests for Pods within the last rushTime.
func (s *stock) recent(now time.Time) []time.Time {
	s.asked = slices.DeleteFunc(s.asked, func(at time.Time) bool { return now.Sub(at) > rushTime })
	return s.asked[max(0, len(s.asked)-mostSpares):]
}

// wanted returns how many spares (places taken in advance) are needed within the next rushTime at the present rate of
// requests. In the first moments of a rush the rate is uncertain, so at most twice as many spares are wanted as there
// were requests.
func (s *stock) wanted(now time.Time) int {
	recent := s.recent(now)
	if len(recent) < rush {
		return 0
	}
	span := max(now.Sub(recent[0]), rushTime/2)
	return min(len(recent)*int(rushTime/time.Millisecond)/int(span/time.Millisecond), mostSpares)
}

// lacks returns how many spares are missing.
func (s *stock) lacks(now time.Time) int {
	usable := 0
	for _, one := range s.spares {
		if one.isUsable(now) {
			usable++
		}
	}
	return max(s.wanted(now)-usable, 0)
}

// order returns how many further places the pool p needs; ok is false if the pool does not exist any more.
func (a *spares) order(p pool) (spread *v1beta1.WorkloadSpread, n int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stocks[p]
	if s == nil {
		return nil, 0, false
	}
	return s.spread, s.lacks(a.clock.Now()), true
}

// request records the keys of the places that are about to be stored.
func (a *spares) request(p pool, keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.stocks[p]; s != nil {
		s.coming = slices.Clone(keys)
	}
}

// filled adds the places that were written into the status to a pool, except places that a call of claim has already
// returned.
func (a *spares) filled(p pool, stored []spare) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.stocks[p]; s != nil {
		for _, one := range stored {
			if slices.Contains(s.coming, one.key) {
				s.spares = append(s.spares, one)
			}
		}
		s.filling, s.coming = false, nil
	}
}

// claim returns a place of a pool that book, the record of taken places, contains in the first possible of the
// subsets, or the zero spare. The place may not be in the pool yet, because its write is in progress. The book must
// be written into the status before the place may be used.
func (a *spares) claim(p pool, book subsets.Book, among []string) spare {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, now := a.stocks[p], a.clock.Now()
	if s == nil {
		return spare{}
	}
	for _, subset := range among {
		creating := book.Line(subset).Creating
		for i, one := range s.spares {
			if _, ok := creating[one.key]; ok && one.subset == subset && one.isUsable(now) {
				s.spares = slices.Delete(s.spares, i, i+1)
				return one
			}
		}
		for i, key := range s.coming {
			if since, ok := creating[key]; ok {
				s.coming = slices.Delete(s.coming, i, i+1)
				return spare{key, subset, since.Time}
			}
		}
	}
	return spare{}
}

// unclaim undoes a call of claim that has returned the place with the given key, because the place was not written
// into the status. An empty key is ignored.
func (a *spares) unclaim(p pool, key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.stocks[p]; s != nil && s.filling && key != "" {
		s.coming = append(s.coming, key)
	}
}

// expire removes the spares (places taken in advance) that are too old to be used, and forgets pools without recent
// requests. unused contains the keys of the removed spares, by pool. wait is the time until the next spare expires; 0
// means that there is none.
func (a *spares) expire() (unused map[pool]map[string]bool, spreads map[pool]*v1beta1.WorkloadSpread, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	unused, spreads = map[pool]map[string]bool{}, map[pool]*v1beta1.WorkloadSpread{}
	for p, s := range a.stocks {
		s.spares = slices.DeleteFunc(s.spares, func(one spare) bool {
			if one.isUsable(now) {
				if left := subsets.RenewedAfter - now.Sub(one.since); wait == 0 || left < wait {
					wait = left
				}
				return false
			}
			if unused[p] == nil {
				unused[p], spreads[p] = map[string]bool{}, s.spread
			}
			unused[p][one.key] = true
			return true
		})
		if len(s.spares) == 0 && !s.filling && len(s.recent(now)) == 0 {
			delete(a.stocks, p)
		}
	}
	return unused, spreads, wait
}

// Start fills the pools, and frees unused places, until the context ends.
func (w *webhook) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-w.spares.calls:
			if err := w.fill(ctx, p); err != nil {
				logr.FromContextOrDiscard(ctx).V(1).Info("No places are taken ahead", "spread", p.spread, "error", err.Error())
			}
		case <-timer.C:
		}
		unused, spreads, wait := w.spares.expire()
		for p, keys := range unused {
			if err := w.giveBackUnused(ctx, spreads[p], p.version, keys); err != nil {
				logr.FromContextOrDiscard(ctx).Error(err, "Places taken ahead are not given back before the count ends them", "spread", client.ObjectKeyFromObject(spreads[p]))
			}
		}
		if timer.Stop(); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each process that serves the webhook takes places in
// advance, not only the leader.
func (w *webhook) NeedLeaderElection() bool { return false }

// fill takes places in advance for a pool.
func (w *webhook) fill(ctx context.Context, p pool) error {
	ctx, cancel := context.WithTimeout(ctx, writing)
	defer cancel()
	var stored []spare
	defer func() { w.spares.filled(p, stored) }()
	spread, n, ok := w.spares.order(p)
	if !ok || n == 0 {
		return nil
	}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = w.newKey()
	}
	w.spares.request(p, keys)
	taken, err := changeBooks(ctx, w, spread, keys[0], func(s *settings, books ledger, places []subsets.Place) (ledger, []spare, bool) {
		return s.takeAhead(books, places, p.version, keys, w.clock.Now())
	})
	if err == nil {
		stored = taken
	}
	return err
}

// giveBackUnused frees places that were taken in advance and that no Pod has used.
func (w *webhook) giveBackUnused(ctx context.Context, spread *v1beta1.WorkloadSpread, version string, unused map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, writing)
	defer cancel()
	_, err := changeBooks(ctx, w, spread, "unused", func(_ *settings, books ledger, places []subsets.Place) (ledger, struct{}, bool) {
		after, changed := giveBackAhead(books, places, version, unused)
		return after, struct{}{}, changed
	})
	return err
}

// fromSpares returns, for a Pod without a name, the subset of a place that was taken in advance. The cached status
// determines the possible subsets. The result is the zero value if no such place exists; the method ask then takes a
// place for the Pod.
func (w *webhook) fromSpares(spread *v1beta1.WorkloadSpread, s *settings, replicas *int, n newcomer) given {
	if n.pod.Name != "" || spread.Status.ObservedGeneration == 0 {
		return given{}
	}
	if _, marked := markOf(n.pod, spread.Name); marked {
		return given{} // the Pod has a subset already, from an earlier call
	}
	places, err := s.places(&spread.Status, replicas)
	if err != nil {
		return given{}
	}
	book := bookOf(spread.Status.VersionedSubsetStatuses[n.version])
	among := inReach(book, places, s.policy.Pick(book, places).Subset)
	if len(among) == 0 {
		return given{}
	}
	taken := w.spares.take(spread, n.version, among)
	if taken == (spare{}) {
		return given{}
	}
	return taken.given(spread, s)
}

// given returns the place as the subset of a Pod.
func (taken spare) given(spread *v1beta1.WorkloadSpread, s *settings) given {
	return given{to: s.named(taken.subset), mark: mark{Name: spread.Name, Subset: taken.subset, UID: taken.key}, since: taken.since}
}

// isIn reports whether book, the record of taken places, contains the place.
func (taken spare) isIn(book subsets.Book) bool {
	_, ok := book.Line(taken.subset).Creating[taken.key]
	return ok && taken.key != ""
}

// claim returns a spare (a place taken in advance) for a Pod without a name that has got no place because the
// subset's last places are kept for Pods that do not exist yet. This happens if this process takes the last places in
// advance during the request for the Pod.
func (w *webhook) claim(p pool, n newcomer, book subsets.Book, places []subsets.Place, got answer) spare {
	if n.pod.Name != "" || got.Changed || !slices.ContainsFunc(got.Why, func(why reason.Reason) bool { return why.Code == subsets.PlacesKept }) {
		return spare{}
	}
	return w.spares.claim(p, book, inReach(book, places, got.Subset))
}
