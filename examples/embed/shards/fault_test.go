package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: three webhooks and an operator share a disruption budget, all with stale caches. Under any faults, a
// Pod is taken out of service only if the budget has admitted the disruption. A Pod is created only if the Pods with
// lower ordinals are in service and its claim exists, and claims never become smaller. In the end the cluster matches
// the spec.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 3) }

func plan(t testing.TB) chaos.Plan {
	return chaos.Plan{
		Scheme: newScheme(t), Kinds: []client.Object{&Shards{}, &corev1.ConfigMap{}}, Steps: 250, Replicas: 3, Quiet: 6 * time.Minute,
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, asked: map[string]*question{}, away: map[string]bool{}}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.bind, Settle: w.settle, Check: w.carryOut,
				Denies: w.denies, Looks: w.look, Wrote: w.judge, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	// steady is true in schedules in which every client asks the budget before a disruption, and the numbers in the
	// spec do not change.
	steady bool
	// away are the names of Pods that were taken out of service after the budget had admitted the disruption, and
	// that are not in service again yet.
	away   map[string]bool
	denied string // the verb of refused requests for Pods

	mu     sync.Mutex
	asked  map[string]*question
	passed []*question
}

// question is an eviction that a webhook must review. A ConfigMap with the question's name wakes the webhooks.
type question struct {
	name, pod string
	uid       types.UID
	begun     bool
	served    bool // true if the Pod was in service during the whole review
}

const namespace = "default"

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

// start adds the webhook to each process, and the operator to the leading process.
func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	r, err := setup(ctx, mgr)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).Named("webhook").For(&corev1.ConfigMap{}).WithOptions(controller.Options{
		NeedLeaderElection: ptr.To(false), MaxConcurrentReconciles: 4,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute),
	}).Complete(hooks{w, r})
}

// hooks reviews questions.
type hooks struct {
	story *story
	r     *reconciler
}

// Reconcile reviews a request for an eviction. No request is reviewed twice, even if the process has crashed during
// the review.
func (h hooks) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w := h.story
	w.mu.Lock()
	q := w.asked[req.Name]
	if q == nil || q.begun || req.Namespace != namespace {
		w.mu.Unlock()
		return ctrl.Result{}, nil
	}
	q.begun = true
	pod := w.pod(q.pod)
	q.served = pod != nil && serves(pod)
	w.mu.Unlock()
	answer := h.r.budget.Handler(h.r.protected).Handle(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: namespace, Name: q.pod, Operation: admissionv1.Create, SubResource: "eviction", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
	}})
	if answer.Allowed {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.passed = append(w.passed, q)
	}
	return ctrl.Result{}, nil
}

// carryOut carries out the admitted evictions, in an order that does not depend on goroutines.
func (w *story) carryOut() {
	w.serveAgain()
	w.mu.Lock()
	all := w.passed
	w.passed = nil
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b *question) int { return strings.Compare(a.name, b.name) })
	for _, q := range all {
		pod := w.pod(q.pod)
		if pod == nil || pod.UID != q.uid || pod.DeletionTimestamp != nil {
			continue
		}
		w.Logf("user: evicts %s, serving %t, and when asked %t", pod.Name, serves(pod), q.served)
		if q.served {
			w.taken("eviction", pod)
		}
		w.must(w.User.Delete(context.Background(), pod))
	}
}

func (w *story) pod(name string) *corev1.Pod {
	pod, _ := w.Server.Stored(&corev1.Pod{}, client.ObjectKey{Namespace: namespace, Name: name}).(*corev1.Pod)
	return pod
}

// shards returns the present Shards.
func (w *story) shards() *Shards {
	s, _ := w.Server.Stored(&Shards{}, client.ObjectKey{Namespace: namespace, Name: "db"}).(*Shards)
	return s.DeepCopyObject().(*Shards) //nolint:forcetypeassert // of the same type
}

