// Package metrics contains the Prometheus metrics of the controllers, with the names of OpenKruise's metrics.
package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/reason"
)

// Controller contains the metrics of a controller. A nil *Controller counts nothing.
type Controller struct {
	inPlace   prometheus.Counter
	recreates *prometheus.CounterVec
	leakage   *prometheus.CounterVec
	done      *prometheus.CounterVec
}

// Work describes a counter of a controller's work, for example of created and deleted copies. The metric is called
// <kind>_<things>_total, and has a single label with the outcome.
type Work struct{ Things, Label, Help string }

// Metrics registers the metrics of a kind whose controller does not update Pods. With an empty Work, nothing is
// counted.
func (w Work) Metrics(registry prometheus.Registerer, kind string) (*Controller, error) {
	m := &Controller{leakage: newLeakage(kind)}
	if w.Things == "" {
		return m, registry.Register(m.leakage)
	}
	m.done = prometheus.NewCounterVec(prometheus.CounterOpts{Name: kind + "_" + w.Things + "_total", Help: w.Help}, []string{w.Label})
	return m, errors.Join(registry.Register(m.leakage), registry.Register(m.done))
}

// Done adds n to the count of an outcome.
func (m *Controller) Done(what string, n int64) {
	if m != nil && n > 0 {
		m.done.WithLabelValues(what).Add(float64(n))
	}
}

func newLeakage(kind string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: kind + "_scale_expectation_leakage", Help: "Owners whose own writes did not become visible in time.",
	}, []string{"namespace", "name"})
}

// New registers the metrics of a kind's controller. The metrics' names begin with the kind in lower case. recreates is
// true if the controller updates Pods by deleting the old Pods and creating new Pods.
func New(registry prometheus.Registerer, kind string, recreates bool) (*Controller, error) {
	m := &Controller{
		inPlace: prometheus.NewCounter(prometheus.CounterOpts{
			Name: kind + "_pods_updated_in_place_total", Help: "Pods whose in-place update was started.",
		}),
		recreates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: kind + "_pods_recreated_total",
			Help: "Pods deleted to be made anew for an update, by why they were not updated in place; policy means that none was asked for.",
		}, []string{"reason"}),
		leakage: newLeakage(kind),
	}
	collectors := []prometheus.Collector{m.inPlace, m.leakage}
	if recreates {
		collectors = append(collectors, m.recreates)
	}
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// UpdatedInPlace counts a Pod whose in-place update has started.
func (m *Controller) UpdatedInPlace() {
	if m != nil {
		m.inPlace.Inc()
	}
}

// Recreated counts a Pod deleted for an update. why contains the reasons why the Pod could not be updated in place.
func (m *Controller) Recreated(why reason.List) {
	if m == nil {
		return
	}
	if len(why) == 0 {
		m.recreates.WithLabelValues("policy").Inc()
		return
	}
	m.recreates.WithLabelValues(string(why[0].Code)).Inc()
}

// Observer returns an observer that counts the owners whose writes do not appear in the cache for too long. name
// returns the name of an owner.
func (m *Controller) Observer(name func(expectations.Pending) (namespace, name string)) expectations.Observer {
	return observer{m, name}
}

// observer counts, in OpenKruise's metric, owners whose writes the cache does not show in time.
type observer struct {
	metrics *Controller
	name    func(expectations.Pending) (namespace, name string)
}

// Waiting does nothing, because a cache that lags behind for a short time is normal.
func (observer) Waiting(expectations.Pending) {}

// Late counts an owner whose writes do not appear in the cache for too long.
func (o observer) Late(p expectations.Pending) {
	if o.metrics != nil {
		o.metrics.leakage.WithLabelValues(o.name(p)).Inc()
	}
}
