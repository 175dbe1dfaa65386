// Package expectations answers "has my cache seen my own writes?".
//
// A controller that decides from a cache must not decide on a view that lacks what it did itself: it would create a second
// Pod for one that has not arrived yet, or spend a disruption budget twice. A [Tracker] knows, per owner, what was written
// and not yet seen, and [Tracker.Check] is asked before every decision.
//
// # How
//
// Nothing is counted, so no missed or duplicated event can make an expectation leak or be satisfied by somebody else's
// action.
//
//   - For what was created or patched ([Tracker.Wrote]) one resourceVersion is kept per owner and store, the highest. It is
//     satisfied once the store itself has got that far, whatever has happened to the object since (KEP-5647). Stores say how
//     far they are through [Progress], which client-go's stores implement from 0.36 on.
//   - For what was deleted ([Tracker.Deleted]) the UID is kept until the object is terminating or gone in the store, and the
//     store holds what the owner wrote: an object that has not arrived yet is not taken for one that is gone.
//   - After a change of leader [Tracker.Require] makes all owners wait until each store has reached what a quorum read saw,
//     because the previous leader's last writes are nobody's expectations.
//
// Package expectations/trackedclient does the talking: clients that record what is written through them, finds out what has become
// of writes that were not answered, and lifts the barrier.
//
// Time alone satisfies nothing. An owner that waits longer than the alarm threshold is reported once to the [Observer], and
// its [Pending] asks for a live read, by which [Tracker.Confirm] may end the wait.
//
// # When controller-runtime's own option is enough
//
// controller-runtime 0.25 can make its cache wait for the client's own writes when it is read
// (EnableReadYourWritesConsistency). Use that where one kind is written at a low rate: there is nothing to call and nothing
// to forget. Gate with this package where one reconcile writes several kinds or hundreds of Pods, because a blocked read
// holds a worker while a Check returns at once and lets it serve other owners; where deletes must be seen as well; where a
// new leader must not act on an old view; or where someone has to be told which object the controller is waiting for. Both
// together are safe and wait no longer than one.
package expectations

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// AwaitingCache means that an owner's own writes are not all visible in the cache. It is no failure: look again later.
	AwaitingCache reason.Code = "AwaitingCache"
	// CacheLate means that a write has not become visible within the alarm threshold. Something between the API server and
	// the cache is slow or broken.
	CacheLate reason.Code = "CacheLate"
	// AwaitingBarrier means that this process does not know yet how far its stores must be before it may act.
	AwaitingBarrier reason.Code = "AwaitingBarrier"
	// IncomparableVersion means that a resourceVersion is not a decimal number and therefore cannot be compared, as with
	// some aggregated API servers.
	IncomparableVersion reason.Code = "IncomparableVersion"
	// NoProgress means that a store does not report how far it is, although it has synced.
	NoProgress reason.Code = "NoProgress"
	// UnknownStore means that a store is used that the tracker was not made with. It is an error of the program.
	UnknownStore reason.Code = "UnknownStore"
	// StaleRead means that the live read offered to Confirm is older than what it should confirm.
	StaleRead reason.Code = "StaleRead"
)

// Store names a cache of one resource. Versions compare only within one resource, and two caches of one resource progress
// independently; Name tells those apart and is empty where there is only one.
type Store struct {
	schema.GroupResource

	Name string
}

// String renders resource, group and name: "deployments.apps" or "pods (metadata)".
func (s Store) String() string {
	if s.Name == "" {
		return s.GroupResource.String()
	}
	return s.GroupResource.String() + " (" + s.Name + ")"
}

// Progress tells how far a store is: the highest resourceVersion whose changes it holds, "" if it cannot tell. Stores of
// client-go 0.36 and later implement it. It must be safe for concurrent use.
type Progress interface {
	LastStoreSyncResourceVersion() string
}

// Present reports whether an object is in the store and not terminating. It must read the same cache as the caller's
// decisions.
type Present func(store Store, uid types.UID) bool

// Observer is told what happens. It is called without locks held, possibly from several goroutines, and must not block.
type Observer interface {
	// Waiting is called for each Check that is not satisfied.
	Waiting(Pending)
	// Late is called once for an owner that has waited longer than the alarm threshold, until it is satisfied.
	Late(Pending)
}

// Options of a Tracker. The zero value is usable.
type Options struct {
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// Alarm is how long a write may take to become visible before someone is told; 0 means a minute.
	Alarm time.Duration
	// Observer may be nil.
	Observer Observer
	// NoBarrier lets Check pass before Require has been called for each store. Without it every Check waits for that, because
	// the writes of a leader before this one are nobody's expectations. Set it where no other process ever writes.
	NoBarrier bool
}

// Tracker keeps what was written and not yet seen. It is safe for concurrent use; owners rarely contend with each other.
// Make one with New.
type Tracker struct {
	clock    clock.PassiveClock
	alarm    time.Duration
	observer Observer
	stores   map[Store]*source
	order    []Store      // sorted, so that answers do not depend on the order of a map
	closed   atomic.Int32 // stores that still lack a floor: nothing passes
	floors   atomic.Int32 // stores that have a floor which they have not reached
	shards   [shards]shard
}