func (w *story) begin() {
	w.steady = w.Chance(40)
	s := &Shards{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}}
	s.Spec.Replicas, s.Spec.MaxUnavailable, s.Spec.Storage = 2+w.Rand().IntN(4), w.Rand().IntN(3), resource.MustParse("1Gi")
	s.Spec.Template.Labels = map[string]string{"app": "db"}
	s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	w.Logf("user: %d Pods, at most %d unavailable, steady %t", s.Spec.Replicas, s.Spec.MaxUnavailable, w.steady)
	w.must(w.User.Create(context.Background(), s))
}

func (w *story) users() {
	switch n := w.Rand().IntN(40); {
	case n < 14:
		w.evict(w.AnyPod())
	case n < 17:
		w.denied = []string{"", "create", "delete", "patch"}[w.Rand().IntN(4)]
		w.Logf("admission: refuses %q of Pods", w.denied)
	case n < 20:
		w.Sleep(time.Duration(w.Rand().IntN(25)) * time.Second)
	case n < 24 && !w.steady:
		if pod := w.AnyPod(); pod != nil {
			w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
			w.Logf("node: crash of %s: %t", pod.Name, w.Nodes.Crash(pod.UID, "app"))
		}
	case n < 27 && !w.steady:
		if pod := w.AnyPod(); pod != nil {
			w.Logf("user: Pod %s is deleted past the budget", pod.Name)
			w.must(w.User.Delete(context.Background(), pod))
		}
	default:
		w.edit()
	}
}

// evict makes the webhooks review an eviction.
func (w *story) evict(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	w.mu.Lock()
	q := &question{name: fmt.Sprintf("eviction-%d", len(w.asked)), pod: pod.Name, uid: pod.UID}
	w.asked[q.name] = q
	w.mu.Unlock()
	w.Logf("user: asks to evict %s", pod.Name)
	w.must(w.User.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: q.name}}))
}

func (w *story) edit() {
	s := w.shards()
	switch n := w.Rand().IntN(10); {
	case n < 4:
		s.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("app:v%d", w.Rand().IntN(4))
	case n < 6:
		s.Spec.Template.Spec.Containers[0].Command = []string{fmt.Sprintf("serve-%d", w.Rand().IntN(2))} // not possible in place
	case n < 8:
		s.Spec.Storage = resource.MustParse(fmt.Sprintf("%dGi", 1+w.Rand().IntN(4)))
	case w.steady:
		return
	case n < 9:
		s.Spec.Replicas = 1 + w.Rand().IntN(5)
	default:
		s.Spec.MaxUnavailable = w.Rand().IntN(4) - 1 // -1 is stored without admission
	}
	w.tell(s)
	w.must(w.User.Update(context.Background(), s))
}

func (w *story) tell(s *Shards) {
	app := &s.Spec.Template.Spec.Containers[0]
	w.Logf("user: %d Pods of %s %v, at most %d unavailable, %s", s.Spec.Replicas, app.Image, app.Command, s.Spec.MaxUnavailable, s.Spec.Storage.String())
}

func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if call.Resource.Resource == "pods" && call.Verb == w.denied && w.denied != "" {
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a policy says no"))
	}
	return nil
}

// bind gives a claim the volume that the claim requests.
func (w *story) bind() bool {
	for _, claim := range faultapi.All[*corev1.PersistentVolumeClaim](w.Server) {
		if claim.Status.Phase == corev1.ClaimBound && claim.Status.Capacity.Storage().Cmp(*claim.Spec.Resources.Requests.Storage()) >= 0 {
			continue
		}
		claim = claim.DeepCopy()
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
		w.Logf("storage: %s has %s", claim.Name, claim.Spec.Resources.Requests.Storage())
		w.must(w.User.Status().Update(context.Background(), claim))
		return true
	}
	return false
}

func (w *story) settle() {
	w.denied = ""
	if s := w.shards(); s.Spec.MaxUnavailable < 0 {
		s.Spec.MaxUnavailable = 1
		w.tell(s)
		w.must(w.User.Update(context.Background(), s))
	}
}

