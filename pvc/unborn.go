package pvc

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Unborn remembers, for each owner, the names of Pods whose creation failed after their claims may have been created.
// If these names are tried first, claims are not created and deleted again and again while a quota allows no more Pods.
// Unborn is lost with the process: after a restart such claims count as claims of lost Pods. The zero value is ready
// for use. An Unborn is safe for concurrent use.
type Unborn struct {
	mu   sync.Mutex
	pods map[types.UID]sets.Set[string]
}

// Add remembers a Pod before its creation.
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

// Remove forgets a created Pod.
func (u *Unborn) Remove(owner types.UID, pod string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(owner, func(name string) bool { return name == pod })
}

// Of returns the Pods of an owner whose creation failed, without Pods that exist after all because only the response
// was lost.
func (u *Unborn) Of(owner types.UID, exists func(pod string) bool) sets.Set[string] {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(owner, exists)
	return u.pods[owner].Clone()
}

// Forget drops all Pods of an owner, because the owner was deleted or wants no more Pods.
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
