package admission_test

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// TestPodUnavailableBudgetGate: nobody writes a budget without a keeper. Either gate is enough.
func TestPodUnavailableBudgetGate(t *testing.T) {
	const path = "/validate-policy-kruise-io-podunavailablebudget"
	object := manifest(t, `apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata: {name: web, namespace: default}
spec: {selector: {matchLabels: {app: web}}, maxUnavailable: 1}
`)
	changed := edit(t, object, "/spec/maxUnavailable", 2)
	for _, c := range []struct {
		name           string
		delete, update bool
		next, old      tree
		code           int32
	}{
		{"PUB-1 both off, created", false, false, object, nil, 403},
		{"PUB-1 both off, changed", false, false, changed, object, 403},
		{"PUB-1 deletions alone", true, false, object, nil, 0},
		{"PUB-1 updates alone", false, true, changed, object, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := admission.Options{Gates: map[apps.Gate]bool{apps.GatePodUnavailableBudgetDelete: c.delete, apps.GatePodUnavailableBudgetUpdate: c.update}}
			operation := "CREATE"
			if c.old != nil {
				operation = "UPDATE"
			}
			got := review(t, options, path, request(t, admissionv1.Operation(operation), c.next, c.old))
			if got.Allowed != (c.code == 0) || !got.Allowed && got.Result.Code != c.code {
				t.Errorf("%+v", got)
			}
		})
	}
}
