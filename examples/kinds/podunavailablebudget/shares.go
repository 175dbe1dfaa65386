package podunavailablebudget

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// shares remembers the UID and generation of Pods for which the request of a controller that closes the readiness
// gate was admitted, because the status cannot store these identities. If the identity is known, the Pod counts as in
// service again as soon as the Pod has changed and serves. Otherwise, for example after a restart of the process, the
// Pod counts after ten seconds.
type shares struct {
	mu sync.Mutex
	of map[types.UID]map[string]disruption.Identity
}

func newShares() *shares { return &shares{of: map[types.UID]map[string]disruption.Identity{}} }

// ledger returns the result of ledgerOf, with the remembered identities.
func (s *shares) ledger(budget *v1beta1.PodUnavailableBudget) disruption.Ledger {
	ledger := ledgerOf(budget)
	s.mu.Lock()
	defer s.mu.Unlock()
	ledger.Identities = maps.Clone(s.of[budget.UID])
	return ledger
}

// store calls the function store, and remembers the identities in the ledger. Requests about several Pods may call
// store at the same time with ledgers of different age: of two identities of a Pod, store keeps the identity with the
// higher generation.
func (s *shares) store(budget *v1beta1.PodUnavailableBudget, ledger disruption.Ledger) {
	store(budget, ledger)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, identity := range ledger.Identities {
		was := s.of[budget.UID][name]
		switch {
		case !identity.Gated:
			delete(s.of[budget.UID], name)
		case was.UID == identity.UID && was.Generation > identity.Generation:
		case s.of[budget.UID] == nil:
			s.of[budget.UID] = map[string]disruption.Identity{name: identity}
		default:
			s.of[budget.UID][name] = identity
		}
	}
}

// counted forgets identities that are no longer needed, after the result of a count was written into the status:
// identities of Pods without an admitted disruption, and of Pods that no longer exist. Identities from requests that
// were admitted after the start of the count are kept.
func (s *shares) counted(budget types.UID, before, after *disruption.Ledger, members []disruption.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, identity := range before.Identities {
		_, still := after.Identities[name]
		_, changed := before.Changing[name]
		is := func(m disruption.Member) bool { return m.UID == identity.UID }
		if !still && s.of[budget][name] == identity && (changed || !slices.ContainsFunc(members, is)) {
			delete(s.of[budget], name)
		}
	}
	if len(s.of[budget]) == 0 {
		delete(s.of, budget)
	}
}

func (s *shares) forget(budget types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, budget)
}
