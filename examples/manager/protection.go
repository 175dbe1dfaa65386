package manager

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/examples/admission"
)

// refusals tells of requests that were refused to protect an object: by metrics, and in a log file that others read. It is safe for
// concurrent use.
type refusals struct {
	log                         logr.Logger
	namespaces, crds, workloads *prometheus.CounterVec

	mu     sync.Mutex
	series map[[2]string]bool
	file   *os.File // nil without one
	size   int64
}

const (
	protectionLog = "protection.log"
	// maxProtectionLog is how large the log file gets before it becomes protection.log.1. Whoever may try to delete writes it.
	maxProtectionLog = 16 << 20
	// maxRefusalSeries bounds the series of the metrics, and others stands for all beyond it.
	maxRefusalSeries = 1000
	others           = "others"
)

// newRefusals opens the log file in a directory, which it makes if need be. An empty directory stands for no file.
func newRefusals(registry prometheus.Registerer, directory string, log logr.Logger) (*refusals, error) {
	counter := func(name, what string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "Deletions of " + what + " that were refused because of the label " +
			"policy.kruise.io/delete-protection. From 1,000 series on, labels are \"others\"."}, append(labels, "username"))
	}
	r := &refusals{
		log:        log.WithName("protection"),
		namespaces: counter("namespace_deletion_protection", "Namespaces", "name"),
		crds:       counter("crd_deletion_protection", "CustomResourceDefinitions", "name"),
		workloads:  counter("workload_deletion_protection", "workloads", "kind_namespace_name"),
		series:     map[[2]string]bool{},
	}
	for _, c := range []prometheus.Collector{r.namespaces, r.crds, r.workloads} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of protection: %w", err)
		}
	}
	if directory == "" {
		return r, nil
	}
	if err := os.MkdirAll(directory, 0o755); err != nil { //nolint:gosec // others read it
		return nil, fmt.Errorf("log of refused deletions: %w", err)
	}
	return r, r.open(filepath.Join(directory, protectionLog))
}

func (r *refusals) open(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // others read it
	if err != nil {
		return fmt.Errorf("log of refused deletions: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("log of refused deletions: %w", err)
	}
	r.file, r.size = file, info.Size()
	return nil
}

// Refused tells of one request.
func (r *refusals) Refused(refusal admission.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(refusal)
	if r.file == nil {
		return
	}
	if err := r.write(refusal); err != nil {
		r.log.Error(err, "a refused deletion is not in the log", "kind", refusal.Kind, "namespace", refusal.Namespace, "name", refusal.Name, "user", refusal.User)
	}
}

func (r *refusals) count(refusal admission.Refusal) {
	vec, about := r.workloads, refusal.Kind+"_"+refusal.Namespace+"_"+refusal.Name
	switch refusal.Kind {
	case "Namespace":
		vec, about = r.namespaces, refusal.Name
	case "CustomResourceDefinition":
		vec, about = r.crds, refusal.Name
	}
	labels := [2]string{refusal.Kind + "/" + about, refusal.User}
	if !r.series[labels] && len(r.series) >= maxRefusalSeries {
		vec.WithLabelValues(others, others).Inc()
		return
	}
	r.series[labels] = true
	vec.WithLabelValues(about, refusal.User).Inc()
}

// line is OpenKruise's.
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

// rotate puts the file aside, in place of the one that was before.
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
