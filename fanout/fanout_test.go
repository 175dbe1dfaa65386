package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
)

// view is an Observed with an owner.
type view struct {
	owner corev1.ConfigMap
	now   time.Time
	doubt bool
	woken time.Duration
	gone  types.UID
}

func newView(namespace string) *view {
	return &view{now: begin, owner: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: types.UID("uid-" + namespace)}}}
}

func (v *view) Object() client.Object     { return &v.owner }
func (v *view) Time() time.Time           { return v.now }
func (v *view) InDoubt() bool             { return v.doubt }
func (v *view) WakeAfter(d time.Duration) { v.woken = d }
func (v *view) Gone(o metav1.Object) bool { return o.GetUID() == v.gone }

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
	pass := f.Begin(newView("default")) // in a controller, pass an *ownercache.View
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

// TestEachIsolates: a Pod's failure does not stop the work on all other Pods.
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

// TestEachRefusedAfterAWrite: an object whose last request was refused has not succeeded, even if an earlier request
// has changed the object, and is tried again later.
func TestEachRefusedAfterAWrite(t *testing.T) {
	f, v, asked := fanout.New(1), newView("a"), 0
	for range 2 { // the second pass is within the back-off
		pass := f.Begin(v)
		err := fanout.Each(t.Context(), pass, update, pods(3), func(_ context.Context, pod *corev1.Pod) (bool, error) {
			asked++
			return true, forbidden(pod.Name)
		})
		result, retry := pass.Result(err)
		if !apierrors.IsForbidden(err) || retry != nil || result.RequeueAfter != update.First {
			t.Errorf("%v; %+v, %v; want to come again after %v", err, result, retry, update.First)
		}
	}
	if asked != 1 {
		t.Errorf("%d requests, want 1", asked)
	}
}

// TestEachOfWhatIsRefused: if a policy refuses all Pods, the first pass sends a few requests, and later passes send a
// single request each, beginning with objects without a refusal.
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
			f.Backoff.Refused(fanout.Attempt{Object: pod.UID, Task: fanout.Task{Name: "delete"}}, err, v.now)
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

// TestRemembered: an attempt that is not made because of an earlier refusal does not count as a refusal in the pass,
// so the pass continues with other objects.
func TestRemembered(t *testing.T) {
	f, v := fanout.New(1), newView("a")
	attempt := fanout.Attempt{Object: "u0", Task: update}
	f.Backoff.Refused(attempt, forbidden("web-0"), v.now)
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

// TestBounds: all passes of a namespace share the namespace's limit on concurrent calls, including creations, and a
// further call is reserved for other namespaces.
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
			time.Sleep(time.Second / 2)
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
		synctest.Wait()
		start := time.Now()
		p := f.Begin(newView("c"))
		_ = fanout.Each(t.Context(), p, update, pods(1), func(context.Context, *corev1.Pod) (bool, error) { call("c"); return true, nil })
		if waited := time.Since(start); waited > 2*time.Second {
			t.Errorf("a namespace with one Pod took %v", waited)
		}
		wg.Wait()
		if most["b"] < 1 || most["b"] > calls { // namespace a has more objects, and namespace b gets the remaining calls
			t.Errorf("%d calls of b side by side", most["b"])
		}
		delete(most, "b")
		if diff := cmp.Diff(map[string]int{"a": calls, "c": 1, "all": calls + 2}, most); diff != "" {
			t.Errorf("calls side by side (-want +got):\n%s", diff)
		}
	})
}

// TestCut: a pass changes at most PerPass objects of a task, and requeues the owner for the remaining objects.
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

