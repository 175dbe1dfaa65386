package sharedstatus_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/ownercache/sharedstatus"
)

// The tests use PodDisruptionBudgets as objects. A map in their status (disruptedPods) serves as the ledger, with an
// entry for each name that has taken a place.
type (
	object = policyv1.PodDisruptionBudget
	ledger = map[string]metav1.Time
)

var key = client.ObjectKey{Namespace: "shop", Name: "web"}

func newObject(edits ...func(*object)) *object {
	o := &object{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "a"}}
	for _, edit := range edits {
		edit(o)
	}
	return o
}

func server(t testing.TB, calls interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := policyv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&object{}).WithInterceptorFuncs(calls).Build()
}

func statuses(t testing.TB, c client.Client, live client.Reader, edits ...func(*sharedstatus.Config[*object, ledger])) *sharedstatus.Statuses[*object, ledger] {
	t.Helper()
	config := sharedstatus.Config[*object, ledger]{
		Ledger: func(o *object) ledger { return o.Status.DisruptedPods },
		Store:  func(o *object, l ledger) { o.Status.DisruptedPods = l },
	}
	for _, edit := range edits {
		edit(&config)
	}
	s, err := sharedstatus.New(c, live, &object{}, config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// errFull means that the ledger has no free place.
var errFull = errors.New("full")

// take adds an entry with the name to the ledger, unless the ledger has most entries already.
func take(ctx context.Context, s *sharedstatus.Statuses[*object, ledger], name string, most int) error {
	has, err := sharedstatus.Ask(ctx, s, key, name, func(_ *object, before ledger) (ledger, bool, sharedstatus.Need) {
		switch _, has := before[name]; {
		case has:
			return before, true, sharedstatus.Answer
		case len(before) >= most:
			return before, false, sharedstatus.Confirm
		}
		after := maps.Clone(before)
		if after == nil {
			after = ledger{}
		}
		after[name] = metav1.NewTime(time.Unix(1, 0))
		return after, true, sharedstatus.Store
	})
	if err == nil && !has {
		return errFull
	}
	return err
}

func taken(t testing.TB, c client.Reader) map[string]bool {
	t.Helper()
	o := &object{}
	if err := c.Get(t.Context(), key, o); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for name := range o.Status.DisruptedPods {
		names[name] = true
	}
	return names
}

type patchFunc = func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error

func patching(f patchFunc) interceptor.Funcs { return interceptor.Funcs{SubResourcePatch: f} }

// TestFaults: whatever happens to the writes, a granted request has exactly one entry in the stored status.
func TestFaults(t *testing.T) {
	resource := schema.GroupResource{Resource: "budgets"}
	timeout := apierrors.NewTimeoutError("the write took too long", 1)
	for _, tc := range []struct {
		name string
		// fault is called in place of the n-th write, counted from 1. do carries out the write.
		fault  func(n int, c client.Client, do func() error) error
		want   error
		taken  map[string]bool
		writes int
	}{
		{"no fault", func(_ int, _ client.Client, do func() error) error { return do() }, nil, map[string]bool{"a": true}, 1},
		{"a conflict", func(n int, c client.Client, do func() error) error {
			if n == 1 {
				return errors.Join(takeAlone(c, "other"), do())
			}
			return do()
		}, nil, map[string]bool{"a": true, "other": true}, 2},
		{"somebody else takes the last place", func(_ int, c client.Client, do func() error) error {
			return errors.Join(takeAlone(c, "x"), takeAlone(c, "y"), takeAlone(c, "z"), do())
		}, errFull, map[string]bool{"x": true, "y": true, "z": true}, 1},
		{"conflicts without end", func(int, client.Client, func() error) error {
			return apierrors.NewConflict(resource, "web", errors.New("x"))
		}, sharedstatus.ErrContended, map[string]bool{}, 21},
		{"WS-61 a timed-out write that has happened", func(_ int, _ client.Client, do func() error) error {
			return errors.Join(do(), timeout)
		}, nil, map[string]bool{"a": true}, 1},
		{"WS-61 a timed-out write that has not happened", func(n int, _ client.Client, do func() error) error {
			if n == 1 {
				return timeout
			}
			return do()
		}, nil, map[string]bool{"a": true}, 2},
		{"WS-61 a lost connection", func(n int, _ client.Client, do func() error) error {
			if n == 1 {
				return errors.New("EOF")
			}
			return do()
		}, nil, map[string]bool{"a": true}, 2},
		{"timeouts without end", func(int, client.Client, func() error) error { return timeout }, timeout, map[string]bool{}, 7},
		{"forbidden", func(int, client.Client, func() error) error {
			return apierrors.NewForbidden(resource, "web", errors.New("x"))
		}, apierrors.NewForbidden(resource, "web", errors.New("x")), map[string]bool{}, 1},
		{"the status is no subresource", func(int, client.Client, func() error) error {
			return apierrors.NewNotFound(resource, "web")
		}, apierrors.NewNotFound(resource, "web"), map[string]bool{}, 1},
		{"a successor has places of its own", func(n int, c client.Client, do func() error) error {
			if n == 1 {
				b := newObject(func(o *object) { o.UID = "b" })
				return errors.Join(c.Delete(context.Background(), newObject()), c.Create(context.Background(), b), do())
			}
			return do()
		}, nil, map[string]bool{"a": true}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				writes := 0
				c := server(t, patching(func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					writes++
					return unwrapped(tc.fault(writes, c, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) }))
				}), newObject())
				err := take(t.Context(), statuses(t, c, c), "a", 3)
				if !errors.Is(err, tc.want) && (err == nil || tc.want == nil || apierrors.ReasonForError(err) != apierrors.ReasonForError(tc.want)) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
				if diff := cmp.Diff(tc.taken, taken(t, c)); diff != "" || writes != tc.writes {
					t.Errorf("%d writes, want %d; taken (-want +got):\n%s", writes, tc.writes, diff)
				}
			})
		})
	}
}

