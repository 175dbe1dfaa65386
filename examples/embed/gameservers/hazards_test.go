package gameservers

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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// policy refuses some requests, and counts all requests.
type policy struct {
	mu      sync.Mutex
	refuses func(faultapi.Call) bool
	counts  map[string]int
}

func (p *policy) Pass(_ context.Context, call faultapi.Call) faultapi.Fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[call.Verb+" "+call.Resource.Resource+"/"+call.Subresource]++
	if p.refuses != nil && p.refuses(call) {
		return faultapi.Fate{Before: apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))}
	}
	return faultapi.Fate{}
}

// arena is a GameServers with its operator and the Nodes of its Pods.
type arena struct {
	*reconciler

	t      *testing.T
	server *faultapi.Server
	store  *faultapi.Cache
	policy policy
	user   *faultapi.Client
	nodes  *faultapi.Nodes
	scheme *runtime.Scheme
	added  []manager.Runnable
	clock  *testingclock.FakePassiveClock
	// sound reports whether the containers of a running Pod become ready. ending is how many seconds a Pod takes to
	// end.
	sound  func(*corev1.Pod) bool
	ending int
	since  map[types.UID]int
	// failed counts the errors that the operator has returned to its queue. fewest is the smallest number of Pods in
	// service at any time.
	failed, fewest int
}

func (a *arena) GetCache() cache.Cache       { return a.store }
func (a *arena) GetClient() client.Client    { return a.server.Client(&a.policy, a.store) }
func (a *arena) GetAPIReader() client.Reader { return a.server.Client(nil, nil) }
func (a *arena) GetScheme() *runtime.Scheme  { return a.scheme }
func (a *arena) Add(r manager.Runnable) error {
	a.added = append(a.added, r)
	return nil
}

var key = types.NamespacedName{Namespace: "default", Name: "games"}

