package persistentpodstate

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ownercache"
)

// mutateOf returns the step's function, with the given index and listed kinds. known is true if the list has been read.
func mutateOf(index *ownercache.Index[*v1beta1.PersistentPodState], listed []schema.GroupVersionKind, known bool, events record.EventRecorder) (
	func(context.Context, *corev1.Pod, *admission.Request) error, error,
) {
	lists := func(kind schema.GroupKind) (bool, bool) {
		return slices.ContainsFunc(listed, func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind }), known
	}
	current := func(context.Context) error {
		if !index.HasSynced() {
			return errors.New("the cache is not filled")
		}
		return nil
	}
	s := &step{current: current, states: index, lists: lists, events: events}
	return s.mutate, index.Add(stepIndex, byTarget)
}

// Changes returns the operations from status before to status after, by path.
func Changes(before, after v1beta1.PersistentPodStateStatus) (paths []string) {
	for _, o := range changes(&before, &after) {
		paths = append(paths, o.Op+" "+o.Path)
	}
	return paths
}