func serves(pod *corev1.Pod) bool {
	return podstate.IsActive(pod) && podstate.IsReady(pod) && podstate.GateOpen(pod, gate)
}

// sight contains the possible inputs of a reconciliation: the cache at the beginning, or at a check of an earlier
// write.
type sight struct {
	shards *Shards
	acts   bool
	// served contains, by name, the Pods that were in service in one of these inputs, and idle contains, by UID, the
	// Pods that were not in service in one of these inputs.
	served map[string]bool
	idle   map[types.UID]bool
}

func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	if q := w.asked[t.Object.Name]; t.Controller == "webhook" && q != nil && call != nil && call.Resource.Resource == "pods" {
		pod := w.pod(q.pod)
		q.served = q.served && pod != nil && serves(pod)
	}
	v, _ := t.View.(*sight)
	if v == nil {
		v = &sight{served: map[string]bool{}, idle: map[types.UID]bool{}}
		t.View = v
	}
	v.acts = v.acts || call != nil && !call.IsRead()
	if v.acts || t.Controller != "shards" {
		return
	}
	v.shards = &Shards{}
	if t.Process.Cache.Get(context.Background(), t.Object, v.shards) != nil {
		v.shards = nil
		return
	}
	var pods corev1.PodList
	w.must(t.Process.Cache.List(context.Background(), &pods))
	for i := range pods.Items {
		if pod := &pods.Items[i]; serves(pod) {
			v.served[pod.Name] = true
		} else {
			v.idle[pod.UID] = true
		}
	}
}

func (w *story) judge(x *chaos.Write) {
	if x.Task == nil { // a write of a webhook, for a request that has ended
		return
	}
	v, _ := x.Task.View.(*sight)
	switch x.Call.Resource.Resource {
	case "pods":
		before, _ := x.Before.(*corev1.Pod)
		after, _ := x.After.(*corev1.Pod)
		switch {
		case before == nil:
			w.judgeCreation(v, after)
		case v == nil || v.shards == nil: // the loop of the Pods finishes updates
		case x.Call.Verb == "delete", podstate.GateOpen(before, gate) && !podstate.GateOpen(after, gate), image(before) != image(after):
			if !v.idle[before.UID] { // the Pod was in service in all inputs
				w.taken(x.Call.Verb, before)
			}
		}
	case "persistentvolumeclaims":
		before, _ := x.Before.(*corev1.PersistentVolumeClaim)
		after, _ := x.After.(*corev1.PersistentVolumeClaim)
		if before != nil && (after == nil || after.Spec.Resources.Requests.Storage().Cmp(*before.Spec.Resources.Requests.Storage()) < 0) {
			w.Failf("claims", "%s of claim %s", x.Call.Verb, before.Name)
		}
	}
}

func image(pod *corev1.Pod) string { return pod.Spec.Containers[0].Image }

// judgeCreation checks that the ordinal of a new Pod is wanted, all Pods with lower ordinals are in service as far as
// the reconciliation can know, and the Pod's claim exists.
func (w *story) judgeCreation(v *sight, pod *corev1.Pod) {
	if v == nil || v.shards == nil {
		w.Failf("loops", "Pod %s is created by another loop", pod.Name)
	}
	var ordinal int
	if _, err := fmt.Sscanf(pod.Name, "db-%d", &ordinal); err != nil || ordinal >= v.shards.Spec.Replicas {
		w.Failf("ordinal", "Pod %s is created, of %d", pod.Name, v.shards.Spec.Replicas)
	}
	for below := range ordinal {
		if !v.served[fmt.Sprintf("db-%d", below)] {
			w.Failf("order", "Pod %s is created, and the Pod of ordinal %d does not serve", pod.Name, below)
		}
	}
	if w.Server.Stored(&corev1.PersistentVolumeClaim{}, client.ObjectKey{Namespace: namespace, Name: "data-" + pod.Name}) == nil {
		w.Failf("claims", "Pod %s is created without its claim", pod.Name)
	}
}

