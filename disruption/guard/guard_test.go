package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
	"github.com/workloadkit/workloadkit/reason"
)

var (
	start = time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	key   = client.ObjectKey{Namespace: "shop", Name: "web"}
)

// config returns the configuration of a Guard that stores ledgers in PodDisruptionBudgets.
func config() guard.Config[*policyv1.PodDisruptionBudget] {
	return guard.Config[*policyv1.PodDisruptionBudget]{
		Ledger: func(b *policyv1.PodDisruptionBudget) disruption.Ledger {
			s := &b.Status
			return disruption.Ledger{
				ObservedGeneration: s.ObservedGeneration, Expected: s.ExpectedPods, Need: s.DesiredHealthy, Current: s.CurrentHealthy, Allowed: s.DisruptionsAllowed,
				Leaving: s.DisruptedPods,
			}
		},
		Store: func(b *policyv1.PodDisruptionBudget, l disruption.Ledger) {
			b.Status.DisruptionsAllowed, b.Status.DisruptedPods = l.Allowed, l.Leaving
		},
		Clock: clocktesting.NewFakePassiveClock(start),
	}
}

func budget(allowed int32, edits ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "b", Generation: 1},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, ExpectedPods: 200, DesiredHealthy: 200 - allowed, CurrentHealthy: 200, DisruptionsAllowed: allowed,
		},
	}
	for _, edit := range edits {
		edit(b)
	}
	return b
}

// server returns a fake client that stores objects and refuses writes with an outdated resourceVersion. calls may be
// nil.
func server(t testing.TB, calls *interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(policyv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&policyv1.PodDisruptionBudget{})
	if calls != nil {
		builder = builder.WithInterceptorFuncs(*calls)
	}
	return builder.Build()
}

func newGuard(t testing.TB, c client.Client, live client.Reader, edits ...func(*guard.Config[*policyv1.PodDisruptionBudget])) *guard.Guard[*policyv1.PodDisruptionBudget] {
	t.Helper()
	conf := config()
	for _, edit := range edits {
		edit(&conf)
	}
	g, err := guard.New(c, live, &policyv1.PodDisruptionBudget{}, conf)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func evict(name string) disruption.Request {
	return disruption.Request{Operation: disruption.Evict, Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: name, CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)),
	}}}
}

