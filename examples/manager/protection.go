package manager

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/reason"
)

// refusals reports requests that were refused to protect an object, as metrics and in a log file for other programs.
// refusals is safe for concurrent use.
type refusals struct {
	log                                  logr.Logger
	namespaces, crds, workloads, budgets *prometheus.CounterVec

	mu     sync.Mutex
	series map[[2]string]bool
	shares map[string]int // number of series, by namespace
	file   *os.File       // nil if no log file is written
	size   int64
}

const (
	protectionLog = "protection.log"
	// maxProtectionLog is the size in bytes at which the log file is renamed to protection.log.1. The size must be
	// limited, because every user who may try to delete an object can fill the file.
	maxProtectionLog = 16 << 20
	// maxRefusalSeries is the largest number of series of the metrics. Further refusals are counted under the label
	// value others.
	maxRefusalSeries = 1000
	// maxNamespaceSeries is the largest number of series for a single namespace.
	maxNamespaceSeries = maxRefusalSeries / 10
	others             = "others"
	// maxRefusalText is the length to which the name of an object or user is shortened in a report. Names of existing
	// objects are shorter.
	maxRefusalText = 400
)

// newRefusals registers the metrics.
func newRefusals(registry prometheus.Registerer, log logr.Logger) (*refusals, error) {
	counter := func(name, what string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "Deletions of " + what + " that were refused because of the label " +
			"policy.kruise.io/delete-protection. From 1,000 series on, and 100 of a namespace, labels are \"others\"."}, append(labels, "username"))
	}
	r := &refusals{
		log:        log.WithName("protection"),
		namespaces: counter("namespace_deletion_protection", "Namespaces", "name"),
		crds:       counter("crd_deletion_protection", "CustomResourceDefinitions", "name"),
		workloads:  counter("workload_deletion_protection", "workloads", "kind_namespace_name"),
		budgets: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pod_unavailable_budget", Help: "Requests to take a Pod out of service that its " +
			"PodUnavailableBudget has refused, by the Pod's controller. From 1,000 series on, and 100 of a namespace, labels are \"others\"."}, []string{"kind_namespace_name", "username"}),
		series: map[[2]string]bool{}, shares: map[string]int{},
	}
	for _, c := range []prometheus.Collector{r.namespaces, r.crds, r.workloads, r.budgets} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of protection: %w", err)
		}
	}
	return r, nil
}

// openFor opens the log file if the options name a directory, and if deletion protection or PodUnavailableBudgets are
// on. If only PodUnavailableBudgets are on, as by default, and the file cannot be written, openFor logs a message,
// and the manager continues without the file.
func (r *refusals) openFor(options Options) error {
	deletions := options.Gates[apps.GateResourcesDeletionProtection]
	if options.ProtectionLog == "" || !deletions && !slices.ContainsFunc(options.Kinds, func(r kind.Row) bool { return r.Guard != nil && r.IsOn(options.Gates) }) {
		return nil
	}
	err := r.openIn(options.ProtectionLog)
	if err != nil && !deletions {
		r.log.Info("requests that budgets refuse are counted and told in events, and are in no log file", "reason", err.Error())
		return nil
	}
	return err
}

// openIn opens the log file in a directory, and creates the directory if it is missing.
func (r *refusals) openIn(directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil { //nolint:gosec // others read it
		return fmt.Errorf("log of refused requests: %w", err)
	}
	return r.open(filepath.Join(directory, protectionLog))
}

func (r *refusals) open(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // others read the file
	if err != nil {
		return fmt.Errorf("log of refused requests: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("log of refused requests: %w", err)
	}
	r.file, r.size = file, info.Size()
	return nil
}

// Refused reports a refused request.
func (r *refusals) Refused(refusal admission.Refusal) {
	for _, text := range []*string{&refusal.Kind, &refusal.Namespace, &refusal.Name, &refusal.User} {
		*text = reason.Shorten(*text, maxRefusalText) // any user can write a long owner reference into a Pod
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(refusal)
	if r.file == nil {
		return
	}
	if err := r.write(refusal); err != nil {
		r.log.Error(err, "a refused request is not in the log", "kind", refusal.Kind, "namespace", refusal.Namespace, "name", refusal.Name, "user", refusal.User)
	}
}

func (r *refusals) count(refusal admission.Refusal) {
	vec, about := r.workloads, refusal.Kind+"_"+refusal.Namespace+"_"+refusal.Name
	switch {
	case refusal.Event == admission.EventPodUnavailableBudget:
		vec = r.budgets
	case refusal.Kind == "Namespace":
		vec, about = r.namespaces, refusal.Name
	case refusal.Kind == "CustomResourceDefinition":
		vec, about = r.crds, refusal.Name
	}
	labels := [2]string{refusal.Event + "/" + refusal.Kind + "/" + about, refusal.User}
	if !r.series[labels] {
		if len(r.series) >= maxRefusalSeries || refusal.Namespace != "" && r.shares[refusal.Namespace] >= maxNamespaceSeries {
			vec.WithLabelValues(others, others).Inc()
			return
		}
		r.series[labels] = true
		r.shares[refusal.Namespace]++
	}
	vec.WithLabelValues(about, refusal.User).Inc()
}

// line is a line of the log file; the fields are those of OpenKruise's log.
type line struct {
	Event, Kind, Namespace, Name, UserAgent string
}

func (r *refusals) write(refusal admission.Refusal) error {
	text, err := json.Marshal(line{refusal.Event, refusal.Kind, refusal.Namespace, refusal.Name, refusal.User})
	if err != nil {
		return err
	}
	if r.size+int64(len(text)) >= maxProtectionLog {
		if err := r.rotate(); err != nil {
			return err
		}
	}
	n, err := r.file.Write(append(text, '\n'))
	r.size += int64(n)
	return err
}

// rotate renames the log file to protection.log.1, which replaces an older file of this name, and opens an empty log
// file.
func (r *refusals) rotate() error {
	path := r.file.Name()
	if err := os.Rename(path, path+".1"); err != nil {
		return err
	}
	old := r.file
	if err := r.open(path); err != nil {
		return err
	}
	return old.Close()
}
