package ownercache_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/expectations/trackedclient"
	"github.com/workloadkit/workloadkit/internal/clustertest"
	"github.com/workloadkit/workloadkit/ownercache"
)

var begin = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// world has a cluster in memory, and a cache of ReplicaSets and their objects.
type world struct {
	*clustertest.Cluster
	*ownercache.Cache[*appsv1.ReplicaSet]

	t     *testing.T
	clock *testingclock.FakePassiveClock
}

func newWorld(t *testing.T, options ownercache.Options) *world {
	t.Helper()
	w := &world{Cluster: clustertest.New(), t: t, clock: testingclock.NewFakePassiveClock(begin)}
	options.Clock, options.NoBarrier = w.clock, true
	var err error
	if w.Cache, err = ownercache.New(t.Context(), w.Cluster, &appsv1.ReplicaSet{}, options); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) deliver() {
	w.t.Helper()
	if err := w.Deliver(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// add creates objects as another client would, and delivers the events to the cache.
func (w *world) add(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
	w.deliver()
}

func newOwner(name string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Generation: 1}}
}

func metaOf(namespace, name string, owner *appsv1.ReplicaSet) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	}
	return m
}

func podOf(owner *appsv1.ReplicaSet, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metaOf("default", name, owner)}
}

func request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

// observe begins a reconcile, and fails the test if the owner must wait.
func (w *world) observe(name string) *ownercache.View[*appsv1.ReplicaSet] {
	w.t.Helper()
	v, result, err := w.Observe(w.t.Context(), request(name))
	if v == nil || err != nil {
		w.t.Fatalf("Observe = %v, %v, %v", v, result, err)
	}
	return v
}

