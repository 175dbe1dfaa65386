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

// lists knows which lists and watches of the caches are refused for lack of a right. While the first list of a cache is
// refused, no controller starts: the reason stands in the log and behind /readyz/caches. All other failures may be over
// soon, such as that of a conversion before the manager's own webhooks serve, and are counted by a metric.
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

// failingFor is how long a refusal counts: a refused list is tried again after half a minute at most.
const failingFor = time.Minute

func newLists(log logr.Logger, c clock.PassiveClock) *lists {
	return &lists{log: log, clock: c, failed: map[string]failedList{}}
}

// note records a refusal, and logs a missing right once.
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

// explained says what helps against a missing right.
func explained(kind string, err error) error {
	status, remedy := apierrors.APIStatus(nil), "grant the manager the right, or switch off the feature gate that needs the right"
	if errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "secrets" {
		remedy = "for ImagePullJobGate apply examples/config/imagepulljob, for ResourceDistributionGate examples/config/resourcedistribution, or switch off the gate"
	}
	return fmt.Errorf("cache of %s: %w; %s", kind, err, remedy)
}