func stored(t testing.TB, c client.Reader) *policyv1.PodDisruptionBudget {
	t.Helper()
	b := &policyv1.PodDisruptionBudget{}
	if err := c.Get(t.Context(), key, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAsk(t *testing.T) {
	type answer struct {
		Admitted bool
		Code     reason.Code
		Left     int32
		Leaving  int
	}
	ended := func(b *policyv1.PodDisruptionBudget) {
		b.DeletionTimestamp, b.Finalizers = new(metav1.NewTime(start)), []string{"example.test/x"}
	}
	for _, tc := range []struct {
		name    string
		budget  *policyv1.PodDisruptionBudget
		request disruption.Request
		dryRun  bool
		want    answer
	}{
		{name: "spent", budget: budget(2), request: evict("a"), want: answer{Admitted: true, Left: 1, Leaving: 1}},
		{name: "PUB-21 a dry run writes nothing", budget: budget(2), request: evict("a"), dryRun: true, want: answer{Admitted: true, Left: 2}},
		{name: "PUB-21 a dry run is refused", budget: budget(0), request: evict("a"), dryRun: true, want: answer{Code: disruption.BudgetSpent}},
		{name: "refused", budget: budget(0), request: evict("a"), want: answer{Code: disruption.BudgetSpent}},
		{name: "not counted for its spec", budget: budget(2, func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }), request: evict("a"), want: answer{Code: disruption.NotCounted, Left: 2}},
		{name: "PUB-22 it is being deleted", budget: budget(0, ended), request: evict("a"), want: answer{Admitted: true, Code: guard.BudgetGone}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := server(t, nil, tc.budget)
			decision, err := newGuard(t, c, c).Ask(t.Context(), key, tc.request, tc.dryRun)
			if err != nil {
				t.Fatal(err)
			}
			after := stored(t, c)
			got := answer{decision.Admitted, decision.Reason.Code, after.Status.DisruptionsAllowed, len(after.Status.DisruptedPods)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("PUB-22 it does not exist", func(t *testing.T) {
		c := server(t, nil)
		decision, err := newGuard(t, c, c).Ask(t.Context(), key, evict("a"), false)
		if err != nil || !decision.Admitted || !errors.Is(decision.Reason, guard.BudgetGone) {
			t.Errorf("%+v, %v", decision, err)
		}
	})
}

// late is a cache that returns a random version of the budget, because the caches of several replicas may show
// different versions.
type late struct {
	client.Client

	mu   sync.Mutex
	seen []*policyv1.PodDisruptionBudget
}

func (l *late) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	newest := &policyv1.PodDisruptionBudget{}
	if err := l.Client.Get(ctx, key, newest); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, newest)
	l.seen[rand.IntN(len(l.seen))].DeepCopyInto(into.(*policyv1.PodDisruptionBudget)) //nolint:forcetypeassert // no other kind exists
	return nil
}

// TestReplicas: eight webhooks with stale caches, and a controller that counts all the time, never admit too many
// requests.
func TestReplicas(t *testing.T) {
	const replicas, each, allowed = 8, 13, 5
	c := server(t, nil, budget(allowed))
	var admitted, refused atomic.Int32
	var asking sync.WaitGroup
	for i := range replicas {
		g := newGuard(t, &late{Client: c}, c)
		for j := range each {
			asking.Go(func() {
				// Refused requests are retried, as kubectl drain does.
				for {
					decision, err := g.Ask(t.Context(), key, evict(fmt.Sprintf("pod-%d-%d", i, j)), false)
					switch {
					case err != nil:
						t.Error(err)
						return
					case decision.Admitted:
						admitted.Add(1)
						return
					case !errors.Is(decision.Reason, guard.Contended):
						refused.Add(1)
						return
					}
				}
			})
		}
	}
	counting, stop := context.WithCancel(t.Context())
	var controller sync.WaitGroup
	controller.Go(func() {
		for counting.Err() == nil {
			count(t, c)
		}
	})
	asking.Wait()
	stop()
	controller.Wait()
	if admitted.Load() != allowed || refused.Load() != replicas*each-allowed {
		t.Errorf("%d admitted, %d refused; want %d of %d", admitted.Load(), refused.Load(), allowed, replicas*each)
	}
	if after := stored(t, c); after.Status.DisruptionsAllowed != 0 || len(after.Status.DisruptedPods) != allowed {
		t.Errorf("stored: %+v", after.Status)
	}
}

// count is a reconcile of the controller that counts. According to the controller's stale cache, all Pods serve.
func count(t testing.TB, c client.Client) {
	before := stored(t, c)
	need := intstr.FromInt32(before.Status.DesiredHealthy)
	census := disruption.Census{Generation: before.Generation, Expected: new(int32(200)), Bounds: disruption.Bounds{MinAvailable: &need}}
	for i := range 200 - len(before.Status.DisruptedPods) {
		census.Members = append(census.Members, disruption.Member{Name: fmt.Sprint("other-", i), Serves: true})
	}
	for name := range before.Status.DisruptedPods {
		census.Members = append(census.Members, disruption.Member{Name: name, Created: metav1.NewTime(start.Add(-time.Hour)), Serves: true})
	}
	conf := config()
	counted, err := conf.Policy.Count(conf.Ledger(before), census, start.Add(time.Second))
	if err != nil {
		t.Error(err)
	}
	after := before.DeepCopy()
	conf.Store(after, counted.Ledger)
	err = c.Status().Patch(context.Background(), after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		t.Error(err)
	}
}

// TestOwnCacheIsNotAwaited: after a write, a process decides on the version that the process itself has written, even
// if its cache shows an older version.
func TestOwnCacheIsNotAwaited(t *testing.T) {
	patches := 0
	c := server(t, &interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		patches++
		return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
	}}, budget(3))
	old := stored(t, c)
	g := newGuard(t, &frozen{c, old}, c)
	for i := range 5 {
		decision, err := g.Ask(t.Context(), key, evict(fmt.Sprint("pod-", i)), false)
		if err != nil || decision.Admitted != (i < 3) {
			t.Errorf("request %d: %+v, %v", i, decision, err)
		}
	}
	if patches != 3 {
		t.Errorf("%d writes for 3 Pods", patches)
	}
}

