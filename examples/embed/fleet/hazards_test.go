package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	if !call.DryRun {
		p.counts[call.Verb+" "+call.Resource.Resource+"/"+call.Subresource]++
	}
	if p.refuses != nil && p.refuses(call) {
		return faultapi.Fate{Before: apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))}
	}
	return faultapi.Fate{}
}

// harbour is a Fleet with its operator and the Nodes of its Pods.
type harbour struct {
	*reconciler

	t      *testing.T
	server *faultapi.Server
	store  *faultapi.Cache
	policy policy
	user   *faultapi.Client
	nodes  *faultapi.Nodes
	key    types.NamespacedName
	scheme *runtime.Scheme
	added  []manager.Runnable
	clock  *testingclock.FakePassiveClock
	// sound reports whether the containers of a running Pod become ready.
	sound func(*corev1.Pod) bool
	// failed counts the errors that the operator has returned to its queue. fewest is the smallest number of ready Pods
	// at any time.
	failed, fewest int
}

func (h *harbour) GetCache() cache.Cache       { return h.store }
func (h *harbour) GetClient() client.Client    { return h.server.Client(&h.policy, h.store) }
func (h *harbour) GetAPIReader() client.Reader { return h.server.Client(nil, nil) }
func (h *harbour) GetScheme() *runtime.Scheme  { return h.scheme }
func (h *harbour) Add(r manager.Runnable) error {
	h.added = append(h.added, r)
	return nil
}

func newHarbour(t *testing.T, replicas int) *harbour {
	t.Helper()
	h := &harbour{
		t: t, scheme: newScheme(t), policy: policy{counts: map[string]int{}}, key: types.NamespacedName{Namespace: "default", Name: "ships"},
		sound: func(*corev1.Pod) bool { return true }, clock: testingclock.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)),
	}
	var err error
	if h.server, err = faultapi.New(h.scheme, h.clock.Now, &Fleet{}); err != nil {
		t.Fatal(err)
	}
	h.store, h.user, h.nodes = h.server.Cache(nil), h.server.Client(nil, nil), h.server.Nodes()
	if h.reconciler, err = newReconciler(t.Context(), h, &events.FakeRecorder{}, h.clock); err != nil {
		t.Fatal(err)
	}
	fleet := &Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ships"}}
	fleet.Spec.Replicas = replicas
	fleet.Spec.Template.Labels = map[string]string{"fleet": "ships"}
	fleet.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	if err := h.user.Create(t.Context(), fleet); err != nil {
		t.Fatal(err)
	}
	h.deliver()
	for _, r := range h.added { // starts the runnables of the manager, as after leader election
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *harbour) deliver() {
	for _, resource := range h.store.Resources() {
		h.store.Deliver(resource, 100_000)
		h.store.Bookmark(resource)
	}
	h.store.Announce()
}

func (h *harbour) all() []*corev1.Pod { return faultapi.All[*corev1.Pod](h.server) }

// rounds advances the clock by n seconds, and lets the operator and the Nodes work after each second.
func (h *harbour) rounds(n int) {
	h.t.Helper()
	h.failed, h.fewest = 0, len(h.all())
	for range n {
		h.clock.SetTime(h.clock.Now().Add(time.Second))
		h.deliver()
		if _, err := h.Reconcile(h.t.Context(), ctrl.Request{NamespacedName: h.key}); err != nil {
			h.t.Log(err)
			h.failed++
		}
		ready := 0
		for _, pod := range h.all() {
			h.deliver()
			if _, err := h.Executor.Reconcile(h.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
				h.t.Log(err)
				h.failed++
			}
			if podstate.IsActive(pod) && podstate.IsReady(pod) {
				ready++
			}
			h.nodes.Schedule(pod, "n1")
			h.nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
			h.nodes.Run(pod.UID)
			h.nodes.SetReady(pod.UID, "app", h.sound(pod))
			h.nodes.Report(pod.UID)
			h.nodes.Terminate(pod.UID)
		}
		h.fewest = min(h.fewest, ready)
	}
	h.deliver()
}

