package podunavailablebudget

import (
	"slices"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// ledgerOf converts the status of a budget to the ledger that package disruption uses. The ledger shares the maps of
// the status, which are never modified. The ledger lacks the identities of Pods, and the time since when the budget
// requires Pods in service: the status has OpenKruise's format, which has no fields for these values.
func ledgerOf(budget *v1beta1.PodUnavailableBudget) disruption.Ledger {
	s := &budget.Status
	return disruption.Ledger{
		ObservedGeneration: s.ObservedGeneration,

		Expected: s.TotalReplicas, Need: s.DesiredAvailable, Current: s.CurrentAvailable, Allowed: s.UnavailableAllowed,
		Leaving: s.DisruptedPods, Changing: s.UnavailablePods,
	}
}

// store writes a ledger into the status of a budget. store does not change the observedGeneration.
func store(budget *v1beta1.PodUnavailableBudget, ledger disruption.Ledger) {
	s := &budget.Status
	s.TotalReplicas, s.DesiredAvailable, s.CurrentAvailable, s.UnavailableAllowed = ledger.Expected, ledger.Need, ledger.Current, ledger.Allowed
	s.DisruptedPods, s.UnavailablePods = ledger.Leaving, ledger.Changing
}

// isOn reports whether the feature gates allow budgets to protect Pods from the operation.
func isOn(gates map[apps.Gate]bool, operation disruption.Operation) bool {
	if operation == disruption.Delete || operation == disruption.Evict {
		return gates[apps.GatePodUnavailableBudgetDelete]
	}
	return gates[apps.GatePodUnavailableBudgetUpdate]
}

// covers reports whether a budget with the listed operations protects Pods from the operation. While the feature gate
// InPlacePodVerticalScaling is off, a budget for updates also covers resizes. While the gate is on, a budget covers
// resizes only if resizes are listed.
func covers(list []v1beta1.Operation, operation disruption.Operation, gates map[apps.Gate]bool) bool {
	listed := func(operation disruption.Operation) bool {
		if len(list) == 0 {
			return operation != disruption.Resize
		}
		return slices.Contains(list, v1beta1.Operation(operation))
	}
	if operation == disruption.Resize && !gates[apps.GateInPlacePodVerticalScaling] && listed(disruption.Update) {
		return true
	}
	return listed(operation)
}
