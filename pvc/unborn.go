package pvc

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Unborn remembers, by owner, the names of Pods that could not be created although their claims may have been. Trying those names
// first spares claims that are made and deleted for ever while a quota has no room for Pods. It is memory of one process: after
// a restart such claims are those of lost Pods. The zero value is ready, and it is safe for concurrent use.
type Unborn struct {
	mu   sync.Mutex
	pods map[types.UID]sets.Set[string]
}

// Add remembers a Pod that is about to be created.
func (u *Unborn) Add(owner types.UID, pod string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pods == nil {
		u.pods = map[types.UID]sets.Set[string]{}
	}
	if u.pods[owner] == nil {
		u.pods[owner] = sets.New[string]()
	}
	u.pods[owner].Insert(pod)
}

// Remove forgets a Pod that was created.
func (u *Unborn) Remove(owner types.UID, pod string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(owner, func(name string) bool { return name == pod })
}

// Of returns the Pods of an owner that could not be created, without those that exist after all: the answer to their creation was
// lost.
func (u *Unborn) Of(owner types.UID, exists func(pod string) bool) sets.Set[string] {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(owner, exists)
	return u.pods[owner].Clone()
}

// Forget drops what is known about an owner, because it is gone or wants no more Pods.
func (u *Unborn) Forget(owner types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pods, owner)
}

func (u *Unborn) drop(owner types.UID, born func(pod string) bool) {
	for name := range u.pods[owner] {
		if born(name) {
			u.pods[owner].Delete(name)
		}
	}
	if len(u.pods[owner]) == 0 {
		delete(u.pods, owner)
	}
}
