// Package expectations answers "has my cache seen my own writes?".
//
// A controller must not decide on a stale cache that lacks the controller's own writes: it would create a second Pod
// for a Pod not yet in the cache, or spend a disruption budget twice. A [Tracker] knows, for each owner, the writes not
// yet visible in the cache. Call [Tracker.Check] before every decision.
//
// # How
//
// A Tracker records versions and does not count events. So a missed or duplicated event does not leave an expectation
// unsatisfied for ever, and other clients' writes cannot satisfy an expectation.
//
//   - For creations and patches ([Tracker.Wrote]) the Tracker keeps the highest resourceVersion per owner and store.
//     The expectation is satisfied once the store itself has reached the version, even if other clients have changed or
//     deleted the object since (KEP-5647). Stores report their version through [Progress], implemented by client-go's
//     stores from 0.36 on.
//   - For deletions ([Tracker.Deleted]) the Tracker keeps the UID until the store shows the object as terminating or no
//     longer has the object, and has reached the versions of the owner's writes: an object not yet in the store must
//     not count as deleted.
//   - After a change of leader, [Tracker.Require] makes all owners wait until each store has reached the version of a
//     quorum read, because the new leader has not recorded the last writes of the previous leader.
//
// Package expectations/trackedclient makes the API calls: its clients record their writes, find out the results of
// writes without a response, and end the wait after a change of leader.
//
// No expectation is satisfied by the passing of time. An owner that waits longer than the alarm threshold is reported
// once to the [Observer], and its [Pending] asks for a live read, that is a read from the API server;
// [Tracker.Confirm] may then end the wait.
//
// # When controller-runtime's own option is enough
//
// controller-runtime 0.25 can make reads of its cache wait for the client's own writes
// (EnableReadYourWritesConsistency). Use the option for a single kind written at a low rate: the controller then
// needs no calls of Check or Forget. Use package expectations if a reconcile writes several kinds or hundreds of
// Pods: a blocked read occupies a worker, but a Check returns at once, so the worker is free for other owners. Also
// use package expectations if the controller must wait for its deletes, if a new leader must not act on a stale
// cache, or if a log or condition must name the awaited object. Both can be used together. Both waits run at the same
// time, so together they take no longer than the longer wait.
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
	// AwaitingCache means that an owner's own writes are not all visible in the cache. AwaitingCache is no failure:
	// reconcile the owner again later.
	AwaitingCache reason.Code = "AwaitingCache"
	// CacheLate means that a write has not become visible within the alarm threshold. A component between the API
	// server and the cache is slow or broken.
	CacheLate reason.Code = "CacheLate"
	// AwaitingBarrier means that the process does not know yet which versions its stores must reach before the
	// controller may act.
	AwaitingBarrier reason.Code = "AwaitingBarrier"
	// IncomparableVersion means that a resourceVersion is not a decimal number and therefore cannot be compared, as with
	// some aggregated API servers.
	IncomparableVersion reason.Code = "IncomparableVersion"
	// NoProgress means that a synced store does not report its version.
	NoProgress reason.Code = "NoProgress"
	// UnknownStore means that a store was not given to New. UnknownStore means a bug in the calling program.
	UnknownStore reason.Code = "UnknownStore"
	// StaleRead means that the live read passed to Confirm is older than the write to confirm.
	StaleRead reason.Code = "StaleRead"
)

// Store names a cache of a resource. Versions can be compared only within a resource, and two caches of a resource
// progress independently. Name distinguishes such caches, and is empty if there is only one cache of the resource.
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

// Progress reports the version of a store: the highest resourceVersion up to which the store has applied all changes,
// "" if unknown. Stores of client-go 0.36 and later implement Progress. A Progress must be safe for concurrent use.
type Progress interface {
	LastStoreSyncResourceVersion() string
}

// Present reports whether an object is in the store and not terminating. Present must read from the same cache as the
// caller's decisions.
type Present func(store Store, uid types.UID) bool

// Observer is notified of waits, for metrics or logs. The Tracker calls an Observer without locks held, possibly from
// several goroutines. An Observer must not block.
type Observer interface {
	// Waiting is called for each unsatisfied Check.
	Waiting(Pending)
	// Late is called once for an owner that waits longer than the alarm threshold, and again only after all of the
	// owner's writes have been visible.
	Late(Pending)
}

// Options are options of a Tracker. The zero value is usable.
type Options struct {
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// Alarm is how long a write may take to become visible before CacheLate is reported; 0 means a minute.
	Alarm time.Duration
	// Observer may be nil.
	Observer Observer
	// NoBarrier lets Check return nil even if Require has not been called for each store. If false, every Check waits
	// for Require, because nobody has recorded the writes of an earlier leader. Set NoBarrier if no other process
	// ever writes these objects.
	NoBarrier bool
	// Ignores reports whether Check must not wait for a store at present, for example because the API server does not
	// have the resource. Writes to the store stay recorded, and count again later. Check calls Ignores with a lock
	// held: Ignores must not call the tracker. Nil means that no store is ignored.
	Ignores func(Store) bool
}

