package kruise

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/ownercache"
)

// Memory is a process's knowledge of objects, until the objects are gone. Make a Memory with NewMemory. A Memory is
// safe for concurrent use.
type Memory[T any] struct {
	exists func(types.UID) bool

	mu sync.Mutex
	of map[types.UID]T
}

// NewMemory returns an empty Memory. exists reports whether an object still exists, see [Exists]. Call Forget for each
// deleted object.
func NewMemory[T any](exists func(object types.UID) bool) *Memory[T] {
	return &Memory[T]{of: map[types.UID]T{}, exists: exists}
}

// Exists returns a function that reports whether an index has an object.
func Exists[O client.Object](objects *ownercache.Index[O]) func(types.UID) bool {
	return func(uid types.UID) bool {
		_, ok := objects.ByUID(uid)
		return ok
	}
}

// Of returns the knowledge of an object, or the zero value.
func (m *Memory[T]) Of(object types.UID) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[object]
}

// Change changes the knowledge of an object. For an object already gone the result is dropped: nobody would ever forget
// the object.
func (m *Memory[T]) Change(object types.UID, change func(*T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of[object]
	change(&known)
	if m.of[object] = known; !m.exists(object) {
		delete(m.of, object)
	}
}

// Forget forgets a deleted object.
func (m *Memory[T]) Forget(object types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, object)
}
