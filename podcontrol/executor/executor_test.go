package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/internal/clustertest"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

const (
	revisionLabel = "example.com/revision"
	stateLabel    = "example.com/state"
	gate          = corev1.PodConditionType("example.com/InPlace")
)

var begin = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

type (
	owner = *appsv1.ReplicaSet
	turn  = executor.Turn[owner]
)

// world has the ReplicaSet web, its Pods and an executor. The tests set the generation and rules of the ReplicaSet.
type world struct {
	*clustertest.Cluster

	t       *testing.T
	clock   *testingclock.FakePassiveClock
	cache   *ownercache.Cache[owner]
	control *podcontrol.Control
	inPlace *inplaceupdate.Updater
	fanout  *fanout.Fanout
	x       *executor.Executor[owner]
	rules   podcontrol.Rules

	mu     sync.Mutex // the executor changes Pods concurrently
	events []string
	// permit is called by Options.Permit before a Pod is taken out of service; nil permits every action.
	permit func(pod *corev1.Pod, operation disruption.Operation) error
	// afterDelete is called for deleted Pods.
	afterDelete func(pod *corev1.Pod) error
	pass        *fanout.Pass
}

func newWorld(t *testing.T, edit ...func(*podcontrol.Config)) *world {
	t.Helper()
	w := &world{Cluster: clustertest.New(), t: t, clock: testingclock.NewFakePassiveClock(begin), fanout: fanout.New(5)}
	w.rules.Policy = podcontrol.InPlaceIfPossible
	var err error
	w.cache, err = ownercache.New(t.Context(), w.Cluster, &appsv1.ReplicaSet{}, ownercache.Options{NoBarrier: true, Clock: w.clock})
	w.must(err)
	w.inPlace, err = inplaceupdate.New(inplaceupdate.Config{Keys: inplaceupdate.Keys{
		StateAnnotation: "example.com/update", GraceAnnotation: "example.com/grace", Gate: gate, Reserved: []string{revisionLabel, stateLabel, "example.com/since"},
	}})
	w.must(err)
	machine, err := lifecycle.New(lifecycle.Keys{State: stateLabel, Timestamp: "example.com/since"})
	w.must(err)
	config := podcontrol.Config{InPlace: w.inPlace, RevisionLabel: revisionLabel, FullRevisions: true, Lifecycle: machine}
	for _, f := range edit {
		f(&config)
	}
	w.control, err = podcontrol.New(config)
	w.must(err)
	w.x, err = executor.New(w.control, w.cache, w.fanout, executor.Options[owner]{
		Rules: func(owner) podcontrol.Rules { return w.rules }, Clock: w.clock,
		Observe: func(_ owner, e executor.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			object := client.Object(e.Pod)
			if e.Claim != nil {
				object = e.Claim
			}
			w.events = append(w.events, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Type, object.GetName(), e.Revision)))
		},
		Permit: func(_ context.Context, _ owner, pod *corev1.Pod, operation disruption.Operation) error {
			if w.permit == nil {
				return nil
			}
			return w.permit(pod, operation)
		},
		AfterDelete: func(_ context.Context, _ *executor.Turn[owner], pod *corev1.Pod) error {
			if w.afterDelete == nil {
				return nil
			}
			return w.afterDelete(pod)
		},
	})
	w.must(err)
	w.must(w.Create(t.Context(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-web", Generation: 1}}))
	w.deliver()
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) deliver() {
	w.t.Helper()
	w.must(w.Deliver(w.t.Context()))
}

// add stores a running Pod of the ReplicaSet in the API server and in the cache.
func (w *world) add(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	view := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid-web"}}
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}
	pod := w.control.NewPod(template, "default", *metav1.NewControllerRef(view, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")), podcontrol.Rules{}, "web-1", begin)
	pod.Name, pod.Labels[stateLabel] = name, "Normal"
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: "app:v1", ImageID: "sha256:1", Ready: true}}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, gate, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(begin)})
	}
	for _, f := range change {
		f(pod)
	}
	w.must(w.Create(w.t.Context(), pod))
	w.deliver()
	return w.pod(name)
}

// pod is a Pod in the cache.
func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod, ok := w.cache.Pods.Get("default", name)
	if !ok {
		w.t.Fatalf("no Pod %s", name)
	}
	return pod
}

// begin begins a Turn, that is a single reconcile, of the ReplicaSet.
func (w *world) begin() *turn {
	w.t.Helper()
	v, result, err := w.cache.Observe(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "web"}})
	if v == nil || err != nil {
		w.t.Fatalf("Observe = %v, %v, %v", v, result, err)
	}
	w.pass = w.fanout.Begin(v)
	w.Requests()
	return w.x.For(v, w.pass)
}

