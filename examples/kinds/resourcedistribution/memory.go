package resourcedistribution

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/reason"
)

// known is what the process remembers about a copy after a write or a comparison. At the resourceVersion Version, the
// copy matched the template that has the hash Hash, or could not be changed to match the template.
type known struct {
	UID, Version, Hash string
	// Why is the reason why the copy could not be changed to match the template; empty if the copy matches.
	Why reason.Reason
}

// knownOf returns what to remember about a copy after a comparison or a write. why is empty if the copy matches the
// template.
func knownOf(copied metav1.Object, hash string, why reason.Reason) known {
	return known{UID: string(copied.GetUID()), Version: copied.GetResourceVersion(), Hash: hash, Why: why}
}

// Is reports whether the copy is known to match the template that has the hash.
func (k known) Is(hash string) bool { return k.UID != "" && k.Hash == hash && k.Why.Code == "" }

// memory is what the process remembers about the copies of each ResourceDistribution, by the copy's namespace. Make a
// memory with newMemory. A memory is safe for concurrent use.
type memory struct {
	known *ownercache.Memory[map[string]known]
}

// newMemory returns an empty memory for the ResourceDistributions in a cache.
func newMemory(owners ownercache.Followed) *memory {
	return &memory{ownercache.NewMemory[map[string]known](owners)}
}

// Of returns what is remembered about the copies of a ResourceDistribution, and forgets the namespaces that are not in
// wanted.
func (m *memory) Of(owner types.UID, wanted []string) map[string]known {
	kept := make(map[string]known, len(wanted))
	m.known.Change(owner, func(copies *map[string]known) {
		for _, namespace := range wanted {
			if known, ok := (*copies)[namespace]; ok {
				kept[namespace] = known
			}
		}
		*copies = maps.Clone(kept)
	})
	return kept
}

// Keep remembers a copy, unless the ResourceDistribution no longer exists or Of was never called for it.
func (m *memory) Keep(owner types.UID, namespace string, now known) {
	m.known.Change(owner, func(copies *map[string]known) {
		if *copies != nil {
			(*copies)[namespace] = now
		}
	})
}
