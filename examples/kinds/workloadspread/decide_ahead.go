package workloadspread

import (
	"time"

	"github.com/workloadkit/workloadkit/subsets"
)

// spare is a place that was taken before its Pod exists. The zero value means that there is no place.
type spare struct {
	key, subset string
	since       time.Time
}

// isUsable reports whether a new Pod may still use the place. The controller counts the time for which it waits for a
// Pod from the time of the place, and accepts a request up to RenewedAfter later.
func (s spare) isUsable(now time.Time) bool {
	age := now.Sub(s.since)
	return age > -subsets.RenewedAfter && age < subsets.RenewedAfter
}

// inReach returns the subsets whose spares a new Pod may use, in order. All subsets before the subset next are full,
// perhaps only because of spares, which the Pod must use first. A Pod uses no spare in a closed subset, nor in a
// subset that has more Pods and places than its maximum.
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

// takeAhead takes up to len(keys) places before their Pods are created, for Pods of a version, all in the first subset
// with free places. At least half of the subset's free places stay free for other Pods, so that no Pod gets a later
// subset because of a place that is never used. Places that the keys took before are returned too.
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

// giveBackAhead frees places that were taken before their Pods were created and are not used.
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
