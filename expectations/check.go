package expectations

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/workloadkit/workloadkit/reason"
)

// These are the bounds of Pending.RequeueAfter. A cache is usually a few milliseconds behind; for a slow cache, more
// frequent checks would be of no use.
const (
	shortestRequeue = 10 * time.Millisecond
	longestRequeue  = time.Second
)

// Pending says why the controller must wait before the next decision for an owner. A Pending never changes after Check
// has returned it.
type Pending struct {
	Owner types.UID
	// Awaited holds at least one entry, sorted by store: first the writes awaited, then the deletions.
	Awaited []Awaited
	// Since is the time of the oldest entry.
	Since time.Time
	// RequeueAfter is the time until the next reconcile. The controller must requeue the owner, because the awaited
	// change may become visible without an event of the owner.
	RequeueAfter time.Duration
	// Late is set when the wait is longer than the alarm threshold.
	Late bool
	// LiveRead asks the caller to read the owner's objects from the API server, and to call Confirm if the cache shows
	// the same objects. LiveRead is set in the first result after the alarm threshold, and again each time the same
	// duration has passed, in case the read fails.
	LiveRead bool
}

// Awaited is a change that a cache (Store) does not show yet.
type Awaited struct {
	Store Store
	// Want is the resourceVersion that the store must reach, and Seen the resourceVersion that the store has reached.
	// Both are empty for deletions, and for a barrier whose version is unknown.
	Want, Seen string
	// UIDs are the deleted objects that the store still shows as not terminating, sorted.
	UIDs []types.UID
	// Barrier is set when all owners must wait for the store, after a change of leader.
	Barrier bool
	// Since is when the write or deletion was recorded.
	Since time.Time
}

// Wait returns RequeueAfter. If p is nil, because no write is awaited, Wait returns 0.
func (p *Pending) Wait() time.Duration {
	if p == nil {
		return 0
	}
	return p.RequeueAfter
}

// Reasons returns a reason for each entry: AwaitingCache, CacheLate or AwaitingBarrier.
func (p *Pending) Reasons() reason.List {
	list := make(reason.List, 0, len(p.Awaited))
	for i := range p.Awaited {
		a := &p.Awaited[i]
		why := reason.Reason{
			Code: AwaitingCache, Object: reason.Object{UID: p.Owner}, Path: a.Store.String(), Old: a.Seen, New: a.Want,
			Detail: "waiting since " + a.Since.UTC().Format(time.RFC3339), Remedy: "wait until the cache has caught up",
		}
		switch {
		case a.Barrier && a.Want == "":
			why.Code, why.Remedy = AwaitingBarrier, "wait until the API server has been asked"
		case p.Late:
			why.Code, why.Remedy = CacheLate, "check the watch on this resource and the load on API server and controller"
		}
		if n := len(a.UIDs); n > 0 {
			why.New = fmt.Sprintf("deletion of %s", a.UIDs[0])
			if n > 1 {
				why.New += fmt.Sprintf(" and %d more", n-1)
			}
		}
		list = append(list, why)
	}
	return list
}

// String renders the reasons in a single line.
func (p *Pending) String() string { return p.Reasons().String() }

// Check returns nil if the cache shows all of the owner's writes, and forgets these writes. Otherwise the result
// lists the missing writes, and the controller must not make decisions for the owner now. Check calls present with a
// lock held: present must not call the Tracker. If present is nil, deletions stay outstanding.
//
// The error is a reason.Reason, NoProgress or IncomparableVersion: a write with an incomparable version counts as not
// visible.
func (t *Tracker) Check(owner types.UID, present Present) (*Pending, error) {
	now := t.clock.Now()
	awaited, alarm, err := t.barrier(now)
	if err != nil {
		return nil, err
	}
	s := t.shard(owner)
	s.mu.Lock()
	r := s.owners[owner]
	if r == nil && len(awaited) == 0 {
		s.mu.Unlock()
		return nil, nil
	}
	p := &Pending{Owner: owner, Awaited: awaited}
	if r != nil {
		err = t.settle(r, present, p)
		s.dropIfEmpty(owner, r)
	}
	if err != nil || len(p.Awaited) == 0 {
		s.mu.Unlock()
		return nil, err
	}
	alarm = t.judge(p, r, now) || alarm
	s.mu.Unlock()

	if t.observer != nil {
		t.observer.Waiting(*p)
		if alarm {
			t.observer.Late(*p)
		}
	}
	return p, nil
}

