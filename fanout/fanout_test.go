package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/reason"
)

// view is an owner as a pass sees it.
type view struct {
	owner corev1.ConfigMap
	now   time.Time
	doubt bool
	woken time.Duration
}

func newView(namespace string) *view {
	return &view{now: begin, owner: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: types.UID("uid-" + namespace)}}}
}

func (v *view) Object() client.Object     { return &v.owner }
func (v *view) Time() time.Time           { return v.now }
func (v *view) InDoubt() bool             { return v.doubt }
func (v *view) WakeAfter(d time.Duration) { v.woken = d }

func pods(n int) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), UID: types.UID(fmt.Sprintf("u%d", i))}}
	}
	return out
}

func forbidden(name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("a policy says no"))
}

func Example() {
	f := fanout.New(fanout.DefaultCalls)
	pass := f.Begin(newView("default")) // an *ownercache.View in a controller
	err := pass.UntilChanged(
		func() error {
			made, err := pass.Create(context.Background(), fanout.Task{Name: "create Pods"}, 1000, func(_ context.Context, i int) error {
				if i >= 5 {
					return forbidden("web-5")
				}
				return nil
			})
			fmt.Println("created", made)
			return err
		},
		func() error {
			return fanout.Each(context.Background(), pass, fanout.Task{Name: "update Pods"}, pods(3), func(context.Context, *corev1.Pod) (bool, error) {
				fmt.Println("not reached: Pods were created")
				return true, nil
			})
		},
	)
	fmt.Println(apierrors.IsForbidden(err), reason.IsFinal(err))
	fmt.Println(pass.Result(err))
	// Output:
	// created 5
	// true true
	// {false 2s <nil>} <nil>
}

// TestEachIsolates: one Pod's failure does not keep the others from being worked on.
func TestEachIsolates(t *testing.T) {
	f := fanout.New(2)
	pass := f.Begin(newView("a"))
	oops := errors.New("oops")
	var done atomic.Int32
	err := fanout.Each(t.Context(), pass, update, pods(10), func(_ context.Context, pod *corev1.Pod) (bool, error) {
		if pod.Name == "web-0" {
			return false, oops
		}
		done.Add(1)
		return true, nil
	})
	if done.Load() != 9 || !errors.Is(err, oops) || reason.IsFinal(err) || !pass.Changed() || !strings.HasPrefix(err.Error(), "update Pods: ") {
		t.Errorf("%d of 9 others, %v", done.Load(), err)
	}
}

// TestEachOfWhatIsRefused: a policy that refuses all Pods costs a few requests once, and one at a time from then on, those first
// of which nothing was refused.
func TestEachOfWhatIsRefused(t *testing.T) {
	f, v := fanout.New(3), newView("a")
	deletePods := fanout.Task{Name: "delete Pods"}
	var mu sync.Mutex
	var asked []string
	pass := func(refuses func(name string) bool) (ctrl.Result, error) {
		asked = nil
		p := f.Begin(v)
		err := fanout.Each(t.Context(), p, deletePods, pods(100), func(_ context.Context, pod *corev1.Pod) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, pod.Name)
			if !refuses(pod.Name) {
				return true, nil
			}
			err := forbidden(pod.Name)
			f.Backoff.Refused(fanout.Attempt{Object: pod.UID, Task: fanout.Task{Name: "delete"}}, v.now, err)
			return false, err
		})
		result, retry := p.Result(err)
		if retry != nil {
			t.Errorf("refusals are handed to the queue: %v", retry)
		}
		return result, err
	}
	all := func(string) bool { return true }
	if result, err := pass(all); len(asked) == 0 || len(asked) > 3 || result.RequeueAfter != fanout.DefaultFirst || !apierrors.IsForbidden(err) {
		t.Errorf("first pass asks %v, result %v, %v", asked, result, err)
	}
	known := slices.Clone(asked)
	if result, err := pass(all); len(asked) != 0 || result.RequeueAfter != fanout.DefaultFirst || !apierrors.IsForbidden(err) {
		t.Errorf("at once it asks %v, result %v, %v", asked, result, err)
	}
	v.now = v.now.Add(fanout.DefaultFirst)
	if result, _ := pass(all); len(asked) != 1 || slices.Contains(known, asked[0]) || result.RequeueAfter != 2*fanout.DefaultFirst {
		t.Errorf("later it asks %v (%v were refused), result %v", asked, known, result)
	}
	v.owner.Generation++
	if _, err := pass(func(name string) bool { return name != "web-50" }); len(asked) != 1 || err == nil {
		t.Errorf("after an edit it asks %v, %v", asked, err)
	}
	v.owner.Generation++
	if _, err := pass(func(string) bool { return false }); len(asked) != 100 || err != nil {
		t.Errorf("of a policy that is gone it asks %d, %v", len(asked), err)
	}
}

