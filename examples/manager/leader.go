package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// newLock returns the lock for leader election, which is stored in a Lease. The holderIdentity in the Lease tells
// this manager's replicas from the replicas of OpenKruise's manager.
func newLock(config *rest.Config, e *LeaderElection) (resourcelock.Interface, error) {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, e.Namespace, e.ID,
		resourcelock.ResourceLockConfig{Identity: identity(string(uuid.NewUUID()))},
		rest.AddUserAgent(rest.CopyConfig(config), "leader-election"), orDefault(e.RenewDeadline, 10*time.Second))
	if err != nil {
		return nil, fmt.Errorf("lock %s/%s: %w", e.Namespace, e.ID, err)
	}
	return lock, nil
}

// afterServing returns a lock that a replica can acquire only after the replica's webhooks have been proven to serve.
// The reason: a leader without serving webhooks could do nothing, while the webhooks of another replica may serve.
// The lock calls serving again and again, with a pause between the calls, until serving returns no error. For a nil
// lock, afterServing returns nil.
func afterServing(lock resourcelock.Interface, serving func(context.Context) error, pause time.Duration) resourcelock.Interface {
	if lock == nil {
		return nil
	}
	return &servingLock{Interface: lock, serving: serving, pause: pause}
}

// servingLock delays writes of the Lease, but no reads, so that a waiting replica knows the current leader. After the
// delay, the Lease may have changed since it was read; the API server then refuses the write.
type servingLock struct {
	resourcelock.Interface

	serving func(context.Context) error
	pause   time.Duration
	served  atomic.Bool
}

// Create creates the Lease once the webhooks are proven to serve.
func (l *servingLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.await(ctx); err != nil {
		return err
	}
	return l.Interface.Create(ctx, record)
}

// Update delays the first write of the Lease until the webhooks are proven to serve. Renewals and the release of the
// Lease are not delayed.
func (l *servingLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.await(ctx); err != nil {
		return err
	}
	return l.Interface.Update(ctx, record)
}

func (l *servingLock) await(ctx context.Context) error {
	if l.served.Load() {
		return nil
	}
	var last error
	err := wait.PollUntilContextCancel(ctx, l.pause, true, func(ctx context.Context) (bool, error) {
		last = l.serving(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s is left to others, the webhooks do not serve: %w", l.Describe(), errors.Join(err, last))
	}
	l.served.Store(true)
	return nil
}

// reportLeadership registers OpenKruise's metric of leadership, a gauge with the value 1 on the leader.
func reportLeadership(mgr ctrl.Manager, registry prometheus.Registerer) error {
	leads := newLeaderMetric()
	if err := registry.Register(leads); err != nil {
		return fmt.Errorf("metric of the leader: %w", err)
	}
	return mgr.Add(manager.RunnableFunc(func(context.Context) error { leads.Set(1); return nil }))
}

func newLeaderMetric() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: "kruise_manager_is_leader", Help: "1 on the replica that runs the controllers, else 0."})
}

// awaitOthers returns once no manager of another project holds the Lease. If both managers ran, each would overwrite
// the webhook configurations of the other manager: this manager may be called by URL, and the other manager through
// the Service.
func awaitOthers(ctx context.Context, c client.Client, e *LeaderElection, clk clock.PassiveClock) error {
	if e == nil {
		return nil
	}
	log := logr.FromContextOrDiscard(ctx)
	var renewed time.Time // the renewTime in the Lease
	var since time.Time   // when this process first read renewed, because clocks of machines differ
	said := false
	return wait.PollUntilContextCancel(ctx, orDefault(e.RetryPeriod, 2*time.Second), true, func(ctx context.Context) (bool, error) {
		lease := &coordinationv1.Lease{}
		err := c.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.ID}, lease)
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			log.Error(err, "reading the Lease", "lease", e.Namespace+"/"+e.ID)
			return false, nil
		case holder == "" || strings.HasPrefix(holder, identityPrefix):
			return true, nil
		}
		if at := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time; !at.Equal(renewed) || since.IsZero() {
			renewed, since = at, clk.Now()
		}
		if clk.Since(since) > time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15))*time.Second {
			return true, nil
		}
		if !said {
			log.Info("another manager holds the Lease; waiting for it", "holder", holder, "lease", e.Namespace+"/"+e.ID)
			said = true
		}
		return false, nil
	})
}
