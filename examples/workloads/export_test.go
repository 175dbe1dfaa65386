package workloads

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// ListOf is a List without a ConfigMap.
func ListOf(parse func(map[string]string) ([]schema.GroupVersionKind, error), synced func() bool) *List {
	return &List{parse: parse, synced: synced, log: logr.Discard(), changed: make(chan struct{})}
}

// Read reads a ConfigMap's list, or nil for a deleted ConfigMap. Read reports whether the list wakes its waiters.
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

// At has watches go by a clock.
func (w *Watches) At(clock clock.WithDelayedExecution) { w.clock = clock }

// FromAny reads a workload of any kind.
func FromAny(object *unstructured.Unstructured) *Workload { return fromAny(object) }