// frozen is a cache that always shows the same version.
type frozen struct {
	client.Client
	shows *policyv1.PodDisruptionBudget
}

func (f *frozen) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	f.shows.DeepCopyInto(into.(*policyv1.PodDisruptionBudget)) //nolint:forcetypeassert // no other kind exists
	return nil
}

// TestWritesThatFail: a request is admitted only after the changed ledger has been stored.
func TestWritesThatFail(t *testing.T) {
	resource := schema.GroupResource{Resource: "budgets"}
	failing := func(err error) *interceptor.Funcs {
		return &interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return err
		}}
	}
	for _, tc := range []struct {
		name     string
		answer   error
		admitted bool
		code     reason.Code
		fails    bool
	}{
		{"conflicts without end", apierrors.NewConflict(resource, "web", errors.New("x")), false, guard.Contended, false},
		{"the status is no subresource", apierrors.NewNotFound(resource, "web"), false, "", true},
		{"forbidden", apierrors.NewForbidden(resource, "web", errors.New("x")), false, "", true},
		{"no answer", apierrors.NewTimeoutError("x", 1), false, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := server(t, failing(tc.answer), budget(3))
			decision, err := newGuard(t, c, c).Ask(t.Context(), key, evict("a"), false)
			if decision.Admitted != tc.admitted || decision.Reason.Code != tc.code || (err != nil) != tc.fails || tc.fails && !errors.Is(err, tc.answer) {
				t.Errorf("%+v, %v", decision, err)
			}
		})
	}
}

// TestBudgetGoes: a budget that is deleted between read and write protects no Pod.
func TestBudgetGoes(t *testing.T) {
	c := server(t, &interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
		if err := c.Delete(ctx, budget(3)); err != nil {
			return err
		}
		return apierrors.NewNotFound(schema.GroupResource{Resource: "budgets"}, o.GetName())
	}}, budget(3))
	decision, err := newGuard(t, c, c).Ask(t.Context(), key, evict("a"), false)
	if err != nil || !decision.Admitted || decision.Reason.Code != guard.BudgetGone {
		t.Errorf("%+v, %v", decision, err)
	}
}

// TestKindIsNotServed: if the API server does not serve the kind for a while, the budgets still protect their Pods.
func TestKindIsNotServed(t *testing.T) {
	unserved := apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "poddisruptionbudgets"}, "web", "404 page not found", 0, true)
	for _, known := range []bool{true, false} { // whether the cache has the budget
		cached := server(t, nil, budget(1))
		live := server(t, &interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return unserved
			},
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return unserved
			},
		})
		reads := client.Reader(live)
		if known {
			reads = cached
		}
		decision, err := newGuard(t, readsFrom{live, reads}, live).Ask(t.Context(), key, evict("web-0"), false)
		if err == nil || decision.Admitted {
			t.Errorf("known %t: %+v, %v", known, decision, err)
		}
	}
}

// readsFrom is a client that reads from another client.
type readsFrom struct {
	client.Client

	reader client.Reader
}

func (r readsFrom) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return r.reader.Get(ctx, key, into, options...)
}