// beginAt is like begin, and sets the History of the Turn.
func (w *world) beginAt(h *revision.History) *turn {
	w.t.Helper()
	p := w.begin()
	p.History = h
	return p
}

// beginWith begins a Turn whose Set is read from the given Pods.
func (w *world) beginWith(pods ...*corev1.Pod) *turn {
	w.t.Helper()
	p := w.begin()
	p.Set = podcontrol.NewReader(w.control).Read("uid-web", pods, podcontrol.Want{}, w.clock.Now())
	return p
}

// update calls UpdateTo for a Pod and revision web-2. The template of web-2 has another image or, if blocked is true,
// another command.
func (w *world) update(p *turn, pod *corev1.Pod, blocked bool) (changed bool, err error) {
	from := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}
	to := from.DeepCopy()
	if to.Spec.Containers[0].Image = "app:v2"; blocked {
		to.Spec.Containers[0].Command = []string{"x"}
	}
	target := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-2"}}
	return p.UpdateTo(target, func(*corev1.Pod) *inplaceupdate.Plan { return w.inPlace.Plan(from, to) })(w.t.Context(), pod)
}

// loop reconciles a Pod in the loop over single Pods.
func (w *world) loop(name string) (ctrl.Result, error) {
	w.Requests()
	return w.x.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}})
}

// check compares the requests and events since the last check with the expected requests and events.
func (w *world) check(what string, requests, events []string) {
	w.t.Helper()
	if diff := cmp.Diff([][]string{requests, events}, [][]string{w.Requests(), w.events}); diff != "" {
		w.t.Errorf("%s: requests and events (-want +got):\n%s", what, diff)
	}
	w.events = nil
}

// refuses returns a function that refuses the requests that begin with one of the prefixes.
func refuses(prefix ...string) func(clustertest.Request) error {
	return func(r clustertest.Request) error {
		if !slices.ContainsFunc(prefix, func(p string) bool { return strings.HasPrefix(r.String(), p) }) {
			return nil
		}
		return apierrors.NewForbidden(corev1.Resource("pods"), r.Object.GetName(), errors.New("a policy says no"))
	}
}

func startRequests(pod string) []string {
	return []string{"patch Pod/status " + pod, "patch Pod " + pod}
}

func TestNew(t *testing.T) {
	w := newWorld(t)
	valid := executor.Options[owner]{Rules: func(owner) podcontrol.Rules { return podcontrol.Rules{} }}
	for name, make := range map[string]func() (*executor.Executor[owner], error){
		"no control": func() (*executor.Executor[owner], error) { return executor.New(nil, w.cache, w.fanout, valid) },
		"no cache":   func() (*executor.Executor[owner], error) { return executor.New(w.control, nil, w.fanout, valid) },
		"no fanout":  func() (*executor.Executor[owner], error) { return executor.New(w.control, w.cache, nil, valid) },
		"no rules": func() (*executor.Executor[owner], error) {
			return executor.New(w.control, w.cache, w.fanout, executor.Options[owner]{})
		},
	} {
		if x, err := make(); x != nil || err == nil {
			t.Errorf("%s: New = %v, %v", name, x, err)
		}
	}
	x, err := executor.New(w.control, w.cache, w.fanout, valid)
	if err != nil {
		t.Fatal(err)
	}
	pod := w.add("a")
	w.begin()
	view, _, _ := w.cache.Observe(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "web"}})
	if changed, err := x.For(view, w.pass).Delete(t.Context(), pod); !changed || err != nil { // without Observe and AfterDelete
		t.Errorf("Delete = %t, %v", changed, err)
	}
}

