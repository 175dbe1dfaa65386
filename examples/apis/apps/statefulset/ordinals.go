package statefulset

import (
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
)

// MaxReserved is the largest number of entries in reserveOrdinals; a range counts as a single entry. More entries are
// not needed, and the controller reads all entries each time.
const MaxReserved = 10_000

// Ordinals returns the ordinals that should have Pods. fromStart is true if ordinals.start is effective (gate
// StatefulSetStartOrdinal). The error is a [reason.List] with paths of the object; admission refuses objects for which
// there is an error.
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