func (h *harbour) edit(change func(*Fleet)) {
	h.t.Helper()
	fleet := h.fleet()
	change(fleet)
	if err := h.user.Update(h.t.Context(), fleet); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harbour) fleet() *Fleet {
	h.t.Helper()
	fleet := &Fleet{}
	if err := h.user.Get(h.t.Context(), h.key, fleet); err != nil {
		h.t.Fatal(err)
	}
	return fleet
}

func image(image string) func(*Fleet) {
	return func(f *Fleet) { f.Spec.Template.Spec.Containers[0].Image = image }
}

// settled fails the test unless there are n Pods, all ready and with the image.
func (h *harbour) settled(n int, image string) {
	h.t.Helper()
	if pods := h.all(); len(pods) != n {
		h.t.Errorf("%d Pods, want %d", len(pods), n)
	}
	for _, pod := range h.all() {
		if pod.Spec.Containers[0].Image != image || !podstate.IsReady(pod) {
			h.t.Errorf("Pod %s has %s, ready %t, want %s", pod.Name, pod.Spec.Containers[0].Image, podstate.IsReady(pod), image)
		}
	}
}

func isSpecPatch(c faultapi.Call) bool {
	return c.Verb == "patch" && c.Resource.Resource == "pods" && c.Subresource == ""
}

// TestRefusedUpdates: Pods whose update in place is refused are recreated one after the other, and no request is
// repeated in a tight loop.
func TestRefusedUpdates(t *testing.T) {
	h := newHarbour(t, 3)
	h.rounds(10)
	h.policy.refuses = isSpecPatch
	clear(h.policy.counts)
	h.edit(image("app:v2"))
	h.rounds(40)
	if h.failed > 0 || h.fewest < 2 {
		t.Errorf("%d errors, and %d Pods were ready at times", h.failed, h.fewest)
	}
	h.settled(3, "app:v2")
	if n := h.policy.counts["patch pods/"]; n != 3 {
		t.Errorf("%d attempts to patch 3 Pods", n)
	}
}

// TestDeniedPod: if a webhook refuses every write to a single Pod, the operator does not open and close the Pod's
// readiness gate again and again. The other Pods are updated, and the status gives the reason why this Pod is not
// updated.
func TestDeniedPod(t *testing.T) {
	h := newHarbour(t, 3)
	h.rounds(10)
	denied := h.all()[0].Name
	h.policy.refuses = func(c faultapi.Call) bool {
		return c.Name == denied && (isSpecPatch(c) || c.Verb == "delete")
	}
	clear(h.policy.counts)
	h.edit(image("app:v2"))
	h.rounds(60)
	updated := 0
	for _, pod := range h.all() {
		if pod.Spec.Containers[0].Image == "app:v2" && podstate.IsReady(pod) {
			updated++
		}
		if pod.Name == denied && !podstate.IsReady(pod) {
			t.Error("the denied Pod is out of service")
		}
	}
	if updated != 2 || h.failed > 0 {
		t.Errorf("%d of 2 other Pods are updated, %d errors", updated, h.failed)
	}
	if n := h.policy.counts["patch pods/status"]; n > 10 {
		t.Errorf("%d writes of status for 3 Pods", n)
	}
	if c := meta.FindStatusCondition(h.fleet().Status.Conditions, "Failed"); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
}

