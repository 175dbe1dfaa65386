package kruise

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/expectations"
	"github.com/workloadkit/workloadkit/reason"
)

// Metrics of the controller. A nil *Metrics counts nothing.
type Metrics struct {
	inPlace   prometheus.Counter
	recreates *prometheus.CounterVec
	leakage   *prometheus.CounterVec
	done      *prometheus.CounterVec
}

// Names of counts for [Metrics.Done].
const (
	// Created, Updated and Deleted objects were written: copies, or Pods of jobs.
	Created = "created"
	Updated = "updated"
	Deleted = "deleted"
	// Written and Dropped are outcomes of records.
	Written = "written"
	Dropped = "dropped"
	// Started and Missed are outcomes of runs.
	Started = "started"
	Missed  = "missed"
)

// NewCopyMetrics is NewMetrics for a kind with copies in namespaces.
func NewCopyMetrics(registry prometheus.Registerer, kind string) (*Metrics, error) {
	return newMetricsOf(registry, kind, "copies", "action", "Copies written, by what was done to them: created, updated, deleted.")
}

// NewJobMetrics is NewMetrics for a kind whose Pods run to their end.
func NewJobMetrics(registry prometheus.Registerer, kind string) (*Metrics, error) {
	return newMetricsOf(registry, kind, "pods", "action", "Pods of jobs, by what was done to them: created, deleted.")
}

// NewRecordMetrics is NewMetrics for a kind with records of the Pods' places.
func NewRecordMetrics(registry prometheus.Registerer, kind string) (*Metrics, error) {
	return newMetricsOf(registry, kind, "records", "action", "Records of Pods, by what was done to them: written, dropped.")
}

// NewScheduleMetrics is NewMetrics for a kind with a schedule.
func NewScheduleMetrics(registry prometheus.Registerer, kind string) (*Metrics, error) {
	return newMetricsOf(registry, kind, "runs", "outcome", "Runs that schedules asked for, by what has become of them: started, missed.")
}

// NewOwnMetrics is NewMetrics for a kind concerned only with its own objects.
func NewOwnMetrics(registry prometheus.Registerer, kind string) (*Metrics, error) {
	m := &Metrics{leakage: newLeakage(kind)}
	return m, registry.Register(m.leakage)
}

// newMetricsOf counts the controller's work, by a label.
func newMetricsOf(registry prometheus.Registerer, kind, things, label, help string) (*Metrics, error) {
	m := &Metrics{
		leakage: newLeakage(kind),
		done:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: kind + "_" + things + "_total", Help: help}, []string{label}),
	}
	return m, errors.Join(registry.Register(m.leakage), registry.Register(m.done))
}

// Done counts finished work, or outcomes of requested work.
func (m *Metrics) Done(what string, n int64) {
	if m != nil && n > 0 {
		m.done.WithLabelValues(what).Add(float64(n))
	}
}

func newLeakage(kind string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: kind + "_scale_expectation_leakage", Help: "Owners whose own writes did not become visible in time.",
	}, []string{"namespace", "name"})
}

// NewMetrics registers the metrics of a kind's controller. The metrics' names begin with the kind in lower case.
// recreates is true if the controller deletes Pods to make new Pods.
func NewMetrics(registry prometheus.Registerer, kind string, recreates bool) (*Metrics, error) {
	m := &Metrics{
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

// UpdatedInPlace counts a Pod with a started in-place update.
func (m *Metrics) UpdatedInPlace() {
	if m != nil {
		m.inPlace.Inc()
	}
}

func (m *Metrics) recreated(why reason.List) {
	if m == nil {
		return
	}
	if len(why) == 0 {
		m.recreates.WithLabelValues("policy").Inc()
		return
	}
	m.recreates.WithLabelValues(string(why[0].Code)).Inc()
}

// Observer returns an observer that counts owners with invisible writes. name finds the name of an owner.
func (m *Metrics) Observer(name func(expectations.Pending) (namespace, name string)) expectations.Observer {
	return observer{m, name}
}

// observer turns the tracker's alarms into the metric of upstream.
type observer struct {
	metrics *Metrics
	name    func(expectations.Pending) (namespace, name string)
}

// Waiting does nothing: waiting is normal.
func (observer) Waiting(expectations.Pending) {}

// Late counts an owner whose writes stay invisible.
func (o observer) Late(p expectations.Pending) {
	if o.metrics != nil {
		o.metrics.leakage.WithLabelValues(o.name(p)).Inc()
	}
}
