package workloadspread

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/reason"
)

// FiltersOverlap means that an older WorkloadSpread of the same target selects some of the same Pods. Admission refuses
// overlapping filters, but two WorkloadSpreads may be created at the same moment.
const FiltersOverlap reason.Code = "FiltersOverlap"

// withoutOlder leaves out the Pods that older WorkloadSpreads of the same target select: the webhook assigns new Pods
// by the oldest WorkloadSpread, and the reconciliations of two WorkloadSpreads would overwrite each other's
// annotations on the Pods for ever.
func (f *finder) withoutOlder(spread *v1beta1.WorkloadSpread, s *settings, pods []*corev1.Pod) (own []*corev1.Pod, why reason.List) {
	own = pods
	for _, rival := range f.rivals(spread, s) {
		theirs, ok := f.settingsOf(rival)
		if !ok || !isOlder(rival, spread) {
			continue
		}
		before := len(own)
		own = slices.DeleteFunc(slices.Clone(own), func(pod *corev1.Pod) bool { return theirs.selector.Matches(labels.Set(pod.Labels)) })
		if n := before - len(own); n > 0 {
			why = append(why, reason.Reason{
				Code: FiltersOverlap, Path: "spec.targetFilter", Detail: fmt.Sprintf("%d Pods belong to the older WorkloadSpread %s", n, rival.Name),
				Remedy: "give the WorkloadSpreads of a workload disjoint filters, or delete one",
			})
		}
	}
	return own, why
}

// rivals returns the other WorkloadSpreads with the same target, the oldest first.
func (f *finder) rivals(spread *v1beta1.WorkloadSpread, s *settings) []*v1beta1.WorkloadSpread {
	found := slices.Clone(f.spreads.By(byTarget, keyOf(s.kind, spread.Namespace, s.name)))
	found = slices.DeleteFunc(found, func(rival *v1beta1.WorkloadSpread) bool { return rival.UID == spread.UID })
	slices.SortFunc(found, func(a, b *v1beta1.WorkloadSpread) int {
		if isOlder(a, b) {
			return -1
		}
		return 1
	})
	return found
}

// rivalChanged enqueues the WorkloadSpreads that have the same target as a changed or deleted WorkloadSpread.
func (r *Reconciler) rivalChanged(q queue, object client.Object) {
	if spread, ok := object.(*v1beta1.WorkloadSpread); ok {
		s, _ := r.settingsOf(spread)
		add(q, r.rivals(spread, s)...)
	}
}