// TestRemembered: an attempt that was not made is no refusal of this pass, so others are worked on.
func TestRemembered(t *testing.T) {
	f, v := fanout.New(1), newView("a")
	attempt := fanout.Attempt{Object: "u0", Task: update}
	f.Backoff.Refused(attempt, v.now, forbidden("web-0"))
	var others int
	err := fanout.Each(t.Context(), f.Begin(v), fanout.Task{Name: "x"}, pods(3), func(_ context.Context, pod *corev1.Pod) (bool, error) {
		if pod.UID == "u0" {
			_, err := f.Backoff.Resting(attempt, v.now)
			return false, err
		}
		others++
		return false, nil
	})
	if others != 2 || !apierrors.IsForbidden(err) || !reason.IsFinal(err) {
		t.Errorf("%d others, %v", others, err)
	}
	if f.Backoff.WasRefused(v.owner.UID, fanout.Task{Name: "x"}) {
		t.Error("the owner's task is remembered as refused")
	}
}

// TestBounds: passes of one namespace share its calls, creations included, and leave one to others.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 3
		f := fanout.New(calls)
		var mu sync.Mutex
		running, most := map[string]int{}, map[string]int{}
		call := func(namespace string) {
			mu.Lock()
			running[namespace]++
			running["all"]++
			most[namespace] = max(most[namespace], running[namespace])
			most["all"] = max(most["all"], running["all"])
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running[namespace]--
			running["all"]--
			mu.Unlock()
		}
		var wg sync.WaitGroup
		for _, namespace := range []string{"a", "a", "a", "b"} {
			wg.Go(func() {
				p := f.Begin(newView(namespace))
				_ = fanout.Each(t.Context(), p, update, pods(20), func(context.Context, *corev1.Pod) (bool, error) { call(namespace); return true, nil })
			})
			wg.Go(func() {
				p := f.Begin(newView(namespace))
				_, _ = p.Create(t.Context(), fanout.Task{Name: "create"}, 20, func(context.Context, int) error { call(namespace); return nil })
			})
		}
		start := time.Now()
		p := f.Begin(newView("c"))
		_ = fanout.Each(t.Context(), p, update, pods(1), func(context.Context, *corev1.Pod) (bool, error) { call("c"); return true, nil })
		if waited := time.Since(start); waited > 4*time.Second {
			t.Errorf("a namespace with one Pod took %v", waited)
		}
		wg.Wait()
		if diff := cmp.Diff(map[string]int{"a": calls, "b": calls, "c": 1, "all": calls + 1}, most); diff != "" {
			t.Errorf("calls side by side (-want +got):\n%s", diff)
		}
	})
}

// TestCut: a pass works on so many objects, and asks for the next.
func TestCut(t *testing.T) {
	f := fanout.New(5)
	p := f.Begin(newView("a"))
	var updated, created atomic.Int32
	if err := fanout.Each(t.Context(), p, update, pods(20_000), func(context.Context, *corev1.Pod) (bool, error) { updated.Add(1); return true, nil }); err != nil {
		t.Error(err)
	}
	made, err := p.Create(t.Context(), fanout.Task{Name: "create"}, 20_000, func(context.Context, int) error { created.Add(1); return nil })
	if made != fanout.PerPass || err != nil || created.Load() != fanout.PerPass || updated.Load() != fanout.PerPass {
		t.Errorf("%d created, %d updated, want %d each", created.Load(), updated.Load(), fanout.PerPass)
	}
	if result, _ := p.Result(); result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("the next pass is asked for in %v", result.RequeueAfter)
	}
}