// judge sets the remaining fields of a Pending, and reports whether the Pending is the owner's first after the alarm
// threshold. r is nil if the owner only waits for a barrier.
func (t *Tracker) judge(p *Pending, r *record, now time.Time) (first bool) {
	p.Since = p.Awaited[0].Since
	for i := range p.Awaited {
		if since := p.Awaited[i].Since; since.Before(p.Since) {
			p.Since = since
		}
	}
	age := now.Sub(p.Since)
	p.RequeueAfter = min(max(age/4, shortestRequeue), longestRequeue)
	p.Late = age > t.alarm
	if !p.Late || r == nil || len(r.written)+len(r.deleted) == 0 {
		return false
	}
	if r.asked.IsZero() || now.Sub(r.asked) >= t.alarm {
		p.LiveRead, r.asked = true, now
	}
	first = !r.alarmed
	r.alarmed = true
	return first
}

// settle removes visible writes from r, and adds all other writes of r to p.
func (t *Tracker) settle(r *record, present Present, p *Pending) error {
	var failed error
	kept := r.written[:0]
	for _, w := range r.written {
		reached, seen, err := t.stores[w.store].reached(w.store, w.want)
		if err != nil && failed == nil {
			failed = err
		}
		if reached {
			continue
		}
		kept = append(kept, w)
		if !t.ignores(w.store) {
			p.Awaited = append(p.Awaited, Awaited{Store: w.store, Want: w.want, Seen: seen, Since: w.since})
		}
	}
	clear(r.written[len(kept):])
	r.written = kept
	slices.SortFunc(p.Awaited, compareAwaited)

	var gone []Awaited
	for d, since := range r.deleted {
		if present != nil && !present(d.store, d.uid) {
			// While a write to the store is outstanding, the object may be missing only because the store does not show its
			// creation yet.
			if !slices.ContainsFunc(kept, func(w write) bool { return w.store == d.store }) {
				delete(r.deleted, d)
			}
			continue
		}
		if t.ignores(d.store) {
			continue
		}
		i := slices.IndexFunc(gone, func(a Awaited) bool { return a.Store == d.store })
		if i < 0 {
			i = len(gone)
			gone = append(gone, Awaited{Store: d.store, Since: since})
		}
		gone[i].UIDs = append(gone[i].UIDs, d.uid)
		if since.Before(gone[i].Since) {
			gone[i].Since = since
		}
	}
	for i := range gone {
		slices.Sort(gone[i].UIDs)
	}
	slices.SortFunc(gone, compareAwaited)
	p.Awaited = append(p.Awaited, gone...)
	return failed
}

func compareAwaited(a, b Awaited) int { return cmp.Compare(a.Store.String(), b.Store.String()) }

// reached reports whether the store has reached the version, and returns the store's present version.
func (s *source) reached(name Store, want string) (bool, string, error) {
	seen := s.LastStoreSyncResourceVersion()
	if err := wellFormed(name, want, IncomparableVersion); err != nil {
		return false, seen, err
	}
	order, err := resourceversion.CompareResourceVersion(seen, want)
	if err != nil {
		return false, seen, wellFormed(name, seen, NoProgress)
	}
	return order >= 0, seen, nil
}

// barrier returns the stores for which all owners still wait, and whether one of the waits has just exceeded the alarm
// threshold.
func (t *Tracker) barrier(now time.Time) (awaited []Awaited, alarm bool, err error) {
	if t.closed.Load() == 0 && t.floors.Load() == 0 {
		return nil, false, nil
	}
	for _, name := range t.order {
		a, waiting, err := t.behind(name)
		if err != nil {
			return nil, false, err
		}
		if waiting && !t.ignores(name) {
			awaited = append(awaited, a)
			alarm = t.stores[name].lateNow(now, t.alarm) || alarm
		}
	}
	return awaited, alarm, nil
}

// behind reports whether all owners must wait for a store, and ends this wait once the store has reached the version.
func (t *Tracker) behind(name Store) (Awaited, bool, error) {
	src := t.stores[name]
	src.mu.Lock()
	defer src.mu.Unlock()
	a := Awaited{Store: name, Want: src.floor, Barrier: true, Since: src.since}
	switch {
	case src.closed:
		return a, true, nil
	case src.floor == "":
		return a, false, nil
	}
	reached, seen, err := src.reached(name, src.floor)
	if reached {
		src.floor = ""
		t.floors.Add(-1)
	}
	a.Seen = seen
	return a, !reached, err
}

// lateNow returns true once for each barrier, when the barrier has lasted longer than the alarm threshold.
func (s *source) lateNow(now time.Time, alarm time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alarmed || now.Sub(s.since) <= alarm {
		return false
	}
	s.alarmed = true
	return true
}
