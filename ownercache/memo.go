package ownercache

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memo remembers what was worked out from the objects of a cache. Ten thousand objects lie scattered in memory, and fetching
// them from there takes longer than all that is decided from them; so what a pass needs of each is better read once.
//
// A cache replaces an object that changes and never modifies it: as long as the pointer is the same, so is the object. T is a
// pointer type, such as *corev1.Pod. The zero value is ready, and it is safe for concurrent use.
//
// An object that the cache has replaced is held until its owner is asked about again, or for a while longer if there are many:
// then at most a sixteenth as many as are shown. An event handler that calls Drop lets go of it at once.
type Memo[T comparable, D any] struct {
	mu     sync.Mutex
	owners map[types.UID]*known[T, D]
}

// known is what is remembered for one owner.
type known[T comparable, D any] struct {
	mu    sync.Mutex
	basis any
	of    map[T]D
}

// Of returns what work says of each object, in their order. It calls work for objects that it has not seen, and for all if
// basis is not what it was: basis stands for whatever else the answers depend on, and must be comparable.
func (m *Memo[T, D]) Of(owner types.UID, basis any, objects []T, work func(T) D) []D {
	if len(objects) == 0 {
		m.Forget(owner)
		return nil
	}
	k := m.known(owner)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil || k.basis != basis {
		k.basis, k.of = basis, make(map[T]D, len(objects))
	}
	out := make([]D, len(objects))
	for i, object := range objects {
		d, ok := k.of[object]
		if !ok {
			d = work(object)
			k.of[object] = d
		}
		out[i] = d
	}
	if len(k.of) > len(objects)+len(objects)/16 {
		k.of = make(map[T]D, len(objects))
		for i, object := range objects {
			k.of[object] = out[i]
		}
	}
	return out
}

func (m *Memo[T, D]) known(owner types.UID) *known[T, D] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owners == nil {
		m.owners = map[types.UID]*known[T, D]{}
	}
	k := m.owners[owner]
	if k == nil {
		k = &known[T, D]{}
		m.owners[owner] = k
	}
	return k
}

// Drop forgets an object that the cache has replaced or lost, as an event handler is told. It is no mistake to drop one that
// is not known, or that is still there.
func (m *Memo[T, D]) Drop(owner types.UID, object T) {
	m.mu.Lock()
	k := m.owners[owner]
	m.mu.Unlock()
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, object)
}

// Forget drops what is remembered for an owner, which is to be done when it is gone.
func (m *Memo[T, D]) Forget(owner types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.owners, owner)
}

// Len returns the number of owners that something is remembered for.
func (m *Memo[T, D]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.owners)
}
