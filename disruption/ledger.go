package disruption

import (
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/reason"
)

// Ledger is the state of a budget. The zero value was never counted and lets nobody go. Maps are replaced and never
// written to, so Count and Decide accept ledgers of cached objects. The JSON form may stand as a field in the status of
// an API type; the API type then needs no mapping.
type Ledger struct {
	// ObservedGeneration is the generation of the budget's object at the last count. A ledger counted for an older
	// generation, or never, lets nobody go.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Expected is the number of Pods that there should be. Need is the number of Pods that must serve. Current is the
	// number of Pods serving at the last count, without Pods let go. Allowed is the number of further Pods that may be let
	// go.
	Expected int32 `json:"expected"`
	Need     int32 `json:"need"`
	Current  int32 `json:"current"`
	Allowed  int32 `json:"allowed"`
	// Leaving are the Pods let go for a deletion or eviction, Changing the Pods let go for a change, by name, with the
	// time.
	Leaving  map[string]metav1.Time `json:"leaving,omitempty"`
	Changing map[string]metav1.Time `json:"changing,omitempty"`
	// Identities tell the Pods let go from successors of the same name, and from themselves after a change, by name. A
	// status without a place for Identities may drop them: shares then end later, with the times of a Policy.
	Identities map[string]Identity `json:"identities,omitempty"`
	// NeededSince is the time when Need rose from 0, nil if long ago or never. While nothing is needed, Pods are let go
	// without entries, and the counter's cache may not show their end yet. So no Pod is let go until Policy.LeavingFor
	// after NeededSince. A caller without a place for NeededSince in the status must remember the time.
	NeededSince *metav1.Time `json:"neededSince,omitempty"`
}

// Identity is a Pod let go, as the Pod was then.
type Identity struct {
	UID        types.UID   `json:"uid"`
	Created    metav1.Time `json:"created"`
	Generation int64       `json:"generation,omitempty"`
	// Gated is Request.Gated of the last request.
	Gated bool `json:"gated,omitempty"`
}

// DeepCopyInto copies the ledger, for API types with a ledger.
func (l *Ledger) DeepCopyInto(out *Ledger) {
	*out = *l
	out.Leaving, out.Changing, out.Identities = maps.Clone(l.Leaving), maps.Clone(l.Changing), maps.Clone(l.Identities)
	out.NeededSince = l.NeededSince.DeepCopy()
}

// DeepCopy copies the ledger.
func (l *Ledger) DeepCopy() *Ledger {
	if l == nil {
		return nil
	}
	out := &Ledger{}
	l.DeepCopyInto(out)
	return out
}

// Policy says how long a ledger expects an admitted operation to happen. The zero value has the durations of
// OpenKruise.
type Policy struct {
	// LeavingFor is the time after which a Pod let go for a deletion counts again if still present, 20 s if zero. Counters
	// must see the Pod go within the first half: in the second half the Pod may be let go again at no cost.
	LeavingFor time.Duration
	// ChangingFor is the time for which a Pod let go for a change counts as away, whatever the Pod reports, 10 s if zero.
	// The node must see the change within ChangingFor.
	ChangingFor time.Duration
	// MaxEntries bounds the Pods written down at a time, 2,000 if zero. Further Pods are refused until some are gone.
	MaxEntries int
}

const (
	defaultLeavingFor  = 20 * time.Second
	defaultChangingFor = 10 * time.Second
	defaultMaxEntries  = 2000
)

func (p Policy) complete() Policy {
	if p.LeavingFor <= 0 {
		p.LeavingFor = defaultLeavingFor
	}
	if p.ChangingFor <= 0 {
		p.ChangingFor = defaultChangingFor
	}
	if p.MaxEntries <= 0 {
		p.MaxEntries = defaultMaxEntries
	}
	return p
}

// Member is an active Pod of a budget: not being deleted, and not ended (podstate.IsActive). See MemberOf.
type Member struct {
	Name string
	// UID, Created and Generation are those of the Pod's metadata. Without a UID a successor is told by its creation, to
	// the second.
	UID        types.UID
	Created    metav1.Time
	Generation int64
	// Serves says that the Pod is in service.
	Serves bool
	// Settled says that the Pod itself shows the end of every change of its spec: a caller that closes a readiness gate
	// from the change until its end can tell, a Ready condition alone cannot. A Pod let go for a change of that caller
	// (Request.Gated) then counts again as soon as the Pod has changed and serves, and otherwise after Policy.ChangingFor.
	Settled bool
}

