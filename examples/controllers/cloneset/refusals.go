package cloneset

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podstate"
)

// refusalRetry is when an update that the API server, a quota or a webhook has refused is tried again although nothing of
// the workload has changed. Each attempt takes a Pod out of service for a moment.
const refusalRetry = 5 * time.Minute

// refusals remembers which Pods could not be taken to which revision. Without it, the events of the Pod's own readiness
// gate, closed for the attempt and opened again after it, would lead to the next attempt for ever. The zero value is ready
// for use.
type refusals struct {
	mu   sync.Mutex
	pods map[types.UID]refusal
}

type refusal struct {
	revision string
	at       time.Time
	err      error
}

func (r *refusals) add(pod types.UID, revision string, now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.UID]refusal{}
	}
	r.pods[pod] = refusal{podstate.ShortRevision(revision), now, err}
}

// of returns why a Pod cannot be taken to the revision, nil when that is to be found out.
func (r *refusals) of(pod types.UID, revision string, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.pods[pod]
	if !ok || known.revision != podstate.ShortRevision(revision) || now.Sub(known.at) >= refusalRetry {
		return nil
	}
	return known.err
}

// forget drops what is known about a Pod that is gone.
func (r *refusals) forget(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, pod)
}

// refused says which Pods are in the middle of an update that was refused on the way: at a later batch, at the end of a
// grace period, or in the last of several writes. The Pods' own loop tries again.
func (r *Reconciler) refused(v *view) error {
	var errs []error
	for i := range v.members {
		m := &v.members[i]
		if m.state != lifecycle.Updating {
			continue
		}
		if err := r.refusals.of(m.pod.UID, m.pod.Labels[apps.LabelRevision], v.now); err != nil {
			errs = append(errs, verdict{err})
		}
	}
	return errors.Join(errs...)
}
