package distribution

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/reason"
)

// Known is what a process knows about a copy that it has written or compared: at this version it was as the template of this hash wants it, or could
// not be made so.
type Known struct {
	UID, Version, Hash string
	// Why is set where it could not be made so.
	Why reason.Reason
}

// KnownOf is what is known when a copy was compared or written; why is empty if it is as the template wants it.
func KnownOf(copied metav1.Object, hash string, why reason.Reason) Known {
	return Known{UID: string(copied.GetUID()), Version: copied.GetResourceVersion(), Hash: hash, Why: why}
}

// Is reports whether the copy is known to have been as the template of this hash wants it.
func (k Known) Is(hash string) bool { return k.UID != "" && k.Hash == hash && k.Why.Code == "" }

// Memory is what a process knows of the copies of each ResourceDistribution, by namespace. Make it with NewMemory. It is safe for concurrent use.
type Memory struct {
	known *kruise.Memory[map[string]Known]
}

// NewMemory returns a Memory that knows nothing. exists says whether a ResourceDistribution is still there. Call Forget for each that is gone.
func NewMemory(exists func(owner types.UID) bool) *Memory {
	return &Memory{kruise.NewMemory[map[string]Known](exists)}
}

// Of returns what is known of the copies of a ResourceDistribution, and forgets the namespaces that are of no interest any more.
func (m *Memory) Of(owner types.UID, wanted []string) map[string]Known {
	kept := make(map[string]Known, len(wanted))
	m.known.Change(owner, func(copies *map[string]Known) {
		for _, namespace := range wanted {
			if known, ok := (*copies)[namespace]; ok {
				kept[namespace] = known
			}
		}
		*copies = maps.Clone(kept)
	})
	return kept
}

// Keep keeps what is known of a copy, if somebody has asked for those of the ResourceDistribution and nobody has forgotten it since.
func (m *Memory) Keep(owner types.UID, namespace string, known Known) {
	m.known.Change(owner, func(copies *map[string]Known) {
		if *copies != nil {
			(*copies)[namespace] = known
		}
	})
}

// Forget forgets a ResourceDistribution that is gone.
func (m *Memory) Forget(owner types.UID) { m.known.Forget(owner) }
