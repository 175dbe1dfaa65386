package cloneset

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/workloadkit/workloadkit/podpatch/podwrite"
)

// What is tried for a CloneSet as a whole, and tried again with back-off where the API server refuses it.
const (
	tryRelease  = "release Pods"
	tryRevision = "write the revision"
	tryClaims   = "tend claims"
	tryCreate   = "create Pods"
	tryOld      = "create Pods of the current revision"
	tryCancel   = "cancel deletions"
	tryDelete   = "delete Pods"
	trySettle   = "settle Pods"
	tryUpdate   = "update Pods"
	tryNames    = "remove names from podsToDelete"
	tryTruncate = "truncate the history"
)

// What is tried for a single Pod by its own loop.
const (
	tryFinish      = "finish the update"
	tryThisVersion = "write this version of the Pod"
)

const (
	// firstBackOff and lastBackOff bound how long a CloneSet waits before it tries again what was refused. Nobody tells it
	// when a quota or a policy has changed.
	firstBackOff, lastBackOff = 2 * time.Second, time.Minute
	// firstPodBackOff and lastPodBackOff are the same for the deletion of one Pod: another Pod's may be accepted meanwhile.
	firstPodBackOff, lastPodBackOff = 10 * time.Second, 5 * time.Minute
)

// wake is the earliest time at which somebody has to look again. The zero value is never. It is safe for concurrent use.
type wake struct {
	mu    sync.Mutex
	after time.Duration
}

// in asks for a look after d, unless an earlier one is due. Zero asks for none.
func (w *wake) in(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d > 0 && (w.after == 0 || d < w.after) {
		w.after = d
	}
}

func (w *wake) get() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.after
}

// attemptOf names what is tried for the CloneSet. A change of its spec is a reason to try again at once.
func attemptOf(v *view, action string) podwrite.Attempt {
	return podwrite.Attempt{Object: v.cs.UID, Action: action, Target: strconv.FormatInt(v.cs.Generation, 10)}
}

// memory of what was refused. An update that is refused has taken a Pod out of service, so there is more time between two of
// them.
func (r *Reconciler) memory(action string) *podwrite.Refusals {
	if action == tryUpdate {
		return r.kept
	}
	return r.backOff
}

// attempt does something for the CloneSet unless it was refused a moment ago. The error is a verdict where trying again at
// once would not help; the view is woken when it is time.
func (r *Reconciler) attempt(ctx context.Context, v *view, action string, do func() error) error {
	if wait, err := r.memory(action).Of(attemptOf(v, action), v.now); err != nil {
		v.wake.in(wait)
		return verdict{err}
	}
	err := do()
	switch {
	case err == nil:
		r.memory(action).Succeeded(v.cs.UID, action)
		return nil
	case podwrite.IsLasting(err), action == tryCreate, action == tryOld:
		// Creations back off whatever the reason: their claims' events would lead to the next attempt at once.
		r.backOffFrom(ctx, v, action, err)
		return verdict{err}
	}
	return err
}

func (r *Reconciler) backOffFrom(ctx context.Context, v *view, action string, err error) {
	wait := r.memory(action).Add(attemptOf(v, action), v.now, err)
	v.wake.in(wait)
	r.log(ctx).Info("refused, will be tried again", "action", action, "after", wait, "why", err.Error())
}
