package podunavailablebudget

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// BenchmarkAsk measures calls of Ask in a namespace with 1,000 budgets: for a Pod whose annotations name its budget,
// for a Pod without these annotations, and for a Pod without a budget. Each call is a dry run.
func BenchmarkAsk(b *testing.B) {
	w := newWorld(b)
	for i := range 1000 {
		app := fmt.Sprint("app-", i)
		w.create(budget(app, map[string]string{"app": app}, nil))
	}
	var list v1beta1.PodUnavailableBudgetList
	if err := w.user.List(b.Context(), &list); err != nil {
		b.Fatal(err)
	}
	for i := range list.Items {
		object := &list.Items[i]
		object.Status = v1beta1.PodUnavailableBudgetStatus{ObservedGeneration: object.Generation, TotalReplicas: 5, DesiredAvailable: 4, CurrentAvailable: 5, UnavailableAllowed: 1}
		if err := w.user.Status().Update(b.Context(), object); err != nil {
			b.Fatal(err)
		}
	}
	w.sync()
	for name, names := range map[string][2]string{"named": {"app-500", "app-500"}, "found": {"app-500", ""}, "none": {"other", ""}} {
		pod := serving(nil)
		pod.UID, pod.CreationTimestamp = types.UID(name), metav1.NewTime(start)
		if pod.Labels["app"] = names[0]; names[1] != "" {
			pod.Annotations[policy.AnnotationRelatedBudget] = names[1]
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if answer, err := w.asked.Ask(b.Context(), pod, disruption.Delete, true); err != nil || !answer.Admitted {
					b.Fatal(answer, err)
				}
			}
		})
	}
}
