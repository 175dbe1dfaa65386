package podunavailablebudget_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	kruisev1beta1 "github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/podunavailablebudget"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// In some schedules, a second budget protects the same Pods.
const namespace, budgetName, secondName, workload = "shop", "guard", "second-guard", "web"

// TestFaults: three webhooks and a controller, all with stale caches, share a budget. Requests, counts, crashes,
// conflicts and lost responses come in any order. No admitted eviction leaves fewer Pods in service than the budget
// requires. In the end the status is right.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 3) }

func plan(t testing.TB) chaos.Plan {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, kruisev1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	serving, err := podunavailablebudget.NewServing(nil)
	if err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Seeds: 300, Steps: 400, Replicas: 3, Quiet: 3 * time.Minute,
		Kinds: append(workloads.Kinds(), &v1beta1.PodUnavailableBudget{}, &corev1.ConfigMap{}, faultapi.ClusterWide(&corev1.Node{})),
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, serving: serving, requests: map[string]*request{}, granted: map[types.UID]time.Time{}, again: map[types.UID]time.Time{}, needs: map[spent]int32{}, freed: map[types.UID]time.Time{}, idle: map[string]time.Time{}, behind: map[int]time.Time{}}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.outside, Settle: w.settle, Check: w.check, Wrote: w.judge, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	mu     sync.Mutex
	passed []passed

	serving  *podunavailablebudget.Serving
	requests map[string]*request
	// granted contains, for each Pod, the time of the last status write that allowed to take the Pod out of service.
	granted map[types.UID]time.Time
	// needs is the number of Pods that had to be in service when a budget admitted a request. A user may raise the
	// number before the second budget admits the request.
	needs map[spent]int32
	// again contains, for each Pod, the time when a request was admitted because the status still had the entry of an
	// earlier request for the Pod.
	again map[types.UID]time.Time
	// freed are Pods for which a request was admitted in the last seconds because the Pod was out of service, and
	// which became ready during the review of the request.
	freed map[types.UID]time.Time
	// idle contains the last time at which the status of a budget required no Pod.
	idle map[string]time.Time
	// strict is true if only admitted requests take Pods out of service, and no crashes or other clients.
	strict bool
	// updates is true if most requests are updates. settled is true after the users have made their last change.
	updates, settled bool
	pods             int
	// behind contains the time since when the cache of Pods of a process is stale.
	behind map[int]time.Time
}

// spent identifies a budget, and a Pod that the budget has allowed to take out of service.
type spent struct {
	budget string
	pod    types.UID
}

// request is a request that the webhooks review. A ConfigMap with the request's name passes the request to the
// webhooks.
type request struct {
	pod       types.NamespacedName
	uid       types.UID
	operation disruption.Operation
	version   string // of the Pod for which the request was admitted
	// gated is true for a request of a controller that closes the Pod's readiness gate, if the Pod has the gate,
	// before the change.
	gated bool
	begun bool
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

// start adds the webhook to each process, and the controller to the leading process.
func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	gates := apps.ResolveGates(map[apps.Gate]bool{apps.GatePodUnavailableBudgetUpdate: true})
	limiter := func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}
	asked, err := podunavailablebudget.Linked(ctx, mgr, mgr.GetClient(), podunavailablebudget.Options{Gates: gates, RateLimiter: limiter})
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).Named("webhook").For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{NeedLeaderElection: ptr.To(false), MaxConcurrentReconciles: 4, RateLimiter: limiter()}).
		Complete(webhook{w, asked, mgr.GetAPIReader()})
}

// webhook reviews requests.
type webhook struct {
	story *story
	asked *podunavailablebudget.Budgets
	live  client.Reader
}

