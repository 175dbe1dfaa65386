package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"
)

const (
	// maxReview bounds the body of a review, in bytes: an admission review holds two objects of 3 MiB each, and the API server has
	// objects converted one by one.
	maxReview = 8 << 20
	// maxInFlight bounds the bodies of the reviews that are worked on at a time, and maxOfSource those from one address: whoever else
	// reaches the port takes no more than half from an API server. Small ones count as minWeight.
	maxInFlight, maxOfSource, minWeight = 16 << 20, 8 << 20, 64 << 10
	// patience is how long a review waits for others to end; the API server waits for 10 seconds by default.
	patience = 9 * time.Second
	// minRate is how fast a review has to arrive and its answer has to be taken while it holds its share, in bytes in a second, after a
	// start of its own.
	minRate, transferStart = 8 << 20, 500 * time.Millisecond
	// maxWaiting bounds the reviews of one address that wait or are under way.
	maxWaiting = 1000
)

// transfer is how long so many bytes may take.
func transfer(bytes int64) time.Duration {
	return transferStart + time.Duration(bytes)*time.Second/minRate
}

// limiter bounds what reviews cost together, whoever sends them. It is safe for concurrent use.
type limiter struct {
	inFlight *semaphore.Weighted
	cutOff   func(status int)
	log      logr.Logger

	mu      sync.Mutex
	sources map[string]*source
}

var errCrowded = errors.New("too many reviews of one address wait")

// source is an address that reviews come from.
type source struct {
	share   *semaphore.Weighted
	reviews int // that are under way or wait; with none it is let go
}

func newLimiter(options Options) *limiter {
	return &limiter{
		inFlight: semaphore.NewWeighted(maxInFlight), sources: map[string]*source{}, cutOff: options.CutOff, log: options.Log.WithName("limits"),
	}
}

// wrap returns the handler with the limits: 411 for what does not say how large it is, as the API server always does, 413 for what is
// too large, 503 while too much is under way.
func (l *limiter) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		switch {
		case size < 0:
			l.refuse(w, r, http.StatusLengthRequired, "say how long the review is")
			return
		case size > maxReview:
			l.refuse(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("a review has at most %d bytes", maxReview))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		release, err := l.acquire(ctx, r.RemoteAddr, max(size, minWeight))
		if err != nil {
			l.refuse(w, r, http.StatusServiceUnavailable, "too many reviews are under way")
			return
		}
		defer release()
		// Who sends or reads slowly must not keep others out. A writer without deadlines is a test's.
		_ = http.NewResponseController(w).SetReadDeadline(clock.RealClock{}.Now().Add(transfer(size)))
		r.Body = &arriving{ReadCloser: r.Body, late: func() { l.observe(r, http.StatusRequestTimeout) }}
		next.ServeHTTP(&leaving{ResponseWriter: w}, r)
	})
}

// refuse answers a review that nobody looks at.
func (l *limiter) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	l.observe(r, status)
	http.Error(w, why, status)
}

func (l *limiter) observe(r *http.Request, status int) {
	l.log.V(1).Info("A review was cut off", "status", status, "path", shown(r.URL.Path), "from", r.RemoteAddr, "bytes", r.ContentLength)
	if l.cutOff != nil {
		l.cutOff(status)
	}
}

// acquire takes the share of a review, first of its source and then of all.
func (l *limiter) acquire(ctx context.Context, address string, size int64) (release func(), err error) {
	name := address
	if host, _, err := net.SplitHostPort(address); err == nil {
		name = host
	}
	l.mu.Lock()
	from := l.sources[name]
	if from == nil {
		from = &source{share: semaphore.NewWeighted(maxOfSource)}
		l.sources[name] = from
	}
	if from.reviews >= maxWaiting {
		l.mu.Unlock()
		return nil, errCrowded
	}
	from.reviews++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if from.reviews--; from.reviews == 0 {
			delete(l.sources, name)
		}
	}
	if err := from.share.Acquire(ctx, size); err != nil {
		leave()
		return nil, err
	}
	if err := l.inFlight.Acquire(ctx, size); err != nil {
		from.share.Release(size)
		leave()
		return nil, err
	}
	return func() {
		l.inFlight.Release(size)
		from.share.Release(size)
		leave()
	}, nil
}

// arriving is a body that has to arrive in time.
type arriving struct {
	io.ReadCloser

	late func()
	once sync.Once
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		a.once.Do(a.late)
	}
	return n, err
}

// leaving is an answer that has to be taken in time once it is written: all of what was written for it in one call.
type leaving struct{ http.ResponseWriter }

func (l *leaving) Write(p []byte) (int, error) {
	_ = http.NewResponseController(l.ResponseWriter).SetWriteDeadline(clock.RealClock{}.Now().Add(transfer(int64(len(p)))))
	return l.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (l *leaving) Unwrap() http.ResponseWriter { return l.ResponseWriter }
