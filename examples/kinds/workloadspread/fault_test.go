package workloadspread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: three webhooks and a controller, all with stale caches, assign Pods to subsets. Requests, deletions,
// crashes, conflicts and lost responses come in any order. Subset a never has more Pods than its maximum, and in the
// end every place recorded in the status belongs to an existing Pod.
func TestFaults(t *testing.T) { chaos.Run(t, schedules(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, schedules(t), 3) }

func schedules(t testing.TB) chaos.Plan {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Seeds: 30, Steps: 150, Replicas: 3, Quiet: 3 * time.Minute,
		Kinds: append(workloads.Kinds(), &v1beta1.WorkloadSpread{}, &corev1.ConfigMap{}, faultapi.ClusterWide(&corev1.Node{}),
			faultapi.ClusterWide(&admissionregistrationv1.MutatingWebhookConfiguration{}), faultapi.ClusterWide(&admissionregistrationv1.ValidatingWebhookConfiguration{})),
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, asked: map[string]bool{}, reviews: map[string]*corev1.Pod{}, leaves: map[string]leaving{}}
			return chaos.Subject{Setup: w.start, Begin: w.begin, Users: w.users, Check: w.check, Settle: func() { w.settled = true }, Converged: w.converged}
		},
	}
}

// story is the state of a fault schedule. A ConfigMap is a request to create a Pod of the same name.
type story struct {
	*chaos.World

	mu      sync.Mutex
	most    int             // the maximum of subset a
	unnamed bool            // Pods get their names after admission
	loss    int             // the percentage of requests that are late or fail, in each phase
	asked   map[string]bool // true for a reviewed request
	passed  []admitted
	reviews map[string]*corev1.Pod // Pods after the mutating webhooks, by the names of requests
	leaves  map[string]leaving     // by the names of requests
	left    []*corev1.Pod          // Pods whose deletion was reviewed, to be deleted
	set     *v1beta1.CloneSet
	settled bool
}

// admitted is a Pod whose request has passed the mutating webhooks. The Pod waits for the review by the method hold
// or, after this review, for the other webhooks and the write.
type admitted struct {
	*corev1.Pod

	isHeld    bool // the review is over
	at, comes time.Time
}

// leaving is a Pod that a user deletes, or whose eviction a PodDisruptionBudget refuses.
type leaving struct {
	*corev1.Pod

	inVain bool
}

// furtherWebhook is how long another webhook of the cluster may take.
const furtherWebhook = 4 * time.Second

const space = "shop"

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

// start adds the webhook to each process, and the controller to the leading process.
func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	limiter := func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}
	asked, err := newWebhook(ctx, mgr, &listed{}, apps.DefaultGates(), "deployment", clock.RealClock{})
	if err != nil {
		return err
	}
	newID := w.NewID()
	asked.newKey = func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return newID()
	}
	if err := setup(ctx, mgr, mgr.GetClient(), kruise.Options{RateLimiter: limiter}, asked); err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).Named("webhook").For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{NeedLeaderElection: ptr.To(false), MaxConcurrentReconciles: 4, RateLimiter: limiter()}).
		Complete(asking{w, asked})
}

type asking struct {
	story   *story
	webhook *webhook
}

// Reconcile reviews a request. No request is reviewed twice, even if the process has crashed during the review.
func (a asking) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w := a.story
	w.mu.Lock()
	begun, ok := w.asked[req.Name]
	w.asked[req.Name] = true
	held := w.reviews[req.Name]
	leaver, leaves := w.leaves[req.Name]
	w.mu.Unlock()
	if begun || !ok || req.Namespace != space {
		return ctrl.Result{}, nil
	}
	if leaves {
		a.reviewLeaver(ctx, leaver)
		return ctrl.Result{}, nil
	}
	if held != nil {
		now := time.Now()
		err := a.webhook.hold(ctx, held)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil {
			w.passed = append(w.passed, admitted{held, true, now, now})
		}
		return ctrl.Result{}, nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: req.Name, Labels: map[string]string{"app": "web"}}}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.set, v1beta1.GroupVersion.WithKind("CloneSet"))}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	if w.unnamed { // the name is generated after admission
		pod.Name, pod.GenerateName = "", "web-"
	}
	if err := a.webhook.spread(ctx, pod); err == nil {
		pod.Name, pod.GenerateName = req.Name, ""
		w.mu.Lock()
		defer w.mu.Unlock()
		w.passed = append(w.passed, admitted{pod, false, time.Now(), time.Now()})
	}
	return ctrl.Result{}, nil
}