const shards = 64

// source is one store and the version it must reach before anyone may act.
type source struct {
	Progress

	mu      sync.Mutex
	closed  bool
	floor   string
	since   time.Time
	alarmed bool
}

type shard struct {
	mu     sync.Mutex
	owners map[types.UID]*record
	peak   int // most owners since the map was made; a Go map never shrinks by itself
}

// record is what one owner waits for.
type record struct {
	written []write
	deleted map[deletion]time.Time
	alarmed bool
	asked   time.Time // when the last live read was asked for
}

type write struct {
	store Store
	want  string
	since time.Time
}

type deletion struct {
	store Store
	uid   types.UID
}

// New returns a tracker for the given stores. The map is copied.
func New(stores map[Store]Progress, options Options) *Tracker {
	t := &Tracker{
		clock: options.Clock, alarm: options.Alarm, observer: options.Observer,
		stores: make(map[Store]*source, len(stores)),
	}
	if t.clock == nil {
		t.clock = clock.RealClock{}
	}
	if t.alarm <= 0 {
		t.alarm = time.Minute
	}
	started := t.clock.Now()
	for name, progress := range stores {
		t.stores[name] = &source{Progress: progress, closed: !options.NoBarrier, since: started}
		t.order = append(t.order, name)
	}
	slices.SortFunc(t.order, func(a, b Store) int { return strings.Compare(a.String(), b.String()) })
	if !options.NoBarrier {
		t.closed.Store(int32(len(t.stores)))
	}
	return t
}

// Stores returns the stores that the tracker was made with, sorted by name.
func (t *Tracker) Stores() []Store { return slices.Clone(t.order) }

// Verify reports stores that do not tell how far they are: NoProgress for those that say nothing, IncomparableVersion for
// those whose versions cannot be compared. Call it once all caches have synced, and do not start when it fails: with such a
// store every Check would fail. The error is a reason.List.
func (t *Tracker) Verify() error {
	var problems reason.List
	for _, name := range t.order {
		if err := wellFormed(name, t.stores[name].LastStoreSyncResourceVersion(), NoProgress); err != nil {
			problems = append(problems, reason.From(err)...)
		}
	}
	return problems.Err()
}

