package sizing_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/sidecarcontrol/sizing"
)

func Example() {
	sizes, err := sizing.Compile(sizing.Policy{
		Mode: sizing.Sum, Containers: "^app",
		Limits:   sizing.Expressions{CPU: "max(cpu*50%, 50m)"},
		Requests: sizing.Expressions{Memory: "64Mi + memory/10"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := sizes.Of([]corev1.ResourceRequirements{
		{Limits: list("200m", ""), Requests: list("", "320Mi")},
		{Limits: list("400m", "")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(got.Limits.Cpu(), got.Requests.Memory())

	_, err = sizing.Compile(sizing.Policy{Mode: sizing.Sum, Containers: "^app", Limits: sizing.Expressions{CPU: "2/cpu"}})
	fmt.Println(err)
	// Output:
	// 300m 96Mi
	// InvalidExpression: resourcesExpr.limits.cpu: 2/cpu: position 2: divides by a quantity
}
