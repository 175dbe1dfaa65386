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

// Ledger is the recorded state of a budget. The zero value means a budget that was never counted, and admits no
// request. Count and Decide never modify the ledger's maps but return new maps, so the functions accept ledgers of
// cached objects. An API type may embed the ledger's JSON form as a field of its status, without conversion.
type Ledger struct {
	// ObservedGeneration is the generation of the budget's object at the last count. A ledger that was counted for an
	// older generation, or never counted, admits no request.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Expected is the number of Pods that should exist. Need is the number of Pods that must be in service. Current is
	// the number of Pods in service at the last count, without Pods whose deletion or change was admitted. Allowed is
	// the number of further Pods that may be taken out of service.
	Expected int32 `json:"expected"`
	Need     int32 `json:"need"`
	Current  int32 `json:"current"`
	Allowed  int32 `json:"allowed"`
	// Leaving are the Pods whose deletion or eviction was admitted, and Changing the Pods whose change was admitted:
	// both map the Pod's name to the time of the admission.
	Leaving  map[string]metav1.Time `json:"leaving,omitempty"`
	Changing map[string]metav1.Time `json:"changing,omitempty"`
	// Identities map the name of each Pod in Leaving or Changing to the Pod's identity, to distinguish the Pod from a
	// later Pod with the same name, and to notice a change of the Pod. If the status has no field for Identities, the
	// API server drops the map. Some entries then expire only after the durations in the Policy.
	Identities map[string]Identity `json:"identities,omitempty"`
	// NeededSince is the time when Need rose from 0; nil if Need has not risen from 0 for a long time. While Need was 0,
	// requests were admitted without entries, and the controller's cache may still show some of the deleted Pods. So no
	// request is admitted until Policy.LeavingFor after NeededSince. If the status has no field for NeededSince, the
	// caller must store the time elsewhere.
	NeededSince *metav1.Time `json:"neededSince,omitempty"`
}

// Identity identifies a Pod, in its state when the request was admitted.
type Identity struct {
	UID        types.UID   `json:"uid"`
	Created    metav1.Time `json:"created"`
	Generation int64       `json:"generation,omitempty"`
	// Gated is the field Gated of the last request for the Pod.
	Gated bool `json:"gated,omitempty"`
}

// DeepCopyInto copies the ledger, for API types that embed a ledger.
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

// Policy says how long an admitted operation counts against the budget. The zero value has the default durations of
// OpenKruise.
type Policy struct {
	// LeavingFor is the time after which a Pod whose deletion was admitted counts as in service again if the Pod still
	// exists; 20 s if zero. The caches of counting controllers must show a deletion within half of this time, because
	// during the first half a further request for the Pod is admitted without a new entry.
	LeavingFor time.Duration
	// ChangingFor is the time for which a Pod whose change was admitted counts as out of service, whatever conditions
	// the Pod reports; 10 s if zero. The kubelet must observe the change within ChangingFor.
	ChangingFor time.Duration
	// MaxEntries limits the number of Pods in Ledger.Leaving and Changing; 2,000 if zero. Requests beyond the limit are
	// refused until entries have expired.
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

// Member is an active Pod of a budget: neither ended nor being deleted (podstate.IsActive). See MemberOf.
type Member struct {
	Name string
	// UID, Created and Generation are from the Pod's metadata. If there is no UID, the creation time, to the second,
	// distinguishes the Pod from a later Pod with the same name.
	UID        types.UID
	Created    metav1.Time
	Generation int64
	// Serves says that the Pod is in service.
	Serves bool
	// Settled says that the Pod's conditions reliably show when a change of its spec has ended: true for a controller
	// that keeps a readiness gate closed during the whole change; a Ready condition alone is not enough. If Settled
	// is true, a Pod with an admitted change (Request.Gated) counts as in service again as soon as the Pod has
	// changed and serves; otherwise after Policy.ChangingFor.
	Settled bool
}

// MemberOf describes a Pod as a Member.
func MemberOf(pod *corev1.Pod, serves bool) Member {
	return Member{Name: pod.Name, UID: pod.UID, Created: pod.CreationTimestamp, Generation: pod.Generation, Serves: serves}
}

// Census is the input of Policy.Count: what a controller knows about a budget and its Pods.
type Census struct {
	// Generation is the generation of the budget's object. Required.
	Generation int64
	// Expected is the number of Pods that should exist, whether they exist or not. Required: if Expected is 0, the
	// budget protects no Pod. A negative number counts as 0.
	Expected *int32
	// Bounds say how many Pods must be in service. Path is the path of the bounds' fields, for errors. Required.
	Bounds Bounds
	Path   string
	// Members are the active Pods, each once. Of two members with the same name, the first counts.
	Members []Member
	// Gone are the names of Pods known to be deleted or ended. Count removes the entries of these Pods at once.
	// Entries of all other Pods that are missing in Members are removed only after some seconds, because Members may
	// come from a cache that is older than the entries.
	Gone []string
}

// Count is the result of Policy.Count.
type Count struct {
	// Ledger is the ledger after the count. The caller stores the ledger in the status of the object.
	Ledger Ledger
	// Stayed are the Pods whose deletion was admitted, but which still exist after Policy.LeavingFor.
	Stayed []string
	// Wait, if positive, is the time until the next count: no event occurs when an entry expires.
	Wait time.Duration
}

// These are reasons why a count is impossible.
const (
	// NoGeneration means that a Census or Request does not name the generation of the budget's object.
	NoGeneration reason.Code = "NoGeneration"
	// NoExpectation means that a Census does not say how many Pods should exist.
	NoExpectation reason.Code = "NoExpectation"
)

// Count counts the Pods in service and updates the ledger. Count removes the entries of three kinds of Pods: Pods in
// Census.Gone, Pods missing in Census.Members for some seconds, and Pods whose entry has expired. If Count returns an
// error, the ledger admits no request. The error is NoGeneration, NoExpectation, or invalid bounds, see Bounds.Need.
//
// Call Count at the start of each reconcile, and store the ledger even if the reconcile fails later: if a reconcile
// ended before the count, a budget with a changed spec would stay uncounted and refuse every request (NotCounted). If
// a reconcile calls guard.Guard.Permit before the count, Permit decides by an older ledger, in which Pods that have
// failed since still count as in service.
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
		after.ObservedGeneration = 0 // mark the ledger as never counted
	}
	return out, err
}

