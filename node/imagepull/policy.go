package imagepull

import (
	"cmp"
	"time"
)

// These are the defaults for fields without a value, as in OpenKruise (pkg/daemon/imagepuller).
const (
	defaultTimeout = 10 * time.Minute
	defaultRetries = 3
)

// Policy says how an image is pulled. With the zero value, an absent image is pulled in one attempt, within ten
// minutes.
type Policy struct {
	// Always means that the image is pulled even if present, once for each claim.
	Always bool
	// Keep means that the image is pulled again, with growing waits, whenever the image disappears or all attempts
	// have failed.
	Keep bool
	// Timeout is the time for a single attempt; 0 or less means 10 minutes.
	Timeout time.Duration
	// Retries is the number of attempts after the first; a negative number means 3.
	Retries int
	// Deadline is the time after the start of the first attempt at which the pull fails; nil for none.
	Deadline *time.Duration
	// TTL is the time from the result for a claim until Sweep removes the claim; nil for never.
	TTL *time.Duration
}

func (p Policy) timeout() time.Duration {
	if p.Timeout <= 0 {
		return defaultTimeout
	}
	return p.Timeout
}

func (p Policy) retries() int {
	if p.Retries < 0 {
		return defaultRetries
	}
	return p.Retries
}

// with returns the longer times and the higher number of attempts of two policies. Always and TTL belong to a single
// claim and are left out.
func (p Policy) with(q Policy) Policy {
	out := Policy{
		Keep: p.Keep || q.Keep, Timeout: max(p.timeout(), q.timeout()), Retries: max(p.retries(), q.retries()),
	}
	if p.Deadline != nil && q.Deadline != nil {
		longer := max(*p.Deadline, *q.Deadline)
		out.Deadline = &longer
	}
	return out
}

// Limit returns the time for the attempt that begins now: the timeout, or the time left until the deadline if
// shorter. started is the start of the first attempt; zero means now. The result is 0 or less if the deadline has
// passed.
func (p Policy) Limit(started, now time.Time) time.Duration {
	limit := p.timeout()
	if p.Deadline == nil {
		return limit
	}
	if started.IsZero() {
		started = now
	}
	return min(limit, started.Add(*p.Deadline).Sub(now))
}

// These are the shortest and longest waits between attempts. The waits double.
const (
	firstWait   = time.Second
	longestWait = 30 * time.Second
)

// Retry returns the wait before the next attempt after a number of failed attempts. over is true if no attempt is
// left, because of Retries or because the deadline passes during the wait. started is the start of the first attempt.
func Retry(p Policy, attempts int, started, now time.Time) (after time.Duration, over bool) {
	if attempts > p.retries() {
		return 0, true
	}
	after = doubled(firstWait, longestWait, attempts)
	return after, p.Deadline != nil && p.Limit(started, now.Add(after)) <= 0
}

// These are the shortest and longest waits before a lost image is pulled again. If an image was present for the time
// steady, its next loss counts as the first loss.
const (
	firstLoss   = time.Minute
	longestLoss = 4 * time.Hour
	steady      = 24 * time.Hour
)

// doubled returns the wait after the n-th failure.
func doubled(first, longest time.Duration, n int) time.Duration {
	wait := first
	for i := 1; i < n && wait < longest; i++ {
		wait *= 2
	}
	return min(wait, longest)
}

// Window is a time of each day in which pulls may begin. A pull in progress goes on when the window closes. The zero
// value is always open.
type Window struct {
	// Opens is the time of the day at which the window opens, from 0 until less than 24 hours.
	Opens time.Duration
	// Lasts is how long the window stays open, less than 24 hours; 0 or less, and 24 hours or more, mean always.
	Lasts time.Duration
	// Location is the time zone; nil means UTC.
	Location *time.Location
}

// Wait returns the time until the window opens; 0 if the window is open now.
func (w Window) Wait(now time.Time) time.Duration {
	if w.Lasts <= 0 || w.Lasts >= 24*time.Hour {
		return 0
	}
	local, opens := now.In(cmp.Or(w.Location, time.UTC)), w.Opens%(24*time.Hour)
	for day := local.Day() - 1; ; day++ {
		// time.Date gives the right clock time also on days with 23 or 25 hours.
		opening := time.Date(local.Year(), local.Month(), day, 0, 0, int(opens/time.Second), int(opens%time.Second), local.Location())
		switch wait := opening.Sub(now); {
		case wait > 0:
			return wait
		case wait > -w.Lasts:
			return 0
		}
	}
}