// TestRefusedFinish: if a policy refuses writes from the middle of a Pod's update on, the Pod stays out of service.
// The status reports the refusal, and the update continues as soon as the spec changes.
func TestRefusedFinish(t *testing.T) {
	h := newHarbour(t, 1)
	h.rounds(10)
	h.edit(func(f *Fleet) { f.Spec.GracePeriodSeconds = 5; image("app:v2")(f) })
	h.rounds(3)
	h.policy.refuses = isSpecPatch
	h.rounds(20)
	if c := meta.FindStatusCondition(h.fleet().Status.Conditions, "Failed"); c == nil || c.Status != metav1.ConditionTrue || h.failed > 0 {
		t.Errorf("condition %+v, %d errors", c, h.failed)
	}
	h.policy.refuses = nil
	h.edit(func(f *Fleet) { f.Spec.MaxUnavailable = 2 })
	h.rounds(10)
	h.settled(1, "app:v2")
	if c := meta.FindStatusCondition(h.fleet().Status.Conditions, "Failed"); c == nil || c.Status != metav1.ConditionFalse {
		t.Errorf("condition %+v", c)
	}
}

// TestFinishingDoesNotWaitForTheOwner: a Pod returns into service even while the cache does not show the writes of
// its owner's reconciliation.
func TestFinishingDoesNotWaitForTheOwner(t *testing.T) {
	h := newHarbour(t, 1)
	h.rounds(10)
	h.edit(image("app:v2"))
	for podstate.GateOpen(h.all()[0], gate) {
		h.rounds(1)
	}
	h.edit(image("app:v3"))
	h.store.Deliver("fleets", 1)
	if _, err := h.Reconcile(t.Context(), ctrl.Request{NamespacedName: h.key}); err != nil {
		t.Fatal(err)
	}
	if h.store.Behind("controllerrevisions") != 1 || podstate.IsReady(h.all()[0]) {
		t.Fatalf("the cache lacks %d revisions, the Pod is ready %t", h.store.Behind("controllerrevisions"), podstate.IsReady(h.all()[0]))
	}
	for range 5 {
		h.nodes.Settle()
		h.store.Deliver("pods", 100)
		if _, err := h.Executor.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(h.all()[0])}); err != nil {
			t.Fatal(err)
		}
	}
	h.nodes.Settle()
	if !podstate.IsReady(h.all()[0]) {
		t.Error("the Pod is out of service")
	}
}

// TestBrokenPodIsUpdatedFirst: an old broken Pod does not prevent the update that repairs it, whatever its name.
func TestBrokenPodIsUpdatedFirst(t *testing.T) {
	for at := range 3 {
		h := newHarbour(t, 3)
		h.rounds(10)
		worst := h.all()[at].Name
		h.sound = func(p *corev1.Pod) bool { return p.Name != worst || p.Spec.Containers[0].Image == "app:v2" }
		h.rounds(3)
		h.edit(image("app:v2"))
		h.rounds(40)
		h.settled(3, "app:v2")
	}
}

// TestScaleInTakesBrokenPodsFirst: if replicas becomes smaller, Pods that are not ready are deleted first.
func TestScaleInTakesBrokenPodsFirst(t *testing.T) {
	h := newHarbour(t, 6)
	h.rounds(15)
	broken := map[string]bool{}
	for _, pod := range h.all()[3:] {
		broken[pod.Name] = true
	}
	h.sound = func(p *corev1.Pod) bool { return !broken[p.Name] }
	h.rounds(3)
	h.edit(func(f *Fleet) { f.Spec.Replicas = 4 })
	h.rounds(20)
	serving := slices.DeleteFunc(h.all(), func(p *corev1.Pod) bool { return broken[p.Name] })
	if len(h.all()) != 4 || len(serving) != 3 {
		t.Errorf("%d Pods are left, %d of 3 that serve", len(h.all()), len(serving))
	}
}

// TestUnreadablePodBlocksNobody: a Pod whose annotation with the progress of an update is invalid is not changed, and
// the other Pods are updated.
func TestUnreadablePodBlocksNobody(t *testing.T) {
	h := newHarbour(t, 2)
	h.rounds(10)
	spoilt := h.all()[0].DeepCopy()
	spoilt.Annotations = map[string]string{group + "/state": "garbage"}
	if err := h.user.Update(t.Context(), spoilt); err != nil {
		t.Fatal(err)
	}
	h.edit(func(f *Fleet) { f.Spec.Replicas = 4; image("app:v2")(f) })
	h.rounds(40)
	updated := 0
	for _, pod := range h.all() {
		if pod.Spec.Containers[0].Image == "app:v2" && podstate.IsReady(pod) {
			updated++
		}
	}
	if len(h.all()) != 4 || updated != 3 || h.failed > 0 {
		t.Errorf("%d Pods, %d updated, %d errors", len(h.all()), updated, h.failed)
	}
}

