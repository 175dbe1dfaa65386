package ownercache

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Memo caches, for each owner, a value computed from the owner's newest spec, for example the Pods' requirements for
// Nodes, which are needed at each change of a Node. A Memo holds a value for each existing owner, so its size grows
// with the number of owners. Make a Memo with NewMemo. A Memo is safe for concurrent use.
type Memo[O client.Object, V any] struct {
	work func(owner O) V

	mu    sync.Mutex
	known map[types.UID]worked[V]
}

type worked[V any] struct {
	generation int64
	value      V
}

// NewMemo returns a Memo that computes values by calling work. work must depend only on the owner's spec. Call NewMemo
// before the manager starts.
func NewMemo[O client.Object, V any](cache *Cache[O], work func(owner O) V) *Memo[O, V] {
	m := &Memo[O, V]{work: work, known: map[types.UID]worked[V]{}}
	cache.OnGone(m.forget)
	return m
}

// Of returns the value for an owner's spec. If the owner's generation is older than the cached value's, the value is
// computed but not cached.
func (m *Memo[O, V]) Of(owner O) V {
	uid, generation := owner.GetUID(), owner.GetGeneration()
	m.mu.Lock()
	known, ok := m.known[uid]
	m.mu.Unlock()
	if ok && known.generation == generation {
		return known.value
	}
	value := m.work(owner)
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.known[uid]; !ok || generation > known.generation {
		m.known[uid] = worked[V]{generation, value}
	}
	return value
}

// Len returns the number of owners with a cached value.
func (m *Memo[O, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.known)
}

func (m *Memo[O, V]) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, uid)
}
