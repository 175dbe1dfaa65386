package daemonset

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// fitCache remembers what the newest generation of each DaemonSet requires of Nodes, so that a Node's event costs no compiling. It holds one fit
// for each DaemonSet that is there: whatever users edit, it is in proportion to what the cache holds anyway.
type fitCache struct {
	gates map[apps.Gate]bool

	mu    sync.Mutex
	known map[types.UID]generation
}

type generation struct {
	number int64
	fit    *fit
}

// of returns what a DaemonSet requires. One that no Pod is made for has no interest in Nodes and Pods.
func (f *fitCache) of(set *v1beta1.DaemonSet) *fit {
	f.mu.Lock()
	known, ok := f.known[set.UID]
	f.mu.Unlock()
	if ok && known.number == set.Generation {
		return known.fit
	}
	made := &fit{}
	if s, problems := resolve(set, f.gates); problems == nil {
		made = newFit(set, s.selector)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[types.UID]generation{}
	}
	if set.Generation > f.known[set.UID].number {
		f.known[set.UID] = generation{set.Generation, made}
	}
	return made
}

// forget drops a DaemonSet that is gone.
func (f *fitCache) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, uid)
}

func (f *fitCache) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.known)
}
