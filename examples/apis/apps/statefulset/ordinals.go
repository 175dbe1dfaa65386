package statefulset

import (
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
)

// MaxReserved is the maximum number of entries in reserveOrdinals; a range is a single entry. Nobody needs more, and
// each pass reads all entries.
const MaxReserved = 10_000

// Ordinals returns the ordinals wanted by the object. fromStart is true if ordinals.start counts (gate
// StatefulSetStartOrdinal). The error is a [reason.List] and names paths of the object; admission refuses objects with
// an error.
func Ordinals(obj *v1beta1.StatefulSet, fromStart bool) (ordinals.Set, error) {
	start, replicas := 0, DefaultReplicas
	if numbers := obj.Spec.Ordinals; numbers != nil && fromStart {
		start = int(numbers.Start)
	}
	if n := obj.Spec.Replicas; n != nil {
		replicas = *n
	}
	paths := ordinals.Paths{Start: "spec.ordinals.start", Replicas: "spec.replicas", Reserved: "spec.reserveOrdinals"}
	return ordinals.Of(paths, start, int(replicas), obj.Spec.ReserveOrdinals...)
}