// TestMost: a pass changes at most Task.Most objects. Objects that need no change, and objects in back-off, do not
// delay other objects.
func TestMost(t *testing.T) {
	for _, tc := range []struct {
		name         string
		most, atOnce int
		waiting      int // number of objects that wait for a hook
		refused      int
		want         int
	}{
		{name: "D-7 fewer than there are", most: 3, atOnce: 5, want: 3},
		{name: "none", most: 0, atOnce: 5, want: 0},
		{name: "below none", most: -1, atOnce: 5, want: 0},
		{name: "more than a pass does", most: 700, atOnce: 5, want: fanout.PerPass},
		{name: "D-7 the first wait", most: 1, atOnce: 5, waiting: 590, want: 1},
		{name: "all wait but fewer than may be changed", most: 20, atOnce: 5, waiting: 590, want: 10},
		{name: "the first are refused", most: 1, atOnce: 1, refused: 5, want: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, objects := fanout.New(tc.atOnce), pods(600)
			owner, now := newView("a"), time.Duration(0)
			task := fanout.Task{Name: "delete Pods", Most: &tc.most}
			var changed atomic.Int32
			do := func(_ context.Context, pod *corev1.Pod) (bool, error) {
				switch i := slices.Index(objects, pod); {
				case i < tc.waiting:
					return false, nil
				case i < tc.refused:
					err := forbidden(pod.Name)
					f.Backoff.Refused(fanout.Attempt{Object: pod.UID, Task: fanout.Task{Name: "delete it"}}, err, owner.now)
					return false, err
				}
				changed.Add(1)
				return true, nil
			}
			for range tc.refused + 1 { // a refusal ends a pass, and the next begins with objects without a refusal
				if changed.Load() > 0 {
					break
				}
				owner.now = begin.Add(now) // after the back-off
				_ = fanout.Each(t.Context(), f.Begin(owner), task, objects, do)
				now += time.Minute
			}
			if got := int(changed.Load()); got != tc.want {
				t.Errorf("%d were changed, want %d", got, tc.want)
			}
			made, _ := f.Begin(owner).Create(t.Context(), fanout.Task{Name: "create Pods", Most: &tc.most}, 600, func(context.Context, int) error { return nil })
			if want := min(max(tc.most, 0), fanout.PerPass); made != want {
				t.Errorf("%d were created, want %d", made, want)
			}
		})
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

// TestTerminatingNamespace: in a terminating namespace, no request is retried soon. A later attempt follows, because
// the response may have come from an API server that does not know yet that a new namespace of the same name exists.
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
	if result, retry := p.Result(all, errors.New("another")); result.RequeueAfter != time.Minute || retry != nil || f.Backoff.Len() != 0 {
		t.Errorf("Result = %v, %v", result, retry)
	}
}

// TestFailing: after a failed request, the back-off of the object grows with each failure, and other objects are not
// delayed. A conflict or a 429 is no failure.
func TestFailing(t *testing.T) {
	f, v := fanout.New(1), newView("a")
	broken := apierrors.NewInternalError(errors.New("no such webhook"))
	pass := func(at time.Duration, answer error) (asked int, result ctrl.Result, err error) {
		v.now = begin.Add(at)
		p := f.Begin(v)
		all := fanout.Each(t.Context(), p, update, pods(2), func(_ context.Context, pod *corev1.Pod) (bool, error) {
			asked++
			if pod.Name == "web-0" {
				return false, answer
			}
			return false, nil
		})
		result, err = p.Result(all)
		return asked, result, err
	}
	for _, tc := range []struct {
		at     time.Duration
		answer error
		asked  int
		retry  bool // whether Result returns an error, so that the queue retries
		after  time.Duration
		rest   time.Duration
	}{
		{0, broken, 2, true, 0, 0}, // the owner is requeued in time, too
		{500 * time.Millisecond, nil, 1, false, 500 * time.Millisecond, 0},
		{time.Second, broken, 2, true, 0, 0},
		{2 * time.Second, nil, 1, false, time.Second, 0},
		{3 * time.Second, broken, 2, true, 0, 0},
		{7 * time.Second, broken, 2, true, 0, 8 * time.Second}, // now the object counts as failed several times in a row
		{10 * time.Second, nil, 1, false, 5 * time.Second, 5 * time.Second},
		{15 * time.Second, nil, 2, false, 0, 0},
		{15 * time.Second, apierrors.NewConflict(corev1.Resource("pods"), "pod-0", nil), 2, true, 0, 0},
		{15 * time.Second, apierrors.NewTooManyRequests("later", 1), 2, true, 0, 0},
		{15 * time.Second, nil, 2, false, 0, 0},
	} {
		asked, result, err := pass(tc.at, tc.answer)
		if asked != tc.asked || (err != nil) != tc.retry || result.RequeueAfter != tc.after {
			t.Errorf("at %v: %d asked for, %v, %v, want %+v", tc.at, asked, result, err, tc)
		}
		if rest, other := f.Backoff.Rest(pods(2)[0].UID, v.now), f.Backoff.Rest(pods(2)[1].UID, v.now); rest != tc.rest || other != 0 {
			t.Errorf("at %v: they rest for %v and %v, want %v and nothing", tc.at, rest, other, tc.rest)
		}
	}
	v.gone = pods(1)[0].UID
	if _, _, _ = pass(time.Minute, broken); f.Backoff.Len() != 0 {
		t.Error("of an object that is gone something is remembered")
	}
}

