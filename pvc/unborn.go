package pvc

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Unborn remembers, for each owner, the names of Pods whose creation failed after their claims may have been created.
// If these names are tried first, claims are not created and deleted again and again while a quota allows no more
// Pods, and other programs that reserve resources under a Pod's name, such as a place in a subset, do not reserve
// resources for ever new names. The names are kept only in memory: after a restart of the process, such claims count
// as claims of Pods that no longer exist. The zero value is ready for use. An Unborn is safe for concurrent use.
type Unborn struct {
	mu   sync.Mutex
	pods map[types.UID]map[string]bool // true for a refused Pod
}

// Add remembers a Pod before its creation.
func (u *Unborn) Add(owner types.UID, pod string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set(owner, pod, false)
}

// Refuse remembers that the API server has refused the last request for a Pod: no request for the name is in
// progress.
func (u *Unborn) Refuse(owner types.UID, pod string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set(owner, pod, true)
}

// Refused returns the refused Pods of an owner, sorted. A new Pod may have the name of a refused Pod, even without a
// claim.
func (u *Unborn) Refused(owner types.UID) (names []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, refused := range u.pods[owner] {
		if refused {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (u *Unborn) set(owner types.UID, pod string, refused bool) {
	if u.pods == nil {
		u.pods = map[types.UID]map[string]bool{}
	}
	if u.pods[owner] == nil {
		u.pods[owner] = map[string]bool{}
	}
	u.pods[owner][pod] = refused
}

// Remove forgets a created Pod.
func (u *Unborn) Remove(owner types.UID, pod string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(owner, func(name string) bool { return name == pod })
}

// Of returns the Pods of an owner whose creation failed, without Pods that exist: the API server may have created a
// Pod although the response was lost.
func (u *Unborn) Of(owner types.UID, exists func(pod string) bool) sets.Set[string] {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(owner, exists)
	return sets.KeySet(u.pods[owner])
}

// Forget removes all names of an owner that was deleted or wants no more Pods.
func (u *Unborn) Forget(owner types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pods, owner)
}

func (u *Unborn) drop(owner types.UID, born func(pod string) bool) {
	for name := range u.pods[owner] {
		if born(name) {
			delete(u.pods[owner], name)
		}
	}
	if len(u.pods[owner]) == 0 {
		delete(u.pods, owner)
	}
}