// unwrapped returns the API error among joined errors, for a fault that returns only this error.
func unwrapped(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status
	}
	return err
}

// takeAlone writes an entry without package sharedstatus.
func takeAlone(c client.Client, name string) error {
	o := &object{}
	if err := c.Get(context.Background(), key, o); err != nil {
		return err
	}
	if o.Status.DisruptedPods == nil {
		o.Status.DisruptedPods = ledger{}
	}
	o.Status.DisruptedPods[name] = metav1.NewTime(time.Unix(2, 0))
	return c.Status().Update(context.Background(), o)
}

// TestGone: the error is ErrGone only if the API server says that the object does not exist.
func TestGone(t *testing.T) {
	empty := server(t, interceptor.Funcs{})
	if err := take(t.Context(), statuses(t, empty, empty), "a", 1); !errors.Is(err, sharedstatus.ErrGone) {
		t.Errorf("no object: %v", err)
	}
	cached := server(t, interceptor.Funcs{}, newObject())
	if err := take(t.Context(), statuses(t, readsFrom{empty, cached}, empty), "a", 1); !errors.Is(err, sharedstatus.ErrGone) {
		t.Errorf("an object in the cache alone: %v", err)
	}
	unserved := apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "x"}, "web", "404 page not found", 0, true)
	down := server(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return unserved
	}})
	if err := take(t.Context(), statuses(t, down, down), "a", 1); err == nil || errors.Is(err, sharedstatus.ErrGone) {
		t.Errorf("an unserved kind: %v", err)
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

// TestMisuse: invalid arguments and invalid decisions lead to errors.
func TestMisuse(t *testing.T) {
	c := server(t, interceptor.Funcs{}, newObject())
	decide := func(_ *object, l ledger) (ledger, bool, sharedstatus.Need) { return l, true, sharedstatus.Answer }
	for name, ask := range map[string]func() (bool, error){
		"nil": func() (bool, error) { return sharedstatus.Ask(t.Context(), nil, key, "web-0", decide) },
		"zero": func() (bool, error) {
			return sharedstatus.Ask(t.Context(), &sharedstatus.Statuses[*object, ledger]{}, key, "web-0", decide)
		},
		"no name": func() (bool, error) {
			return sharedstatus.Ask(t.Context(), statuses(t, c, c), client.ObjectKey{Namespace: "shop"}, "web-0", decide)
		},
		"nobody decides": func() (bool, error) {
			return sharedstatus.Ask[*object, ledger, bool](t.Context(), statuses(t, c, c), key, "web-0", nil)
		},
		"a panic": func() (bool, error) {
			return sharedstatus.Ask(t.Context(), statuses(t, c, c), key, "web-0", func(*object, ledger) (ledger, bool, sharedstatus.Need) { panic("no") })
		},
		"a changed ledger without Store": func() (bool, error) {
			return sharedstatus.Ask(t.Context(), statuses(t, c, c), key, "web-0", func(_ *object, _ ledger) (ledger, bool, sharedstatus.Need) {
				return ledger{"web-0": metav1.NewTime(time.Unix(1, 0))}, true, sharedstatus.Need(0)
			})
		},
		"no need": func() (bool, error) {
			return sharedstatus.Ask(t.Context(), statuses(t, c, c), key, "web-0", func(_ *object, l ledger) (ledger, bool, sharedstatus.Need) { return l, true, sharedstatus.Need(77) })
		},
		"Store does nothing": func() (bool, error) {
			s := statuses(t, c, c, func(c *sharedstatus.Config[*object, ledger]) { c.Store = func(*object, ledger) {} })
			return true, take(t.Context(), s, "a", 1)
		},
	} {
		if _, err := ask(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if got := taken(t, c); len(got) > 0 {
		t.Errorf("taken: %v", got)
	}
}

// TestWritersOfOneObject: several processes with many requests each never exceed the maximum, and each granted
// request has an entry.
func TestWritersOfOneObject(t *testing.T) {
	for _, tc := range []struct{ processes, each, most int }{{8, 1, 5}, {8, 8, 20}, {1, 60, 40}, {60, 1, 7}} {
		t.Run(fmt.Sprintf("%d processes with %d requests", tc.processes, tc.each), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var writes atomic.Int32
				c := server(t, patching(func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					writes.Add(1)
					<-time.After(5 * time.Millisecond)
					return c.SubResource(sub).Patch(ctx, o, p, opts...)
				}), newObject())
				var mu sync.Mutex
				got, full := map[string]bool{}, 0
				var asking sync.WaitGroup
				for i := range tc.processes {
					s := statuses(t, c, c)
					for j := range tc.each {
						asking.Go(func() {
							name := fmt.Sprintf("%d-%d", i, j)
							err := take(t.Context(), s, name, tc.most)
							for errors.Is(err, sharedstatus.ErrContended) { // clients retry
								err = take(t.Context(), s, name, tc.most)
							}
							mu.Lock()
							defer mu.Unlock()
							switch {
							case err == nil:
								got[name] = true
							case errors.Is(err, errFull):
								full++
							default:
								t.Error(err)
							}
						})
					}
				}
				asking.Wait()
				if diff := cmp.Diff(got, taken(t, c)); diff != "" || len(got) != tc.most || full != tc.processes*tc.each-tc.most {
					t.Errorf("%d have a place, %d have none (-answered +stored):\n%s", len(got), full, diff)
				}
				t.Logf("%d requests, %d writes", tc.processes*tc.each, writes.Load())
				if tc.processes == 1 && writes.Load() > 2 {
					t.Errorf("%d writes for requests that come together", writes.Load())
				}
			})
		})
	}
}