// TestLongAgo: the back-off starts from First again if the previous back-off ended more than Last ago.
func TestLongAgo(t *testing.T) {
	for _, tc := range []struct {
		later time.Duration
		want  time.Duration
	}{
		{2 * time.Second, 4 * time.Second},
		{2*time.Second + time.Minute, 4 * time.Second},
		{2*time.Second + time.Minute + 1, 2 * time.Second},
	} {
		b, a := &fanout.Backoff{}, fanout.Attempt{Object: "u", Task: fanout.Task{Name: "create Pods"}}
		b.Refused(a, errNo, begin)
		if got := b.Refused(a, errNo, begin.Add(tc.later)); got != tc.want {
			t.Errorf("refused again %v later it rests for %v, want %v", tc.later, got, tc.want)
		}
	}
}

// TestInDoubt: if every pass ends with a write of unknown outcome, the time between passes grows.
func TestInDoubt(t *testing.T) {
	f, v := fanout.New(1), newView("a")
	wait := func(doubt bool) time.Duration {
		v.doubt = doubt
		result, _ := f.Begin(v).Result()
		return result.RequeueAfter
	}
	for i, want := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		if got := wait(true); got != want {
			t.Errorf("pass %d in doubt: again after %v, want %v", i, got, want)
		}
	}
	for range 20 {
		wait(true)
	}
	if got := wait(true); got != time.Minute {
		t.Errorf("in the end: again after %v", got)
	}
	if none, first := wait(false), wait(true); none != 0 || first != 100*time.Millisecond || f.Backoff.Len() != 1 {
		t.Errorf("without doubt %v, and then %v", none, first)
	}
}

// TestWrongUse: a Fanout not made by New, and a task without a name, cause a final error, and no call is made.
func TestWrongUse(t *testing.T) {
	for name, tc := range map[string]struct {
		fanout *fanout.Fanout
		task   fanout.Task
	}{
		"fanout: make a Fanout with New": {&fanout.Fanout{}, update},
		"fanout: Task.Name is required":  {fanout.New(1), fanout.Task{}},
	} {
		p := tc.fanout.Begin(newView("a"))
		called := func() { t.Errorf("%s: called", name) }
		_, create := p.Create(t.Context(), tc.task, 1, func(context.Context, int) error { called(); return nil })
		each := fanout.Each(t.Context(), p, tc.task, pods(1), func(context.Context, *corev1.Pod) (bool, error) { called(); return true, nil })
		once := p.Once(t.Context(), tc.task, func() (bool, error) { called(); return true, nil })
		for _, err := range []error{create, each, once} {
			if err == nil || err.Error() != name || !reason.IsFinal(err) {
				t.Errorf("%v, want %s", err, name)
			}
		}
	}
}

// TestOnce: an action that the API server has refused is retried after a back-off, and an action that has failed for
// another reason is retried at once.
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