func TestUntilChanged(t *testing.T) {
	oops := errors.New("oops")
	nothing := func(*fanout.Pass, *view) error { return nil }
	changes := func(p *fanout.Pass, _ *view) error {
		return fanout.Each(t.Context(), p, update, pods(1), func(context.Context, *corev1.Pod) (bool, error) { return true, nil })
	}
	for _, tc := range []struct {
		name string
		do   func(*fanout.Pass, *view) error
		goes bool
		err  error
	}{
		{"nothing changed", nothing, true, nil},
		{"something changed", changes, false, nil},
		{"a write in doubt", func(_ *fanout.Pass, v *view) error { v.doubt = true; return nil }, false, nil},
		{"failed", func(*fanout.Pass, *view) error { return oops }, false, oops},
		{"failed for good", func(*fanout.Pass, *view) error { return reason.Final(oops) }, true, oops},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := newView("a")
			p := fanout.New(1).Begin(v)
			went := false
			err := p.UntilChanged(func() error { return tc.do(p, v) }, func() error { went = true; return nil })
			if went != tc.goes || !errors.Is(err, tc.err) {
				t.Errorf("goes on: %t, want %t; %v", went, tc.goes, err)
			}
		})
	}
}

func TestResult(t *testing.T) {
	oops := errors.New("oops")
	type answer struct {
		After, Woken time.Duration
		Err          bool
	}
	for _, tc := range []struct {
		name  string
		wakes []time.Duration
		doubt bool
		errs  []error
		want  answer
	}{
		{"nothing", nil, false, nil, answer{}},
		{"the earliest counts", []time.Duration{3, 0, 1, -1, 2}, false, nil, answer{After: 1}},
		{"an error", nil, false, []error{nil, oops}, answer{Err: true}},
		{"an error does not drop the wake", []time.Duration{3}, false, []error{oops}, answer{Woken: 3, Err: true}},
		{"a final error", []time.Duration{3}, false, []error{reason.Final(oops)}, answer{After: 3}},
		{"in doubt", nil, true, nil, answer{After: 100 * time.Millisecond}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := newView("a")
			p := fanout.New(1).Begin(v)
			for _, d := range tc.wakes {
				p.Wake(d)
			}
			v.doubt = tc.doubt
			result, err := p.Result(tc.errs...)
			if diff := cmp.Diff(tc.want, answer{result.RequeueAfter, v.woken, err != nil}); diff != "" {
				t.Errorf("Result (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTerminatingNamespace: nothing is tried again in a namespace that is about to go.
func TestTerminatingNamespace(t *testing.T) {
	terminating := forbidden("web-0")
	status := apierrors.APIStatus(nil)
	if !errors.As(terminating, &status) {
		t.Fatal("no status")
	}
	err := &apierrors.StatusError{ErrStatus: status.Status()}
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	f, v := fanout.New(1), newView("a")
	p := f.Begin(v)
	all := p.UntilChanged(
		func() error {
			return p.Once(t.Context(), fanout.Task{Name: "write"}, func() (bool, error) { return false, err })
		},
		func() error { t.Error("goes on"); return nil },
	)
	if result, retry := p.Result(all, errors.New("another")); result.RequeueAfter != 0 || retry != nil || f.Backoff.Len() != 0 {
		t.Errorf("Result = %v, %v", result, retry)
	}
}

// TestOnce: what is refused rests, and other failures are tried again.
func TestOnce(t *testing.T) {
	f, v := fanout.New(1), newView("a")
	once := func(err error) (asked bool, result error) {
		p := f.Begin(v)
		result = p.Once(t.Context(), update, func() (bool, error) { asked = true; return err == nil, err })
		after, _ := p.Result(result)
		if wrote := asked && err == nil; p.Changed() != wrote || wrote && after.RequeueAfter != 100*time.Millisecond {
			t.Errorf("changed = %t for %v, again after %v", p.Changed(), err, after.RequeueAfter)
		}
		return asked, result
	}
	if asked, err := once(errNo); !asked || reason.IsFinal(err) {
		t.Errorf("an error that passes: asked %t, %v", asked, err)
	}
	if asked, err := once(forbidden("x")); !asked || !reason.IsFinal(err) {
		t.Errorf("a refusal: asked %t, %v", asked, err)
	}
	if asked, err := once(nil); asked || !apierrors.IsForbidden(err) {
		t.Errorf("at once after it: asked %t, %v", asked, err)
	}
	v.now = v.now.Add(time.Minute)
	if asked, err := once(nil); !asked || err != nil || f.Backoff.Len() != 0 {
		t.Errorf("after its rest: asked %t, %v", asked, err)
	}
}