// countMember adds a Pod to the count of Pods in service.
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

// hasChanged reports whether an admitted change of a Pod is over: the Pod has changed since, and serves again.
func (l *Ledger) hasChanged(m Member) bool {
	was, known := l.Identities[m.Name]
	return known && was.Gated && m.Settled && m.Serves && was.UID == m.UID && was.Generation > 0 && m.Generation > was.Generation
}

// identitiesOf returns the identities of the Pods that have entries in the ledger after.
func (l *Ledger) identitiesOf(after *Ledger) (kept map[string]Identity) {
	for name, identity := range l.Identities {
		_, leaves := after.Leaving[name]
		if _, changes := after.Changing[name]; leaves || changes {
			kept = with(kept, name, identity)
		}
	}
	return kept
}

// neededAnew records when Need rises from 0, and returns how long requests are refused because of the rise. If the
// ledger is new, or no Pod was in service, no request can have been admitted, so there is no wait.
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

// unseenFor is how long Count keeps the entry of a Pod that is missing in the census.
const unseenFor = 5 * time.Second

// unseen keeps recent entries of Pods that are missing in the census. Such Pods do not count as in service.
func (p Policy) unseen(kept, before map[string]metav1.Time, seen map[string]bool, now time.Time, wait *time.Duration) map[string]metav1.Time {
	lasts := min(unseenFor, p.LeavingFor, p.ChangingFor)
	for name, since := range before {
		if left := rest(since, lasts, now); left > 0 && !seen[name] {
			kept, *wait = with(kept, name, since), sooner(*wait, left)
		}
	}
	return kept
}

// left returns how long a Pod still counts as out of service because of its entry in list, and whether list has an
// entry for the Pod. An entry for an earlier Pod with the same name does not count.
func (l *Ledger) left(list map[string]metav1.Time, m Member, lasts time.Duration, now time.Time) (time.Duration, bool) {
	since, there := list[m.Name]
	if !there || l.isSuccessor(m, since) {
		return 0, false
	}
	return rest(since, lasts, now), true
}

// isSuccessor reports whether a Pod was certainly created after the Pod of the entry. A stale cache may still show the
// Pod of the entry under the same name.
func (l *Ledger) isSuccessor(m Member, since metav1.Time) bool {
	if was, known := l.Identities[m.Name]; known && m.UID != "" {
		return was.UID != m.UID && m.Created.After(was.Created.Time)
	}
	return m.Created.After(since.Time)
}

// rest returns for how long an entry still counts.
func rest(since metav1.Time, lasts time.Duration, now time.Time) time.Duration {
	passed := now.Sub(since.Time)
	if passed < -lasts { // two clocks differ by less than lasts, so Decide has not written a time so far ahead
		return 0
	}
	return min(lasts-passed, lasts)
}

// sooner returns the shorter of two waits. Zero means that there is no wait.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// with adds an entry to the map, or to a new map if the map is nil.
func with[V any](list map[string]V, name string, value V) map[string]V {
	if list == nil {
		list = map[string]V{}
	}
	list[name] = value
	return list
}