// MemberOf returns a Pod as a Member.
func MemberOf(pod *corev1.Pod, serves bool) Member {
	return Member{Name: pod.Name, UID: pod.UID, Created: pod.CreationTimestamp, Generation: pod.Generation, Serves: serves}
}

// Census is the input of a count.
type Census struct {
	// Generation is the generation of the budget's object. Required.
	Generation int64
	// Expected is the number of Pods that there should be, present or not. Required: 0 Pods would need nobody. A negative
	// number counts as 0.
	Expected *int32
	// Bounds say how many of them must serve. Path is the path of their fields, for errors. Required.
	Bounds Bounds
	Path   string
	// Members are the active Pods, each once. Of two members with the same name the first counts.
	Members []Member
	// Gone are the names of Pods known to be deleted or ended. Count forgets their entries at once. Entries of missing
	// Pods are forgotten only after some seconds, because the source of the census may be older than the entries.
	Gone []string
}

// Count is the outcome of Policy.Count.
type Count struct {
	// Ledger is the ledger to store.
	Ledger Ledger
	// Stayed are the Pods let go for a deletion whose time is over but are still present.
	Stayed []string
	// Wait, if positive, is the time until the next count: no event announces the end of a Pod's time.
	Wait time.Duration
}

// Why nobody can count.
const (
	// NoGeneration means that a Census or Request does not name the generation of the budget's object.
	NoGeneration reason.Code = "NoGeneration"
	// NoExpectation means that a Census does not say how many Pods there should be.
	NoExpectation reason.Code = "NoExpectation"
)

// Count counts. Count forgets three kinds of entries: Pods let go and gone, Pods unseen for some seconds, and Pods
// whose time is over. Beside an error the ledger lets nobody go: NoGeneration, NoExpectation, or bounds without
// meaning, see Bounds.Need.
//
// Count at the begin of each pass, and store the ledger however the pass ends: a pass that ends before its count leaves
// a budget with a changed spec uncounted, and then no Pod may go (NotCounted). A controller whose pass asks the budget
// before the count asks an older ledger, without the Pods that have failed since: see guard.Guard.Permit.
func (p Policy) Count(before Ledger, c Census, now time.Time) (Count, error) {
	p = p.complete()
	expected := max(ptr.Deref(c.Expected, 0), 0)
	need, err := c.Bounds.Need(c.Path, expected)
	if c.Expected == nil {
		err = errors.Join(err, reason.Reason{Code: NoExpectation, Detail: "the census needs the number of Pods that there should be"})
	}
	if c.Generation <= 0 {
		err = errors.Join(err, reason.Reason{Code: NoGeneration, Detail: "the census needs the generation of the budget's object"})
	}
	out := Count{Ledger: Ledger{ObservedGeneration: max(c.Generation, 0), Expected: expected, Need: need}}
	after, seen := &out.Ledger, make(map[string]bool, len(c.Members))
	for _, m := range c.Members {
		if !seen[m.Name] {
			seen[m.Name] = true
			p.countMember(&before, &out, m, now)
		}
	}
	for _, name := range c.Gone {
		seen[name] = true
	}
	after.Leaving = p.unseen(after.Leaving, before.Leaving, seen, now, &out.Wait)
	after.Changing = p.unseen(after.Changing, before.Changing, seen, now, &out.Wait)
	after.Identities = before.identitiesOf(after)
	after.Allowed = max(after.Current-after.Need, 0)
	if held := p.neededAnew(&before, after, c.Members, now); held > 0 {
		after.Allowed, out.Wait = 0, sooner(out.Wait, held)
	}
	if err != nil {
		after.ObservedGeneration = 0 // as if nobody had counted
	}
	return out, err
}

