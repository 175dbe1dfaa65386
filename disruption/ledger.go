package disruption

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ledger is the state of a budget. The zero value was never counted and lets nobody go. Maps are replaced and never
// written to, so Count and Decide accept ledgers of cached objects.
type Ledger struct {
	// Counted says that the Pods were counted for the present spec.
	Counted bool
	// Expected is the number of Pods that there should be. Need is the number of Pods that must serve. Current is the
	// number of Pods serving at the last count, without Pods let go. Allowed is the number of further Pods that may be let
	// go.
	Expected, Need, Current, Allowed int32
	// Leaving are the Pods let go for a deletion or eviction, Changing the Pods let go for a change, by name, with the
	// time.
	Leaving, Changing map[string]metav1.Time
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

// Member is an active Pod of a budget: not being deleted, and not ended (podstate.IsActive).
type Member struct {
	Name    string
	Created metav1.Time
	// Serves says that the Pod is in service.
	Serves bool
}

// Census is the input of a count.
type Census struct {
	// Expected is the number of Pods that there should be, present or not. Need is the number of Pods that must serve: see
	// Bounds.Need. Both are required. A negative number counts as 0 and protects nobody.
	Expected, Need int32
	// Members are the active Pods, each once. Of two members with the same name the first counts.
	Members []Member
	// Gone are the names of Pods known to be deleted or ended. Count forgets their entries at once. Entries of missing
	// Pods are forgotten only after some seconds, because the source of the census may be older than the entries.
	Gone []string
	// NeededSince is the time when Need rose from 0, zero if long ago or never seen. While nothing is needed, Pods are let
	// go without entries, and a counter's cache may not show their end yet. So no Pod is let go until Policy.LeavingFor
	// after NeededSince.
	NeededSince time.Time
}

// Count returns the ledger after a count. Count forgets three kinds of entries: Pods let go and gone, Pods unseen for
// some seconds, and Pods whose time is over. stayed are the Pods let go for a deletion whose time is over but are still
// present. wait, if positive, is the time until the next count: no event announces the end of a Pod's time.
func (p Policy) Count(before Ledger, c Census, now time.Time) (after Ledger, stayed []string, wait time.Duration) {
	p = p.complete()
	after = Ledger{Counted: true, Expected: max(c.Expected, 0), Need: max(c.Need, 0)}
	seen := make(map[string]bool, len(c.Members))
	for _, m := range c.Members {
		if seen[m.Name] {
			continue
		}
		seen[m.Name] = true
		leaves, wasLeaving := left(before.Leaving, m, p.LeavingFor, now)
		changes, _ := left(before.Changing, m, p.ChangingFor, now)
		switch {
		case leaves > 0:
			after.Leaving = with(after.Leaving, m.Name, before.Leaving[m.Name])
		case wasLeaving:
			stayed = append(stayed, m.Name)
		}
		if changes > 0 {
			after.Changing = with(after.Changing, m.Name, before.Changing[m.Name])
		}
		if m.Serves && leaves <= 0 && changes <= 0 {
			after.Current++
		}
		wait = sooner(sooner(wait, leaves), changes)
	}
	for _, name := range c.Gone {
		seen[name] = true
	}
	after.Leaving, wait = p.unseen(after.Leaving, before.Leaving, seen, now, wait)
	after.Changing, wait = p.unseen(after.Changing, before.Changing, seen, now, wait)
	after.Allowed = max(after.Current-after.Need, 0)
	if held := c.NeededSince.Add(p.LeavingFor).Sub(now); !c.NeededSince.IsZero() && after.Need > 0 && held > 0 {
		after.Allowed, wait = 0, sooner(wait, min(held, p.LeavingFor))
	}
	return after, stayed, wait
}

// unseenFor is the time to keep the entry of a Pod not seen by the counter.
const unseenFor = 5 * time.Second

// unseen keeps recent entries of unseen Pods. Unseen Pods do not count until seen.
func (p Policy) unseen(kept, before map[string]metav1.Time, seen map[string]bool, now time.Time, wait time.Duration) (map[string]metav1.Time, time.Duration) {
	lasts := min(unseenFor, p.LeavingFor, p.ChangingFor)
	for name := range before {
		if rest, _ := left(before, Member{Name: name}, lasts, now); rest > 0 && !seen[name] {
			kept, wait = with(kept, name, before[name]), sooner(wait, rest)
		}
	}
	return kept, wait
}

// left returns how long a Pod let go still counts as away, and whether the Pod has an entry.
func left(list map[string]metav1.Time, m Member, lasts time.Duration, now time.Time) (time.Duration, bool) {
	since, there := list[m.Name]
	if !there || m.Created.After(since.Time) { // or a successor of the same name
		return 0, false
	}
	passed := now.Sub(since.Time)
	if passed < -lasts { // clocks differ by less: somebody else wrote the entry
		return 0, true
	}
	return min(lasts-passed, lasts), true
}

// sooner returns the shorter of two waits. Zero means no wait.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// with adds a Pod to a map of the caller's own.
func with(list map[string]metav1.Time, name string, since metav1.Time) map[string]metav1.Time {
	if list == nil {
		list = map[string]metav1.Time{}
	}
	list[name] = since
	return list
}
