package subsets

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// Member is an active Pod in a subset.
type Member struct {
	// Name is the Pod's name, and Key the key under which the Pod's place was taken if it is not the name.
	Name, Key string
	// Subset is the name of the Pod's subset, as returned by a Matcher; empty if none.
	Subset string
	// Created is the Pod's creationTimestamp, used to distinguish the new Pod from an earlier Pod of the same name that
	// a stale cache still shows. Created is not needed for Pods with generated names.
	Created time.Time
}

// Tally is the result of a count.
type Tally struct {
	// Book is the book to store; it has a line for each place.
	Book Book
	// Lost are the Pods that were not created or not deleted in time: reasons NotCreated and NotDeleted. In these
	// reasons Object is the Pod, and Path names the subset.
	Lost reason.List
	// RequeueAfter is the time until the next count, because no event will start a reconcile; 0 for never.
	RequeueAfter time.Duration
}

// Count counts the Pods and updates the book. members are all active Pods of the book's revision, from a cache whose
// content never becomes older. The place of an awaited Pod stays taken for Policy.CreatingFor, and the place of a Pod
// whose deletion was admitted stays free for Policy.DeletingFor.
//
// If a Pod was created in another subset than the subset chosen at admission, the place in the chosen subset becomes
// free.
//
// Store the book by compare-and-swap: an unconditional write could remove the entry of a webhook that has just taken
// a place, and the place would be given to two Pods. Count again after a conflict.
func (p Policy) Count(book Book, places []Place, members []Member, now time.Time) Tally {
	p, places = p.complete(), distinct(places)
	old := book.aligned(places)
	t := Tally{Book: make(Book, len(places))}
	at := make(map[string]int, len(places))
	for i := range places {
		t.Book[i] = Line{Name: places[i].Name}
		at[places[i].Name] = i
	}
	arrived, remains := make(map[string]bool), make(map[[2]string]bool) // by key, and by subset and key
	exists := make(map[string]bool)                                     // the keys of Pods that have a place already
	var awaited []map[string]metav1.Time
	for i := range old {
		if len(old[i].Creating) > 0 {
			awaited = append(awaited, old[i].Creating)
		}
	}
	for _, m := range members {
		i, ok := at[m.Subset]
		if !ok || m.Subset == "" {
			continue
		}
		if t.Book[i].Replicas < math.MaxInt32 {
			t.Book[i].Replicas++
		}
		for _, key := range [...]string{m.Key, m.Name} {
			for _, entries := range awaited {
				if since, ok := entries[key]; ok && key != "" {
					exists[key] = true
					arrived[key] = arrived[key] || p.fulfils(m, since.Time)
				}
			}
			if key != "" && has(old[i].Deleting, key) {
				remains[[2]string{m.Subset, key}] = true
			}
		}
	}
	for i := range places {
		c := counter{Tally: &t, place: &places[i], now: now, exists: exists}
		missing := func(key string) bool { return !arrived[key] }
		there := func(key string) bool { return remains[[2]string{places[i].Name, key}] }
		t.Book[i].Creating = c.keep(old[i].Creating, NotCreated, p.CreatingFor, missing)
		t.Book[i].Deleting = c.keep(old[i].Deleting, NotDeleted, p.DeletingFor, there)
	}
	return t
}

// fulfils reports whether the Pod is the Pod awaited under the key, and not an older Pod of the same name.
func (p Policy) fulfils(m Member, since time.Time) bool {
	return m.Created.IsZero() || !m.Created.Before(since.Add(-p.CreatingFor))
}

type counter struct {
	*Tally

	place  *Place
	now    time.Time
	exists map[string]bool
}

// keep returns the entries that are neither fulfilled nor too old. For an entry that is too old but not fulfilled,
// keep adds a reason to Tally.Lost. An entry also counts as too old if its time is further in the future than its
// lifetime: clocks do not differ by so much.
func (c counter) keep(
	entries map[string]metav1.Time, code reason.Code, life time.Duration, awaited func(key string) bool,
) (kept map[string]metav1.Time) {
	for _, key := range sortedKeys(entries) {
		if !awaited(key) || c.place.isUnlimited() {
			continue
		}
		age := c.now.Sub(entries[key].Time)
		if age >= life || age < -life {
			// a Pod of the same name exists, so the API server refuses to create the awaited Pod, and no reason is
			// necessary
			if code != NotCreated || !c.exists[key] {
				add(&c.Lost, lost(code, c.place, key, life, age))
			}
			continue
		}
		if kept == nil {
			kept = make(map[string]metav1.Time, len(entries))
		}
		kept[key] = entries[key]
		if wait := life - age; c.RequeueAfter == 0 || wait < c.RequeueAfter {
			c.RequeueAfter = wait
		}
	}
	return kept
}

func lost(code reason.Code, place *Place, key string, life, age time.Duration) reason.Reason {
	switch {
	case age < 0:
		return reason.Reason{
			Code: code, Object: podNamed(key), Path: place.path(),
			Detail: "the entry has a time in the future, and no longer counts", Remedy: "see whose clock is wrong, or who else has written the entry",
		}
	case code == NotCreated:
		return notCreated(key, place.path(), "admitted, and not there after "+life.String())
	}
	return reason.Reason{
		Code: code, Object: podNamed(key), Path: place.path(),
		Detail: "to be deleted, and still there after " + life.String(), Remedy: "see who refuses the deletion",
	}
}

func notCreated(key, path, detail string) reason.Reason {
	return reason.Reason{
		Code: NotCreated, Object: podNamed(key), Path: path,
		Detail: detail, Remedy: "see the events of the Pod's owner: a quota or another webhook may refuse the Pod",
	}
}

func podNamed(key string) reason.Object {
	return reason.Object{Kind: "Pod", Name: reason.Shorten(key, 253)}
}