// countMember adds a Pod to the count.
func (p Policy) countMember(before *Ledger, out *Count, m Member, now time.Time) {
	after := &out.Ledger
	leaves, wasLeaving := before.left(before.Leaving, m, p.LeavingFor, now)
	changes, _ := before.left(before.Changing, m, p.ChangingFor, now)
	if before.hasChanged(m) {
		changes = 0
	}
	switch {
	case leaves > 0:
		after.Leaving = with(after.Leaving, m.Name, before.Leaving[m.Name])
	case wasLeaving:
		out.Stayed = append(out.Stayed, m.Name)
	}
	if changes > 0 {
		after.Changing = with(after.Changing, m.Name, before.Changing[m.Name])
	}
	if m.Serves && leaves <= 0 && changes <= 0 {
		after.Current++
	}
	out.Wait = sooner(sooner(out.Wait, leaves), changes)
}

// hasChanged reports whether a Pod let go for a change has changed and serves again.
func (l *Ledger) hasChanged(m Member) bool {
	was, known := l.Identities[m.Name]
	return known && was.Gated && m.Settled && m.Serves && was.UID == m.UID && was.Generation > 0 && m.Generation > was.Generation
}

// identitiesOf returns the identities of the Pods with entries in a later ledger.
func (l *Ledger) identitiesOf(after *Ledger) (kept map[string]Identity) {
	for name, identity := range l.Identities {
		_, leaves := after.Leaving[name]
		if _, changes := after.Changing[name]; leaves || changes {
			kept = with(kept, name, identity)
		}
	}
	return kept
}

// neededAnew notes when the need rises from 0, and returns how long no Pod may be let go therefore. Nothing was let go
// before the first count, nor while no Pod served.
func (p Policy) neededAnew(before, after *Ledger, members []Member, now time.Time) time.Duration {
	serves := func(m Member) bool { return m.Serves }
	switch {
	case after.Need <= 0:
		return 0
	case before.Need <= 0 && before.ObservedGeneration > 0 && slices.ContainsFunc(members, serves):
		after.NeededSince = &metav1.Time{Time: now}
	default:
		after.NeededSince = before.NeededSince
	}
	if after.NeededSince == nil {
		return 0
	}
	held := min(after.NeededSince.Add(p.LeavingFor).Sub(now), p.LeavingFor)
	if held <= 0 {
		after.NeededSince = nil
	}
	return held
}

// unseenFor is the time to keep the entry of a Pod not seen by the counter.
const unseenFor = 5 * time.Second

// unseen keeps recent entries of unseen Pods. Unseen Pods do not count until seen.
func (p Policy) unseen(kept, before map[string]metav1.Time, seen map[string]bool, now time.Time, wait *time.Duration) map[string]metav1.Time {
	lasts := min(unseenFor, p.LeavingFor, p.ChangingFor)
	for name, since := range before {
		if left := rest(since, lasts, now); left > 0 && !seen[name] {
			kept, *wait = with(kept, name, since), sooner(*wait, left)
		}
	}
	return kept
}

// left returns how long a Pod let go still counts as away, and whether the Pod has an entry. A successor of the same
// name has none.
func (l *Ledger) left(list map[string]metav1.Time, m Member, lasts time.Duration, now time.Time) (time.Duration, bool) {
	since, there := list[m.Name]
	if !there || l.isSuccessor(m, since) {
		return 0, false
	}
	return rest(since, lasts, now), true
}

// isSuccessor reports whether a Pod certainly came after the Pod let go. A stale cache may still show the Pod let go
// under the name.
func (l *Ledger) isSuccessor(m Member, since metav1.Time) bool {
	if was, known := l.Identities[m.Name]; known && m.UID != "" {
		return was.UID != m.UID && m.Created.After(was.Created.Time)
	}
	return m.Created.After(since.Time)
}

// rest returns the rest of the time of an entry.
func rest(since metav1.Time, lasts time.Duration, now time.Time) time.Duration {
	passed := now.Sub(since.Time)
	if passed < -lasts { // clocks differ by less: somebody else wrote the entry
		return 0
	}
	return min(lasts-passed, lasts)
}

// sooner returns the shorter of two waits. Zero means no wait.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// with adds a Pod to a map of the caller's own.
func with[V any](list map[string]V, name string, value V) map[string]V {
	if list == nil {
		list = map[string]V{}
	}
	list[name] = value
	return list
}