// TestUpdateInPlace follows the update of a Pod, begun in the reconcile of the owner and finished by the loop over
// single Pods. Each change is reported once.
func TestUpdateInPlace(t *testing.T) {
	w := newWorld(t)
	pod := w.add("a")
	p := w.begin()
	if changed, err := w.update(p, pod, false); !changed || err != nil {
		t.Fatalf("update = %t, %v", changed, err)
	}
	w.check("start", startRequests("a"), []string{"Started a web-2"})
	if changed, err := w.update(p, pod, false); changed || err != nil {
		t.Errorf("again, on the Pod as it was: %t, %v", changed, err)
	}
	w.check("again, on the Pod as it was", nil, nil)
	if result, err := w.loop("a"); result.RequeueAfter <= 0 || err != nil {
		t.Errorf("the Pod's loop, which the cache does not show the start: %v, %v", result, err)
	}
	w.check("the Pod's loop, which the cache does not show the start", nil, nil)
	w.deliver()
	if pod := w.pod("a"); pod.Labels[stateLabel] != "Updating" || pod.Labels[revisionLabel] != "web-2" || pod.Spec.Containers[0].Image != "app:v2" {
		t.Errorf("labels %v, spec %v", pod.Labels, pod.Spec.Containers)
	}
	if result, err := w.loop("a"); !result.IsZero() || err != nil {
		t.Errorf("while it waits for its container: %v, %v", result, err)
	}
	w.check("while it waits for its container", nil, nil)
	live := w.pod("a").DeepCopy()
	live.Status.ContainerStatuses[0].Image, live.Status.ContainerStatuses[0].ImageID = "app:v2", "sha256:2"
	live.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
	w.must(w.Status().Update(t.Context(), live))
	w.deliver()
	if result, err := w.loop("a"); !result.IsZero() || err != nil {
		t.Errorf("the end: %v, %v", result, err)
	}
	w.check("the end", []string{"patch Pod/status a"}, nil)
	w.deliver()
	if pod := w.pod("a"); pod.Labels[stateLabel] != "Normal" || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate && c.Status == "True" }) {
		t.Errorf("labels %v, conditions %v", pod.Labels, pod.Status.Conditions)
	}
}

// TestRefusedUpdate: a refused update is tried again only after a wait, unless the rules allow to recreate the Pod.
func TestRefusedUpdate(t *testing.T) {
	for _, tc := range []struct {
		policy podcontrol.Policy
		// These are the expected requests and events of the first reconcile, and of a reconcile during the wait.
		first, second       []string
		told, toldLater     []string
		refusedLater, reset bool
	}{
		{
			policy: podcontrol.InPlaceOnly, first: startRequests("a"), told: []string{"StartFailed a web-2"}, refusedLater: true, reset: true,
		},
		{
			policy: podcontrol.InPlaceIfPossible, first: append(startRequests("a"), "delete Pod a"), told: []string{"StartFailed a web-2", "Deleted a web-2", "Recreated a web-2"},
		},
	} {
		t.Run(string(tc.policy), func(t *testing.T) {
			w := newWorld(t)
			w.rules.Policy = tc.policy
			pod := w.add("a")
			w.Answer = refuses("patch Pod a")
			changed, err := w.update(w.begin(), pod, false)
			if refused := err != nil; refused != tc.refusedLater || !changed {
				t.Errorf("update = %t, %v", changed, err)
			}
			w.check("the first pass", tc.first, tc.told)
			w.deliver()
			if !tc.reset {
				return
			}
			p := w.begin()
			if changed, err := w.update(p, w.pod("a"), false); changed || !apierrors.IsForbidden(err) || !reason.IsFinal(err) {
				t.Errorf("while it rests: %t, %v", changed, err)
			}
			w.check("while it rests", nil, nil)
			if result, _ := w.pass.Result(); result.RequeueAfter != 5*time.Minute {
				t.Errorf("the owner looks again after %v", result.RequeueAfter)
			}
			set := podcontrol.NewReader(w.control).Read("uid-web", []*corev1.Pod{w.pod("a")}, podcontrol.Want{Update: "web-2"}, w.clock.Now())
			if w.x.Rest(set.Of(w.pod("a"))) <= 0 {
				t.Error("a Pod whose update was refused does not rest")
			}
			p = w.begin()
			p.Set = set
			_ = p.Unfinished() // called in a reconcile that has not read the Pod
			if result, _ := w.pass.Result(); result.RequeueAfter != 5*time.Minute {
				t.Errorf("after a pass that does not choose it the owner looks again in %v", result.RequeueAfter)
			}
			w.clock.SetTime(begin.Add(5 * time.Minute))
			w.Answer = nil
			if changed, err := w.update(w.begin(), w.pod("a"), false); !changed || err != nil {
				t.Errorf("after its rest: %t, %v", changed, err)
			}
			w.check("after its rest", startRequests("a"), []string{"Started a web-2"})
			w.deliver()
			set = podcontrol.NewReader(w.control).Read("uid-web", []*corev1.Pod{w.pod("a")}, podcontrol.Want{Update: "web-2"}, w.clock.Now())
			if rest := w.x.Rest(set.Of(w.pod("a"))); rest != 0 {
				t.Errorf("a Pod whose update has started rests for %v", rest)
			}
		})
	}
}

