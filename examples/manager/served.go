package manager

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/ownercache/watchhealth"
)

// served knows which kinds the API server serves, and whether the caches of these kinds are up to date. Both may
// change at any time. So the manager sets up the caches and handlers of all kinds at the start, and the cache of a
// missing kind is empty.
type served struct {
	crds      *watchhealth.CRDs
	watches   *watchhealth.Watches
	resources map[schema.GroupVersionKind]watchhealth.Resource
	asked     meta.RESTMapper // sends requests to the API server
	log       logr.Logger
}

// newServed returns a served that watches nothing yet; follow starts the watches.
func newServed(c client.WithWatch, registry prometheus.Registerer, log logr.Logger) (*served, error) {
	s := &served{resources: map[schema.GroupVersionKind]watchhealth.Resource{}, asked: c.RESTMapper(), log: log}
	var all []schema.GroupVersionKind
	for _, k := range kinds.All() {
		s.resources[k.Kind] = watchhealth.Resource{Plural: k.Resource, ClusterScoped: k.ClusterScoped}
		all = append(all, k.Kind)
	}
	metrics, err := newWatchMetric(registry, all)
	if err != nil {
		return nil, err
	}
	if s.crds, err = watchhealth.FollowCRDs(c, s.resources); err != nil {
		return nil, err
	}
	logs := watchLogs{log: log, said: map[schema.GroupVersionKind]bool{}}
	s.watches, err = watchhealth.New(watchhealth.Options{
		Scheme: c.Scheme(), Kinds: all, Presence: s.crds,
		Observe: func(kind schema.GroupVersionKind, current bool, err error) {
			metrics.set(kind, current)
			logs.tell(kind, current, err)
		},
	})
	return s, err
}

// mapper returns a RESTMapper with all kinds of this project, even if the API server does not answer or does not serve
// a kind.
func (s *served) mapper(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
	next, err := apiutil.NewDynamicRESTMapper(config, c)
	return watchhealth.Mapper(next, s.resources), err
}

// mostAsked is how long the start of the manager waits for the list of the installed CRDs.
const mostAsked = 10 * time.Second

// follow watches the CRDs until ctx ends. follow returns once the installed kinds are known, or after mostAsked. The
// returned function stops the watch and waits until the watch has ended.
func (s *served) follow(ctx context.Context) (end func()) {
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	running.Go(func() { _ = s.crds.Start(ctx) })
	patient, enough := context.WithTimeout(ctx, mostAsked)
	defer enough()
	if err := s.crds.Await(patient); err != nil {
		s.log.Error(err, "it is not known which CustomResourceDefinitions are installed")
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// has reports whether the API server serves a kind. The returned channel is closed when the result may have changed.
// If the CRDs cannot be read, sure is false: the result comes from the API server's list of kinds, and the caller
// must call has again later.
func (s *served) has(kind schema.GroupVersionKind) (has, sure bool, changed <-chan struct{}) {
	state, changed := s.crds.Of(kind)
	if state != watchhealth.Unknown {
		return state == watchhealth.Served, true, changed
	}
	has, err := isInstalled(s.asked, kind)
	return has && err == nil, false, changed
}

// presence returns whether the API server serves a kind. Kinds of other projects count as served.
func (s *served) presence(kind schema.GroupVersionKind) watchhealth.State {
	if _, ours := s.resources[kind]; !ours {
		return watchhealth.Served
	}
	state, _ := s.crds.Of(kind)
	return state
}

// mostAwaited is how long a webhook waits for a broken watch to be repaired. The API server waits 10 seconds for the
// webhook.
const mostAwaited = 5 * time.Second

// await returns a function that waits until the caches of the kinds are up to date, but no longer than mostAwaited.
func (s *served) await(kinds ...schema.GroupVersionKind) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, mostAwaited)
		defer cancel()
		return s.watches.Await(ctx, kinds...)
	}
}

// ready returns an error while a watch is broken.
func (s *served) ready() error {
	var errs []error
	for _, down := range s.watches.Down() {
		errs = append(errs, down.Reason((clock.RealClock{}).Now()))
	}
	return errors.Join(errs...)
}

// watchMetric is the metric of broken watches.
type watchMetric struct{ down *prometheus.GaugeVec }

func newWatchMetric(registry prometheus.Registerer, all []schema.GroupVersionKind) (*watchMetric, error) {
	m := &watchMetric{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kruise_watch_down",
		Help: "1 while the watch of a kind is down: webhooks wait for it and then refuse, controllers do not see what changes. 0 for a kind that is not installed.",
	}, []string{"kind"})}
	if err := registry.Register(m.down); err != nil {
		return nil, err
	}
	for _, kind := range all {
		m.down.WithLabelValues(kind.GroupKind().String()).Set(0)
	}
	return m, nil
}

func (m *watchMetric) set(kind schema.GroupVersionKind, current bool) {
	value := 1.0
	if current {
		value = 0
	}
	m.down.WithLabelValues(kind.GroupKind().String()).Set(value)
}

// watchLogs logs once when a watch breaks, and once when the watch is repaired.
type watchLogs struct {
	log logr.Logger

	mu   sync.Mutex
	said map[schema.GroupVersionKind]bool
}

func (l *watchLogs) tell(kind schema.GroupVersionKind, current bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch said := l.said[kind]; {
	case current && said:
		l.said[kind] = false
		l.log.Info("a watch is up again", "kind", kind.String())
	case err != nil && !said: // not if the watch was only closed, because it is reopened at once
		l.said[kind] = true
		l.log.Info("a watch is down; it is tried again", "kind", kind.String(), "reason", err.Error())
	}
}