// TestTry: a refusal starts a back-off only for the object, and other objects are tried meanwhile.
func TestTry(t *testing.T) {
	f, v := fanout.New(1), newView("a")
	try := func(object types.UID, err error) (asked bool, wake time.Duration, result error) {
		p := f.Begin(v)
		result = p.Try(update, object, func() error { asked = true; return err })
		after, _ := p.Result()
		return asked, after.RequeueAfter, result
	}
	if asked, wake, err := try("1", errNo); !asked || err == nil || wake != 0 || f.Backoff.WasRefused("1", update) {
		t.Errorf("an error that passes: asked %t, %v, again after %v", asked, err, wake)
	}
	for object, refusal := range map[types.UID]error{"1": forbidden("x"), "2": reason.Final(errNo)} {
		if asked, wake, err := try(object, refusal); !asked || err == nil || wake != 100*time.Millisecond || !f.Backoff.WasRefused(object, update) {
			t.Errorf("refused: asked %t, %v, again after %v; want others to have their turn soon", asked, err, wake)
		}
		if asked, wake, err := try(object, nil); asked || !errors.Is(err, refusal) && !apierrors.IsForbidden(err) || !reason.IsFinal(err) || wake != time.Minute {
			t.Errorf("at once after it: asked %t, %v, again after %v", asked, err, wake)
		}
	}
	if asked, _, err := try("3", nil); !asked || err != nil {
		t.Errorf("another object: asked %t, %v", asked, err)
	}
	v.owner.Generation++
	if asked, _, err := try("1", nil); !asked || err != nil || f.Backoff.WasRefused("1", update) {
		t.Errorf("with another spec: asked %t, %v", asked, err)
	}
	v.now = v.now.Add(time.Minute)
	if asked, _, err := try("2", nil); !asked || err != nil || f.Backoff.Len() != 0 {
		t.Errorf("after its rest: asked %t, %v", asked, err)
	}
}

// TestReplacedIsNoRefusal: the response 422 because another Pod has the name does not count as a refusal.
func TestReplacedIsNoRefusal(t *testing.T) {
	answer := &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "metadata.uid"}}},
	}}
	f := fanout.New(1)
	p := f.Begin(newView("a"))
	var asked int
	err := fanout.Each(t.Context(), p, update, pods(3), func(context.Context, *corev1.Pod) (bool, error) {
		asked++
		return false, reason.Reason{Code: podwrite.Replaced}.With(answer)
	})
	if asked != 3 || p.Changed() || err != nil || f.Backoff.Len() > 0 {
		t.Errorf("asked %d of 3, changed %t, error %v, %d refusals remembered", asked, p.Changed(), err, f.Backoff.Len())
	}
}

// TestProtectedPodsHideNobody: a policy refuses the deletion of the Pods that come first in the order of deletion.
// After a reduction of the replicas to zero, all other Pods are deleted nevertheless.
func TestProtectedPodsHideNobody(t *testing.T) {
	remove := fanout.Task{Name: "delete the Pod", First: 10 * time.Second, Last: 5 * time.Minute}
	for _, protected := range []int{1, 3, 7, 10} {
		t.Run(fmt.Sprint(protected), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, v := fanout.New(fanout.DefaultCalls), newView("a")
				left := pods(20)
				first := slices.Clone(left[:protected])
				start := time.Now()
				for len(left) > protected && time.Since(start) < time.Hour {
					v.now = time.Now()
					p := f.Begin(v)
					var mu sync.Mutex
					gone := map[types.UID]bool{}
					err := fanout.Each(t.Context(), p, fanout.Task{Name: "delete Pods"}, left, func(_ context.Context, pod *corev1.Pod) (bool, error) {
						attempt := fanout.Attempt{Object: pod.UID, Task: remove} // as package executor does
						if wait, err := f.Backoff.Resting(attempt, v.now); err != nil {
							p.Wake(wait)
							return false, err
						}
						time.Sleep(10 * time.Millisecond)
						if slices.Contains(first, pod) {
							p.Wake(f.Backoff.Refused(attempt, forbidden(pod.Name), v.now))
							return false, forbidden(pod.Name)
						}
						mu.Lock()
						defer mu.Unlock()
						gone[pod.UID] = true
						return true, nil
					})
					left = slices.DeleteFunc(slices.Clone(left), func(pod *corev1.Pod) bool { return gone[pod.UID] })
					result, retry := p.Result(err)
					if retry != nil {
						t.Fatalf("a refusal is handed to the queue: %v", retry)
					}
					time.Sleep(max(result.RequeueAfter, 10*time.Millisecond))
				}
				if len(left) > protected {
					t.Errorf("%d Pods behind %d protected ones were not deleted within an hour", len(left)-protected, protected)
				}
			})
		})
	}
}