func TestBlockedUpdate(t *testing.T) {
	w := newWorld(t)
	w.rules.Policy = podcontrol.InPlaceOnly
	pod := w.add("a")
	changed, err := w.update(w.begin(), pod, true)
	if changed || !errors.Is(err, inplaceupdate.ImmutableField) || !reason.IsFinal(err) || !strings.Contains(err.Error(), "Pod default/a") {
		t.Errorf("update = %t, %v", changed, err)
	}
	w.check("InPlaceOnly", nil, []string{"Blocked a web-2"})
	w.rules.Policy = podcontrol.InPlaceIfPossible
	if changed, err = w.update(w.begin(), w.pod("a"), true); !changed || err != nil {
		t.Errorf("update = %t, %v", changed, err)
	}
	w.check("InPlaceIfPossible", []string{"delete Pod a"}, []string{"Deleted a web-2", "Recreated a web-2"})
	w.rules.Policy = podcontrol.Recreate
	b := w.add("b")
	target := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-2"}}
	if changed, err = w.begin().UpdateTo(target, nil)(t.Context(), b); !changed || err != nil { // UpdateTo needs no plan
		t.Errorf("update = %t, %v", changed, err)
	}
	w.check("Recreate", []string{"delete Pod b"}, []string{"Deleted b web-2", "Recreated b web-2"})
}

// TestRefusedDeletion: after each refused deletion of a Pod, the wait before the next attempt grows, for each Pod
// separately. Each attempt is reported once.
func TestRefusedDeletion(t *testing.T) {
	w := newWorld(t)
	a, b := w.add("a"), w.add("b")
	w.Answer = refuses("delete Pod a")
	p := w.begin()
	if changed, err := p.Delete(t.Context(), a); changed || !apierrors.IsForbidden(err) || !errors.Is(err, executor.DeletionRefused) || !strings.Contains(err.Error(), "Pod default/a") {
		t.Errorf("Delete = %t, %v", changed, err)
	}
	if changed, err := p.Delete(t.Context(), b); !changed || err != nil {
		t.Errorf("Delete of another = %t, %v", changed, err)
	}
	w.check("the first pass", []string{"delete Pod a", "delete Pod b"}, []string{"DeleteFailed a", "Deleted b"})
	w.deliver()
	for at, wait := range map[time.Duration]time.Duration{0: 10 * time.Second, 9 * time.Second: time.Second} {
		w.clock.SetTime(begin.Add(at))
		if changed, err := w.begin().Delete(t.Context(), a); changed || !apierrors.IsForbidden(err) || !reason.IsFinal(err) {
			t.Errorf("after %v: %t, %v", at, changed, err)
		}
		if result, _ := w.pass.Result(); result.RequeueAfter != wait {
			t.Errorf("after %v the owner looks again in %v, want %v", at, result.RequeueAfter, wait)
		}
		w.check("while it rests", nil, nil)
	}
	w.rules.Policy = podcontrol.Recreate
	if _, err := w.update(w.begin(), a, false); !apierrors.IsForbidden(err) {
		t.Errorf("recreating it: %v", err)
	}
	w.check("recreating it while that rests", nil, nil)
	w.clock.SetTime(begin.Add(10 * time.Second))
	_, _ = w.begin().Delete(t.Context(), a)
	if result, _ := w.pass.Result(); result.RequeueAfter != 20*time.Second {
		t.Errorf("refused again it rests for %v", result.RequeueAfter)
	}
	w.check("refused again", []string{"delete Pod a"}, []string{"DeleteFailed a"})
	w.Answer = func(r clustertest.Request) error {
		if r.Verb == "create" {
			return nil
		}
		return apierrors.NewTooManyRequests("later", 1)
	}
	w.clock.SetTime(begin.Add(time.Minute))
	if _, err := w.begin().Delete(t.Context(), w.add("c")); err == nil || reason.IsFinal(err) || w.fanout.Backoff.Len() != 1 {
		t.Errorf("an answer that passes: %v, refusals of %d Pods are remembered", err, w.fanout.Backoff.Len())
	}
	w.Answer = nil
	w.must(w.lose("a"))
	if n := w.fanout.Backoff.Len(); n > 0 {
		t.Errorf("%d refusals are remembered of Pods that are gone", n)
	}
}

