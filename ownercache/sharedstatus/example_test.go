package sharedstatus_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workloadkit/workloadkit/ownercache/sharedstatus"
	"github.com/workloadkit/workloadkit/subsets"
)

// spreads reserves places for new Pods in subsets.
type spreads struct {
	statuses *sharedstatus.Statuses[*Spread, subsets.Book]
	policy   subsets.Policy
	clock    clock.PassiveClock
}

func newSpreads(c client.Client, policy subsets.Policy, now clock.PassiveClock) (*spreads, error) {
	statuses, err := sharedstatus.New(c, c, &Spread{}, sharedstatus.Config[*Spread, subsets.Book]{ // in a manager: GetClient, GetAPIReader
		Ledger: func(s *Spread) subsets.Book { return s.Status.Places },
		Store:  func(s *Spread, book subsets.Book) { s.Status.Places = book },
		Noun:   "Spread", Clock: now,
	})
	return &spreads{statuses, policy, now}, err
}

// take reserves a place in a subset for a new Pod. name is the Pod's name, or a generated ID that the webhook has
// written into the Pod at its first invocation. A dry run stores nothing.
func (s *spreads) take(ctx context.Context, spread client.ObjectKey, name string, dryRun bool) (subsets.Choice, error) {
	return sharedstatus.Ask(ctx, s.statuses, spread, name, func(_ *Spread, before subsets.Book) (subsets.Book, subsets.Choice, sharedstatus.Need) {
		after, choice := s.policy.Take(before, places(), name, s.clock.Now())
		switch {
		case choice.Changed && !dryRun:
			return after, choice, sharedstatus.Store
		case choice.Changed:
			return before, choice, sharedstatus.Answer
		}
		return before, choice, sharedstatus.Confirm
	})
}

func places() []subsets.Place {
	return []subsets.Place{{Name: "zone-a", Max: 3}, {Name: "zone-b", Max: subsets.Unlimited}}
}

// Example: webhooks in two processes reserve places for eight Pods at the same time. Three Pods get places in zone-a,
// and the other Pods in zone-b. If a webhook reserves a place for the same Pod again, even in another process, the
// Pod gets the same place.
func Example() {
	ctx := context.Background()
	spread := &Spread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "w"}}
	c := fake.NewClientBuilder().WithScheme(spreadScheme()).WithObjects(spread).WithStatusSubresource(spread).Build()
	var processes [2]*spreads
	for i := range processes {
		var err error
		if processes[i], err = newSpreads(c, subsets.Policy{CreatingFor: 5 * time.Second}, clock.RealClock{}); err != nil {
			panic(err)
		}
	}
	var mu sync.Mutex
	chosen, in := map[string]int{}, map[string]string{}
	var webhooks sync.WaitGroup
	for i := range 8 {
		webhooks.Go(func() {
			name := fmt.Sprint("web-", i)
			choice, err := processes[i%2].take(ctx, client.ObjectKeyFromObject(spread), name, false)
			if err != nil {
				panic(err)
			}
			mu.Lock()
			defer mu.Unlock()
			chosen[choice.Subset]++
			in[name] = choice.Subset
		})
	}
	webhooks.Wait()
	again, err := processes[1].take(ctx, client.ObjectKeyFromObject(spread), "web-0", false)
	if err != nil {
		panic(err)
	}
	fmt.Println(chosen, again.Subset == in["web-0"])
	// Output: map[zone-a:3 zone-b:5] true
}