// heldFor is how long a budget admits no request after the number of required Pods has risen from 0. Before, the
// budget has admitted requests without counting the disruptions.
const heldFor = 20 * time.Second

// taken checks a write that takes a Pod out of service. The budget must have admitted the disruption, and no more
// Pods may be out of service because of disruptions than maxUnavailable allows. Pods that have failed on their Nodes
// do not count.
func (w *story) taken(what string, pod *corev1.Pod) {
	if !serves(pod) {
		return
	}
	s := w.shards()
	budget := s.Status.Budget
	_, leaves := budget.Leaving[pod.Name]
	_, changes := budget.Changing[pod.Name]
	if budget.Need <= 0 {
		return
	}
	if !leaves && !changes && budget.NeededSince != nil && time.Since(budget.NeededSince.Time) < heldFor {
		return // admitted while the budget required no Pod
	}
	if !leaves && !changes {
		w.Failf("share", "%s of Pod %s, which serves: budget %+v", what, pod.Name, budget)
	}
	if who, known := budget.Identities[pod.Name]; known && who.UID != pod.UID {
		w.Failf("share", "%s of Pod %s by the share of another Pod: budget %+v", what, pod.Name, budget)
	}
	w.serveAgain()
	if w.away[pod.Name] = true; w.steady && len(w.away) > s.maxUnavailable() {
		w.Failf("budget", "%s of Pod %s: %v are away, and %d may be: budget %+v", what, pod.Name, w.away, s.maxUnavailable(), budget)
	}
}

// serveAgain removes from away the Pods that are in service again.
func (w *story) serveAgain() {
	for name := range w.away {
		if pod := w.pod(name); pod != nil && serves(pod) {
			delete(w.away, name)
		}
	}
}

// converged checks that each ordinal has a Pod in service that matches the template, and that the Pod's volume has
// the wanted size. The conditions Failed and Waiting are not True, and the numbers of the budget are correct.
func (w *story) converged() {
	s := w.shards()
	pods := faultapi.All[*corev1.Pod](w.Server)
	if len(pods) != s.Spec.Replicas {
		w.Failf("converged", "%d Pods, want %d", len(pods), s.Spec.Replicas)
	}
	app := &s.Spec.Template.Spec.Containers[0]
	for i := range s.Spec.Replicas {
		pod := w.pod(fmt.Sprintf("db-%d", i))
		if pod == nil || !serves(pod) || image(pod) != app.Image || !slices.Equal(pod.Spec.Containers[0].Command, app.Command) {
			w.Failf("converged", "the Pod of ordinal %d is not as wanted: %+v", i, pod)
		}
		claim, _ := w.Server.Stored(&corev1.PersistentVolumeClaim{}, client.ObjectKey{Namespace: namespace, Name: "data-" + pod.Name}).(*corev1.PersistentVolumeClaim)
		if claim == nil || claim.Status.Capacity.Storage().Cmp(s.Spec.Storage) < 0 {
			w.Failf("converged", "the claim of %s is %+v, want %s", pod.Name, claim, s.Spec.Storage.String())
		}
	}
	status, n := s.Status, int32(s.Spec.Replicas)
	if status.ObservedGeneration != s.Generation || status.Pods != n || status.Available != n || status.Updated != n || status.CurrentRevision != status.Revision {
		w.Failf("status", "%+v", status)
	}
	for _, condition := range []string{"Failed", "Waiting"} {
		if meta.IsStatusConditionTrue(status.Conditions, condition) {
			w.Failf("status", "%s: %+v", condition, status.Conditions)
		}
	}
	need := max(n-int32(s.maxUnavailable()), 0)
	if b := status.Budget; b.Need != need || b.Current != n || b.Allowed != n-need || len(b.Leaving)+len(b.Changing)+len(b.Identities) > 0 || b.ObservedGeneration != s.Generation {
		w.Failf("budget", "%+v, want %d of %d", b, need, n)
	}
}