// TestFailedFinish: while a webhook is down, the end of an update is retried after growing waits, which do not depend
// on the back-off of the queue. When the Pod needs no change any more, the Executor forgets the failures, so the wait
// after the next failure is the shortest again.
func TestFailedFinish(t *testing.T) {
	w := newWorld(t)
	closed := func(pod *corev1.Pod) { // the update is done, and only the gate must be opened
		for i := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[i]; c.Type == gate {
				c.Status = corev1.ConditionFalse
			}
		}
	}
	w.add("a", closed)
	fails := func(clustertest.Request) error {
		return apierrors.NewInternalError(errors.New("failed calling webhook"))
	}
	at := begin
	round := func(what string, answer func(clustertest.Request) error, want time.Duration, requests ...string) {
		t.Helper()
		w.clock.SetTime(at)
		w.Answer = answer
		if result, err := w.loop("a"); err != nil || result.RequeueAfter != want {
			t.Errorf("%s: %v, %v, want another attempt after %v", what, result, err, want)
		}
		w.Answer = nil
		w.check(what, requests, nil)
		at = at.Add(want)
	}
	write := "patch Pod/status a"
	round("the first failure", fails, time.Second, write)
	at = at.Add(-500 * time.Millisecond)
	round("while it rests", fails, 500*time.Millisecond)
	round("the second", fails, 2*time.Second, write)
	open := w.pod("a").DeepCopy()
	for i := range open.Status.Conditions {
		open.Status.Conditions[i].Status = corev1.ConditionTrue
	}
	w.must(w.Status().Update(t.Context(), open)) // somebody else opens the gate
	w.deliver()
	round("there is nothing to do", nil, 0)
	if n := w.fanout.Backoff.Len(); n != 0 {
		t.Errorf("failures of %d Pods are remembered", n)
	}
}

// TestUnreadableAfterFailure: a request fails, and before the next attempt the Pod becomes unreadable. The failed request
// is forgotten, because the loop makes no further attempt.
func TestUnreadableAfterFailure(t *testing.T) {
	w := newWorld(t)
	w.add("a", func(pod *corev1.Pod) { pod.Labels[stateLabel] = "Updating" })
	w.Answer = func(clustertest.Request) error {
		return apierrors.NewInternalError(errors.New("failed calling webhook"))
	}
	if _, err := w.loop("a"); err != nil || w.fanout.Backoff.Len() == 0 {
		t.Fatalf("%v, failures of %d Pods are remembered", err, w.fanout.Backoff.Len())
	}
	w.Answer = nil
	pod := &corev1.Pod{}
	w.must(w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, pod))
	pod.Annotations = map[string]string{"example.com/update": "{"}
	w.must(w.Update(t.Context(), pod))
	w.deliver()
	w.clock.SetTime(begin.Add(time.Minute))
	if _, err := w.loop("a"); err != nil || w.fanout.Backoff.Len() != 0 {
		t.Errorf("%v, failures of %d Pods are remembered", err, w.fanout.Backoff.Len())
	}
}

// TestReplacedBeforeDeletion: before the deletion, another Pod with a new UID has replaced the Pod of the same name.
// No failed deletion is reported.
func TestReplacedBeforeDeletion(t *testing.T) {
	w := newWorld(t)
	a := w.add("a")
	w.Answer = func(clustertest.Request) error {
		return apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("Precondition failed: UID in precondition"))
	}
	if changed, err := w.begin().Delete(t.Context(), a); changed || !apierrors.IsConflict(err) || reason.IsFinal(err) {
		t.Errorf("Delete = %t, %v", changed, err)
	}
	w.check("another Pod has the name", []string{"delete Pod a"}, nil)
}

// lose deletes a Pod as another client, such as a user, would.
func (w *world) lose(name string) error {
	if err := w.WithWatch.Delete(w.t.Context(), w.pod(name).DeepCopy()); err != nil {
		return err
	}
	return w.Deliver(w.t.Context())
}

