package faultapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/ownercache/sharedstatus"
	"github.com/workloadkit/workloadkit/subsets"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// spread is a custom resource whose status assigns Pods to subsets.
type spread struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status spreadStatus `json:"status,omitzero"`
}

type spreadStatus struct {
	Places subsets.Book `json:"places,omitempty"`
}

func (in *spread) DeepCopyObject() runtime.Object {
	out := *in
	out.ObjectMeta, out.Status.Places = *in.ObjectMeta.DeepCopy(), in.Status.Places.DeepCopy()
	return &out
}

type spreadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []spread `json:"items"`
}

func (in *spreadList) DeepCopyObject() runtime.Object {
	out := &spreadList{TypeMeta: in.TypeMeta, ListMeta: *in.ListMeta.DeepCopy()}
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].DeepCopyObject().(*spread))
	}
	return out
}

// slow is a Gate in which a read takes 1 ms, and a write takes 5 ms.
type slow struct{ writes, reads atomic.Int32 }

func (s *slow) Pass(_ context.Context, call faultapi.Call) faultapi.Fate {
	if call.IsRead() {
		s.reads.Add(1)
		time.Sleep(time.Millisecond)
		return faultapi.Fate{}
	}
	s.writes.Add(1)
	time.Sleep(5 * time.Millisecond)
	return faultapi.Fate{}
}

// TestSharedStatusAtARate: with 200 creations per second for ten seconds, and a controller that counts Pods at the
// same time, the webhooks write at most 1.2 times per Pod, and 99% of the responses are within the time soon. Caches
// lag by 10 ms, a read takes 1 ms, and a write takes 5 ms.
func TestSharedStatusAtARate(t *testing.T) {
	for processes, soon := range map[int]time.Duration{1: 60 * time.Millisecond, 2: 120 * time.Millisecond, 3: 120 * time.Millisecond, 8: 160 * time.Millisecond} {
		t.Run(fmt.Sprintf("%d processes", processes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rate(t, processes, soon) })
		})
	}
}

func rate(t *testing.T, processes int, soon time.Duration) {
	const pods, every, most = 2000, 5 * time.Millisecond, 1500
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	version := schema.GroupVersion{Group: "faultapi.test", Version: "v1"}
	scheme.AddKnownTypeWithName(version.WithKind("Spread"), &spread{})
	scheme.AddKnownTypeWithName(version.WithKind("SpreadList"), &spreadList{})
	metav1.AddToGroupVersion(scheme, version)
	server, err := faultapi.New(scheme, time.Now, &spread{})
	if err != nil {
		t.Fatal(err)
	}
	user := server.Client(nil, nil)
	key := client.ObjectKey{Namespace: "shop", Name: "web"}
	if err := user.Create(t.Context(), &spread{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
		t.Fatal(err)
	}
	network := &slow{}
	live := server.Client(network, nil)
	places := []subsets.Place{{Name: "zone-a", Max: most}, {Name: "zone-b", Max: most}}
	ctx, stop := context.WithCancel(t.Context())
	var background, taking sync.WaitGroup
	var hooks []*sharedstatus.Statuses[*spread, subsets.Book]
	for range processes {
		cache := server.Cache(nil)
		cache.Deliver("spreads", 1)
		background.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
				cache.Deliver("spreads", cache.Behind("spreads"))
			}
		})
		hook, err := sharedstatus.New(server.Client(network, cache), live, &spread{}, sharedstatus.Config[*spread, subsets.Book]{
			Ledger: func(s *spread) subsets.Book { return s.Status.Places },
			Store:  func(s *spread, book subsets.Book) { s.Status.Places = book },
		})
		if err != nil {
			t.Fatal(err)
		}
		hooks = append(hooks, hook)
	}
	var mu sync.Mutex
	var took []time.Duration
	var created []subsets.Member
	background.Go(func() { // the controller counts the existing Pods
		for ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			before := &spread{}
			if err := user.Get(ctx, key, before); err != nil {
				return
			}
			mu.Lock()
			members := slices.Clone(created)
			mu.Unlock()
			after := *before
			after.Status.Places = subsets.Policy{}.Count(before.Status.Places, places, members, time.Now()).Book
			err := user.Status().Patch(ctx, &after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
			if err != nil && !apierrors.IsConflict(err) && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
	for i := range pods {
		time.Sleep(every)
		taking.Go(func() {
			name, began := fmt.Sprint("web-", i), time.Now()
			choice, err := sharedstatus.Ask(t.Context(), hooks[i%processes], key, name, func(_ *spread, before subsets.Book) (subsets.Book, subsets.Choice, sharedstatus.Need) {
				after, choice := subsets.Policy{}.Take(before, places, name, time.Now())
				if choice.Changed {
					return after, choice, sharedstatus.Store
				}
				return before, choice, sharedstatus.Confirm
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
			created = append(created, subsets.Member{Name: name, Subset: choice.Subset})
		})
	}
	taking.Wait()
	stop()
	background.Wait()
	slices.Sort(took)
	in := map[string]int{}
	for _, m := range created {
		in[m.Subset]++
	}
	writes, p50, p99 := float64(network.writes.Load())/pods, took[len(took)/2], took[len(took)*99/100]
	t.Logf("%d processes: %.2f writes and %.2f reads a Pod, p50 %s, p99 %s, most %s", processes, writes, float64(network.reads.Load())/pods, p50, p99, took[len(took)-1])
	if in["zone-a"] != most || in["zone-b"] != pods-most || writes > 1.2 || p99 > soon {
		t.Errorf("Pods by subset: %v", in)
	}
}
