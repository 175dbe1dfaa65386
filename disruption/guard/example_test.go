package guard_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
)

// Example: a webhook asks a budget before Pods are evicted. The budgets are PodDisruptionBudgets; an operator's own
// kind of budget has the same fields in its status.
func Example() {
	ctx := context.Background()
	budget := &policyv1.PodDisruptionBudget{ // as counted by its controller
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 1},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, ExpectedPods: 3, DesiredHealthy: 2, CurrentHealthy: 3, DisruptionsAllowed: 1},
	}
	c := fake.NewClientBuilder().WithObjects(budget).WithStatusSubresource(budget).Build() // or mgr.GetClient()

	g, err := guard.New(c, c, &policyv1.PodDisruptionBudget{}, guard.Config[*policyv1.PodDisruptionBudget]{
		Ledger: func(b *policyv1.PodDisruptionBudget) disruption.Ledger {
			s := &b.Status
			return disruption.Ledger{
				ObservedGeneration: s.ObservedGeneration, // after a change of the spec, no request is admitted before the next count

				Expected: s.ExpectedPods, Need: s.DesiredHealthy, Current: s.CurrentHealthy, Allowed: s.DisruptionsAllowed,
				Leaving: s.DisruptedPods,
			}
		},
		Store: func(b *policyv1.PodDisruptionBudget, l disruption.Ledger) {
			s := &b.Status
			s.ExpectedPods, s.DesiredHealthy, s.CurrentHealthy, s.DisruptionsAllowed = l.Expected, l.Need, l.Current, l.Allowed
			s.DisruptedPods = l.Leaving
		},
	})
	if err != nil {
		panic(err)
	}
	evict := func(pod *corev1.Pod, dryRun bool) admission.Response {
		request := disruption.Request{Pod: pod, Operation: disruption.Evict}
		decision, err := g.Ask(ctx, client.ObjectKeyFromObject(budget), request, dryRun)
		switch {
		case err != nil:
			return admission.Errored(http.StatusInternalServerError, err) // nobody knows the decision, so the request is refused
		case decision.Admitted:
			return admission.Allowed("the budget has room")
		}
		refused := admission.Denied(decision.Reason.String())
		refused.Result.Code, refused.Result.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests // kubectl drain retries
		return refused
	}
	for _, name := range []string{"web-0", "web-1"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(time.Now())}}
		answer := evict(pod, false)
		fmt.Println(name, answer.Result.Code, answer.Result.Message)
	}
	// Output:
	// web-0 200 the budget has room
	// web-1 429 BudgetSpent: Pod shop/web-1: 2 of 3 Pods serve, and 2 have to; wait until others serve
}
