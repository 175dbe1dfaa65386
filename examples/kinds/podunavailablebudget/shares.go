package podunavailablebudget

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// shares remembers the Pods let go for a change by a readiness gate, because the status has no place for their
// identities. The share of such a Pod ends when the Pod has changed and serves again, and otherwise after ten seconds,
// also in a process without the memory.
type shares struct {
	mu sync.Mutex
	of map[types.UID]map[string]disruption.Identity
}

func newShares() *shares { return &shares{of: map[types.UID]map[string]disruption.Identity{}} }

// ledger is ledgerOf with identities.
func (s *shares) ledger(budget *v1beta1.PodUnavailableBudget) disruption.Ledger {
	ledger := ledgerOf(budget)
	s.mu.Lock()
	defer s.mu.Unlock()
	ledger.Identities = maps.Clone(s.of[budget.UID])
	return ledger
}

// store is the function store with identities.
func (s *shares) store(budget *v1beta1.PodUnavailableBudget, ledger disruption.Ledger) {
	store(budget, ledger)
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := map[string]disruption.Identity{}
	for name, identity := range ledger.Identities {
		if identity.Gated {
			kept[name] = identity
		}
	}
	if delete(s.of, budget.UID); len(kept) > 0 {
		s.of[budget.UID] = kept
	}
}

// counted forgets the identities of Pods whose share has ended by a count from before to after. Others may have been let
// go since the count began.
func (s *shares) counted(budget types.UID, before, after *disruption.Ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, identity := range before.Identities {
		if _, still := after.Identities[name]; !still && s.of[budget][name] == identity {
			delete(s.of[budget], name)
		}
	}
}

func (s *shares) forget(budget types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, budget)
}
