package disruption_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/disruption"
)

// Example: a controller counts, and a webhook decides about evictions. One of three Pods may be out of service.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	born := metav1.NewTime(now.Add(-time.Hour))
	one := intstr.FromInt32(1)
	var pods []*corev1.Pod
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: born}})
	}
	var members []disruption.Member
	for _, pod := range pods {
		members = append(members, disruption.MemberOf(pod, true))
	}

	var policy disruption.Policy
	count, err := policy.Count(disruption.Ledger{}, disruption.Census{
		Generation: 1, Expected: new(int32(3)), Bounds: disruption.Bounds{MaxUnavailable: &one}, Path: "spec", Members: members,
	}, now)
	if err != nil {
		fmt.Println(err)
		return
	}

	ledger := count.Ledger
	for _, pod := range pods[:2] {
		var decision disruption.Decision
		ledger, decision = policy.Decide(ledger, disruption.Request{Pod: pod, Generation: 1, Operation: disruption.Evict}, now)
		name := pod.Name
		if fmt.Println(name, decision.Admitted); !decision.Admitted {
			fmt.Println(decision.Reason)
		}
	}

	// Output:
	// web-0 true
	// web-1 false
	// BudgetSpent: Pod shop/web-1: 2 of 3 Pods serve, and 2 have to; wait until others serve
}
