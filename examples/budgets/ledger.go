package budgets

import (
	"slices"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// LedgerOf returns what the status of a budget says. It shares the maps of the status, which a ledger does not write to.
func LedgerOf(budget *v1beta1.PodUnavailableBudget) disruption.Ledger {
	s := &budget.Status
	return disruption.Ledger{
		Counted:  s.ObservedGeneration >= budget.Generation,
		Expected: s.TotalReplicas, Need: s.DesiredAvailable, Current: s.CurrentAvailable, Allowed: s.UnavailableAllowed,
		Leaving: s.DisruptedPods, Changing: s.UnavailablePods,
	}
}

// Store writes a ledger into the status of a budget. Of which generation it is the count stays as it was.
func Store(budget *v1beta1.PodUnavailableBudget, ledger disruption.Ledger) {
	s := &budget.Status
	s.TotalReplicas, s.DesiredAvailable, s.CurrentAvailable, s.UnavailableAllowed = ledger.Expected, ledger.Need, ledger.Current, ledger.Allowed
	s.DisruptedPods, s.UnavailablePods = ledger.Leaving, ledger.Changing
}

// Bounds returns the bounds of a budget.
func Bounds(spec *v1beta1.PodUnavailableBudgetSpec) disruption.Bounds {
	return disruption.Bounds{MaxUnavailable: spec.MaxUnavailable, MinAvailable: spec.MinAvailable}
}

// IsOn reports whether an operation is looked at under the gates, by any budget.
func IsOn(gates map[apps.Gate]bool, operation disruption.Operation) bool {
	if operation == disruption.Delete || operation == disruption.Evict {
		return gates[apps.GatePodUnavailableBudgetDelete]
	}
	return gates[apps.GatePodUnavailableBudgetUpdate]
}

// Covers reports whether a budget is asked about an operation. While the gate InPlacePodVerticalScaling is off, who asks for updates to be
// covered means resizes too; while it is on, those have to be named.
func Covers(spec *v1beta1.PodUnavailableBudgetSpec, operation disruption.Operation, gates map[apps.Gate]bool) bool {
	listed := func(operation disruption.Operation) bool {
		if len(spec.ProtectOperations) == 0 {
			return operation != disruption.Resize
		}
		return slices.Contains(spec.ProtectOperations, v1beta1.Operation(operation))
	}
	if operation == disruption.Resize && !gates[apps.GateInPlacePodVerticalScaling] && listed(disruption.Update) {
		return true
	}
	return listed(operation)
}