// reviewLeaver calls the webhook for a deletion or eviction of a Pod. The webhook refuses no request.
func (a asking) reviewLeaver(ctx context.Context, pod leaving) {
	request := webhookadmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: space, Name: pod.Name, Operation: admissionv1.Delete}}
	request.Resource.Resource = "pods"
	if pod.inVain {
		request.Operation, request.SubResource = admissionv1.Create, "eviction"
	} else {
		request.OldObject.Raw, _ = json.Marshal(pod.Pod) //nolint:errchkjson // a Pod can be encoded
	}
	answer := a.webhook.leaves(a.webhook.live).Handle(ctx, request)
	a.story.mu.Lock()
	defer a.story.mu.Unlock()
	if answer.Allowed && !pod.inVain {
		a.story.left = append(a.story.left, pod.Pod)
	}
}

func (w *story) begin() {
	if w.most, w.unnamed = 4, w.Chance(60); w.unnamed && w.Chance(70) {
		w.most = 20 + w.Rand().IntN(80)
	}
	if w.loss = 4; w.Chance(40) { // with a higher percentage, subset a would never be full
		w.loss = 20
	}
	for i := range 3 { // the scheduler needs Nodes; Pods whose Node is missing are garbage collected
		w.must(w.User.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}}))
	}
	w.set = &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "web"}}
	w.must(w.User.Create(context.Background(), w.set))
	spread := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "web"}}
	spread.Spec.TargetReference = v1beta1.WorkloadSpreadTarget{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web"}
	spread.Spec.Subsets = []v1beta1.WorkloadSpreadSubset{{Name: "a", MaxReplicas: ptr.To(intstr.FromInt(w.most))}, {Name: "b"}}
	w.must(w.User.Create(context.Background(), spread))
	if w.Chance(30) { // created at the same moment without admission; the later name counts as younger
		rival := &v1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "web-late"}, Spec: *spread.Spec.DeepCopy()}
		w.must(w.User.Create(context.Background(), rival))
	}
	further := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "further"}}
	further.Webhooks = []admissionregistrationv1.ValidatingWebhook{{Name: "a.example.test", TimeoutSeconds: ptr.To(int32(furtherWebhook / time.Second))}}
	further.Webhooks[0].Rules = []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"}}}
	further.Webhooks[0].Rules[0].APIGroups, further.Webhooks[0].Rules[0].Resources = []string{""}, []string{"pods"}
	w.must(w.User.Create(context.Background(), further))
}

func (w *story) users() {
	if w.Chance(10) {
		w.Sleep(time.Duration(1+w.Rand().IntN(30)) * time.Second) // requests and caches may be slow
	}
	pods := faultapi.All[*corev1.Pod](w.Server)
	if len(pods) > 0 && w.Chance(30) {
		w.leave(leaving{pods[w.Rand().IntN(len(pods))].DeepCopy(), w.Chance(40)})
		return
	}
	n := 1
	if w.unnamed && w.Chance(20) {
		n = rush + rush/2
	}
	for range n {
		w.askForPod()
	}
}

// leave deletes a Pod, mostly after a review, or tries an eviction that is refused.
func (w *story) leave(pod leaving) {
	w.Logf("user: deletes Pod %s, in vain: %t", pod.Name, pod.inVain)
	if !pod.inVain && w.Chance(30) { // a webhook did not answer in time
		w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), pod.Pod)))
		return
	}
	name := pod.Name + ".leaves"
	w.mu.Lock()
	w.asked[name], w.leaves[name] = false, pod
	w.mu.Unlock()
	w.request(name)
}

func (w *story) askForPod() {
	w.mu.Lock()
	name := fmt.Sprintf("web-%d", len(w.asked))
	w.asked[name] = false
	w.mu.Unlock()
	w.Logf("user: asks for Pod %s", name)
	w.request(name)
}