func newArena(t *testing.T, edit func(*Spec)) *arena {
	t.Helper()
	a := &arena{
		t: t, scheme: newScheme(t), policy: policy{counts: map[string]int{}}, since: map[types.UID]int{},
		sound: func(*corev1.Pod) bool { return true }, clock: testingclock.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)),
	}
	var err error
	if a.server, err = faultapi.New(a.scheme, a.clock.Now, &GameServers{}); err != nil {
		t.Fatal(err)
	}
	a.store, a.user, a.nodes = a.server.Cache(nil), a.server.Client(nil, nil), a.server.Nodes()
	if a.reconciler, err = newReconciler(t.Context(), a, &events.FakeRecorder{}, a.clock); err != nil {
		t.Fatal(err)
	}
	g := &GameServers{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	g.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	edit(&g.Spec)
	if err := a.user.Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	a.deliver()
	for _, r := range a.added { // starts the runnables of the manager, as after leader election
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func replicas(n int) func(*Spec) { return func(s *Spec) { s.Replicas = n } }

func command(s *Spec) { s.Template.Spec.Containers[0].Command = []string{"serve"} }

func (a *arena) deliver() {
	for _, resource := range a.store.Resources() {
		a.store.Deliver(resource, 100_000)
		a.store.Bookmark(resource)
	}
	a.store.Announce()
}

func (a *arena) all() []*corev1.Pod { return faultapi.All[*corev1.Pod](a.server) }

func (a *arena) reconcile() {
	a.t.Helper()
	a.deliver()
	if _, err := a.Reconcile(a.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		a.t.Log(err)
		a.failed++
	}
}

// rounds advances the clock by n seconds, and lets the operator and the Nodes work after each second.
func (a *arena) rounds(n int) {
	a.t.Helper()
	a.failed, a.fewest = 0, len(a.all())
	for range n {
		a.clock.SetTime(a.clock.Now().Add(time.Second))
		a.reconcile()
		serving := 0
		for _, pod := range a.all() {
			a.deliver()
			if _, err := a.Executor.Reconcile(a.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
				a.t.Log(err)
				a.failed++
			}
			if podstate.IsActive(pod) && podstate.IsReady(pod) {
				serving++
			}
			a.kubelet(pod)
		}
		a.fewest = min(a.fewest, serving)
	}
	a.deliver()
}

func (a *arena) kubelet(pod *corev1.Pod) {
	a.nodes.Schedule(pod, "n1")
	a.nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
	a.nodes.Run(pod.UID)
	a.nodes.SetReady(pod.UID, "app", a.sound(pod))
	a.nodes.Report(pod.UID)
	if pod.DeletionTimestamp == nil {
		return
	}
	if a.since[pod.UID]++; a.since[pod.UID] > a.ending {
		a.nodes.Terminate(pod.UID)
	}
}

func (a *arena) edit(change func(*Spec)) {
	a.t.Helper()
	g := a.owner()
	change(&g.Spec)
	if err := a.user.Update(a.t.Context(), g); err != nil {
		a.t.Fatal(err)
	}
}

func (a *arena) owner() *GameServers {
	a.t.Helper()
	g := &GameServers{}
	if err := a.user.Get(a.t.Context(), key, g); err != nil {
		a.t.Fatal(err)
	}
	return g
}

// told returns the reason and the message of a condition, or "" if the condition is not True.
func (a *arena) told(condition string) string {
	a.t.Helper()
	if c := meta.FindStatusCondition(a.owner().Status.Conditions, condition); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason + " " + c.Message
	}
	return ""
}

// updated returns the names of the ready Pods with an image.
func (a *arena) updated(image string) []string {
	names := []string{}
	for _, pod := range a.all() {
		if pod.Spec.Containers[0].Image == image && podstate.IsReady(pod) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// expect fails the test unless exactly the given ordinals have a ready Pod with the image, and no failure occurred.
func (a *arena) expect(image string, ordinals ...int) {
	a.t.Helper()
	var want []string
	for _, o := range ordinals {
		want = append(want, fmt.Sprintf("games-%d", o))
	}
	slices.Sort(want)
	if got := a.updated(image); !slices.Equal(got, want) || a.failed > 0 {
		a.t.Errorf("%v are ready with %s, want %v; %d errors", got, image, want, a.failed)
	}
}

func isSpecPatch(c faultapi.Call) bool {
	return c.Verb == "patch" && c.Resource.Resource == "pods" && c.Subresource == ""
}

// TestSlowTermination: terminating Pods count as unavailable, so that no more Pods than maxUnavailable are recreated
// at the same time, even if Pods end slowly. An operator that counts only active Pods would delete all ten Pods.
func TestSlowTermination(t *testing.T) {
	a := newArena(t, func(s *Spec) { s.Replicas, s.MaxUnavailable = 10, 2 })
	a.rounds(10)
	a.expect("app:v1", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	a.ending = 30
	a.edit(func(s *Spec) { command(s); image("app:v2")(s) })
	a.rounds(250)
	a.expect("app:v2", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	if a.fewest != 8 {
		t.Errorf("%d of 10 Pods were in service at times, want 8", a.fewest)
	}
}

// TestMovedStart: unwanted Pods are deleted only after the wanted Pods are available.
func TestMovedStart(t *testing.T) {
	a := newArena(t, replicas(4))
	a.rounds(10)
	a.sound = func(p *corev1.Pod) bool { return p.Name < "games-4" } // new Pods never become ready
	a.edit(func(s *Spec) { s.Start = 4 })
	a.rounds(40)
	if got := a.updated("app:v1"); len(got) != 3 || a.fewest != 3 {
		t.Errorf("%v are left of 4, 3 may not go; at least %d", got, a.fewest)
	}
	a.sound = func(*corev1.Pod) bool { return true }
	a.rounds(30)
	a.expect("app:v1", 4, 5, 6, 7)
}

// TestBrokenPod: a broken Pod does not prevent the update that repairs it, whatever its ordinal.
func TestBrokenPod(t *testing.T) {
	for at := range 3 {
		a := newArena(t, replicas(3))
		a.rounds(10)
		worst := fmt.Sprintf("games-%d", at)
		a.sound = func(p *corev1.Pod) bool { return p.Name != worst || p.Spec.Containers[0].Image == "app:v2" }
		a.rounds(150) // long enough for the Pods to start
		a.edit(image("app:v2"))
		a.rounds(40)
		a.expect("app:v2", 0, 1, 2)
	}
}

// TestBadRevision: a revision whose Pods never become ready reaches at most maxUnavailable Pods, and the Pods are
// updated in place to the next revision.
func TestBadRevision(t *testing.T) {
	a := newArena(t, replicas(4))
	a.rounds(10)
	a.sound = func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image != "app:bad" }
	a.edit(image("app:bad"))
	a.rounds(200)
	a.expect("app:v1", 0, 1, 2)
	if told := a.told("Progressing"); !strings.Contains(told, "UpdateLimited") {
		t.Errorf("told %q", told)
	}
	a.edit(image("app:v3"))
	a.rounds(40)
	a.expect("app:v3", 0, 1, 2, 3)
}

// TestRefusedPatches: Pods whose update in place is refused are recreated one after the other, and no request is
// repeated in a tight loop.
func TestRefusedPatches(t *testing.T) {
	a := newArena(t, replicas(3))
	a.rounds(10)
	a.policy.refuses = isSpecPatch
	clear(a.policy.counts)
	a.edit(image("app:v2"))
	a.rounds(40)
	a.expect("app:v2", 0, 1, 2)
	if n := a.policy.counts["patch pods/"]; a.fewest < 2 || n != 3 {
		t.Errorf("%d Pods were ready at times, %d attempts to patch 3 Pods", a.fewest, n)
	}
}

// TestDeniedPod: a Pod for which every change is refused stays in service and is reported. The other Pods are
// updated, even if this Pod comes first in the order.
func TestDeniedPod(t *testing.T) {
	for at := range 3 {
		a := newArena(t, replicas(3))
		a.rounds(10)
		denied := fmt.Sprintf("games-%d", at)
		a.policy.refuses = func(c faultapi.Call) bool { return c.Name == denied && (isSpecPatch(c) || c.Verb == "delete") }
		clear(a.policy.counts)
		a.edit(image("app:v2"))
		a.rounds(60)
		a.expect("app:v2", slices.DeleteFunc([]int{0, 1, 2}, func(o int) bool { return o == at })...)
		if !slices.Equal(a.updated("app:v1"), []string{denied}) {
			t.Errorf("%s is out of service", denied)
		}
		if n := a.policy.counts["patch pods/status"]; n > 10 {
			t.Errorf("%d writes of status for 3 Pods", n)
		}
		if told := a.told("Failed"); !strings.Contains(told, "a webhook says no") {
			t.Errorf("told %q", told)
		}
	}
}

// TestUnreadablePod: a Pod whose annotation with the progress of an update is invalid is not changed, whatever its
// ordinal, and the other Pods are updated.
func TestUnreadablePod(t *testing.T) {
	for at := range 3 {
		a := newArena(t, replicas(3))
		a.rounds(10)
		spoilt := &corev1.Pod{}
		if err := a.user.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: fmt.Sprintf("games-%d", at)}, spoilt); err != nil {
			t.Fatal(err)
		}
		spoilt.Annotations[group+"/update"] = "garbage"
		if err := a.user.Update(t.Context(), spoilt); err != nil {
			t.Fatal(err)
		}
		a.edit(func(s *Spec) { s.Replicas = 4; image("app:v2")(s) })
		a.rounds(40)
		a.expect("app:v2", slices.DeleteFunc([]int{0, 1, 2, 3}, func(o int) bool { return o == at })...)
		if told := a.told("Failed"); !strings.Contains(told, "UnreadableState") {
			t.Errorf("told %q", told)
		}
	}
}

// TestQuota: failed creations prevent neither updates nor deletions of existing Pods.
func TestQuota(t *testing.T) {
	a := newArena(t, replicas(3))
	a.rounds(10)
	a.policy.refuses = func(c faultapi.Call) bool { return c.Verb == "create" && c.Resource.Resource == "pods" }
	clear(a.policy.counts)
	a.edit(func(s *Spec) { s.Start, s.Replicas, s.MaxUnavailable = 1, 3, 2; image("app:v2")(s) })
	a.rounds(30)
	a.expect("app:v2", 1, 2)
	if n := a.policy.counts["create pods/"]; n > 5 {
		t.Errorf("%d attempts to create a Pod", n)
	}
}

// TestMistypedNumbers: with ordinals near the allowed limit, a reconciliation needs little memory and ends soon. With
// ordinals beyond the limit, no Pod is changed.
func TestMistypedNumbers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		edit  func(*Spec)
		wrong string
	}{
		{"replicas", func(s *Spec) { s.Replicas = math.MaxInt32 }, ""},
		{"start", func(s *Spec) { s.Start = math.MaxInt32 - 1 }, ""},
		{"start beyond", func(s *Spec) { s.Start = math.MaxInt32 }, "OrdinalOverflow spec.replicas"},
		{"start far beyond", func(s *Spec) { s.Start = math.MaxInt }, "InvalidOrdinal spec.start"},
		{"both", func(s *Spec) { s.Start, s.Replicas = math.MaxInt32, math.MaxInt32 }, "OrdinalOverflow spec.replicas"},
		{"replicas beyond", func(s *Spec) { s.Replicas = math.MaxInt }, "OrdinalOverflow spec.replicas"},
		{"reserved", func(s *Spec) { s.Reserved = []intstr.IntOrString{intstr.FromString("1-2147483647")} }, "OrdinalOverflow spec.replicas"},
		{"partition and budget", func(s *Spec) { s.Partition, s.MaxUnavailable = math.MaxInt, math.MaxInt }, ""},
		{"negative", func(s *Spec) { s.Replicas = -1 }, "InvalidOrdinal spec.replicas: -1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newArena(t, replicas(2))
			a.rounds(5)
			clear(a.policy.counts)
			a.edit(tc.edit)
			a.reconcile()
			a.reconcile()
			made := a.policy.counts["create pods/"]
			if told := a.told("Failed"); a.failed > 0 || made > 1000 || (told != "") != (tc.wrong != "") || !strings.Contains(told, tc.wrong) {
				t.Errorf("%d Pods were made in two passes, %d errors, told %q, want %q", made, a.failed, told, tc.wrong)
			}
			if tc.wrong != "" && made+a.policy.counts["delete pods/"]+a.policy.counts["patch pods/"] > 0 {
				t.Errorf("writes: %v", a.policy.counts)
			}
		})
	}
}

