package disruption

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ledger is what is known of a budget. Its zero value was never counted and lets nobody go. Maps are replaced and never written to, so
// that ledgers of cached objects can be given to Count and Decide.
type Ledger struct {
	// Counted says that the Pods were counted for the spec as it is.
	Counted bool
	// Expected is how many Pods there should be, Need how many have to serve, and Current how many did when they were counted, without
	// those that were let go. Allowed is how many more may be let go.
	Expected, Need, Current, Allowed int32
	// Leaving are the Pods that were let go to be deleted or evicted, and Changing those that were let go to be changed, by name, with
	// the time.
	Leaving, Changing map[string]metav1.Time
}

// Policy says for how long a ledger trusts that what it let happen is about to happen. Its zero value has the durations of OpenKruise.
type Policy struct {
	// LeavingFor is how long a Pod that was let go to be deleted may stay until it counts again; 20 s if it is zero. Those who count have to see
	// within half of it that the Pod goes: in the other half it may be let go once more for nothing.
	LeavingFor time.Duration
	// ChangingFor is how long a Pod that was let go to be changed counts as away, whatever it reports; 10 s if it is zero. Its node has
	// to see the change in that time.
	ChangingFor time.Duration
	// MaxEntries bounds the Pods that are written down at a time; 2,000 if it is zero. More are refused until some are gone.
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

// Member is one active Pod of a budget: not being deleted, and not ended (podstate.IsActive).
type Member struct {
	Name    string
	Created metav1.Time
	// Serves says that the Pod is in service.
	Serves bool
}

// Census is what a count goes by.
type Census struct {
	// Expected is how many Pods there should be, whether or not they are there, and Need how many have to serve: see Bounds.Need. Both are
	// required; below 0 they count as 0, which protects nobody.
	Expected, Need int32
	// Members are the active Pods, each once. Of two with one name the first counts.
	Members []Member
	// Gone are the names of Pods that are known to be deleted or to have ended. What is written down of them is forgotten at once, of others that are
	// no Members after some seconds: what the census was taken from may be older than they are.
	Gone []string
	// NeededSince is when Need has risen from 0, unless that is long ago or was never seen. While nothing is needed Pods are let go without
	// being written down, and those who count from a cache may not have seen yet that they went: until Policy.LeavingFor after it no other is.
	NeededSince time.Time
}

// Count returns the ledger after a count. Pods that were let go and are gone are forgotten, those that are not seen after some seconds, and those that
// had their time: stayed are those among the last that were to be deleted and are still there. wait, where it is positive, is when to count again:
// nobody says that somebody's time is over.
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

// unseenFor is how long what is written down of a Pod is kept that who counts has not seen.
const unseenFor = 5 * time.Second

// unseen keeps what was written down a moment ago of Pods that were not seen. They count as nothing until they are seen.
func (p Policy) unseen(kept, before map[string]metav1.Time, seen map[string]bool, now time.Time, wait time.Duration) (map[string]metav1.Time, time.Duration) {
	lasts := min(unseenFor, p.LeavingFor, p.ChangingFor)
	for name := range before {
		if rest, _ := left(before, Member{Name: name}, lasts, now); rest > 0 && !seen[name] {
			kept, wait = with(kept, name, before[name]), sooner(wait, rest)
		}
	}
	return kept, wait
}

// left returns how long a Pod that was let go still counts as away, and whether it is written down.
func left(list map[string]metav1.Time, m Member, lasts time.Duration, now time.Time) (time.Duration, bool) {
	since, there := list[m.Name]
	if !there || m.Created.After(since.Time) { // or it is a successor of the same name
		return 0, false
	}
	passed := now.Sub(since.Time)
	if passed < -lasts { // clocks differ by less: somebody has written that
		return 0, true
	}
	return min(lasts-passed, lasts), true
}

// sooner returns the shorter of two waits, of which zero is none.
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
