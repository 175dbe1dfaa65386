package disruption_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/disruption"
)

// A controller counts, and a webhook decides about evictions: one of three Pods may be away.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	born := metav1.NewTime(now.Add(-time.Hour))
	one := intstr.FromInt32(1)
	need, err := disruption.Bounds{MaxUnavailable: &one}.Need("spec", 3)
	if err != nil {
		fmt.Println(err)
		return
	}

	var policy disruption.Policy
	ledger, _, _ := policy.Count(disruption.Ledger{}, disruption.Census{Expected: 3, Need: need, Members: []disruption.Member{
		{Name: "web-0", Created: born, Serves: true},
		{Name: "web-1", Created: born, Serves: true},
		{Name: "web-2", Created: born, Serves: true},
	}}, now)

	for _, name := range []string{"web-0", "web-1"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: born}}
		var decision disruption.Decision
		ledger, decision = policy.Decide(ledger, disruption.Request{Pod: pod, Operation: disruption.Evict}, now)
		if fmt.Println(name, decision.Admitted); !decision.Admitted {
			fmt.Println(decision.Reason)
		}
	}

	// Output:
	// web-0 true
	// web-1 false
	// BudgetSpent: Pod shop/web-1: 2 of 3 Pods serve, and 2 have to; wait until others serve
}