// Reconcile reviews a request, and carries out the request if it is admitted. No request is reviewed twice, even if
// the process has crashed during the review.
func (h webhook) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w := h.story
	r := w.take(req.Name)
	if r == nil || req.Namespace != namespace {
		return ctrl.Result{}, nil
	}
	pod := &corev1.Pod{}
	reader := client.Reader(w.User) // the Pod as the API server sends it to webhooks
	if r.operation == disruption.Evict {
		reader = h.live
	}
	if err := reader.Get(ctx, r.pod, pod); err != nil || pod.UID != r.uid || pod.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	served := w.serves(pod)
	ask := func() (podunavailablebudget.Answer, error) { return h.asked.Ask(ctx, pod, r.operation, false) }
	if r.gated {
		ask = func() (podunavailablebudget.Answer, error) { return h.asked.AskGated(ctx, pod, r.operation) }
	}
	answer, err := ask()
	if err == nil && answer.Admitted {
		w.mu.Lock()
		defer w.mu.Unlock()
		r.version = pod.ResourceVersion
		w.passed = append(w.passed, passed{req.Name, r, pod, answer, served, time.Now()})
	}
	return ctrl.Result{}, nil
}

// take returns a request that no webhook has reviewed yet.
func (w *story) take(name string) *request {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.requests[name]
	if r == nil || r.begun {
		return nil
	}
	r.begun = true
	return r
}

// passed is an admitted request. Several webhooks may admit requests at the same moment.
type passed struct {
	name   string
	r      *request
	pod    *corev1.Pod
	answer podunavailablebudget.Answer
	served bool
	at     time.Time
}

// check carries out the admitted requests, in an order that does not depend on goroutines.
func (w *story) check() {
	w.mu.Lock()
	all := w.passed
	w.passed = nil
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b passed) int { return strings.Compare(a.name, b.name) })
	for _, p := range all {
		if p.r.gated && !w.settled && w.Chance(70) {
			w.passed = append(w.passed, p) // the controller acts later
			continue
		}
		if p.r.gated && time.Since(p.at) > 5*time.Second {
			continue // the controller does not act any more
		}
		w.admitted(p)
	}
	w.keepUp()
}

// admitted checks an Answer, and carries the request out.
func (w *story) admitted(p passed) {
	r, pod, answer, served := p.r, p.pod, p.answer, p.served
	w.Logf("%s of Pod %s is let pass: %s", r.operation, pod.Name, answer.Reason.Code)
	budget := w.budget()
	live := &corev1.Pod{}
	if w.User.Get(context.Background(), r.pod, live) != nil || live.UID != r.uid {
		return // the Pod was deleted meanwhile
	}
	if !served && w.strict && w.isProtected(live) && w.serves(live) {
		w.freed[pod.UID] = time.Now() // the Pod became ready during the review, and was counted
	}
	if budget != nil && w.isProtected(pod) && served && w.strict {
		switch answer.Reason.Code {
		case podunavailablebudget.NoBudget: // the cache may lack a new budget that the Pod does not name
			if slices.Contains(podunavailablebudget.NamesIn(pod), budgetName) {
				w.Failf("protected", "%s of Pod %s is let pass without a budget", r.operation, pod.Name)
			}
			w.carryOut(r)
			return
		case disruption.NotServing, podunavailablebudget.NotCovered, podunavailablebudget.NotProtected:
			w.Failf("protected", "%s of Pod %s is let pass as %s, and it serves", r.operation, pod.Name, answer.Reason.Code)
		case disruption.LetGoAlready: // admitted because of an earlier admitted request
			if since, ok := w.granted[pod.UID]; !ok || time.Since(since) > 20*time.Second {
				w.Failf("budget", "%s of Pod %s is let pass as one that was let go a moment ago", r.operation, pod.Name)
			}
			if w.again[pod.UID] = time.Now(); w.serves(live) && !hasShare(budget, pod.Name) {
				w.freed[pod.UID] = time.Now() // a count has removed the entry during the review
			}
			w.carryOut(r)
			return
		}
		left := len(w.freed)
		for _, other := range w.protected() {
			if other.UID != pod.UID && w.serves(other) {
				left++
			}
		}
		for _, budget := range []*v1beta1.PodUnavailableBudget{budget, w.second(pod)} {
			if budget == nil || p.at.Sub(w.idle[budget.Name]) <= 2*time.Second { // the webhook's cache may have been stale
				continue
			}
			need := int(budget.Status.DesiredAvailable)
			if asked, ok := w.needs[spent{budget.Name, pod.UID}]; ok {
				need = min(need, int(asked))
			}
			if left < need {
				w.Failf("budget", "%s of Pod %s leaves %d in service, and %d have to be by budget %s", r.operation, pod.Name, left, need, budget.Name)
			}
		}
	}
	w.carryOut(r)
}

