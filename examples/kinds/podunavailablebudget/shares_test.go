package podunavailablebudget

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
)

// TestShares: after this process has admitted a change by a controller that closes the Pod's readiness gate, the
// entry in the status is removed as soon as the Pod is in service again.
func TestShares(t *testing.T) {
	now := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	changed := disruption.Member{Name: "web-0", UID: "pod", Generation: 2, Serves: true, Settled: true}
	for name, tc := range map[string]struct {
		gated   bool
		edit    func(*disruption.Member)
		another bool // true if another process has admitted the change
		want    int32
	}{
		"changed, and serves again":     {gated: true, edit: func(*disruption.Member) {}, want: 1},
		"not changed yet":               {gated: true, edit: func(m *disruption.Member) { m.Generation = 1 }},
		"does not serve yet":            {gated: true, edit: func(m *disruption.Member) { m.Serves = false }},
		"a Pod without the gate":        {gated: true, edit: func(m *disruption.Member) { m.Settled = false }},
		"a successor of the same name":  {gated: true, edit: func(m *disruption.Member) { m.UID = "successor" }},
		"let go for somebody else":      {edit: func(*disruption.Member) {}},
		"let go by another process":     {gated: true, edit: func(*disruption.Member) {}, another: true},
		"and its own change comes next": {gated: true, edit: func(m *disruption.Member) { m.Generation = 3 }, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			budget, shares := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{UID: "budget"}}, newShares()
			shares.store(budget, disruption.Ledger{
				ObservedGeneration: 1, Expected: 1, Changing: map[string]metav1.Time{"web-0": metav1.NewTime(now)},
				Identities: map[string]disruption.Identity{"web-0": {UID: "pod", Generation: 1, Gated: tc.gated}},
			})
			budget.Status.ObservedGeneration = 1
			if tc.another {
				shares = newShares()
			}
			member := changed
			tc.edit(&member)
			before := shares.ledger(budget)
			counted, err := disruption.Policy{}.Count(before, disruption.Census{
				Generation: 1, Expected: new(int32(1)), Bounds: disruption.Bounds{MaxUnavailable: ptr.To(intstr.FromInt32(1))}, Path: "spec", Members: []disruption.Member{member},
			}, now.Add(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, counted.Ledger.Current); diff != "" {
				t.Errorf("Pods in service (-want +got):\n%s", diff)
			}
			shares.counted(budget.UID, &before, &counted.Ledger, []disruption.Member{member})
			if kept := len(shares.ledger(budget).Identities); kept > 0 && (tc.want == 1 || !tc.gated || tc.another) {
				t.Errorf("%d identities kept", kept)
			}
			shares.forget(budget.UID)
			if len(shares.of) > 0 {
				t.Errorf("remembers %v of a budget that is gone", shares.of)
			}
		})
	}
}

// TestSharesOfSeveralPods: two requests for different Pods are admitted at the same time, based on the same status.
func TestSharesOfSeveralPods(t *testing.T) {
	budget, shares := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{UID: "budget"}}, newShares()
	let := func(ledger disruption.Ledger, name string, generation int64, gated bool) {
		ledger.Identities = maps.Clone(ledger.Identities)
		if ledger.Identities == nil {
			ledger.Identities = map[string]disruption.Identity{}
		}
		ledger.Identities[name] = disruption.Identity{UID: types.UID(name), Generation: generation, Gated: gated}
		shares.store(budget, ledger)
	}
	read := shares.ledger(budget)
	let(read, "web-0", 1, true)
	let(read, "web-1", 1, true)
	old := shares.ledger(budget)
	let(old, "web-0", 2, true)
	let(old, "web-2", 1, true) // the request has read web-0 before its change
	let(old, "web-1", 1, false)
	want := map[string]disruption.Identity{"web-0": {UID: "web-0", Generation: 2, Gated: true}, "web-2": {UID: "web-2", Generation: 1, Gated: true}}
	if diff := cmp.Diff(want, shares.ledger(budget).Identities); diff != "" {
		t.Errorf("identities (-want +got):\n%s", diff)
	}
	late, none := shares.ledger(budget), disruption.Ledger{} // a count that began before the status had the entries
	shares.counted(budget.UID, &late, &none, []disruption.Member{{Name: "web-0", UID: "web-0"}, {Name: "web-1", UID: "web-1"}})
	delete(want, "web-2") // the Pod was deleted
	if diff := cmp.Diff(want, shares.ledger(budget).Identities); diff != "" {
		t.Errorf("identities after a count (-want +got):\n%s", diff)
	}
}