// Tracker keeps, for each owner, the writes that the caches do not show yet. A Tracker is safe for concurrent use,
// and calls for different owners rarely wait for each other's locks. Make a Tracker with New.
type Tracker struct {
	clock    clock.PassiveClock
	alarm    time.Duration
	observer Observer
	ignores  func(Store) bool
	stores   map[Store]*source
	order    []Store      // sorted, so that results do not depend on the iteration order of a map
	closed   atomic.Int32 // number of stores for which Require was not called yet: every Check waits
	floors   atomic.Int32 // number of stores that have not reached the version given to Require
	shards   [shards]shard
}

const shards = 64

// source is a store, and the version that the store must have reached before any owner may act.
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
	peak   int // largest number of owners since the map was made; Go maps never shrink by themselves
}

// record holds the expectations of an owner.
type record struct {
	written []write
	deleted map[deletion]time.Time
	alarmed bool
	asked   time.Time // when the last live read was requested
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
		clock: options.Clock, alarm: options.Alarm, observer: options.Observer, ignores: options.Ignores,
		stores: make(map[Store]*source, len(stores)),
	}
	if t.ignores == nil {
		t.ignores = func(Store) bool { return false }
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

// Stores returns the stores given to New, sorted by name.
func (t *Tracker) Stores() []Store { return slices.Clone(t.order) }

// Verify reports stores that cannot be tracked: NoProgress for a store that reports no version, IncomparableVersion for
// a store with incomparable versions. Call Verify once all caches have synced, and do not start the controllers after
// an error: with such a store every Check would fail. The error is a reason.List.
func (t *Tracker) Verify() error {
	var problems reason.List
	for _, name := range t.order {
		if err := wellFormed(name, t.stores[name].LastStoreSyncResourceVersion(), NoProgress); err != nil {
			problems = append(problems, reason.From(err)...)
		}
	}
	return problems.Err()
}

// Wrote records that an object of the owner was created or changed and got the resourceVersion. Call Wrote after the
// write succeeded, with the version from the response. The error is a reason.Reason: UnknownStore, or
// IncomparableVersion. An incomparable version is recorded as well: Check fails until Confirm or Forget is called for
// the owner, because a write that cannot be awaited must not be ignored.
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
		// A recorded incomparable version is never replaced.
		if err != nil || (compareErr == nil && order > 0) {
			w.want = version
		}
		return err
	}
	r.written = append(r.written, write{store, version, now})
	return err
}

// Deleted records that an object of the owner was deleted. Call Deleted after the delete request succeeded, or if its
// outcome is unknown. The error is UnknownStore.
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

// Forget removes all records of an owner. Call Forget when the owner has been deleted. A later owner of the same name
// has another UID, so a late call of Forget does not affect the later owner.
func (t *Tracker) Forget(owner types.UID) {
	s := t.shard(owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(owner)
}

// Len returns the number of owners with outstanding writes, as of each owner's last Check.
func (t *Tracker) Len() int {
	n := 0
	for i := range t.shards {
		t.shards[i].mu.Lock()
		n += len(t.shards[i].owners)
		t.shards[i].mu.Unlock()
	}
	return n
}

// Confirm ends the owner's wait for a store. By calling Confirm, the caller asserts two facts. First, the caller has
// read the owner's objects live (with a list not served from a cache) at the resourceVersion. Second, the cache shows
// the same objects: same UIDs, same resourceVersions, and deleted objects are terminating or missing. If the lists
// differ, the cache is stale, and Confirm must not be called. The error is a reason.Reason: UnknownStore,
// IncomparableVersion, or StaleRead if the read is older than the write.
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
		// An incomparable version cannot be compared with the version of the live read. The caller's assertion that
		// live read and cache agree is enough.
		if order, err := resourceversion.CompareResourceVersion(version, w.want); err == nil && order < 0 {
			return stale(store, w.want, version)
		}
	}
	r.written = slices.DeleteFunc(r.written, func(w write) bool { return w.store == store })
	maps.DeleteFunc(r.deleted, func(d deletion, _ time.Time) bool { return d.store == store })
	s.dropIfEmpty(owner, r)
	return nil
}

// Require makes every owner wait until the store has reached the version, which a quorum read returned after the change
// of leader. If Require is called several times, the highest version counts. The error is a reason.Reason: UnknownStore
// or IncomparableVersion.
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

// Lift ends the barrier of a store. The caller asserts that a live list of all the store's objects, at the
// resourceVersion, shows the same objects and resourceVersions as the store: if a resource rarely changes, its store
// may be complete long before its version reaches the API server's latest version. The error is a reason.Reason:
// UnknownStore, IncomparableVersion, or StaleRead if the list is older than the version given to Require.
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

// stale returns the error for a live read that is too old.
func stale(store Store, want, got string) error {
	return reason.Reason{
		Code: StaleRead, Path: store.String(), Old: want, New: got, Remedy: "list with an empty resourceVersion",
	}
}

// shard returns the shard of an owner, chosen by the random end of the UID.
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

// drop removes an owner. If many owners have been removed since the last copy of the map, drop copies the map to free
// memory, so the average cost of a removal stays small.
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

// wellFormed returns an error for an incomparable version. absent is the error's code for an empty version.
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