func TestAfterDelete(t *testing.T) {
	w := newWorld(t)
	oops := errors.New("oops")
	var deleted []string
	w.afterDelete = func(pod *corev1.Pod) error {
		if deleted = append(deleted, pod.Name); pod.Name == "b" {
			return oops
		}
		return nil
	}
	hook := &lifecycle.Hook{Labels: map[string]string{"hook": "on"}}
	w.rules.Hooks.PreDelete = hook
	a, b := w.add("a"), w.add("b")
	held := w.add("held", func(pod *corev1.Pod) { pod.Labels["hook"] = "on" })
	gone := w.add("gone")
	w.must(w.WithWatch.Delete(t.Context(), gone.DeepCopy()))
	p := w.begin()
	if changed, err := p.Delete(t.Context(), a); !changed || err != nil {
		t.Errorf("Delete = %t, %v", changed, err)
	}
	if changed, err := p.Delete(t.Context(), b); !changed || !errors.Is(err, oops) {
		t.Errorf("Delete = %t, %v, want what goes with it to be known", changed, err)
	}
	if changed, err := p.Delete(t.Context(), held); !changed || err != nil {
		t.Errorf("Delete of a Pod that its hook holds = %t, %v", changed, err)
	}
	if changed, err := p.Delete(t.Context(), gone); !changed || err != nil {
		t.Errorf("Delete of a Pod that is gone = %t, %v", changed, err)
	}
	if diff := cmp.Diff([]string{"a", "b", "gone"}, deleted); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	for _, e := range w.events {
		if strings.HasSuffix(e, " gone") {
			t.Errorf("told %q of a Pod that somebody else has deleted", e)
		}
	}
	w.events = nil
	w.deliver()
	if state := w.pod("held").Labels[stateLabel]; state != "PreparingDelete" {
		t.Errorf("state %q", state)
	}
	if changed, err := w.begin().Delete(t.Context(), w.pod("held")); changed || err != nil {
		t.Errorf("Delete again = %t, %v", changed, err)
	}
	if changed, err := w.begin().Cancel(t.Context(), w.pod("held")); !changed || err != nil {
		t.Errorf("Cancel = %t, %v", changed, err)
	}
	w.deliver()
	if state := w.pod("held").Labels[stateLabel]; state != "PreparingNormal" {
		t.Errorf("state %q", state)
	}
}

// TestCreate: Create deletes a Pod again if the owner would not count the Pod.
func TestCreate(t *testing.T) {
	selector := labels.SelectorFromSet(labels.Set{"app": "web"})
	for _, tc := range []struct {
		name     string
		selector labels.Selector
		change   func(client.Object)
		refuse   string
		err      string
		left     bool
	}{
		{name: "as it was made", selector: selector, left: true},
		{name: "no selector", change: func(o client.Object) { delete(o.GetLabels(), "app") }, left: true},
		{name: "its revision was taken, without a selector", change: func(o client.Object) { o.SetLabels(nil) }, err: "revision label"},
		{name: "its label was taken", selector: selector, change: func(o client.Object) { o.SetLabels(nil) }, err: "labels"},
		{name: "its owner was taken", selector: selector, change: func(o client.Object) { o.SetOwnerReferences(nil) }, err: "owner reference"},
		{name: "its owner was taken, without a selector", change: func(o client.Object) { o.SetOwnerReferences(nil) }, err: "owner reference"},
		{name: "refused", selector: selector, refuse: "create Pod", err: "a policy says no"},
		{name: "a stranger that cannot be deleted", selector: selector, change: func(o client.Object) { o.SetLabels(nil) }, refuse: "delete Pod", err: "a policy says no", left: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.begin()
			if w.Change = tc.change; tc.refuse != "" {
				w.Answer = refuses(tc.refuse)
			}
			view := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid-web"}}
			template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
			pod := w.control.NewPod(template, "default", *metav1.NewControllerRef(view, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")), podcontrol.Rules{}, "web-1", begin)
			pod.Name = "a"
			p.Selector = tc.selector
			err := p.Create(t.Context(), pod)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("Create = %v, want %q", err, tc.err)
			}
			if left := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, &corev1.Pod{}) == nil; left != tc.left {
				t.Errorf("the Pod is there: %t, want %t", left, tc.left)
			}
		})
	}
}

// TestConflictsBackOff: a conflict of the API server itself means that the Pod has changed, so a watch event follows.
// If a webhook answers every request with a conflict, no event follows, and the waits between the attempts must grow.
func TestConflictsBackOff(t *testing.T) {
	w := newWorld(t)
	w.add("a", func(pod *corev1.Pod) { pod.Labels[stateLabel] = "PreparingNormal" })
	w.Answer = func(r clustertest.Request) error {
		return apierrors.NewConflict(corev1.Resource("pods"), r.Object.GetName(), errors.New("busy"))
	}
	send := func() time.Duration {
		t.Helper()
		result, err := w.loop("a")
		w.must(err)
		return result.RequeueAfter
	}
	first, second := send(), send()
	if first != 10*time.Second || second != 2*first {
		t.Errorf("asked again after %v and %v, want 10s and twice that", first, second)
	}
	pod := w.pod("a").DeepCopy()
	pod.Labels["x"] = "y"
	w.must(w.Update(t.Context(), pod))
	if w.deliver(); send() != first {
		t.Error("another version of the Pod does not start anew")
	}
	if w.Answer = nil; send() != 0 || w.fanout.Backoff.Len() != 0 {
		t.Errorf("%d Pods are remembered after success", w.fanout.Backoff.Len())
	}
	w.check("conflicts", []string{"patch Pod a"}, nil)
}

