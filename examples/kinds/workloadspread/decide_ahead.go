package workloadspread

import (
	"time"

	"github.com/workloadkit/workloadkit/subsets"
)

// spare is a place in a subset that was taken before a request to create a Pod. The zero value means that there is no
// place.
type spare struct {
	key, subset string
	since       time.Time
}

// isUsable reports whether a new Pod may still use the place. The controller waits for the Pod of a place from the
// time at which the place was taken, and allows for a request up to RenewedAfter later.
func (s spare) isUsable(now time.Time) bool {
	age := now.Sub(s.since)
	return age > -subsets.RenewedAfter && age < subsets.RenewedAfter
}

// inReach returns, in order, the subsets whose spares (places taken before their Pods exist) a new Pod may use. All
// subsets before the subset next are full, perhaps only because of spares, which the Pod must use first. A Pod uses
// no spare in a closed subset, nor in a subset that has more Pods and places than its maximum.
func inReach(book subsets.Book, places []subsets.Place, next string) (names []string) {
	for i := range places {
		p := &places[i]
		if !p.Closed && p.Max != subsets.Unlimited && book.Line(p.Name).Taken() <= p.Max {
			names = append(names, p.Name)
		}
		if p.Name == next {
			break
		}
	}
	return names
}

// takeAhead takes up to len(keys) places before their Pods are created, for Pods of a version, all in the first
// subset with free places. At least half of the subset's free places stay free for other requests, so that few Pods
// get a later subset because of places that are never used. The result also contains places that were taken with
// these keys before.
func (s *settings) takeAhead(books ledger, places []subsets.Place, version string, keys []string, now time.Time) (after ledger, taken []spare, changed bool) {
	list := books[version]
	book := bookOf(list)
	had := 0
	for i := range book {
		for _, key := range keys {
			if _, ok := book[i].Creating[key]; ok {
				had++
			}
		}
	}
	most := had
	for i, key := range keys {
		next, choice := s.policy.Take(book, places, key, now)
		since, bounded := next.Line(choice.Subset).Creating[key]
		if !bounded || len(taken) > 0 && choice.Subset != taken[0].subset {
			break
		}
		if i == 0 {
			most = (free(book, places, choice.Subset) + had) / 2
		}
		if len(taken) >= most {
			break
		}
		book, taken, changed = next, append(taken, spare{key, choice.Subset, since.Time}), changed || choice.Changed
	}
	if !changed {
		return books, taken, false
	}
	return with(books, version, listOf(book, places, list)), taken, true
}

// free returns the number of free places of a subset.
func free(book subsets.Book, places []subsets.Place, subset string) int {
	for i := range places {
		if places[i].Name == subset {
			return book.Line(subset).Missing(places[i])
		}
	}
	return 0
}

// giveBackAhead frees places in subsets that were taken in advance, and that no Pod has used.
func giveBackAhead(books ledger, places []subsets.Place, version string, unused map[string]bool) (after ledger, changed bool) {
	list, counted := books[version]
	if !counted {
		return books, false
	}
	book, lost := bookOf(list).Drop(places, func(key string, _ time.Time) bool { return unused[key] })
	if len(lost) == 0 {
		return books, false
	}
	return with(books, version, listOf(book, places, list)), true
}