// second returns the second budget if the Pod names it, or nil.
func (w *story) second(pod *corev1.Pod) *v1beta1.PodUnavailableBudget {
	if !slices.Contains(podunavailablebudget.NamesIn(pod), secondName) {
		return nil
	}
	return w.named(secondName)
}

func (w *story) carryOut(r *request) {
	pod := &corev1.Pod{}
	if w.User.Get(context.Background(), r.pod, pod) != nil || pod.UID != r.uid {
		return
	}
	if r.operation == disruption.Delete || r.operation == disruption.Evict {
		w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), pod, client.Preconditions{UID: &r.uid})))
		return
	}
	if r.gated && pod.ResourceVersion != r.version {
		return // the controller's patch is refused
	}
	if r.gated {
		w.report(pod, false)
	}
	pod.Spec.Containers[0].Image = fmt.Sprintf("app:v%d", w.Server.Version())
	w.must(w.User.Update(context.Background(), pod))
	w.report(pod, false) // the kubelet restarts the container at once
}

// report writes the Pod's status as a kubelet does.
func (w *story) report(pod *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}, {Type: apps.ConditionInPlaceUpdateReady, Status: status}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: pod.Spec.Containers[0].Image, ImageID: pod.Spec.Containers[0].Image, Ready: ready}}
	w.must(w.User.Status().Update(context.Background(), pod))
}

// ready makes the containers of a Pod ready if the Pod is not ready.
func (w *story) ready() (changed bool) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if podstate.IsActive(pod) && !podstate.IsReady(pod) {
			w.Logf("Pod %s is ready", pod.Name)
			w.report(pod.DeepCopy(), true)
			return true
		}
	}
	return false
}

// outside acts as the clients other than the webhooks, and as the kubelets.
func (w *story) outside() bool { return w.proceed() || w.replace() || w.ready() }

// hasShare reports whether the status of the budget still has an entry for the Pod because of an admitted request.
func hasShare(budget *v1beta1.PodUnavailableBudget, pod string) bool {
	_, leaves := budget.Status.DisruptedPods[pod]
	_, changes := budget.Status.UnavailablePods[pod]
	return leaves || changes
}

// proceed carries out requests that were admitted late.
func (w *story) proceed() bool {
	w.mu.Lock()
	waiting := len(w.passed)
	w.mu.Unlock()
	if waiting > 0 {
		w.check()
	}
	return waiting > 0
}

// serves reports whether a Pod is in service.
func (w *story) serves(pod *corev1.Pod) bool {
	serves, _ := w.serving.Serves(pod, time.Now())
	return serves
}

func (w *story) budget() *v1beta1.PodUnavailableBudget { return w.named(budgetName) }

func (w *story) named(name string) *v1beta1.PodUnavailableBudget {
	for _, budget := range faultapi.All[*v1beta1.PodUnavailableBudget](w.Server) {
		if budget.Name == name {
			return budget
		}
	}
	return nil
}

func (w *story) isProtected(pod *corev1.Pod) bool {
	return pod.Labels["app"] == "web" && podstate.IsActive(pod)
}

func (w *story) protected() []*corev1.Pod {
	return slices.DeleteFunc(faultapi.All[*corev1.Pod](w.Server), func(pod *corev1.Pod) bool { return !w.isProtected(pod) })
}

func (w *story) begin() {
	w.strict, w.updates = w.Chance(60), w.Chance(30)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: workload}}
	set.Spec.Replicas = ptr.To(int32(3 + w.Rand().IntN(5)))
	w.must(w.User.Create(context.Background(), set))
	for w.outside() {
	}
	w.createBudget(budgetName)
	if w.Chance(30) {
		w.createBudget(secondName)
	}
}

func (w *story) createBudget(name string) {
	budget := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	if w.Chance(50) {
		budget.Spec.Selector, budget.Spec.TargetReference = nil, &v1beta1.TargetReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: workload}
	}
	w.bound(&budget.Spec)
	w.must(w.User.Create(context.Background(), budget))
	w.Logf("user: a budget %s %s", name, shown(&budget.Spec))
}