// TestContextsEnd: a cancelled request does not cancel a write for other requests, and takes no place after leaving
// the queue. A write is cancelled when no request waits for the write any more.
func TestContextsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn, ended := make(chan struct{}), make(chan error, 1)
		writes := 0
		c := server(t, patching(func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if writes++; writes == 3 {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return ctx.Err()
			}
			<-goOn
			if err := ctx.Err(); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}), newObject())
		s := statuses(t, c, c)
		answers := make(chan error, 4)
		ask := func(ctx context.Context, name string) {
			go func() { answers <- take(ctx, s, name, 9) }()
			synctest.Wait()
		}
		first, leave := context.WithCancel(t.Context())
		ask(t.Context(), "0") // the first write has only this request
		<-time.After(time.Second)
		ask(first, "1") // both requests wait, and share the second write
		ask(t.Context(), "2")
		<-time.After(time.Second)
		goOn <- struct{}{}
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		leave()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("the request that leaves: %v", err)
		}
		queued, leave := context.WithCancel(t.Context())
		ask(queued, "3")
		leave()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("the request that leaves the queue: %v", err)
		}
		goOn <- struct{}{}
		if err := <-answers; err != nil {
			t.Errorf("the one that stays: %v", err)
		}
		if diff := cmp.Diff(map[string]bool{"0": true, "1": true, "2": true}, taken(t, c)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		last, leave := context.WithCancel(t.Context())
		ask(last, "4")
		<-time.After(time.Second)
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the write ends with %v", err)
		}
	})
}