// TestUnreadableNewPod: if the annotation becomes invalid before the Pod was ready for the first time, the Pod never
// becomes ready, and the status reports the Pod.
func TestUnreadableNewPod(t *testing.T) {
	h := newHarbour(t, 1)
	for len(h.all()) == 0 {
		h.rounds(1)
	}
	spoilt := h.all()[0].DeepCopy()
	spoilt.Annotations = map[string]string{group + "/state": "garbage"}
	if err := h.user.Update(t.Context(), spoilt); err != nil {
		t.Fatal(err)
	}
	h.rounds(10)
	if c := meta.FindStatusCondition(h.fleet().Status.Conditions, "Failed"); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
}

// TestQuotaStopsNoUpdates: failed creations do not prevent updates of existing Pods.
func TestQuotaStopsNoUpdates(t *testing.T) {
	h := newHarbour(t, 2)
	h.rounds(10)
	h.policy.refuses = func(c faultapi.Call) bool { return c.Verb == "create" && c.Resource.Resource == "pods" }
	clear(h.policy.counts)
	h.edit(func(f *Fleet) { f.Spec.Replicas, f.Spec.MaxUnavailable = 3, 2; image("app:v2")(f) })
	h.rounds(30)
	h.settled(2, "app:v2")
	if n := h.policy.counts["create pods/"]; n > 5 || h.failed > 0 {
		t.Errorf("%d attempts to create a Pod, %d errors", n, h.failed)
	}
}

// TestMistypedReplicas: with a very large number of replicas, each reconciliation still ends soon, and a quota limits
// the number of Pods.
func TestMistypedReplicas(t *testing.T) {
	h := newHarbour(t, 20_000)
	h.deliver()
	if _, err := h.Reconcile(t.Context(), ctrl.Request{NamespacedName: h.key}); err != nil {
		t.Fatal(err)
	}
	if n := h.policy.counts["create pods/"]; n == 0 || n > 500 {
		t.Errorf("one pass creates %d Pods", n)
	}
}

// TestHistoryIsTruncated: revisions without Pods are deleted beyond the limit.
func TestHistoryIsTruncated(t *testing.T) {
	h := newHarbour(t, 1)
	for i := range 30 {
		h.edit(image(fmt.Sprint("app:v", i)))
		h.rounds(6)
	}
	if n := len(faultapi.All[*appsv1.ControllerRevision](h.server)); n > historyLimit+2 {
		t.Errorf("%d revisions are kept", n)
	}
}

// TestNothingIsLeftOfDeletedFleets: the process remembers no writes, refusals and parsed specs of deleted Fleets.
func TestNothingIsLeftOfDeletedFleets(t *testing.T) {
	h := newHarbour(t, 2)
	h.policy.refuses = func(c faultapi.Call) bool {
		return c.Verb == "create" && c.Resource.Resource == "pods" && len(h.all()) > 0
	}
	h.rounds(3) // while writes are pending
	fleet := h.fleet()
	if err := h.user.Delete(t.Context(), fleet); err != nil {
		t.Fatal(err)
	}
	for _, pod := range h.all() { // as the garbage collector does
		if err := h.user.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		h.nodes.Terminate(pod.UID)
	}
	h.rounds(5)
	if awaited, refused, read := h.Cache.Clients().Tracker().Len(), h.Fanout.Backoff.Len(), h.Reader.Len(); awaited+refused+read > 0 {
		t.Errorf("%d owners are awaited, %d refusals are remembered, the Pods of %d owners are", awaited, refused, read)
	}
}
