package schedule

import (
	"fmt"
	"strconv"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// horizon is how many years ahead slots are looked for. The 29th of February of a Sunday comes every 28 years, or 40
// where a leap year is left out.
const horizon = 41

// Next returns the first slot after a moment, to the second; for "@every" as if the moment were a slot. Next returns
// the zero time if no slot follows.
func (s *Schedule) Next(after time.Time) time.Time {
	after = after.Truncate(time.Second)
	if s.every > 0 {
		return after.Add(s.every)
	}
	end := after.AddDate(horizon, 0, 0)
	// Between two changes of the clocks local time is a number of seconds away from UTC, and there alone is the library
	// right in all zones.
	for at := after.Add(time.Second).In(s.zone); at.Before(end); {
		_, offset := at.Zone()
		fixed := *s.cron
		fixed.Location = time.FixedZone("", offset)
		_, change := at.ZoneBounds()
		if !change.IsZero() && !change.After(at) { // as in package time for the last day of leap years in the far future
			change = at.AddDate(0, 0, 1)
		}
		slot := fixed.Next(at.Add(-time.Second))
		switch {
		case !slot.IsZero() && (change.IsZero() || slot.Before(change)):
			return slot.In(after.Location())
		case !change.IsZero() && change.Before(at.AddDate(yearsOfNext, 0, 0)):
			at = change
		default: // the library gives up after some years
			at = at.AddDate(yearsOfNext, 0, 0)
		}
	}
	return time.Time{}
}

// yearsOfNext is how many years the library looks ahead.
const yearsOfNext = 5

// CountedMissed is the number up to which missed slots of cron expressions are counted singly.
const CountedMissed = 100

// Count is how many slots were missed: N, or more than N.
type Count struct {
	N    int64
	More bool
}

// IsZero reports whether there are none.
func (c Count) IsZero() bool { return c.N <= 0 && !c.More }

// String is "7", or "more than 100".
func (c Count) String() string {
	if c.More {
		return "more than " + strconv.FormatInt(c.N, 10)
	}
	return strconv.FormatInt(c.N, 10)
}

// Window is the range of a question: the slots after Last and From, and until Now.
type Window struct {
	// Last is the newest started slot, zero for none. Without Last, Created counts. If both are zero, nothing is due.
	Last, Created time.Time
	// From is when the schedule was changed last, zero for never: slots until then are none.
	From time.Time
	// Told is the end of the time covered by earlier reports of missed slots, zero for none.
	Told time.Time
	// Deadline is how many seconds after its time a slot may still be started; nil for any number.
	Deadline *int64
	Now      time.Time
}

// since is where the window begins.
func (w Window) since() time.Time {
	if w.Last.IsZero() && w.Created.IsZero() {
		return w.Now.Truncate(time.Second)
	}
	if w.Last.IsZero() {
		return w.Created.Truncate(time.Second)
	}
	return w.Last.Truncate(time.Second)
}

// Due is the answer.
type Due struct {
	// Slot is the slot to start now, zero for none.
	Slot time.Time
	// Newest is the newest slot of the window, even past the deadline; zero for none.
	Newest time.Time
	// Missed is how many slots of the window will not be started, and were not told before.
	Missed Count
	// Next is the first slot after now, or after a Last in the future; zero for none.
	Next time.Time
	// Why is the reason for not starting the newest slot, or for the lack of any slot.
	Why reason.Reason
}

// TooLate means that the newest slot is past the deadline for its start.
const TooLate reason.Code = "TooLate"

// Due returns the slot to start: the newest of several due slots.
func (s *Schedule) Due(w Window) Due {
	since, from, now := w.since(), w.From.Truncate(time.Second), w.Now.Truncate(time.Second)
	d := Due{Newest: s.newest(since, now), Next: s.nextAfter(since, now)}
	if !d.Newest.After(from) {
		d.Newest = time.Time{}
	}
	if d.Newest.IsZero() {
		if d.Next.IsZero() {
			d.Why = s.neverDue()
		}
		return d
	}
	d.Missed = s.count(since, later(later(since, from), w.Told.Truncate(time.Second)), d.Newest)
	if w.Deadline != nil && now.Unix()-d.Newest.Unix() > *w.Deadline {
		d.Why = reason.Reason{
			Code: TooLate, New: d.Newest.Format(time.RFC3339), Detail: fmt.Sprintf("is more than %d seconds ago", *w.Deadline),
			Remedy: "allow more in spec.startingDeadlineSeconds",
		}
		return d
	}
	d.Slot = d.Newest
	if d.Newest.After(w.Told) && !d.Missed.More {
		d.Missed.N--
	}
	return d
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// nextAfter returns the first slot after now. since is a slot, or the begin of counting.
func (s *Schedule) nextAfter(since, now time.Time) time.Time {
	if s.every > 0 {
		return s.round(since, s.rounds(since, now)+1).In(now.Location())
	}
	return s.Next(later(since, now))
}

// rounds is how many slots of "@every" there are after since and until now.
func (s *Schedule) rounds(since, now time.Time) int64 {
	return max(0, (now.Unix()-since.Unix())/int64(s.every/time.Second))
}

// round returns the n-th slot after since.
func (s *Schedule) round(since time.Time, n int64) time.Time {
	return time.Unix(since.Unix()+n*int64(s.every/time.Second), 0)
}

// atHand is how many slots are checked in sequence before a search.
const atHand = 8

// newest returns the last slot after since and until now, zero if there is none.
func (s *Schedule) newest(since, now time.Time) time.Time {
	if s.every > 0 {
		n := s.rounds(since, now)
		if n == 0 {
			return time.Time{}
		}
		return s.round(since, n).In(now.Location())
	}
	found := time.Time{}
	for at, i := since, 0; i < atHand; i++ {
		next := s.Next(at)
		if next.IsZero() || next.After(now) {
			return found
		}
		found, at = next, next
	}
	// The first slot after low is not after now, the first slot after high is.
	low, high := found.Unix()-1, now.Unix()
	for high-low > 1 {
		middle := low + (high-low)/2
		if next := s.Next(time.Unix(middle, 0)); next.IsZero() || next.After(now) {
			high = middle
		} else {
			low = middle
		}
	}
	return s.Next(time.Unix(low, 0)).In(now.Location())
}

// count returns the number of slots after a moment up to newest, which is a slot. Slots of "@every" count from since.
func (s *Schedule) count(since, after, newest time.Time) Count {
	if s.every > 0 {
		return Count{N: max(0, s.rounds(since, newest)-s.rounds(since, after))}
	}
	var c Count
	for at := s.Next(after); !at.IsZero() && !at.After(newest); at = s.Next(at) {
		if c.N > CountedMissed {
			return Count{N: CountedMissed, More: true}
		}
		c.N++
	}
	return c
}