func (w *story) bound(spec *v1beta1.PodUnavailableBudgetSpec) {
	spec.MaxUnavailable, spec.MinAvailable = nil, nil
	switch w.Rand().IntN(4) {
	case 0:
		spec.MinAvailable = ptr.To(intstr.FromString("60%"))
	case 1:
		spec.MinAvailable = ptr.To(intstr.FromInt32(int32(1 + w.Rand().IntN(4))))
	default:
		spec.MaxUnavailable = ptr.To(intstr.FromInt32(int32(1 + w.Rand().IntN(2))))
	}
	if spec.ProtectOperations = nil; w.Chance(30) {
		spec.ProtectOperations = []v1beta1.Operation{"DELETE", "EVICT", "UPDATE", "RESIZE"}
	}
}

func shown(spec *v1beta1.PodUnavailableBudgetSpec) string {
	return fmt.Sprintf("max %v, min %v, operations %v, by labels %t", spec.MaxUnavailable, spec.MinAvailable, spec.ProtectOperations, spec.Selector != nil)
}

func (w *story) replicaSet() *appsv1.ReplicaSet {
	for _, set := range faultapi.All[*appsv1.ReplicaSet](w.Server) {
		return set.DeepCopy()
	}
	return nil
}

// replace creates missing Pods as the ReplicaSet controller does. Sometimes the annotations of the new Pod do not
// name the budget.
func (w *story) replace() (changed bool) {
	set := w.replicaSet()
	if set == nil || set.DeletionTimestamp != nil {
		return false
	}
	missing := int(*set.Spec.Replicas)
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if ref := metav1.GetControllerOf(pod); podstate.IsActive(pod) && ref != nil && ref.UID == set.UID {
			missing--
		}
	}
	for range max(missing, 0) {
		w.pods++
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("web-%d", w.pods), Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		}}
		if w.budget() != nil && w.Chance(70) {
			pod.Annotations = map[string]string{policy.AnnotationRelatedBudget: budgetName, policy.AnnotationRelatedBudgetOld: budgetName}
		}
		nodefit.Pin(&pod.Spec, "nowhere") // no simulated Node, because Pods may fail on simulated Nodes
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
		if w.Chance(70) {
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}}
		}
		w.must(w.User.Create(context.Background(), pod))
		changed = true
	}
	return changed
}

// users makes a random change as a user.
func (w *story) users() {
	switch n := w.Rand().IntN(20); {
	case n < 10:
		w.ask()
	case n < 12:
		w.replace()
	case n < 15:
		w.ready()
	case n < 16:
		w.scale()
	case n < 17:
		w.edit()
	case n < 18:
		w.strip()
	default:
		if !w.strict {
			w.disturb()
		}
	}
}

// ask creates a request to take a random Pod out of service.
func (w *story) ask() {
	all := faultapi.All[*corev1.Pod](w.Server)
	if len(all) == 0 {
		return
	}
	pod := all[w.Rand().IntN(len(all))]
	operation := []disruption.Operation{disruption.Delete, disruption.Evict, disruption.Evict, disruption.Update}[w.Rand().IntN(4)]
	if w.updates && w.Chance(80) {
		operation = disruption.Update
	}
	w.request(pod, operation)
}

