package apply

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Refusals remembers which Pods could not be taken to which target, so that the same is not tried in a loop: each attempt
// changes the Pod's readiness twice, and those events would lead to the next attempt for ever. It is memory of one process;
// after a restart each Pod is tried once more. The zero value is ready for use, by several goroutines.
type Refusals struct {
	mu   sync.Mutex
	pods map[types.UID]refusal
}

type refusal struct {
	target string
	at     time.Time
	err    error
}

// Add remembers why the Pod was refused the target, the name of a revision for example. A Pod has one entry, the last.
func (r *Refusals) Add(pod types.UID, target string, now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil {
		r.pods = map[types.UID]refusal{}
	}
	r.pods[pod] = refusal{target, now, err}
}

// Of returns why the Pod cannot be taken to the target. It is nil when that is to be found out: the Pod was not refused
// that target, or not within the last retry.
func (r *Refusals) Of(pod types.UID, target string, now time.Time, retry time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.pods[pod]
	if !ok || known.target != target || now.Sub(known.at) >= retry {
		return nil
	}
	return known.err
}

// Forget drops what is known about a Pod that is gone.
func (r *Refusals) Forget(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, pod)
}
