package schedule

import (
	"fmt"
	"strconv"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// horizon is how many years ahead Next searches for a slot. The rarest slot is a 29th of February on a certain weekday,
// which comes every 28 years, or after 40 years if a leap year is left out.
const horizon = 41

// Next returns the first slot after the given time, in whole seconds. For "@every", the given time counts as a slot. If
// there is no later slot, Next returns the zero time.
func (s *Schedule) Next(after time.Time) time.Time {
	after = after.Truncate(time.Second)
	if s.every > 0 {
		return after.Add(s.every)
	}
	end := after.AddDate(horizon, 0, 0)
	// The cron library is right in all time zones only between two clock changes, where local time has a constant
	// offset from UTC.
	for at := after.Add(time.Second).In(s.zone); at.Before(end); {
		_, offset := at.Zone()
		fixed := *s.cron
		fixed.Location = time.FixedZone("", offset)
		_, change := at.ZoneBounds()
		if !change.IsZero() && !change.After(at) { // for years far ahead, package time returns a past change
			change = at.AddDate(0, 0, 1)
		}
		slot := fixed.Next(at.Add(-time.Second))
		switch {
		case !slot.IsZero() && (change.IsZero() || slot.Before(change)):
			return slot.In(after.Location())
		case !change.IsZero() && change.Before(at.AddDate(yearsOfNext, 0, 0)):
			at = change
		default: // the library stops its search after some years
			at = at.AddDate(yearsOfNext, 0, 0)
		}
	}
	return time.Time{}
}

// yearsOfNext is how many years ahead the library searches.
const yearsOfNext = 5

// CountedMissed is the number up to which the missed slots of a cron expression are counted exactly.
const CountedMissed = 100

// Count is a number of missed slots. The number is N, or more than N if More is true.
type Count struct {
	N    int64
	More bool
}

// IsZero reports whether no slot was missed.
func (c Count) IsZero() bool { return c.N <= 0 && !c.More }

// String returns, for example, "7" or "more than 100".
func (c Count) String() string {
	if c.More {
		return "more than " + strconv.FormatInt(c.N, 10)
	}
	return strconv.FormatInt(c.N, 10)
}

// Window says which slots count: slots after both Last and From, and up to Now.
type Window struct {
	// Last is the newest slot whose run was started; zero means none. If Last is zero, Created is used instead. If both
	// are zero, no slot is due.
	Last, Created time.Time
	// From is when the schedule was last changed; zero means never. Slots before From do not count.
	From time.Time
	// Told is the slot up to which missed slots have been reported already; zero means none.
	Told time.Time
	// Deadline is the number of seconds after a slot within which its run may still be started; nil means no limit.
	Deadline *int64
	Now      time.Time
}

// since returns the beginning of the window.
func (w Window) since() time.Time {
	if w.Last.IsZero() && w.Created.IsZero() {
		return w.Now.Truncate(time.Second)
	}
	if w.Last.IsZero() {
		return w.Created.Truncate(time.Second)
	}
	return w.Last.Truncate(time.Second)
}

// Due is the result of the method [Schedule.Due].
type Due struct {
	// Slot is the slot whose run must be started now; zero means none.
	Slot time.Time
	// Newest is the newest slot in the window, even if its deadline has passed; zero means none.
	Newest time.Time
	// Missed is the number of slots in the window whose runs will not be started and that have not been reported yet.
	Missed Count
	// Next is the first slot after now, or after Last if Last is in the future; zero means none.
	Next time.Time
	// Why is the reason why the newest slot is not started, or why there is no slot.
	Why reason.Reason
}

// TooLate means that the deadline for starting the newest slot's run has passed.
const TooLate reason.Code = "TooLate"

// Due returns which slot must be started now: the newest slot if several slots are due.
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

// nextAfter returns the first slot after now. since is a slot, or the time from which slots of "@every" are counted.
func (s *Schedule) nextAfter(since, now time.Time) time.Time {
	if s.every > 0 {
		return s.round(since, s.rounds(since, now)+1).In(now.Location())
	}
	return s.Next(later(since, now))
}

// rounds returns the number of slots of "@every" after since and up to now.
func (s *Schedule) rounds(since, now time.Time) int64 {
	return max(0, (now.Unix()-since.Unix())/int64(s.every/time.Second))
}

// round returns the n-th slot of "@every" after the time since.
func (s *Schedule) round(since time.Time, n int64) time.Time {
	return time.Unix(since.Unix()+n*int64(s.every/time.Second), 0)
}

// atHand is how many slots are checked one after the other before a binary search starts.
const atHand = 8

// newest returns the last slot after since and up to now; zero means none.
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
	// Invariant of the search: the first slot after low is not after now, and the first slot after high is after now.
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

// count returns the number of slots after the time after, up to and including the slot newest. Slots of "@every" are
// counted from since.
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