// TestPanicGivesItsPlaceBack: a panic in a call becomes a panic in the reconcile's goroutine, which can recover. The
// call no longer counts towards the limit of concurrent calls.
func TestPanicGivesItsPlaceBack(t *testing.T) {
	f := fanout.New(1)
	boom := errors.New("boom")
	for name, run := range map[string]func(*fanout.Pass){
		"Each": func(p *fanout.Pass) {
			_ = fanout.Each(t.Context(), p, update, pods(3), func(context.Context, *corev1.Pod) (bool, error) { panic(boom) })
		},
		"Create": func(p *fanout.Pass) {
			_, _ = p.Create(t.Context(), fanout.Task{Name: "create"}, 3, func(context.Context, int) error { panic(boom) })
		},
	} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !errors.Is(err, boom) {
					t.Errorf("%s: panic value %v", name, err)
				}
			}()
			run(f.Begin(newView("a")))
			t.Errorf("%s returned", name)
		}()
		for range 3 { // more often than the limit
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			done := 0
			if err := fanout.Each(ctx, f.Begin(newView("a")), update, pods(1), func(context.Context, *corev1.Pod) (bool, error) { done++; return true, nil }); err != nil || done != 1 {
				t.Fatalf("%s: after the panic %d calls, %v", name, done, err)
			}
			cancel()
		}
	}
}

// TestContextEnds: when a context ends, calls in progress finish, no further call starts, and the error contains the
// cause once.
func TestContextEnds(t *testing.T) {
	stop := errors.New("no longer leader")
	for _, before := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if before {
			cancel(stop)
		}
		f := fanout.New(2)
		p := f.Begin(newView("a"))
		var asked atomic.Int32
		err := fanout.Each(ctx, p, update, pods(100), func(ctx context.Context, _ *corev1.Pod) (bool, error) {
			asked.Add(1)
			cancel(stop)
			return false, nil
		})
		if !errors.Is(err, stop) || strings.Count(err.Error(), stop.Error()) != 1 || reason.IsFinal(err) || f.Backoff.Len() > 0 {
			t.Errorf("error %v", err)
		}
		if most := int32(2); asked.Load() > most || before && asked.Load() > 0 {
			t.Errorf("%d were asked", asked.Load())
		}
		made, err := p.Create(ctx, fanout.Task{Name: "create"}, 10, func(context.Context, int) error { t.Error("called"); return nil })
		if made != 0 || !errors.Is(err, stop) || reason.IsFinal(err) || f.Backoff.Len() > 0 {
			t.Errorf("Create = %d, %v, and %d refusals are remembered", made, err, f.Backoff.Len())
		}
		cancel(nil)
	}
}

// TestWaitingEnds: a call that waits because of the limit of its namespace returns when its context ends.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fanout.New(1)
		var busy sync.WaitGroup
		hold := func(namespace string) {
			busy.Go(func() {
				_ = fanout.Each(t.Context(), f.Begin(newView(namespace)), update, pods(1), func(context.Context, *corev1.Pod) (bool, error) { time.Sleep(time.Hour); return true, nil })
			})
		}
		hold("a")
		hold("b")
		synctest.Wait()
		for _, namespace := range []string{"a", "b"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			start := time.Now()
			err := fanout.Each(ctx, f.Begin(newView(namespace)), update, pods(2), func(context.Context, *corev1.Pod) (bool, error) { t.Error("called"); return true, nil })
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
				t.Errorf("namespace %s: %v after %v", namespace, err, time.Since(start))
			}
			cancel()
		}
		busy.Wait()
		done := false
		err := fanout.Each(t.Context(), f.Begin(newView("c")), update, pods(1), func(context.Context, *corev1.Pod) (bool, error) { done = true; return true, nil })
		if err != nil || !done {
			t.Errorf("when all have ended: called %t, %v", done, err)
		}
	})
}

