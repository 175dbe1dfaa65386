package podwrite

import (
	"errors"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Attempt is something that was tried, and may be tried again.
type Attempt struct {
	// Object is what it is done to, or for: a Pod, or the owner of a Pod that is to be created.
	Object types.UID
	// Action is what is done, in a word of the caller's.
	Action string
	// Target is what an attempt depends on: the name of a revision, or the generation of the owner. With another target
	// nothing is known yet, and the attempt is made at once.
	Target string
}

// Refusals remembers which attempts were refused, so that the same is not tried in a loop: each attempt costs requests and
// may change a Pod's readiness twice, and those events would lead to the next attempt for ever. It is memory of one process;
// after a restart each attempt is made once more. It is safe for concurrent use. The zero value waits as
// NewRefusals(DefaultFirst, DefaultLast) does.
//
// What is remembered is that an attempt must not be made now. Go on with what an earlier one has begun: a Pod whose gate was
// closed before its update was refused comes back into service with what inplaceupdate.Next says.
type Refusals struct {
	first, last time.Duration

	mu    sync.Mutex
	known map[types.UID]map[string]refusal // by object and action
}

type refusal struct {
	target string
	until  time.Time
	wait   time.Duration
	err    error
}

// DefaultFirst and DefaultLast bound the waits of a Refusals that was not told others.
const (
	DefaultFirst = 2 * time.Second
	DefaultLast  = 5 * time.Minute
)

// NewRefusals returns a memory without entries. An attempt that was refused is made again after first, and after twice as
// long each time it is refused again, but after last at the latest. A first of zero or less stands for DefaultFirst, a last
// that is less than first for first.
func NewRefusals(first, last time.Duration) *Refusals { return &Refusals{first: first, last: last} }

// bounds returns the first and the longest wait.
func (r *Refusals) bounds() (first, last time.Duration) {
	switch {
	case r.first <= 0 && r.last <= 0:
		return DefaultFirst, DefaultLast
	case r.first <= 0:
		return DefaultFirst, max(r.last, DefaultFirst)
	default:
		return r.first, max(r.last, r.first)
	}
}

// Add remembers why an attempt was refused, and returns how long to wait before the next one. An object has one entry for
// each action, the last. A nil error is no refusal: nothing is remembered, and the wait is zero.
func (r *Refusals) Add(a Attempt, now time.Time, err error) time.Duration {
	if err == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	wait, last := r.bounds()
	if known, ok := r.known[a.Object][a.Action]; ok && known.target == a.Target {
		wait = min(2*known.wait, last)
	}
	if r.known == nil {
		r.known = map[types.UID]map[string]refusal{}
	}
	if r.known[a.Object] == nil {
		r.known[a.Object] = map[string]refusal{}
	}
	r.known[a.Object][a.Action] = refusal{target: a.Target, until: now.Add(wait), wait: wait, err: err}
	return wait
}

// Of returns why an attempt must not be made now, and for how long. The error is nil if it may be made: it was not refused,
// or that is long enough ago.
func (r *Refusals) Of(a Attempt, now time.Time) (wait time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[a.Object][a.Action]
	if !ok || known.target != a.Target || !now.Before(known.until) {
		return 0, nil
	}
	return known.until.Sub(now), known.err
}

// Recent reports whether an object's action was refused the last time, however long ago that is and whatever its target.
func (r *Refusals) Recent(object types.UID, action string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.known[object][action]
	return ok
}

// Succeeded drops what is known about an object's action, whatever its target.
func (r *Refusals) Succeeded(object types.UID, action string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.known[object], action); len(r.known[object]) == 0 {
		delete(r.known, object)
	}
}

// Forget drops what is known about an object that is gone.
func (r *Refusals) Forget(object types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, object)
}

// Len returns how many objects something is known about.
func (r *Refusals) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known)
}

// IsLasting reports whether an error is the API server's answer that it does not accept the request as it is, so that repeating
// it at once will not help: every error that is Refused, and missing rights. Conflicts, throttling, missing objects and requests
// without an answer are not lasting.
func IsLasting(err error) bool {
	if errors.Is(err, Refused) {
		return true
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusConflict &&
		code != http.StatusTooManyRequests && code != http.StatusRequestTimeout && status.Status().Reason != metav1.StatusReasonNotFound
}
