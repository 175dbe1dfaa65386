package ownercache

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Followed reports the existence and the deletion of objects, such as the owners of a Cache. OnGone registers f to be
// called for each object that is deleted; Exists reports whether an object still exists.
type Followed interface {
	Exists(object types.UID) bool
	OnGone(f func(object types.UID))
}

// Memory stores a value of type T for each object, in the memory of the process, until the object is deleted. Make a
// Memory with NewMemory; the zero Memory remembers nothing. A Memory is safe for concurrent use.
type Memory[T any] struct {
	exists func(types.UID) bool

	mu sync.Mutex
	of map[types.UID]T
}

// NewMemory returns an empty Memory for the owners of a Cache, or for other objects. Call NewMemory before the manager
// starts.
func NewMemory[T any](objects Followed) *Memory[T] {
	m := &Memory[T]{of: map[types.UID]T{}, exists: objects.Exists}
	objects.OnGone(m.forget)
	return m
}

// Of returns the value stored for an object, or the zero value.
func (m *Memory[T]) Of(object types.UID) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[object]
}

// Change calls change to modify the value stored for an object. If the object was deleted already, Change stores
// nothing, because no later event would remove the entry. Change calls change with the Memory locked: change must not
// call Of or Change of the same Memory, which would block for ever. The argument of change points to the stored
// value.
func (m *Memory[T]) Change(object types.UID, change func(*T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of[object]
	change(&known)
	if m.exists != nil && m.exists(object) {
		m.of[object] = known
	} else {
		delete(m.of, object)
	}
}

func (m *Memory[T]) forget(object types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, object)
}
