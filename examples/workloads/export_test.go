package workloads

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// ListOf returns a List without a ConfigMap.
func ListOf(parse func(map[string]string) ([]schema.GroupVersionKind, error), synced func() bool) *List {
	return &List{parse: parse, synced: synced, log: logr.Discard(), changed: make(chan struct{})}
}

// Read reads the list from a ConfigMap, or from nil for a deleted ConfigMap, and reports whether waiting callers were
// woken.
func (l *List) Read(configuration *corev1.ConfigMap) (woken bool) {
	next := l.next()
	if configuration == nil {
		l.set(nil)
	} else {
		l.read(configuration)
	}
	select {
	case <-next:
		return true
	default:
		return false
	}
}

// At sets the clock of the watches.
func (w *Watches) At(clock clock.WithDelayedExecution) { w.clock = clock }

// FromAny reads a workload of any kind.
func FromAny(object *unstructured.Unstructured) *Workload { return fromAny(object) }