// TestRefusedFinish: if the end of an update is refused, the next attempt waits, each attempt is reported once, and
// Unfinished reports the refusal to the owner's loop.
func TestRefusedFinish(t *testing.T) {
	w := newWorld(t)
	w.add("a", func(pod *corev1.Pod) { pod.Labels[stateLabel] = "Updating" })
	w.Answer = refuses("patch Pod")
	result, err := w.loop("a")
	if err != nil || result.RequeueAfter != 10*time.Second {
		t.Errorf("Reconcile = %v, %v", result, err)
	}
	w.check("refused", []string{"patch Pod a"}, []string{"FinishFailed a"})
	unfinished := func() error { return w.beginWith(w.pod("a")).Unfinished() }
	if err := unfinished(); !apierrors.IsForbidden(err) || !reason.IsFinal(err) || !w.x.IsHeldUp(w.pod("a")) {
		t.Errorf("Unfinished = %v", err)
	}
	w.clock.SetTime(begin.Add(9 * time.Second))
	if result, err := w.loop("a"); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("while it rests: %v, %v", result, err)
	}
	w.check("while it rests", nil, nil)
	set := &appsv1.ReplicaSet{}
	w.must(w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, set))
	set.Generation = 2 // the owner has a new spec
	w.must(w.Update(t.Context(), set))
	w.deliver()
	w.Answer = nil
	if result, err := w.loop("a"); err != nil || !result.IsZero() {
		t.Errorf("after an edit: %v, %v", result, err)
	}
	w.deliver()
	if err := unfinished(); err != nil || w.x.IsHeldUp(w.pod("a")) || w.pod("a").Labels[stateLabel] != "Normal" {
		t.Errorf("Unfinished = %v, state %q", err, w.pod("a").Labels[stateLabel])
	}
}

// TestRefusedGate: the gate of a new Pod cannot be opened, so the Pod never becomes ready. Unfinished reports the
// refusal to the owner's loop, too.
func TestRefusedGate(t *testing.T) {
	w := newWorld(t)
	w.add("a", func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates, pod.Status.Conditions = []corev1.PodReadinessGate{{ConditionType: gate}}, nil
	})
	w.Answer = refuses("patch Pod/status")
	if result, err := w.loop("a"); err != nil || result.RequeueAfter != 10*time.Second {
		t.Errorf("Reconcile = %v, %v", result, err)
	}
	w.check("refused", []string{"patch Pod/status a"}, []string{"FinishFailed a"})
	if err := w.beginWith(w.pod("a")).Unfinished(); !apierrors.IsForbidden(err) || !reason.IsFinal(err) {
		t.Errorf("Unfinished = %v", err)
	}
}

// TestUnreadable: a Pod whose annotations cannot be parsed is reported and not changed.
func TestUnreadable(t *testing.T) {
	w := newWorld(t)
	pod := w.add("a", func(pod *corev1.Pod) {
		pod.Labels[stateLabel], pod.Annotations = "Updating", map[string]string{"example.com/update": "{"}
	})
	if result, err := w.loop("a"); err != nil || !result.IsZero() {
		t.Errorf("Reconcile = %v, %v", result, err)
	}
	w.check("its own loop", nil, []string{"Unreadable a"})
	p := w.beginWith(pod)
	if changed, err := w.update(p, pod, false); changed || !errors.Is(err, inplaceupdate.UnreadableState) || !reason.IsFinal(err) {
		t.Errorf("update = %t, %v", changed, err)
	}
	w.check("its update", nil, nil)
	if err := p.Unfinished(); !errors.Is(err, inplaceupdate.UnreadableState) || w.x.Rest(p.Set.Of(pod)) != math.MaxInt64 {
		t.Errorf("Unfinished = %v", err)
	}
}