// TestNotKept: if the stored status lacks the new entry, the request is refused, because otherwise the next request
// could spend the same share again.
func TestNotKept(t *testing.T) {
	pruning := &interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
		return c.Get(ctx, client.ObjectKeyFromObject(o), o) // accepted, but fields missing in the schema are dropped
	}}
	for name, tc := range map[string]struct {
		calls *interceptor.Funcs
		store func(*policyv1.PodDisruptionBudget, disruption.Ledger)
	}{
		"Store does nothing":                    {nil, func(*policyv1.PodDisruptionBudget, disruption.Ledger) {}},
		"Store forgets what is left":            {nil, func(b *policyv1.PodDisruptionBudget, l disruption.Ledger) { b.Status.DisruptedPods = l.Leaving }},
		"Store forgets who was let go":          {nil, func(b *policyv1.PodDisruptionBudget, l disruption.Ledger) { b.Status.DisruptionsAllowed = l.Allowed }},
		"the API server prunes what is unknown": {pruning, config().Store},
	} {
		t.Run(name, func(t *testing.T) {
			c := server(t, tc.calls, budget(3))
			g := newGuard(t, c, c, func(conf *guard.Config[*policyv1.PodDisruptionBudget]) { conf.Store = tc.store })
			for i := range 3 {
				if decision, err := g.Ask(t.Context(), key, evict(fmt.Sprint("pod-", i)), false); err == nil || decision.Admitted {
					t.Errorf("request %d: %+v, %v", i, decision, err)
				}
			}
		})
	}
}

// TestOtherNamespace: a ledger identifies Pods by name, so a request for a Pod of another namespace is an error.
func TestOtherNamespace(t *testing.T) {
	c := server(t, nil, budget(3))
	request := evict("a")
	request.Pod.Namespace = "other"
	if decision, err := newGuard(t, c, c).Ask(t.Context(), key, request, false); err == nil || decision.Admitted || len(stored(t, c).Status.DisruptedPods) > 0 {
		t.Errorf("%+v, %v", decision, err)
	}
}

// TestSlowWrites: an admitted deletion has at least half of its time left, however long the write took.
func TestSlowWrites(t *testing.T) {
	for _, tc := range []struct {
		name    string
		allowed int32
		takes   []time.Duration
		want    disruption.Decision
		since   time.Duration // time of the entry, counted from the start
	}{
		{"at once", 2, []time.Duration{0}, disruption.Decision{Admitted: true}, 0},
		{"half of its time is left", 1, []time.Duration{9 * time.Second}, disruption.Decision{Admitted: true}, 0},
		{"less than that, and there is room", 2, []time.Duration{15 * time.Second, 0}, disruption.Decision{Admitted: true}, 15 * time.Second},
		{"again and again", 2, []time.Duration{15 * time.Second, 15 * time.Second, 0}, disruption.Decision{Admitted: true}, 30 * time.Second},
		{"less than that, and there is none", 1, []time.Duration{15 * time.Second}, disruption.Decision{}, 0},
		{"longer than that, and there is room", 2, []time.Duration{time.Minute, 0}, disruption.Decision{Admitted: true}, time.Minute},
		{"longer than that, and there is none", 1, []time.Duration{time.Minute, 0}, disruption.Decision{}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now, calls := clocktesting.NewFakePassiveClock(start), 0
			c := server(t, &interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				now.SetTime(now.Now().Add(tc.takes[calls]))
				calls++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			}}, budget(tc.allowed))
			decision, err := newGuard(t, c, c, func(conf *guard.Config[*policyv1.PodDisruptionBudget]) { conf.Clock = now }).Ask(t.Context(), key, evict("a"), false)
			if err != nil || decision.Admitted != tc.want.Admitted {
				t.Fatalf("%+v, %v", decision, err)
			}
			entry := stored(t, c).Status.DisruptedPods["a"]
			if decision.Admitted && !entry.Time.Equal(start.Add(tc.since)) || !decision.Admitted && decision.Reason.Code != disruption.BudgetSpent {
				t.Errorf("%+v, since %v", decision, entry)
			}
		})
	}
}

