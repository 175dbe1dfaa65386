package cloneset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TestFactsAreLetGo holds that nothing of a Pod that the cache has replaced or lost stays in memory until somebody looks at
// its CloneSet again, which may be never.
func TestFactsAreLetGo(t *testing.T) {
	owner := &v1beta1.CloneSet{}
	owner.Name, owner.UID = "web", "cs"
	for _, tc := range []struct {
		name  string
		event func(r *Reconciler, pod *corev1.Pod) bool
		goes  bool // whether the Finisher hears of it
		kept  bool
	}{
		{"nothing happened", func(*Reconciler, *corev1.Pod) bool { return false }, false, true},
		{"it is new", func(r *Reconciler, pod *corev1.Pod) bool { return r.podEvents().Create(event.CreateEvent{Object: pod}) }, true, true},
		{"replaced", func(r *Reconciler, pod *corev1.Pod) bool {
			return r.podEvents().Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: pod.DeepCopy()})
		}, true, false},
		{"released", func(r *Reconciler, pod *corev1.Pod) bool {
			released := pod.DeepCopy()
			released.OwnerReferences = nil
			return r.podEvents().Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: released})
		}, false, false},
		{"gone", func(r *Reconciler, pod *corev1.Pod) bool { return r.podEvents().Delete(event.DeleteEvent{Object: pod}) }, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			informers := loans{informers: filled(t)}
			r, err := newReconciler(t.Context(), informers, unused{}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			pod := newPod(owned(owner))
			read := 0
			look := func() {
				r.facts.Of(types.UID("cs"), "", []*corev1.Pod{pod}, func(*corev1.Pod) facts { read++; return facts{} })
			}
			look()
			if goes := tc.event(r, pod); goes != tc.goes {
				t.Errorf("the Finisher hears of it: %v, want %v", goes, tc.goes)
			}
			look()
			if kept := read == 1; kept != tc.kept {
				t.Errorf("what was read of the Pod is kept: %v, want %v", kept, tc.kept)
			}
		})
	}
}
