package batch_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/node/containerrestart/batch"
)

// A workload of four Pods is restarted two at a time. A disruption budget allows the restart of one Pod only.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ledger := disruption.Ledger{ObservedGeneration: 1, Expected: 4, Need: 3, Current: 4, Allowed: 1}
	var policy disruption.Policy

	rules := batch.Rules{Replicas: 4, MaxUnavailable: 2}
	members := []batch.Member{{Name: "web-a", Available: true}, {Name: "web-b", Available: true}, {Name: "web-c", Available: true}, {Name: "web-d", Available: true}}
	step := batch.Next(rules, batch.Record{Started: now}, members, now)
	fmt.Println(step.State, step.Restart)
	for _, name := range step.Restart {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		var decision disruption.Decision
		ledger, decision = policy.Decide(ledger, disruption.Request{Pod: pod, Generation: 1, Operation: disruption.Update}, now)
		if fmt.Println(name, decision.Admitted); !decision.Admitted {
			fmt.Println(decision.Reason) // also pass the reason in Member.Refused for a while
		}
	}

	// Output:
	// Running [web-a web-b]
	// web-a true
	// web-b false
	// BudgetSpent: Pod shop/web-b: 3 of 4 Pods serve, and 3 have to; wait until others serve
}