// TestStrangers: Pods of other owners are never written, whatever their names and labels. Free ordinals get their
// Pods at once, and occupied ordinals after the other Pods were deleted.
func TestStrangers(t *testing.T) {
	a := newArena(t, replicas(0))
	a.rounds(2)
	ours := *metav1.NewControllerRef(a.owner(), a.Cache.Kind())
	another := ours
	another.UID = "another"
	labels := map[string]string{revisionLabel: "x", stateLabel: "PreparingDelete", deleteLabel: "yes"}
	strangers := map[string][]metav1.OwnerReference{"games-0": nil, "games-1": {another}, "games-03": {ours}, "games-x": {ours}, "others-2": nil}
	before := map[string]string{}
	for name, owners := range strangers {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels, OwnerReferences: owners}}
		if name == "games-03" || name == "games-x" {
			pod.Labels = nil // with the labels, the operator would have work to do on the Pod
		}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "other"}}
		if err := a.user.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		before[name] = string(pod.UID)
	}
	a.policy.refuses = func(c faultapi.Call) bool {
		if _, stranger := strangers[c.Name]; stranger && !c.IsRead() {
			t.Errorf("%s of Pod %s", c.Verb, c.Name)
		}
		return false
	}
	a.edit(func(s *Spec) { s.Replicas, s.MaxUnavailable = 4, 3 })
	a.rounds(30)
	a.expect("app:v1", 2, 3)
	if told := a.told("Failed"); !strings.Contains(told, "NameTaken") || !strings.Contains(told, "games-1") {
		t.Errorf("told %q", told)
	}
	a.edit(func(s *Spec) { s.Start = 1; image("app:v2")(s) })
	a.rounds(30)
	a.expect("app:v2", 2, 3, 4)
	for name := range strangers {
		pod := &corev1.Pod{}
		if err := a.user.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil || string(pod.UID) != before[name] {
			t.Errorf("Pod %s: %v, UID %s", name, err, pod.UID)
		}
		if name == "games-1" {
			if err := a.user.Delete(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.policy.refuses = nil
	a.rounds(30)
	a.expect("app:v2", 1, 2, 3, 4)
}

// TestHistoryIsTruncated: revisions without Pods are deleted beyond the limit, and the current revision is kept while
// it is needed.
func TestHistoryIsTruncated(t *testing.T) {
	a := newArena(t, func(s *Spec) { s.Replicas, s.HistoryLimit, s.Partition = 2, 3, 1 })
	a.rounds(6)
	for i := range 20 {
		a.edit(image(fmt.Sprint("app:w", i)))
		a.rounds(6)
	}
	if n := len(faultapi.All[*appsv1.ControllerRevision](a.server)); n != 5 {
		t.Errorf("%d revisions are kept, want 3 that nobody uses, the current one and that of the template", n)
	}
	a.expect("app:v1", 0)
	lost := a.all()[0]
	if err := a.user.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	a.rounds(10)
	a.expect("app:v1", 0)
}

// TestNothingIsLeft: the process remembers no writes and refusals of deleted objects.
func TestNothingIsLeft(t *testing.T) {
	a := newArena(t, replicas(2))
	a.policy.refuses = func(c faultapi.Call) bool {
		return c.Verb == "create" && c.Resource.Resource == "pods" && len(a.all()) > 0
	}
	a.rounds(2) // while writes are pending
	if err := a.user.Delete(t.Context(), a.owner()); err != nil {
		t.Fatal(err)
	}
	for _, pod := range a.all() { // as the garbage collector does
		if err := a.user.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		a.nodes.Terminate(pod.UID)
	}
	a.rounds(5)
	if n := a.Cache.Clients().Tracker().Len(); n > 0 || a.Fanout.Backoff.Len() > 0 {
		t.Errorf("%d owners are awaited, %d refusals are remembered", n, a.Fanout.Backoff.Len())
	}
}
