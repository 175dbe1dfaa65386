package workloads

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
)

// Workload is an object whose Pods have ordinals, reduced to the fields on which its Pods depend.
type Workload struct {
	// Kind is the workload's kind, in the version in which the object was read.
	Kind schema.GroupVersionKind
	// Object is the workload's object. Only the metadata may be used.
	Object metav1.Object
	// Ending is true if the workload is being deleted.
	Ending bool
	// Wanted are the wanted ordinals. The zero Set means that the wanted ordinals are unknown, because the numbers in
	// the object are invalid.
	Wanted ordinals.Set
}

// UID returns the UID of the workload.
func (w *Workload) UID() types.UID { return w.Object.GetUID() }

func workloadOf(kind schema.GroupVersionKind, object client.Object, wanted ordinals.Set) *Workload {
	return &Workload{Kind: kind, Object: object, Ending: object.GetDeletionTimestamp() != nil, Wanted: wanted}
}

// Ordinals returns the ordinals that a StatefulSet wants, either of Kubernetes or of this group. If the numbers in the
// object are invalid, the result is the zero Set. For an object of another type, the second result is false. If
// fromStart is true, the ordinals of StatefulSets of this group begin at spec.ordinals.start.
func Ordinals(object metav1.Object, fromStart bool) (ordinals.Set, bool) {
	switch set := object.(type) {
	case *appsv1.StatefulSet:
		return fromBuiltIn(set).Wanted, true
	case *v1beta1.StatefulSet:
		return fromAdvanced(set, fromStart).Wanted, true
	}
	return ordinals.Set{}, false
}

// fromBuiltIn converts a StatefulSet of Kubernetes.
func fromBuiltIn(set *appsv1.StatefulSet) *Workload {
	start := 0
	if set.Spec.Ordinals != nil {
		start = int(set.Spec.Ordinals.Start)
	}
	return workloadOf(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), set, orUnknown(ordinals.Of(ordinals.Paths{}, start, int(ptr.Deref(set.Spec.Replicas, 1)))))
}

// fromAdvanced converts a StatefulSet of this group. If fromStart is true, its ordinals begin at spec.ordinals.start.
func fromAdvanced(set *v1beta1.StatefulSet, fromStart bool) *Workload {
	kind := v1beta1.GroupVersion.WithKind("StatefulSet")
	if len(set.Spec.Undecodable) > 0 {
		return workloadOf(kind, set, ordinals.Set{})
	}
	return workloadOf(kind, set, orUnknown(statefulset.Ordinals(set, fromStart)))
}

// fromAny converts an object of any other kind. spec.replicas contains the number of Pods; spec.ordinals.start and
// spec.reserveOrdinals are optional.
func fromAny(object *unstructured.Unstructured) *Workload {
	return workloadOf(object.GroupVersionKind(), object, wantedBy(object.Object))
}

func wantedBy(object map[string]any) ordinals.Set {
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return ordinals.Set{}
	}
	replicas, ok := number(spec["replicas"], 1)
	if !ok {
		return ordinals.Set{}
	}
	from, ok := spec["ordinals"].(map[string]any)
	if !ok && spec["ordinals"] != nil {
		return ordinals.Set{}
	}
	start, ok := number(from["start"], 0)
	if !ok {
		return ordinals.Set{}
	}
	list, ok := spec["reserveOrdinals"].([]any)
	if !ok && spec["reserveOrdinals"] != nil {
		return ordinals.Set{}
	}
	var reserved []intstr.IntOrString
	for _, entry := range list {
		if text, ok := entry.(string); ok {
			reserved = append(reserved, intstr.FromString(text))
		} else if n, ok := number(entry, -1); ok {
			reserved = append(reserved, intstr.FromInt32(int32(n)))
		} else {
			return ordinals.Set{}
		}
	}
	return orUnknown(ordinals.Of(ordinals.Paths{}, start, replicas, reserved...))
}

// number converts a value to a non-negative integer of 32 bits; if there is no value, the result is absent.
func number(value any, absent int) (int, bool) {
	switch value := value.(type) {
	case nil:
		return absent, true
	case int64:
		return int(value), value >= 0 && value <= math.MaxInt32
	default:
		return 0, false
	}
}

func orUnknown(set ordinals.Set, err error) ordinals.Set {
	if err != nil {
		return ordinals.Set{}
	}
	return set
}