// again requests a Pod of the same name again, as a CloneSet does after a refusal.
func (w *story) again(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unnamed || !w.Chance(50) {
		return
	}
	w.asked[name] = false
	w.Logf("user: asks for Pod %s again", name)
	w.request(name)
}

// request creates a request, or creates the request of this name again.
func (w *story) request(name string) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}
	w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), object)))
	w.must(w.User.Create(context.Background(), object.DeepCopy()))
}

func (w *story) later(pod admitted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passed = append(w.passed, pod)
}

func subsetOf(pod *corev1.Pod) string {
	m, _ := markOf(pod, "web")
	return m.Subset
}

func (w *story) inA() (n int) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if podstate.IsActive(pod) && subsetOf(pod) == "a" {
			n++
		}
	}
	return n
}

// review makes one of the webhooks review a Pod that is about to be stored.
func (w *story) review(pod *corev1.Pod) {
	name := pod.Name + ".review"
	w.mu.Lock()
	w.asked[name], w.reviews[name] = false, pod
	w.mu.Unlock()
	w.request(name)
}

// isLate does the same as the matchCondition is-late of the webhook vpodplace.kb.io, which TestLatePodsAreReviewed
// checks on a real API server.
func isLate(pod *corev1.Pod, now time.Time) bool {
	since, err := strconv.ParseInt(pod.Annotations[apps.AnnotationPlaceSince], 10, 64)
	return err != nil || now.Unix()-since < -1 || now.Unix()-since > 1
}

// longestDelay is how long a request may take until its review by the method hold. In a longer time the request's
// place may already belong to another Pod.
const longestDelay = passes + stored + 20*time.Second

// check reviews and creates admitted Pods, some of them late. Some requests fail after the review.
func (w *story) check() {
	w.mu.Lock()
	passed, left := w.passed, w.left
	w.passed, w.left = nil, nil
	w.mu.Unlock()
	slices.SortFunc(left, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range left {
		w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), pod)))
	}
	slices.SortFunc(passed, func(a, b admitted) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range passed {
		longest := stored + furtherWebhook
		if !pod.isHeld {
			longest = longestDelay
		}
		switch now := time.Now(); {
		case now.Before(pod.comes):
			w.later(pod)
		case now.Sub(pod.at) >= longest, pod.isHeld && w.Chance(w.loss/4): // the request has failed
			w.again(pod.Name)
		case pod.comes.Equal(pod.at) && (w.Chance(w.loss) || !pod.isHeld && subsetOf(pod.Pod) == "a" && w.Chance(2*w.loss)):
			pod.comes = pod.comes.Add(longest - time.Duration(1+w.Rand().Int64N(int64(20*time.Second))))
			w.later(pod)
		case !pod.isHeld && !isLate(pod.Pod, now) && !w.Chance(w.loss):
			w.later(admitted{pod.Pod, true, now, now})
		case !pod.isHeld && !w.Chance(w.loss):
			w.review(pod.Pod)
		case pod.isHeld && !w.Chance(w.loss):
			w.Logf("Pod %s comes to %s", pod.Name, subsetOf(pod.Pod))
			w.must(w.User.Create(context.Background(), pod.Pod))
		}
	}
	if n := w.inA(); n > w.most {
		w.Failf("maximum", "%d Pods are in subset a", n)
	}
}

// converged checks that the numbers in the status equal the numbers of Pods, and every place belongs to an existing
// Pod.
func (w *story) converged() {
	spread, _ := w.Server.Stored(&v1beta1.WorkloadSpread{}, client.ObjectKey{Namespace: space, Name: "web"}).(*v1beta1.WorkloadSpread)
	if spread == nil || len(spread.Status.SubsetStatuses) != 2 || int(spread.Status.SubsetStatuses[0].Replicas) != w.inA() {
		w.Failf("converged", "%d Pods are in a: %+v", w.inA(), spread)
		return
	}
	for _, list := range spread.Status.VersionedSubsetStatuses {
		for i := range list {
			if len(list[i].CreatingPods)+len(list[i].DeletingPods) > 0 {
				w.Failf("converged", "nobody comes or goes: %+v", list[i])
			}
		}
	}
}
