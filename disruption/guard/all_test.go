package guard_test

import (
	"context"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
)

func TestAskAll(t *testing.T) {
	a, b := client.ObjectKey{Namespace: key.Namespace, Name: "a"}, client.ObjectKey{Namespace: key.Namespace, Name: "b"}
	budgetOf := func(name string, allowed int32) *policyv1.PodDisruptionBudget {
		return budget(allowed, func(o *policyv1.PodDisruptionBudget) { o.Name, o.UID = name, types.UID(name) })
	}
	for _, tc := range []struct {
		name     string
		a, b     int32
		stolen   bool // whether somebody else spends from b while AskAll spends from a
		dryRun   bool
		admitted bool
		by       client.ObjectKey
		want     [2]int32
	}{
		{"both agree", 1, 2, false, false, true, b, [2]int32{0, 1}},
		{"the first refuses", 0, 2, false, false, false, a, [2]int32{0, 2}},
		{"the last refuses", 1, 0, false, false, false, b, [2]int32{1, 0}},
		{"a dry run", 1, 2, false, true, true, b, [2]int32{1, 2}},
		{"the last is spent meanwhile: what was spent from the first stays so", 1, 1, true, false, false, b, [2]int32{0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stores client.WithWatch
			stolen := false
			stores = server(t, &interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				if tc.stolen && object.GetName() == "a" && !stolen {
					stolen = true
					other := &policyv1.PodDisruptionBudget{}
					if err := c.Get(ctx, b, other); err != nil {
						return err
					}
					other.Status.DisruptionsAllowed = 0
					if err := c.Status().Update(ctx, other); err != nil {
						return err
					}
				}
				return c.SubResource(sub).Patch(ctx, object, patch, options...)
			}}, budgetOf("a", tc.a), budgetOf("b", tc.b))
			g := newGuard(t, stores, stores)
			decision, by, err := g.AskAll(t.Context(), []client.ObjectKey{a, b}, evict("web-0"), tc.dryRun)
			if err != nil || decision.Admitted != tc.admitted || by != tc.by {
				t.Errorf("%+v by %s, %v", decision, by, err)
			}
			for i, k := range []client.ObjectKey{a, b} {
				got := &policyv1.PodDisruptionBudget{}
				if err := stores.Get(t.Context(), k, got); err != nil {
					t.Fatal(err)
				}
				if _, written := got.Status.DisruptedPods["web-0"]; got.Status.DisruptionsAllowed != tc.want[i] || written != (tc.admitted && !tc.dryRun || tc.stolen && i == 0) {
					t.Errorf("budget %s: %+v", k.Name, got.Status)
				}
			}
		})
	}
	if _, _, err := newGuard(t, server(t, nil), server(t, nil)).AskAll(t.Context(), nil, evict("web-0"), false); err == nil {
		t.Error("without a budget: no error")
	}
}

// TestAskAllTakesLong: if a write takes long, the entry in the first budget may have expired, so AskAll asks the
// first budget again.
func TestAskAllTakesLong(t *testing.T) {
	a, b := client.ObjectKey{Namespace: key.Namespace, Name: "a"}, client.ObjectKey{Namespace: key.Namespace, Name: "b"}
	of := func(name string) *policyv1.PodDisruptionBudget {
		return budget(1, func(o *policyv1.PodDisruptionBudget) { o.Name, o.UID = name, types.UID(name) })
	}
	now := clocktesting.NewFakePassiveClock(start)
	stores := server(t, &interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		if o.GetName() == "a" {
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}
		now.SetTime(now.Now().Add(2 * time.Second)) // in this time, the entry in a expires, and another Pod's request spends from a
		first := &policyv1.PodDisruptionBudget{}
		if err := c.Get(ctx, a, first); err != nil {
			return err
		}
		first.Status.DisruptedPods, first.Status.DisruptionsAllowed = nil, 0
		if err := c.Status().Update(ctx, first); err != nil {
			return err
		}
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}}, of("a"), of("b"))
	g := newGuard(t, stores, stores, func(c *guard.Config[*policyv1.PodDisruptionBudget]) { c.Clock = now })
	decision, by, err := g.AskAll(t.Context(), []client.ObjectKey{a, b}, evict("web-0"), false)
	if err != nil || decision.Admitted || by != a || decision.Reason.Code != disruption.BudgetSpent {
		t.Errorf("%+v by %s, %v", decision, by, err)
	}
}