// TestUnreadableAfterRefusal: a write was refused, and before the next attempt the Pod becomes unreadable. The loop
// makes no further attempt, so Unfinished reports at once that the Pod is unreadable.
func TestUnreadableAfterRefusal(t *testing.T) {
	w := newWorld(t)
	w.add("a", func(pod *corev1.Pod) { pod.Labels[stateLabel] = "Updating" })
	w.Answer = refuses("patch Pod")
	if _, err := w.loop("a"); err != nil {
		t.Fatal(err)
	}
	w.Answer = nil
	pod := &corev1.Pod{}
	w.must(w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, pod))
	pod.Annotations = map[string]string{"example.com/update": "{"}
	pod.Status.Conditions = nil
	w.must(w.Update(t.Context(), pod))
	w.deliver()
	if err := w.beginWith(w.pod("a")).Unfinished(); !errors.Is(err, inplaceupdate.UnreadableState) || apierrors.IsForbidden(err) {
		t.Errorf("Unfinished = %v", err)
	}
}

// TestOneLoopAtATime: while a loop writes to a Pod, the other loop does not change the Pod, and the reconcile of the
// owner starts no update from an older version of the Pod.
func TestOneLoopAtATime(t *testing.T) {
	w := newWorld(t)
	pod := w.add("a")
	p := w.begin()
	inside := 0
	w.Answer = func(r clustertest.Request) error {
		if w.Answer = nil; r.Verb == "patch" {
			inside++
			if result, err := w.x.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); result.RequeueAfter != 100*time.Millisecond || err != nil {
				t.Errorf("the Pod's loop during a start = %v, %v", result, err)
			}
		}
		return nil
	}
	if changed, err := w.update(p, pod, false); !changed || err != nil {
		t.Errorf("update = %t, %v", changed, err)
	}
	w.check("a start", startRequests("a"), []string{"Started a web-2"})

	other := w.add("b", func(pod *corev1.Pod) { pod.Labels[stateLabel] = "PreparingNormal" })
	p = w.begin()
	w.Answer = func(clustertest.Request) error {
		w.Answer = nil
		inside++
		if changed, err := w.update(p, other, false); changed || err != nil {
			t.Errorf("a start during the Pod's loop = %t, %v", changed, err)
		}
		return nil
	}
	if _, err := w.loop("b"); err != nil {
		t.Error(err)
	}
	w.check("the Pod's loop", []string{"patch Pod b"}, nil)
	if changed, err := w.update(p, other, false); changed || err != nil {
		t.Errorf("a start on the Pod as it was before = %t, %v", changed, err)
	}
	if result, _ := w.pass.Result(); result.RequeueAfter != 100*time.Millisecond {
		t.Errorf("the owner looks again in %v", result.RequeueAfter)
	}
	if w.check("a start on the Pod as it was before", nil, nil); inside != 2 {
		t.Errorf("%d of 2 writes were looked into", inside)
	}
}

// TestLoopLeavesAlone: the loop over single Pods ignores Pods that need no change.
func TestLoopLeavesAlone(t *testing.T) {
	w := newWorld(t)
	w.add("done")
	w.add("ended", func(pod *corev1.Pod) { pod.Status.Phase, pod.Labels[stateLabel] = corev1.PodFailed, "Updating" })
	w.add("free", func(pod *corev1.Pod) { pod.OwnerReferences, pod.Labels[stateLabel] = nil, "Updating" })
	for _, name := range []string{"done", "ended", "free", "none"} {
		if result, err := w.loop(name); !result.IsZero() || err != nil {
			t.Errorf("%s: %v, %v", name, result, err)
		}
		w.check(name, nil, nil)
	}
}

// TestUpdateToSame: UpdateTo sends no request and reports no Event for a Pod at the target revision, even if its
// update has not ended.
func TestUpdateToSame(t *testing.T) {
	for _, policy := range []podcontrol.Policy{podcontrol.Recreate, podcontrol.InPlaceIfPossible, podcontrol.InPlaceOnly} {
		for name, change := range map[string]func(*corev1.Pod){
			"at rest":              func(*corev1.Pod) {},
			"by its short name":    func(pod *corev1.Pod) { pod.Labels[revisionLabel] = "2" },
			"being updated":        func(pod *corev1.Pod) { pod.Labels[stateLabel] = "Updating" },
			"waiting for its hook": func(pod *corev1.Pod) { pod.Labels[stateLabel] = "PreparingUpdate" },
		} {
			t.Run(string(policy)+", "+name, func(t *testing.T) {
				w := newWorld(t)
				w.rules.Policy = policy
				pod := w.add("a", func(pod *corev1.Pod) { pod.Labels[revisionLabel] = "web-2" }, change)
				for _, blocked := range []bool{false, true} {
					if changed, err := w.update(w.begin(), pod, blocked); changed || err != nil {
						t.Errorf("update = %t, %v", changed, err)
					}
				}
				w.check("at the target", nil, nil)
			})
		}
	}
}
