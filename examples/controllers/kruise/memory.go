package kruise

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/ownercache"
)

// Memory is what a process knows of objects, until they are gone. Make it with NewMemory. It is safe for concurrent use.
type Memory[T any] struct {
	exists func(types.UID) bool

	mu sync.Mutex
	of map[types.UID]T
}

// NewMemory returns a Memory of nothing. exists says whether an object is still there, see [Exists]. Call Forget for each that is gone.
func NewMemory[T any](exists func(object types.UID) bool) *Memory[T] {
	return &Memory[T]{of: map[types.UID]T{}, exists: exists}
}

// Exists returns a function that says whether an object is in an index.
func Exists[O client.Object](objects *ownercache.Index[O]) func(types.UID) bool {
	return func(uid types.UID) bool {
		_, ok := objects.ByUID(uid)
		return ok
	}
}

// Of returns what is known of an object, the zero value for nothing.
func (m *Memory[T]) Of(object types.UID) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[object]
}

// Change changes what is known of an object. What change leaves is dropped where the object is gone already: nobody would ever forget it.
func (m *Memory[T]) Change(object types.UID, change func(*T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of[object]
	change(&known)
	if m.of[object] = known; !m.exists(object) {
		delete(m.of, object)
	}
}

// Forget forgets an object that is gone.
func (m *Memory[T]) Forget(object types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, object)
}