// TestFairness: a namespace with many Pods does not delay other namespaces for long.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fanout.New(2)
		var wg sync.WaitGroup
		work := func(namespace string, n int) (took time.Duration) {
			start := time.Now()
			_ = fanout.Each(t.Context(), f.Begin(newView(namespace)), update, pods(n), func(context.Context, *corev1.Pod) (bool, error) { time.Sleep(900 * time.Millisecond); return true, nil })
			return time.Since(start)
		}
		for range 5 { // five owners of the same namespace
			wg.Go(func() { work("big", 100) })
		}
		synctest.Wait()
		if took := work("small", 1); took != 900*time.Millisecond {
			t.Errorf("one Pod of another namespace took %v, want the call itself", took)
		}
		wg.Go(func() { work("other", 100) })
		synctest.Wait()
		if took := work("small", 1); took > 2*900*time.Millisecond {
			t.Errorf("beside two namespaces one Pod took %v", took)
		}
		wg.Wait()
	})
}

// TestSlowNamespaces: slow webhooks in several namespaces do not delay another namespace.
func TestSlowNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fanout.New(5)
		rollout := func(namespace string, n int, each time.Duration) {
			_ = fanout.Each(t.Context(), f.Begin(newView(namespace)), update, pods(n), func(context.Context, *corev1.Pod) (bool, error) { time.Sleep(each); return true, nil })
		}
		var wg sync.WaitGroup
		for _, namespace := range []string{"s1", "s2", "s3", "s4"} {
			wg.Go(func() { rollout(namespace, 100, 10*time.Second) })
		}
		for range 10 {
			time.Sleep(3700 * time.Millisecond)
			start := time.Now()
			if rollout("good", 20, 10*time.Millisecond); time.Since(start) > 2*time.Second {
				t.Errorf("20 Pods of another namespace took %v", time.Since(start))
			}
		}
		wg.Wait()
	})
}

// TestNothingToDo: without objects, Each and Create return at once, even if the context has ended.
func TestNothingToDo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := fanout.New(1).Begin(newView("a"))
	if err := fanout.Each(ctx, p, update, pods(0), nil); err != nil {
		t.Error(err)
	}
	for _, n := range []int{0, -1} {
		if made, err := p.Create(ctx, update, n, nil); made != 0 || err != nil {
			t.Errorf("Create(%d) = %d, %v", n, made, err)
		}
	}
}

// TestCreateEach: after a refusal, a call comes after all other calls, until the call succeeds.
func TestCreateEach(t *testing.T) {
	f, v := fanout.New(1), newView("a")
	broken := true
	for i, want := range []string{"[0 1 2]", "[0 2 3 1 4]", "[0 2 3 1 4]", "[0 1 2 3 4]"} {
		if i == 2 {
			broken = false
		}
		v.now = v.now.Add(time.Hour) // all back-offs are over
		var mu sync.Mutex
		var order []int
		_, err := f.Begin(v).CreateEach(t.Context(), fanout.Task{Name: "create Pods"}, 5, func(i int) string { return fmt.Sprintf("create Pod %d", i) }, func(_ context.Context, i int) error {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, i)
			if broken && i == 1 {
				return forbidden("web-1")
			}
			return nil
		})
		if (err != nil) != broken {
			t.Errorf("%d: %v", i, err)
		}
		slices.Sort(order[1:min(3, len(order))]) // the calls of a batch of 1, 2 or 4 run concurrently
		if len(order) > 3 {
			slices.Sort(order[3:])
		}
		if got := fmt.Sprint(order); got != want {
			t.Errorf("%d: called %s, want %s", i, got, want)
		}
	}
}