// TestWritesThatAreAlwaysSlow: nearly all of an update's time must be left after the write. If all attempts take too
// long, the update is still admitted if the last write was not much too slow.
func TestWritesThatAreAlwaysSlow(t *testing.T) {
	for takes, admitted := range map[time.Duration]bool{1200 * time.Millisecond: true, 5 * time.Second: false} {
		t.Run(takes.String(), func(t *testing.T) {
			now, calls := clocktesting.NewFakePassiveClock(start), 0
			c := server(t, &interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if calls++; calls > 20 {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "budgets"}, "web", errors.New("the writes do not end"))
				}
				now.SetTime(now.Now().Add(takes))
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			}}, budget(1))
			kept := disruption.Ledger{}
			g := newGuard(t, c, c, func(conf *guard.Config[*policyv1.PodDisruptionBudget]) {
				conf.Clock = now
				store, ledger := conf.Store, conf.Ledger
				conf.Store = func(b *policyv1.PodDisruptionBudget, l disruption.Ledger) { store(b, l); kept = l }
				conf.Ledger = func(b *policyv1.PodDisruptionBudget) disruption.Ledger {
					l := ledger(b)
					l.Changing, l.Identities = kept.Changing, kept.Identities
					return l
				}
			})
			pod := evict("a").Pod
			pod.UID, pod.Generation = "u", 1
			err := g.Permit(t.Context(), key, pod, disruption.Update, true)
			if (err == nil) != admitted || err != nil && !errors.Is(err, guard.Contended) {
				t.Errorf("after %d writes: %v, want admitted %t", calls, err, admitted)
			}
		})
	}
}

// TestImpatient: if a waiting request is cancelled, all other waiting requests are decided as before.
func TestImpatient(t *testing.T) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := server(t, &interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		once.Do(func() { close(inside); <-goOn })
		return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
	}}, budget(2))
	g := newGuard(t, c, c)
	var first sync.WaitGroup
	first.Go(func() {
		if decision, err := g.Ask(t.Context(), key, evict("a"), false); err != nil || !decision.Admitted {
			t.Errorf("the first: %+v, %v", decision, err)
		}
	})
	<-inside
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Ask(hurried, key, evict("b"), false); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	close(goOn)
	first.Wait()
	if decision, err := g.Ask(t.Context(), key, evict("c"), false); err != nil || !decision.Admitted {
		t.Errorf("the one behind: %+v, %v", decision, err)
	}
}

// TestCrowd: if too many requests wait, a further request is refused with Contended, and spends nothing.
func TestCrowd(t *testing.T) {
	const places = 64
	inside, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := server(t, &interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		once.Do(func() { close(inside); <-goOn })
		return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
	}}, budget(100))
	g := newGuard(t, c, c)
	answers := make(chan disruption.Decision, 101)
	ask := func(i int) {
		decision, err := g.Ask(t.Context(), key, evict(fmt.Sprintf("pod-%d", i)), false)
		if err != nil {
			t.Error(err)
		}
		answers <- decision
	}
	go ask(0)
	<-inside // no request is decided before the refused requests have returned
	for i := range 100 {
		go ask(i + 1)
	}
	for range 101 - places {
		select {
		case decision := <-answers:
			if decision.Admitted || decision.Reason.Code != guard.Contended {
				t.Errorf("%+v, while all places are taken", decision)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("those that find no place wait")
		}
	}
	close(goOn)
	for range places {
		if decision := <-answers; !decision.Admitted {
			t.Errorf("one that had a place: %+v", decision)
		}
	}
	if left := stored(t, c).Status.DisruptionsAllowed; left != 100-places {
		t.Errorf("%d left, want %d", left, 100-places)
	}
}

func TestNew(t *testing.T) {
	c := server(t, nil)
	for name, edit := range map[string]func(*guard.Config[*policyv1.PodDisruptionBudget]){
		"Ledger": func(c *guard.Config[*policyv1.PodDisruptionBudget]) { c.Ledger = nil },
		"Store":  func(c *guard.Config[*policyv1.PodDisruptionBudget]) { c.Store = nil },
	} {
		conf := config()
		edit(&conf)
		if _, err := guard.New(c, c, &policyv1.PodDisruptionBudget{}, conf); err == nil {
			t.Errorf("no error without %s", name)
		}
	}
	if _, err := guard.New[*policyv1.PodDisruptionBudget](nil, c, &policyv1.PodDisruptionBudget{}, config()); err == nil {
		t.Error("no error without a client")
	}
	if _, err := guard.New[*policyv1.PodDisruptionBudget](c, nil, &policyv1.PodDisruptionBudget{}, config()); err == nil {
		t.Error("no error without a reader")
	}
	if _, err := guard.New(c, c, (*policyv1.PodDisruptionBudget)(nil), config()); err == nil {
		t.Error("no error without an empty object")
	}
}