// TestAnswerWaitsForTheWrite: an answer that depends on an entry not yet stored waits for the write of the entry, and
// fails if the write fails. An answer that depends only on stored entries does not wait.
func TestAnswerWaitsForTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn, writes := make(chan struct{}), 0
		c := server(t, patching(func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			<-goOn
			if writes++; writes == 2 {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "budgets"}, "web", errors.New("x"))
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}), newObject())
		s := statuses(t, c, c)
		answers := make([]chan error, 4)
		for i, name := range []string{"first", "same", "same", "first"} {
			answers[i] = make(chan error, 1)
			go func() { answers[i] <- take(t.Context(), s, name, 9) }()
			<-time.After(time.Second) // the first write has only the first request
		}
		goOn <- struct{}{}
		if err := <-answers[0]; err != nil {
			t.Errorf("the first: %v", err)
		}
		if err := <-answers[3]; err != nil {
			t.Errorf("the stored entry: %v", err)
		}
		goOn <- struct{}{}
		for _, i := range []int{1, 2} {
			if err := <-answers[i]; !apierrors.IsForbidden(err) {
				t.Errorf("request %d, whose entry is not stored: %v", i, err)
			}
		}
		if diff := cmp.Diff(map[string]bool{"first": true}, taken(t, c)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestForgets: the Statuses remove the records about objects without recent requests.
func TestForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 50
		var objects []client.Object
		name := func(i int) string { return fmt.Sprint("web-", i) }
		for i := range many {
			objects = append(objects, newObject(func(o *object) { o.Name, o.UID = name(i), types.UID(name(i)) }))
		}
		c := server(t, interceptor.Funcs{}, objects...)
		s := statuses(t, c, c)
		ask := func(i int) {
			_, err := sharedstatus.Ask(t.Context(), s, client.ObjectKey{Namespace: key.Namespace, Name: name(i)}, "web-0", func(_ *object, l ledger) (ledger, bool, sharedstatus.Need) {
				return l, true, sharedstatus.Confirm
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for i := range many {
			ask(i)
		}
		if s.Remembered() != many {
			t.Errorf("%d objects are remembered, want %d", s.Remembered(), many)
		}
		<-time.After(2 * time.Minute)
		if ask(0); s.Remembered() != 1 {
			t.Errorf("%d objects are remembered, want the one that was asked", s.Remembered())
		}
	})
}