func (w *story) request(pod *corev1.Pod, operation disruption.Operation) {
	name := fmt.Sprintf("ask-%d", len(w.requests))
	r := &request{pod: client.ObjectKeyFromObject(pod), uid: pod.UID, operation: operation}
	r.gated = operation == disruption.Update && podstate.HasGate(pod, apps.ConditionInPlaceUpdateReady) && w.Chance(70)
	w.requests[name] = r
	w.Logf("user: %s %s of Pod %s, gated %t", name, operation, pod.Name, r.gated)
	w.must(w.User.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
}

func (w *story) scale() {
	set := w.replicaSet()
	if set == nil {
		return
	}
	set.Spec.Replicas = ptr.To(int32(2 + w.Rand().IntN(6)))
	w.Logf("user: %d replicas", *set.Spec.Replicas)
	w.must(w.User.Update(context.Background(), set))
	surplus := len(w.protected()) - int(*set.Spec.Replicas)
	for _, pod := range w.protected() {
		if surplus--; surplus < 0 {
			return
		}
		w.request(pod, disruption.Delete)
	}
}

func (w *story) edit() {
	if budget := w.budget(); budget != nil {
		budget = budget.DeepCopy()
		w.bound(&budget.Spec)
		w.Logf("user: edits the budget: %s", shown(&budget.Spec))
		w.must(w.User.Update(context.Background(), budget))
	}
}

// strip removes the name of the budget from a Pod's annotations.
func (w *story) strip() {
	for _, pod := range w.protected() {
		if w.Chance(30) {
			pod = pod.DeepCopy()
			if pod.Annotations = nil; w.Chance(30) {
				pod.Annotations = map[string]string{policy.AnnotationOtherBudgets: "a,b,c,d,e,f,g,h,i,j,k"}
			}
			w.Logf("user: Pod %s gets annotations %v", pod.Name, pod.Annotations)
			w.must(w.User.Update(context.Background(), pod))
			return
		}
	}
}

// disturb takes Pods out of service without a request to the webhook, or deletes the budget.
func (w *story) disturb() {
	pods := w.protected()
	switch n := w.Rand().IntN(10); {
	case n < 3 && len(pods) > 0:
		w.Logf("the container of Pod %s crashes", pods[0].Name)
		w.report(pods[0].DeepCopy(), false)
	case n < 5 && len(pods) > 0:
		pod := pods[len(pods)-1].DeepCopy()
		if pod.Labels[apps.LabelUnavailablePrefix+"x"] == "" {
			pod.Labels[apps.LabelUnavailablePrefix+"x"] = "yes"
		} else {
			delete(pod.Labels, apps.LabelUnavailablePrefix+"x")
		}
		w.Logf("user: labels of Pod %s are %v", pod.Name, pod.Labels)
		w.must(w.User.Update(context.Background(), pod))
	case n < 7 && w.budget() != nil:
		budget := w.budget().DeepCopy()
		budget.Status.UnavailableAllowed += 7
		w.Logf("user: edits the budget's status")
		w.must(w.User.Status().Update(context.Background(), budget))
	case n < 8 && w.budget() != nil:
		w.Logf("user: deletes the budget")
		w.must(w.User.Delete(context.Background(), w.budget().DeepCopy()))
	case w.budget() == nil:
		w.createBudget(budgetName)
	}
}

// keepUp limits how long the caches of Pods are stale, because budgets rely on a cache of Pods that is at most a few
// seconds old.
func (w *story) keepUp() {
	for _, name := range []string{budgetName, secondName} {
		if budget := w.named(name); budget != nil && budget.Status.ObservedGeneration > 0 && budget.Status.DesiredAvailable == 0 {
			w.idle[name] = time.Now()
		}
	}
	const latest, longestStep = 3 * time.Second, 10 * time.Second
	// A Pod stays in freed until the controller must have counted the Pod as out of service, even with a stale cache
	// and a slow reconciliation.
	maps.DeleteFunc(w.freed, func(_ types.UID, since time.Time) bool { return time.Since(since) > 2*(longestStep+latest) })
	for i, p := range w.Processes() {
		if p.Cache.Behind("pods") == 0 {
			w.behind[i] = time.Now()
			continue
		}
		if since := w.behind[i]; time.Since(since) >= latest {
			p.Cache.Deliver("pods", p.Cache.Behind("pods"))
		}
	}
}

// judge checks each write of the controller.
func (w *story) judge(write *chaos.Write) {
	switch after := write.After.(type) {
	case *corev1.Pod:
		before, ok := write.Before.(*corev1.Pod)
		stranger := func(name string) bool {
			return name != budgetName && name != secondName && !slices.Contains(podunavailablebudget.NamesIn(before), name)
		}
		if !ok || slices.ContainsFunc(podunavailablebudget.NamesIn(after), stranger) || !w.isProtected(after) && podstate.IsActive(after) {
			w.Failf("stranger", "%s", write.Call)
		}
		if !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !maps.Equal(before.Labels, after.Labels) {
			w.Failf("stranger", "%s changes more than annotations", write.Call)
		}
	case *v1beta1.PodUnavailableBudget:
		if write.Call.Subresource != "status" {
			w.Failf("stranger", "%s", write.Call)
		}
		if before, ok := write.Before.(*v1beta1.PodUnavailableBudget); ok {
			w.note(after, before.Status.DisruptedPods, after.Status.DisruptedPods)
			w.note(after, before.Status.UnavailablePods, after.Status.UnavailablePods)
			w.noteEnds(write.Task, before, after)
		}
	case nil: // another client has deleted the object meanwhile
	default:
		w.Failf("stranger", "%s", write.Call)
	}
}

// noteEnds records entries that a reconciliation has removed from the status although another request for the Pod was
// admitted after the reconciliation had begun.
func (w *story) noteEnds(count *chaos.Task, before, after *v1beta1.PodUnavailableBudget) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		again, ok := w.again[pod.UID]
		if ok && count != nil && !again.Before(count.Began) && hasShare(before, pod.Name) && !hasShare(after, pod.Name) {
			w.freed[pod.UID] = time.Now()
		}
	}
}

