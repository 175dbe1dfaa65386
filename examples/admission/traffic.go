package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"
)

// maxReview is the largest size of a review's body, in bytes: an admission review contains two objects of up to 3 MiB
// each, and the API server converts objects one by one.
const maxReview = 8 << 20

const (
	// patience is how long a review waits for other reviews to end; the API server waits 10 seconds by default.
	patience = 9 * time.Second
	// minRate is the slowest allowed speed, in bytes per second, at which a client sends a review and receives the
	// response. arrivalStart and answerStart are additional times. arrivalStart is long, because a busy API server
	// must not be refused, and a review that is being received does not keep other reviews waiting.
	minRate, arrivalStart, answerStart = 8 << 20, 5 * time.Second, 2 * time.Second
)

// transfer returns how long the transfer of a number of bytes may take.
func transfer(start time.Duration, bytes int64) time.Duration {
	return start + time.Duration(bytes)*time.Second/minRate
}

// limiter limits the total cost of reviews from all clients. While a review is being received, only the bytes
// received so far count, so a client that sends nothing uses nothing. Then the review waits until it may be
// processed: small reviews do not wait for large reviews, and no address uses more than half of the capacity. limiter
// is safe for concurrent use.
type limiter struct {
	waiting      *waiting
	small, large *lane
	cutOff       func(status int)
	log          logr.Logger
}

func newLimiter(options Options) *limiter {
	return &limiter{
		waiting: &waiting{most: 64 << 20, sources: map[string]*source{}},
		small:   newLane(8<<20, 16<<10), large: newLane(16<<20, 0),
		cutOff: options.CutOff, log: options.Log.WithName("limits"),
	}
}

// maxSmall is the largest size in bytes of a review that does not wait for larger reviews.
const maxSmall = 256 << 10

// wrap adds the limits to a handler. Refused reviews get a status: 411 for a request without Content-Length, which
// the API server always sends, 413 for a too large review, 408 for a review that is received too slowly, and 503 if
// too many reviews are being processed.
func (l *limiter) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch size := r.ContentLength; {
		case size < 0:
			l.refuse(w, r, http.StatusLengthRequired, "say how long the review is")
			return
		case size > maxReview:
			l.refuse(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("a review has at most %d bytes", maxReview))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		guest := l.waiting.enter(addressOf(r), func() { cancel(); setReadDeadline(w, 0) }, l.small, l.large)
		defer guest.end()
		release, status := l.admit(ctx, w, r, guest)
		switch status {
		case 0:
		case http.StatusRequestTimeout:
			l.refuse(w, r, status, "the review did not arrive in time")
			return
		default:
			l.refuse(w, r, status, "too many reviews are under way")
			return
		}
		defer release()
		next.ServeHTTP(&leaving{w}, r)
	})
}

// admit reads a review and waits until it may be processed. The status is 0, or the status with which the review must
// be refused.
func (l *limiter) admit(ctx context.Context, w http.ResponseWriter, r *http.Request, g *guest) (release func(), status int) {
	body, err := read(w, r, g)
	if err != nil {
		status = http.StatusRequestTimeout
	} else if release, err = l.acquire(ctx, g, int64(len(body))); err != nil {
		status = http.StatusServiceUnavailable
	}
	if sentAway := g.leave(); sentAway {
		if release != nil {
			release()
		}
		return nil, http.StatusServiceUnavailable
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return release, status
}

// refuse responds to a review without reading it.
func (l *limiter) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	l.log.V(1).Info("A review was cut off", "status", status, "path", Shown(r.URL.Path), "from", r.RemoteAddr, "bytes", r.ContentLength)
	if l.cutOff != nil {
		l.cutOff(status)
	}
	http.Error(w, why, status)
}

// acquire waits until the review may be processed.
func (l *limiter) acquire(ctx context.Context, g *guest, size int64) (release func(), err error) {
	if size <= maxSmall {
		return l.small.acquire(ctx, g.source.small, size)
	}
	return l.large.acquire(ctx, g.source.large, size)
}

// read reads the body of a review, and counts bytes as they are received. The error comes from a deadline or the
// connection.
func read(w http.ResponseWriter, r *http.Request, g *guest) ([]byte, error) {
	// Only response writers of tests do not support deadlines.
	setReadDeadline(w, transfer(arrivalStart, r.ContentLength))
	const chunk = 64 << 10
	body := make([]byte, 0, min(r.ContentLength+1, chunk))
	for {
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		g.arrived(int64(n))
		switch {
		case errors.Is(err, io.EOF):
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the deadline was only for the body
			return body, nil
		case err != nil:
			return nil, err
		case int64(len(body)) > r.ContentLength:
			return nil, errors.New("longer than it was said to be")
		case len(body) == cap(body):
			body = append(make([]byte, 0, min(2*int64(cap(body)), r.ContentLength+1)), body...)
		}
	}
}

func setReadDeadline(w http.ResponseWriter, after time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(clock.RealClock{}.Now().Add(after))
}

// addressOf returns the client's address without port, because a client can easily open many connections.
func addressOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// lane limits the total size, in bytes, of the small reviews, or of the large reviews, that are processed at the same
// time.
type lane struct {
	all     *semaphore.Weighted
	most    int64
	atLeast int64 // the smallest size that is counted for a review
}

func newLane(most, atLeast int64) *lane { return &lane{semaphore.NewWeighted(most), most, atLeast} }

// share returns a semaphore for the share of the lane that a single client address may use.
func (l *lane) share() *semaphore.Weighted { return semaphore.NewWeighted(l.most / 2) }

func (l *lane) acquire(ctx context.Context, share *semaphore.Weighted, size int64) (release func(), err error) {
	size = max(size, l.atLeast)
	if err := share.Acquire(ctx, size); err != nil {
		return nil, err
	}
	if err := l.all.Acquire(ctx, size); err != nil {
		share.Release(size)
		return nil, err
	}
	return func() { l.all.Release(size); share.Release(size) }, nil
}

// leaving is a ResponseWriter that sets a deadline for each Write: the client must receive the written bytes in time.
type leaving struct{ http.ResponseWriter }

func (l *leaving) Write(p []byte) (int, error) {
	_ = http.NewResponseController(l.ResponseWriter).SetWriteDeadline(clock.RealClock{}.Now().Add(transfer(answerStart, int64(len(p)))))
	return l.ResponseWriter.Write(p)
}

// Unwrap is used by http.ResponseController.
func (l *leaving) Unwrap() http.ResponseWriter { return l.ResponseWriter }