// Wrote records that an object of the owner was created or changed and got this resourceVersion. Call it after the write
// succeeded, with the version from its answer. The error is a reason.Reason: UnknownStore, or IncomparableVersion. The
// latter is kept as well: Check fails until the owner is confirmed or forgotten, because a write that cannot be awaited must
// not be overlooked.
func (t *Tracker) Wrote(owner types.UID, store Store, version string) error {
	if t.stores[store] == nil {
		return unknown(store)
	}
	now := t.clock.Now()
	err := wellFormed(store, version, IncomparableVersion)
	s := t.shard(owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record(owner)
	for i := range r.written {
		w := &r.written[i]
		if w.store != store {
			continue
		}
		order, compareErr := resourceversion.CompareResourceVersion(version, w.want)
		// An incomparable version, once recorded, stays.
		if err != nil || (compareErr == nil && order > 0) {
			w.want = version
		}
		return err
	}
	r.written = append(r.written, write{store, version, now})
	return err
}

// Deleted records that an object of the owner was deleted. Call it after the request succeeded, or when its outcome is
// unknown. The error is UnknownStore.
func (t *Tracker) Deleted(owner types.UID, store Store, uid types.UID) error {
	if t.stores[store] == nil {
		return unknown(store)
	}
	now := t.clock.Now()
	s := t.shard(owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record(owner)
	if r.deleted == nil {
		r.deleted = make(map[deletion]time.Time)
	}
	key := deletion{store, uid}
	if _, known := r.deleted[key]; !known {
		r.deleted[key] = now
	}
	return nil
}

// Forget drops everything about an owner. Call it when the owner is gone. An owner of the same name that comes later has
// another UID, so nothing is mixed up when the call is late.
func (t *Tracker) Forget(owner types.UID) {
	s := t.shard(owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(owner)
}

// Len returns how many owners have something outstanding as far as the last Check of each knows.
func (t *Tracker) Len() int {
	n := 0
	for i := range t.shards {
		t.shards[i].mu.Lock()
		n += len(t.shards[i].owners)
		t.shards[i].mu.Unlock()
	}
	return n
}

// Confirm ends the owner's wait for one store. The caller asserts that it has read the owner's objects live (with a list
// that is not served from a cache) at this resourceVersion, and that its cache shows the same objects: same UIDs, same
// resourceVersions, and what was deleted is terminating or gone. Where they differ, the cache is behind and there is nothing
// to confirm. The error is a reason.Reason: UnknownStore, IncomparableVersion, or StaleRead when the read is older than the
// write.
func (t *Tracker) Confirm(owner types.UID, store Store, version string) error {
	if t.stores[store] == nil {
		return unknown(store)
	}
	if err := wellFormed(store, version, IncomparableVersion); err != nil {
		return err
	}
	s := t.shard(owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.owners[owner]
	if r == nil {
		return nil
	}
	for _, w := range r.written {
		if w.store != store {
			continue
		}
		// A version that does not compare was awaited by nobody; the agreement of live read and cache is all there is.
		if order, err := resourceversion.CompareResourceVersion(version, w.want); err == nil && order < 0 {
			return stale(store, w.want, version)
		}
	}
	r.written = slices.DeleteFunc(r.written, func(w write) bool { return w.store == store })
	maps.DeleteFunc(r.deleted, func(d deletion, _ time.Time) bool { return d.store == store })
	s.dropIfEmpty(owner, r)
	return nil
}

// Require makes every owner wait until the store has reached the version, which a quorum read after the change of leader
// has returned. The highest version required counts. The error is a reason.Reason: UnknownStore or IncomparableVersion.
func (t *Tracker) Require(store Store, version string) error {
	src := t.stores[store]
	if src == nil {
		return unknown(store)
	}
	if err := wellFormed(store, version, IncomparableVersion); err != nil {
		return err
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	switch order, err := resourceversion.CompareResourceVersion(version, src.floor); {
	case src.floor == "":
		src.floor, src.since, src.alarmed = version, t.clock.Now(), false
		t.floors.Add(1)
	case err == nil && order > 0:
		src.floor = version
	}
	if src.closed {
		src.closed = false
		t.closed.Add(-1)
	}
	return nil
}

// Lift ends the barrier of a store. The caller asserts that it has listed everything that the store is about live, at this
// resourceVersion, and that the store shows the same objects with the same resourceVersions: a store of a quiet resource may
// hold everything long before it is told the version of the whole API server. The error is a reason.Reason: UnknownStore,
// IncomparableVersion, or StaleRead when the list is older than what Require has asked for.
func (t *Tracker) Lift(store Store, version string) error {
	src := t.stores[store]
	if src == nil {
		return unknown(store)
	}
	if err := wellFormed(store, version, IncomparableVersion); err != nil {
		return err
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.floor == "" {
		return nil
	}
	if order, err := resourceversion.CompareResourceVersion(version, src.floor); err != nil || order < 0 {
		return stale(store, src.floor, version)
	}
	src.floor = ""
	t.floors.Add(-1)
	return nil
}

// stale is the reason for a live read that does not cover what it should.
func stale(store Store, want, got string) error {
	return reason.Reason{
		Code: StaleRead, Path: store.String(), Old: want, New: got, Remedy: "list with an empty resourceVersion",
	}
}

// shard spreads owners by the end of their UID, which is random.
func (t *Tracker) shard(owner types.UID) *shard {
	var hash uint32 = 2166136261
	for i := max(0, len(owner)-8); i < len(owner); i++ {
		hash = (hash ^ uint32(owner[i])) * 16777619
	}
	return &t.shards[(hash^hash>>16)%shards]
}

func (s *shard) record(owner types.UID) *record {
	r := s.owners[owner]
	if r == nil {
		if s.owners == nil {
			s.owners = make(map[types.UID]*record)
		}
		r = &record{}
		s.owners[owner] = r
		s.peak = max(s.peak, len(s.owners))
	}
	return r
}

func (s *shard) dropIfEmpty(owner types.UID, r *record) {
	if len(r.written)+len(r.deleted) == 0 {
		s.drop(owner)
	}
}

// drop removes an owner, and the room that owners took who are gone by now. What it copies was paid for by the owners
// removed since the last copy.
func (s *shard) drop(owner types.UID) {
	delete(s.owners, owner)
	switch n := len(s.owners); {
	case n == 0:
		s.owners, s.peak = nil, 0
	case s.peak > 32 && n < s.peak/4:
		smaller := make(map[types.UID]*record, n)
		maps.Copy(smaller, s.owners)
		s.owners, s.peak = smaller, n
	}
}

// wellFormed reports a version that cannot be compared with others. absent is the code for an empty one.
func wellFormed(store Store, version string, absent reason.Code) error {
	if _, err := resourceversion.CompareResourceVersion(version, version); err == nil {
		return nil
	}
	if version == "" && absent == NoProgress {
		return reason.Reason{
			Code: NoProgress, Path: store.String(), New: `""`, Detail: "the store does not tell how far it is",
			Remedy: "use a cache of client-go 0.36 or later, and wait until it has synced",
		}
	}
	return reason.Reason{
		Code: IncomparableVersion, Path: store.String(), New: fmt.Sprintf("%q", reason.Shorten(version, 40)),
		Remedy: "use an API server whose resourceVersions are decimal numbers",
	}
}

func unknown(store Store) error {
	return reason.Reason{Code: UnknownStore, Path: store.String(), Remedy: "pass the store to New"}
}
