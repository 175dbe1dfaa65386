package manager

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
)

// lists records the lists and watches of the caches that the API server refuses because the manager lacks a
// permission. While the first list request of a cache is refused, no controller starts, so the reason is logged and
// shown at /readyz/caches. Other failures of list requests are only counted in a metric, because the failures may end
// soon: for example, conversions fail before the manager's own webhooks serve.
type lists struct {
	log   logr.Logger
	clock clock.PassiveClock

	mu     sync.Mutex
	failed map[string]failedList
}

// failedList is the last refusal of a list or watch.
type failedList struct {
	at  time.Time
	err error
}

// failingFor is how long a refusal is reported at /readyz. The cache repeats a refused list request after at most
// half a minute, so without a newer refusal the request has succeeded.
const failingFor = time.Minute

func newLists(log logr.Logger, c clock.PassiveClock) *lists {
	return &lists{log: log, clock: c, failed: map[string]failedList{}}
}

// note records an error of a list or watch because of a missing permission, and logs each new error once.
func (l *lists) note(kind string, err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	err = explained(kind, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.failed[kind]
	l.failed[kind] = failedList{l.clock.Now(), err}
	if !known || before.err.Error() != err.Error() {
		l.log.Error(err, "a cache cannot be filled, and no controller starts until the cache is filled")
	}
}

// ready returns an error that names the refused lists and watches.
func (l *lists) ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for kind, failure := range l.failed {
		if l.clock.Since(failure.at) < failingFor {
			errs = append(errs, failure.err)
		} else {
			delete(l.failed, kind)
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return slices.Compare([]byte(a.Error()), []byte(b.Error())) })
	return errors.Join(errs...)
}

// explained adds advice to an error about a missing permission: to grant the permission, or to turn off the feature
// gate that needs the permission.
func explained(kind string, err error) error {
	status, remedy := apierrors.APIStatus(nil), "grant the manager the right, or switch off the feature gate that needs the right"
	if errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "secrets" {
		remedy = "for ImagePullJobGate apply examples/config/imagepulljob, for ResourceDistributionGate examples/config/resourcedistribution, or switch off the gate"
	}
	return fmt.Errorf("cache of %s: %w; %s", kind, err, remedy)
}