// note records the Pods for which a write of the status adds an admitted disruption.
func (w *story) note(budget *v1beta1.PodUnavailableBudget, before, after map[string]metav1.Time) {
	for name, since := range after {
		if was, ok := before[name]; ok && was.Equal(&since) {
			continue
		}
		if pod, ok := w.Server.Stored(&corev1.Pod{}, client.ObjectKey{Namespace: namespace, Name: name}).(*corev1.Pod); ok && pod != nil {
			key, need := spent{budget.Name, pod.UID}, budget.Status.DesiredAvailable
			if asked, ok := w.needs[key]; ok && time.Since(w.granted[pod.UID]) <= 20*time.Second {
				need = min(need, asked)
			}
			w.granted[pod.UID], w.needs[key] = time.Now(), need
		}
	}
}

func (w *story) settle() {
	w.settled = true
	if w.budget() == nil {
		w.createBudget(budgetName)
	}
	for _, pod := range w.protected() {
		if pod = pod.DeepCopy(); pod.Labels[apps.LabelUnavailablePrefix+"x"] != "" {
			delete(pod.Labels, apps.LabelUnavailablePrefix+"x")
			w.must(w.User.Update(context.Background(), pod))
		}
	}
	w.Logf("settled: %s", shown(&w.budget().Spec))
}

// converged checks that the status is right, and every Pod names its budget.
func (w *story) converged() {
	for _, name := range []string{budgetName, secondName} {
		if budget := w.named(name); budget != nil {
			w.counted(budget)
		}
	}
}

// counted checks the status of a budget.
func (w *story) counted(budget *v1beta1.PodUnavailableBudget) {
	set, pods := w.replicaSet(), w.protected()
	serve := int32(0)
	for _, pod := range pods {
		if !slices.Contains(podunavailablebudget.NamesIn(pod), budget.Name) {
			w.Failf("unmarked", "Pod %s has annotations %v", pod.Name, pod.Annotations)
		}
		if w.serves(pod) {
			serve++
		}
	}
	bounds := disruption.Bounds{MaxUnavailable: budget.Spec.MaxUnavailable, MinAvailable: budget.Spec.MinAvailable}
	need, err := bounds.Need("spec", *set.Spec.Replicas)
	w.must(err)
	want := v1beta1.PodUnavailableBudgetStatus{
		ObservedGeneration: budget.Generation, TotalReplicas: *set.Spec.Replicas, DesiredAvailable: need, CurrentAvailable: serve, UnavailableAllowed: max(serve-need, 0),
	}
	if got := fmt.Sprintf("%+v", budget.Status); got != fmt.Sprintf("%+v", want) {
		var names []string
		for _, pod := range pods {
			names = append(names, fmt.Sprintf("%s %t", pod.Name, w.serves(pod)))
		}
		w.Failf("status", "%s; want %+v; Pods %s", got, want, strings.Join(names, ", "))
	}
}
