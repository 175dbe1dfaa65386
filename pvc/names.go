package pvc

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Names finds names for new Pods that are made from claim templates and are called anything. All fields but Claims and Leaving
// are required.
type Names struct {
	Known

	// Claims are the owner's.
	Claims []*corev1.PersistentVolumeClaim
	// Taken are the names of the owner's active Pods, and Leaving those of the others.
	Taken, Leaving sets.Set[string]
	// MayReturn reports lost Pods that may be made again for the claims that they have left.
	MayReturn func(pod string) bool
	// Fresh returns a random name. No claim that a Pod of the name would use may be somebody else's: those are not among Claims.
	Fresh func() string
}

// New returns names for up to n new Pods: first those of lost Pods whose claims may be used again, then fresh ones that neither a
// Pod nor a claim has. There are fewer than n where the Pod that such claims belong to is still on its way out: it has the name
// that its successor is to have. Zero and less ask for none.
func (x *Names) New(n int) []string {
	if n <= 0 {
		return nil
	}
	taken := x.Taken.Union(x.Leaving)
	var names []string
	awaited := 0
	for _, name := range x.Reusable(x.Claims, x.MayReturn) {
		pod, exists := x.Pod(name)
		switch {
		case !exists && !taken.Has(name):
			names = append(names, name)
		case !exists && x.Leaving.Has(name):
			awaited++ // it has gone since the caller looked, and its event is about to wake the owner
		case exists && pod.DeletionTimestamp != nil && x.isOwned(pod):
			awaited++
		}
		taken.Insert(name)
	}
	n = max(n-awaited, min(n, len(names)))
	names = names[:min(len(names), n)]
	for _, claim := range x.Claims {
		taken.Insert(x.PodOf(claim))
	}
	for len(names) < n {
		name := x.Fresh()
		if _, exists := x.Pod(name); !exists && !taken.Has(name) {
			taken.Insert(name)
			names = append(names, name)
		}
	}
	return names
}
