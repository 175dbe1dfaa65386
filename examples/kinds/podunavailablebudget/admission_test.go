package podunavailablebudget_test

import (
	"testing"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kinds/podunavailablebudget"
)

type tree = admissiontest.Tree

// served returns a server with the webhooks for PodUnavailableBudgets.
func served(options admission.Options) admissiontest.Server {
	return admissiontest.Server(admission.Handlers(options, podunavailablebudget.Row().Admission(options)))
}

// TestPodUnavailableBudgetGate: while no feature gate for budgets is on, no budget can be created or changed. Either
// of the two gates is enough.
func TestPodUnavailableBudgetGate(t *testing.T) {
	object := admissiontest.Load(t, "testdata/small.yaml", "v1beta1")
	changed := admissiontest.Edit(t, object, "/spec/maxUnavailable", 2)
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
			got := served(options).Validate(t, c.next, c.old)
			if got.Allowed != (c.code == 0) || !got.Allowed && got.Result.Code != c.code {
				t.Errorf("%+v", got)
			}
		})
	}
}