// TestOnePod: the reconciler of ExampleNew creates a single Pod, and creates no second Pod while the cache does not
// show the first Pod.
func TestOnePod(t *testing.T) {
	ctx, mgr := t.Context(), clustertest.New()
	c, err := ownercache.New(ctx, mgr, &appsv1.ReplicaSet{}, ownercache.Options{NoBarrier: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &onePod{c}
	pass := func(want string) {
		t.Helper()
		if _, err := r.Reconcile(ctx, request("web")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, strings.Join(mgr.Requests(), ", ")); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	}
	pass("") // the owner does not exist
	if err := errors.Join(mgr.Create(ctx, newOwner("web")), mgr.Deliver(ctx)); err != nil {
		t.Fatal(err)
	}
	mgr.Requests()
	pass("create Pod web-0")
	pass("") // the cache does not show the Pod yet
	if err := mgr.Deliver(ctx); err != nil {
		t.Fatal(err)
	}
	pass("")
}

func TestObserve(t *testing.T) {
	w := newWorld(t, ownercache.Options{Claims: true})
	web, other := newOwner("web"), newOwner("other")
	foreign := &corev1.Pod{ObjectMeta: metaOf("elsewhere", "web-0", web)}
	w.add(web, other, podOf(web, "web-0"), podOf(web, "web-1"), podOf(other, "other-0"), podOf(nil, "free"), foreign,
		&appsv1.ControllerRevision{ObjectMeta: metaOf("default", "web-rev", web)}, &corev1.PersistentVolumeClaim{ObjectMeta: metaOf("default", "web-claim", web)},
		&appsv1.ControllerRevision{ObjectMeta: metaOf("default", "other-rev", other)}, &corev1.PersistentVolumeClaim{ObjectMeta: metaOf("elsewhere", "web-claim", web)})
	v := w.observe("web")
	if diff := cmp.Diff([]string{"web-0", "web-1"}, names(v.Pods)); diff != "" {
		t.Errorf("Pods, but not those of another namespace (-want +got):\n%s", diff)
	}
	if len(v.Revisions) != 1 || v.Revisions[0].Name != "web-rev" || len(v.Claims) != 1 || v.Claims[0].Namespace != "default" {
		t.Errorf("revisions %v, claims %v", v.Revisions, v.Claims)
	}
	cached, _ := w.Owners.Get("default", "web")
	if v.Owner == cached || v.Object() != client.Object(v.Owner) || !v.Now.Equal(begin) || v.Time() != v.Now || v.InDoubt() {
		t.Errorf("owner %p, cached %p, at %v, in doubt %t", v.Owner, cached, v.Now, v.InDoubt())
	}
	if pod, _ := w.Pods.Get("default", "web-0"); !slices.Contains(v.Pods, pod) {
		t.Error("Pods are copied")
	}
	if v, result, err := w.Observe(t.Context(), request("none")); v != nil || !result.IsZero() || err != nil {
		t.Errorf("of an owner that is gone: %v, %v, %v", v, result, err)
	}
	if w.Kind() != appsv1.SchemeGroupVersion.WithKind("ReplicaSet") || len(w.Runnables) != 1 {
		t.Errorf("kind %v, %d runnables", w.Kind(), len(w.Runnables))
	}
	bare := newWorld(t, ownercache.Options{})
	bare.add(newOwner("web"))
	if v := bare.observe("web"); v.Claims != nil || bare.Claims != nil {
		t.Error("claims without the option")
	}
}

// TestObserveWaits: Observe returns no view until the cache shows the owner's write. The next view then has the
// cache's object.
func TestObserveWaits(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	web := newOwner("web")
	w.add(web, newOwner("other"))
	v := w.observe("web")
	if err := v.Client.Create(t.Context(), podOf(web, "web-0")); err != nil {
		t.Fatal(err)
	}
	if _, err := v.WriteStatus(t.Context(), appsv1.ReplicaSetStatus{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	if v, result, err := w.Observe(t.Context(), request("web")); v != nil || result.RequeueAfter <= 0 || err != nil {
		t.Errorf("before the cache shows the writes: %v, %v, %v", v, result, err)
	}
	w.observe("other") // does not wait for the Pods of web
	w.deliver()
	if v := w.observe("web"); len(v.Pods) != 1 || v.Owner.Status.Replicas != 1 {
		t.Errorf("%d Pods, status %+v", len(v.Pods), v.Owner.Status)
	}
}

// TestUnanswered: a write without a response may have been carried out. InDoubt is true until Observe has read the
// object from the API server.
func TestUnanswered(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	web := newOwner("web")
	w.add(web)
	v := w.observe("web")
	w.Answer = func(clustertest.Request) error { return context.DeadlineExceeded }
	if err := v.Client.Create(t.Context(), podOf(web, "web-0")); !errors.Is(err, context.DeadlineExceeded) || !v.InDoubt() {
		t.Fatalf("Create = %v, in doubt %t", err, v.InDoubt())
	}
	w.Answer = nil
	if v := w.observe("web"); v.InDoubt() || len(v.Pods) != 0 {
		t.Error("in doubt although the server was asked")
	}
}

func TestLate(t *testing.T) {
	for _, drop := range []bool{false, true} {
		w := newWorld(t, ownercache.Options{Alarm: time.Minute, DropLate: drop})
		web := newOwner("web")
		w.add(web)
		if err := w.observe("web").Client.Create(t.Context(), podOf(web, "web-0")); err != nil {
			t.Fatal(err)
		}
		w.clock.SetTime(begin.Add(59 * time.Second))
		if v, _, err := w.Observe(t.Context(), request("web")); v != nil || err != nil {
			t.Errorf("drop %t: a moment before the alarm: %v, %v", drop, v, err)
		}
		w.clock.SetTime(begin.Add(61 * time.Second))
		v, result, err := w.Observe(t.Context(), request("web"))
		if v != nil || result.RequeueAfter <= 0 || err != nil {
			t.Errorf("drop %t: late: %v, %v, %v", drop, v, result, err)
		}
		v, _, err = w.Observe(t.Context(), request("web"))
		if goesOn := v != nil; goesOn != drop || err != nil {
			t.Errorf("drop %t: goes on %t, %v", drop, goesOn, err)
		}
	}
}

func TestObservePod(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	web := newOwner("web")
	successor := newOwner("replaced")
	predecessor := newOwner("replaced")
	predecessor.UID = "another"
	alien := podOf(web, "alien")
	alien.OwnerReferences[0].APIVersion = "example.com/v1"
	w.add(web, successor, podOf(web, "web-0"), podOf(nil, "free"), podOf(newOwner("gone"), "orphan"), podOf(predecessor, "left"), alien)
	for _, name := range []string{"none", "free", "orphan", "left", "alien"} {
		if v, result, err := w.ObservePod(t.Context(), request(name)); v != nil || !result.IsZero() || err != nil {
			t.Errorf("Pod %s: %v, %v, %v", name, v, result, err)
		}
	}
	v, _, err := w.ObservePod(t.Context(), request("web-0"))
	if v == nil || err != nil || v.Owner.Name != "web" || !v.Now.Equal(begin) || !w.IsNewest(t.Context(), v.Pod) {
		t.Fatalf("ObservePod = %+v, %v", v, err)
	}
	// Observe of the owner does not wait for writes through a PodView. ObservePod waits, and the Pod of the view is not
	// the newest Pod any more.
	observed := v.Pod
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	if err := v.Client.Patch(t.Context(), v.Pod.DeepCopy(), label); err != nil {
		t.Fatal(err)
	}
	w.observe("web")
	if v, result, err := w.ObservePod(t.Context(), request("web-0")); v != nil || result.RequeueAfter <= 0 || err != nil {
		t.Errorf("before the cache shows the write: %v, %v, %v", v, result, err)
	}
	if w.IsNewest(t.Context(), observed) {
		t.Error("a Pod is the newest although the cache lacks what was written to it")
	}
	if w.deliver(); w.IsNewest(t.Context(), observed) {
		t.Error("a Pod is the newest although the cache has a newer one")
	}
	if v, _, err := w.ObservePod(t.Context(), request("web-0")); v == nil || err != nil || v.Pod.Labels["a"] != "b" {
		t.Errorf("ObservePod = %+v, %v", v, err)
	}
	// Both Observe and ObservePod wait for a write through View.For.
	view := w.observe("web")
	observed, _ = w.Pods.Get("default", "web-0")
	if err := view.For(observed).Patch(t.Context(), observed.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"c"}}}`))); err != nil {
		t.Fatal(err)
	}
	podView, _, _ := w.ObservePod(t.Context(), request("web-0"))
	if ownerView, _, _ := w.Observe(t.Context(), request("web")); podView != nil || ownerView != nil {
		t.Errorf("waits: the Pod's loop %t, the owner's %t", podView == nil, ownerView == nil)
	}
}

// TestGone: when an owner or a Pod is deleted or replaced, the cache calls the functions passed to OnGone. Reconciles
// do not wait any more for earlier writes to the object.
func TestGone(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	var gone []types.UID
	var replaced []string
	w.OnGone(nil)
	w.OnReplaced(nil)
	w.OnGone(func(uid types.UID) { gone = append(gone, uid) })
	w.OnReplaced(func(owner types.UID, pod *corev1.Pod) {
		replaced = append(replaced, string(owner)+" "+pod.Name+" "+pod.ResourceVersion)
	})
	web := newOwner("web")
	first := podOf(web, "web-0")
	w.add(web, first, podOf(nil, "free"))
	check := func(after string, wantGone []types.UID, wantReplaced ...string) {
		t.Helper()
		if diff := cmp.Diff([]any{wantGone, wantReplaced}, []any{gone, replaced}); diff != "" {
			t.Errorf("after %s: gone and replaced (-want +got):\n%s", after, diff)
		}
		gone, replaced = nil, nil
	}
	check("an addition", nil)

	was := first.ResourceVersion
	first.Labels = map[string]string{"a": "b"}
	if err := w.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.deliver()
	check("a change", nil, "uid-web web-0 "+was)

	uid, was := first.UID, first.ResourceVersion
	if err := w.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.add(podOf(web, "web-0")) // delivered in one call; the cache sees one event after the other
	check("a successor of its name", []types.UID{uid}, "uid-web web-0 "+was)

	v := w.observe("web")
	if err := v.Client.Create(t.Context(), podOf(web, "web-1")); err != nil {
		t.Fatal(err)
	}
	if n := w.Clients().Tracker().Len(); n == 0 {
		t.Fatal("nothing is awaited")
	}
	if err := w.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.deliver()
	check("the owner's deletion", []types.UID{"uid-web"})
	if n := w.Clients().Tracker().Len(); n > 0 {
		t.Errorf("%d owners are awaited that are gone", n)
	}
}

// TestPassOutlastsItsOwner: if the owner is deleted during a reconcile (a pass), the functions of OnGone are called
// again after the reconcile, so that they remove records made by the reconcile.
func TestPassOutlastsItsOwner(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	web := newOwner("web")
	w.add(web, newOwner("stays"))
	var gone []types.UID
	w.OnGone(func(uid types.UID) { gone = append(gone, uid) })
	remembered := map[types.UID]bool{}
	w.OnGone(func(uid types.UID) { delete(remembered, uid) })
	oops := errors.New("oops")
	loop := ownercache.Forgetful(w.Cache, reconcile.Func(func(_ context.Context, req ctrl.Request) (ctrl.Result, error) {
		if req.Name == "web" {
			if err := w.Delete(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			w.deliver()
		}
		remembered[types.UID("uid-"+req.Name)] = true // after the deletion's event
		return ctrl.Result{RequeueAfter: time.Second}, oops
	}))
	for _, name := range []string{"web", "stays"} {
		if result, err := loop.Reconcile(t.Context(), request(name)); result.RequeueAfter != time.Second || !errors.Is(err, oops) {
			t.Errorf("Reconcile = %v, %v, want what the loop returned", result, err)
		}
	}
	if diff := cmp.Diff(map[types.UID]bool{"uid-stays": true}, remembered); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
}

func TestUsersOf(t *testing.T) {
	w := newWorld(t, ownercache.Options{Claims: true})
	uses := func(pod *corev1.Pod, claims ...string) *corev1.Pod {
		for _, name := range claims {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "empty"})
		return pod
	}
	elsewhere := uses(&corev1.Pod{ObjectMeta: metaOf("elsewhere", "x", nil)}, "data")
	w.add(uses(podOf(nil, "a"), "data", "logs"), uses(podOf(newOwner("web"), "b"), "data"), podOf(nil, "c"), elsewhere)
	for claim, want := range map[string][]string{"data": {"a", "b"}, "logs": {"a"}, "none": {}} {
		got := w.UsersOf(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: claim}})
		if diff := cmp.Diff(want, names(got)); diff != "" {
			t.Errorf("users of %s (-want +got):\n%s", claim, diff)
		}
	}
}

// invalid returns the API server's error for an invalid value, or for a failed test of a JSON patch.
func invalid(causes ...metav1.StatusCause) error {
	err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid}}
	if err.ErrStatus.Details = (&metav1.StatusDetails{Causes: causes}); causes == nil {
		err.ErrStatus.Details = nil
	}
	return err
}

// denied returns the API server's error if a webhook denies a request with status 422 (k8s.io/apiserver,
// pkg/admission/plugin/webhook/errors/statuserror.go).
func denied() error {
	err := apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	err.ErrStatus.Details, err.ErrStatus.Message = nil, `admission webhook "w.example.com" denied the request: no`
	return err
}

func TestWriteStatus(t *testing.T) {
	oops := errors.New("oops")
	one := appsv1.ReplicaSetStatus{Replicas: 1}
	for _, tc := range []struct {
		name   string
		status appsv1.ReplicaSetStatus
		before func(w *world, owner *appsv1.ReplicaSet)
		wrote  int
		newer  bool // whether the returned version comes from the write
		err    error
	}{
		{"equal", appsv1.ReplicaSetStatus{}, nil, 0, false, nil},
		{"equal but for nothing", appsv1.ReplicaSetStatus{Conditions: []appsv1.ReplicaSetCondition{}}, nil, 0, false, nil},
		{"another", one, nil, 1, true, nil},
		{"the owner is gone", one, func(w *world, owner *appsv1.ReplicaSet) { _ = w.Delete(t.Context(), owner) }, 1, false, nil},
		{"the owner was replaced", one, func(w *world, _ *appsv1.ReplicaSet) {
			w.Answer = func(clustertest.Request) error { return invalid() }
		}, 1, false, nil},
		{"a webhook denies it", one, func(w *world, _ *appsv1.ReplicaSet) {
			w.Answer = func(clustertest.Request) error { return denied() }
		}, 1, false, denied()},
		{"a value is wrong", one, func(w *world, _ *appsv1.ReplicaSet) {
			w.Answer = func(clustertest.Request) error { return invalid(metav1.StatusCause{Field: "status.replicas"}) }
		}, 1, false, invalid(metav1.StatusCause{Field: "status.replicas"})},
		{"another error", one, func(w *world, _ *appsv1.ReplicaSet) { w.Answer = func(clustertest.Request) error { return oops } }, 1, false, oops},
		{"somebody has changed the spec", one, func(w *world, owner *appsv1.ReplicaSet) {
			owner.Generation, owner.Spec.Replicas = 2, ptr.To[int32](9)
			if err := w.Update(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
		}, 1, false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, ownercache.Options{})
			web := newOwner("web")
			w.add(web)
			v := w.observe("web")
			if tc.before != nil {
				tc.before(w, web)
			}
			w.Requests()
			v.Owner.Status = tc.status // the caller's changes to View.Owner are ignored
			version, err := v.WriteStatus(t.Context(), tc.status)
			if (err == nil) != (tc.err == nil) || tc.err != nil && (!strings.Contains(err.Error(), tc.err.Error()) || !strings.Contains(err.Error(), "ReplicaSet default/web")) {
				t.Errorf("WriteStatus = %v, want %v", err, tc.err)
			}
			if n := slices.DeleteFunc(w.Requests(), func(r string) bool { return r != "patch ReplicaSet/status web" }); len(n) != tc.wrote {
				t.Errorf("%d writes, want %d", len(n), tc.wrote)
			}
			if err == nil && (version != v.Owner.ResourceVersion) != tc.newer {
				t.Errorf("version %s, of the owner %s, want a newer one: %t", version, v.Owner.ResourceVersion, tc.newer)
			}
		})
	}
}

// TestMemo: a value is computed once for each generation of an owner, a value for an older generation is not cached,
// and the values of a deleted owner are removed.
func TestMemo(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	made := 0
	memo := ownercache.NewMemo(w.Cache, func(owner *appsv1.ReplicaSet) int64 {
		made++
		return owner.Generation
	})
	web := newOwner("web")
	w.add(web)
	for i, step := range []struct{ generation, made int64 }{{1, 1}, {1, 1}, {3, 2}, {3, 2}, {2, 3}, {3, 3}, {4, 4}} {
		owner := web.DeepCopy()
		owner.Generation = step.generation
		if got := memo.Of(owner); got != step.generation || int64(made) != step.made || memo.Len() != 1 {
			t.Errorf("step %d: %d of generation %d, made %d times, %d are kept", i, got, step.generation, made, memo.Len())
		}
	}
	if err := w.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.deliver()
	if memo.Len() != 0 {
		t.Errorf("%d are kept of an owner that is gone", memo.Len())
	}
}

// TestNodesNeedAWatch: only ControllerOptions.Watch enqueues owners on changes of Nodes, so without Watch,
// AddController returns an error.
func TestNodesNeedAWatch(t *testing.T) {
	w := newWorld(t, ownercache.Options{Nodes: true})
	err := w.Cache.AddController(nil, "agent", nil, ownercache.ControllerOptions{})
	if err == nil || !strings.Contains(err.Error(), "controller agent") || !strings.Contains(err.Error(), "WatchNodes") {
		t.Errorf("AddController = %v", err)
	}
}

// TestMissingReconciler: adding a controller without a reconciler, or without the function that selects Pods, returns
// an error.
func TestMissingReconciler(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	none := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
	all := func(*corev1.Pod) bool { return true }
	for name, err := range map[string]error{
		"owners, no reconciler": w.Cache.AddController(nil, "web", nil, ownercache.ControllerOptions{}),
		"Pods, no reconciler":   w.Cache.AddPodController(nil, "web", nil, all, ownercache.ControllerOptions{}),
		"Pods, nobody says":     w.Cache.AddPodController(nil, "web", none, nil, ownercache.ControllerOptions{}),
		"loop, no reconciler":   ownercache.AddPodLoop(nil, "web", nil, all, ownercache.ControllerOptions{}),
		"loop, nobody says":     ownercache.AddPodLoop(nil, "web", none, nil, ownercache.ControllerOptions{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "reconciler") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWriteSharedStatus: WriteSharedStatus does not overwrite a status that somebody else has written since the view
// was made.
func TestWriteSharedStatus(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	w.add(newOwner("web"))
	v := w.observe("web")
	if written, err := v.WriteSharedStatus(t.Context(), appsv1.ReplicaSetStatus{}); !written || err != nil {
		t.Errorf("an unchanged status: %t, %v", written, err)
	}
	if written, err := v.WriteSharedStatus(t.Context(), appsv1.ReplicaSetStatus{Replicas: 1}); !written || err != nil {
		t.Errorf("a changed one: %t, %v", written, err)
	}
	if written, err := v.WriteSharedStatus(t.Context(), appsv1.ReplicaSetStatus{Replicas: 2}); !written || err != nil {
		t.Errorf("another one, on its own write: %t, %v", written, err)
	}
	w.deliver()
	late := w.observe("web")
	if _, err := w.observe("web").WriteStatus(t.Context(), appsv1.ReplicaSetStatus{Replicas: 7}); err != nil {
		t.Fatal(err)
	}
	if written, err := late.WriteSharedStatus(t.Context(), appsv1.ReplicaSetStatus{Replicas: 3}); written || err != nil {
		t.Errorf("a view from before: %t, %v", written, err)
	}
}

// TestWriteStatusTwice: an unchanged status is sent only once, but is sent again after a different status was sent.
func TestWriteStatusTwice(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	w.add(newOwner("web"))
	v := w.observe("web")
	w.Requests()
	for _, replicas := range []int32{1, 1, 0, 0, 1} {
		if _, err := v.WriteStatus(t.Context(), appsv1.ReplicaSetStatus{Replicas: replicas}); err != nil {
			t.Fatal(err)
		}
	}
	if sent := w.Requests(); len(sent) != 3 {
		t.Errorf("%d requests, want 3: %v", len(sent), sent)
	}
}

// TestWriteStatusOfAnother: WriteStatus refuses a value whose type is not the type of the owner's status.
func TestWriteStatusOfAnother(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	w.add(newOwner("web"))
	v := w.observe("web")
	w.Requests()
	for _, status := range []any{nil, &appsv1.ReplicaSetStatus{Replicas: 1}, appsv1.DeploymentStatus{Replicas: 1}} {
		if _, err := v.WriteStatus(t.Context(), status); err == nil || !strings.Contains(err.Error(), "is not the status of ReplicaSet default/web") {
			t.Errorf("WriteStatus of a %T = %v", status, err)
		}
	}
	if requests := w.Requests(); len(requests) > 0 {
		t.Errorf("sent %q", requests)
	}
}

func TestPatchSpec(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	web := newOwner("web")
	w.add(web)
	v := w.observe("web")
	fields := map[string]any{"minReadySeconds": 7}
	version, err := v.WriteStatus(t.Context(), appsv1.ReplicaSetStatus{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.PatchSpec(t.Context(), v.Owner.ResourceVersion, fields); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "ReplicaSet default/web") {
		t.Errorf("with the version from before the status was written: %v, want a conflict", err)
	}
	if err := v.PatchSpec(t.Context(), version, fields); err != nil {
		t.Error(err)
	}
	stored := &appsv1.ReplicaSet{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), stored); err != nil || stored.Spec.MinReadySeconds != 7 {
		t.Errorf("stored %+v, %v", stored.Spec, err)
	}
	if err := w.Delete(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if err := v.PatchSpec(t.Context(), version, fields); err != nil {
		t.Errorf("of an owner that is gone: %v", err)
	}
	w.add(func() *appsv1.ReplicaSet { s := newOwner("web"); s.UID = "successor"; return s }())
	if err := v.PatchSpec(t.Context(), version, fields); !apierrors.IsConflict(err) {
		t.Errorf("of an owner that was replaced: %v, want a conflict", err)
	}
	if err := v.PatchSpec(t.Context(), version, map[string]any{"x": make(chan int)}); err == nil {
		t.Error("what cannot be written as JSON is no error")
	}
}

func TestSetFinalizer(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	web := newOwner("web")
	web.Finalizers = []string{"example.test/other"}
	w.add(web)
	v, stale := w.observe("web"), w.observe("web")
	set := func(v *ownercache.View[*appsv1.ReplicaSet], wanted, want bool, finalizers ...string) {
		t.Helper()
		if changed, err := v.SetFinalizer(t.Context(), "example.test/mine", wanted); changed != want || err != nil {
			t.Errorf("changed %t, %v; want %t", changed, err, want)
		}
		stored := &appsv1.ReplicaSet{}
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), stored); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]string{finalizers, finalizers}, [][]string{stored.Finalizers, v.Owner.Finalizers}); diff != "" || v.Owner.ResourceVersion != stored.ResourceVersion {
			t.Errorf("stored and in the view (-want +got):\n%s", diff)
		}
	}
	set(v, false, false, "example.test/other")
	set(v, true, true, "example.test/other", "example.test/mine")
	set(v, true, false, "example.test/other", "example.test/mine")
	if _, err := stale.SetFinalizer(t.Context(), "example.test/mine", true); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "ReplicaSet default/web") {
		t.Errorf("of an owner that was written since: %v, want a conflict", err)
	}
	if _, err := v.WriteStatus(t.Context(), appsv1.ReplicaSetStatus{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	if changed, err := v.SetFinalizer(t.Context(), "example.test/mine", false); !changed || err != nil {
		t.Errorf("after a write of the status: changed %t, %v", changed, err)
	}
	if changed, err := v.SetFinalizer(t.Context(), "example.test/other", false); !changed || err != nil {
		t.Errorf("the last finalizer: changed %t, %v", changed, err)
	}
	if err := w.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if changed, err := v.SetFinalizer(t.Context(), "example.test/mine", true); changed || !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "the object was deleted") {
		t.Errorf("added to an owner that is gone: changed %t, %v", changed, err)
	}
	v.Owner.SetFinalizers([]string{"example.test/mine"})
	if changed, err := v.SetFinalizer(t.Context(), "example.test/mine", false); changed || err != nil {
		t.Errorf("removed from an owner that is gone: changed %t, %v", changed, err)
	}
}

// TestOwnedInsteadOfPods: if Options.Owned is set, a view has no Pods. Options about Pods are refused, and so is a
// controller without Watch.
func TestOwnedInsteadOfPods(t *testing.T) {
	cluster := clustertest.New()
	index, err := ownercache.NewIndex(t.Context(), cluster.GetCache(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	owned := []trackedclient.Source{trackedclient.Pods(index)}
	if _, err := ownercache.New(t.Context(), cluster, &appsv1.ReplicaSet{}, ownercache.Options{Owned: owned, Claims: true}); err == nil || !strings.Contains(err.Error(), "ReplicaSet") {
		t.Errorf("with Claims: %v", err)
	}
	w := newWorld(t, ownercache.Options{Owned: owned})
	owner := newOwner("web")
	w.add(owner)
	w.add(podOf(owner, "web-0"))
	if v := w.observe("web"); len(v.Pods) > 0 || w.Pods != nil || v.Gone(podOf(owner, "web-0")) {
		t.Errorf("%d Pods", len(v.Pods))
	}
	if err := w.AddController(nil, "web", nil, ownercache.ControllerOptions{}); err == nil || !strings.Contains(err.Error(), "controller web") {
		t.Errorf("AddController = %v", err)
	}
}

// TestBeside: Observe returns no view until the caches in Options.Beside show the owner's writes.
func TestBeside(t *testing.T) {
	cluster := clustertest.New()
	index, err := ownercache.NewIndex(t.Context(), cluster.GetCache(), &corev1.PersistentVolumeClaim{})
	if err != nil {
		t.Fatal(err)
	}
	beside := []trackedclient.Source{trackedclient.Claims(index)}
	if _, err := ownercache.New(t.Context(), cluster, &appsv1.ReplicaSet{}, ownercache.Options{Owned: beside, Beside: beside}); err == nil {
		t.Error("an owner without Pods has objects beside Pods")
	}
	w := &world{Cluster: cluster, t: t, clock: testingclock.NewFakePassiveClock(begin)}
	if w.Cache, err = ownercache.New(t.Context(), cluster, &appsv1.ReplicaSet{}, ownercache.Options{Beside: beside, Clock: w.clock, NoBarrier: true}); err != nil {
		t.Fatal(err)
	}
	web := newOwner("web")
	w.add(web)
	if err := w.observe("web").Client.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metaOf("default", "beside", web)}); err != nil {
		t.Fatal(err)
	}
	if v, result, err := w.Observe(t.Context(), request("web")); v != nil || result.RequeueAfter <= 0 || err != nil {
		t.Errorf("before the cache shows the write: %v, %v, %v", v, result, err)
	}
	w.deliver()
	w.observe("web")
	if got := index.Of("default", web.UID); len(got) != 1 {
		t.Errorf("%d objects", len(got))
	}
}

// deaf is a manager whose reader for the API server (GetAPIReader) returns an error for every request.
type deaf struct{ *clustertest.Cluster }

func (deaf) GetAPIReader() client.Reader {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("no answer")
	}}).Build()
}

// TestOwnerOfIsUnknown: if the API server does not respond, OwnerOf returns an error, because nobody knows whether
// the Pod has an owner.
func TestOwnerOfIsUnknown(t *testing.T) {
	c, err := ownercache.New(t.Context(), deaf{clustertest.New()}, &appsv1.ReplicaSet{}, ownercache.Options{NoBarrier: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := c.OwnerOf(t.Context(), podOf(newOwner("web"), "web-0")); ok || err == nil {
		t.Errorf("%t, %v", ok, err)
	}
}

// TestOwnerOf: OwnerOf finds the owner even if the cache is empty or does not show the owner yet.
func TestOwnerOf(t *testing.T) {
	w := newWorld(t, ownercache.Options{})
	if err := w.Create(t.Context(), newOwner("web")); err != nil {
		t.Fatal(err)
	}
	former := newOwner("web")
	former.UID = "former"
	foreign := podOf(newOwner("web"), "web-2")
	foreign.OwnerReferences[0].Kind = "Game"
	for _, filled := range []bool{false, true} {
		if filled {
			w.deliver()
		}
		for _, tc := range []struct {
			name string
			pod  *corev1.Pod
			want bool
		}{
			{"an owner", podOf(newOwner("web"), "web-0"), true},
			{"a former owner of the name", podOf(former, "web-1"), false},
			{"another kind", foreign, false},
			{"an owner that is gone", podOf(newOwner("gone"), "gone-0"), false},
			{"nobody's", podOf(nil, "web-3"), false},
		} {
			owner, ok, err := w.OwnerOf(t.Context(), tc.pod)
			if ok != tc.want || err != nil || ok && owner.Name != "web" {
				t.Errorf("filled %t, %s: %t, %v", filled, tc.name, ok, err)
			}
		}
	}
}
