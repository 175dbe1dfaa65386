package containerrecreaterequest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest/requesttest"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, also if the agent is late, dies or lies, a request closes only the readiness gate of
// its own Pod, and only while it has the finalizer. The agent never stops a container of a ready Pod that must be out
// of service. No end is overwritten. In the end every request has ended, and has left nothing behind.
func TestFaults(t *testing.T) { chaos.Run(t, faults(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, faults(t), 3) }

func faults(t testing.TB) chaos.Plan {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Kinds: []client.Object{&object{}}, Seeds: 200, Steps: 300, Quiet: 4 * time.Minute,
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, seen: map[types.UID]*object{}, lied: map[types.UID]bool{}, ran: map[string]bool{}}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.agent, Settle: w.settle, Denies: w.denies,
				Wrote: w.judge, Check: w.check, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule with two Pods, and requests of four names for these Pods.
type story struct {
	*chaos.World

	denied, agentDown bool
	seen              map[types.UID]*object // earlier states of requests, which a late agent reads
	lied              map[types.UID]bool    // requests whose status was false at some time
	ran               map[string]bool       // container instances that were in the status of their Pod, by UID and ID
}

type state = v1beta1.ContainerRecreateRequestContainerRecreateState

const space = "ns"

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	return Setup(ctx, mgr, mgr.GetClient(), Options{RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	for i := range 2 {
		w.makePod(fmt.Sprint("web-", i))
	}
}

// users makes a random change as a user, an agent or a Node.
func (w *story) users() {
	switch n := w.Rand().IntN(30); {
	case n < 7:
		w.makeRequest()
	case n < 9:
		w.deleteRequest()
	case n < 11:
		w.replacePod()
	case n < 14:
		requesttest.OtherHolder(context.Background(), w.World)
	case n < 15:
		w.denied = !w.denied
		w.Logf("a policy denies the controller's writes: %t", w.denied)
	case n < 16:
		w.agentDown = !w.agentDown
		w.Logf("the agent is down: %t", w.agentDown)
	case n < 18:
		w.lie()
	default:
		w.agent()
	}
	w.check()
}

func (w *story) pod(name string) *corev1.Pod {
	pod, _ := w.Server.Stored(&corev1.Pod{}, client.ObjectKey{Namespace: space, Name: name}).(*corev1.Pod)
	return pod
}

func (w *story) requests() []*object { return faultapi.All[*object](w.Server) }

// anyRequest returns a random request, or nil if there is none.
func (w *story) anyRequest() *object {
	all := w.requests()
	if len(all) == 0 {
		return nil
	}
	return all[w.Rand().IntN(len(all))].DeepCopy()
}

func (w *story) makePod(name string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}, {Name: "log", Image: "log:v1"}}
	if w.Chance(75) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionKruisePodReady}}
	}
	w.must(w.User.Create(context.Background(), pod))
	w.Logf("user: creates Pod %s, gates %v", name, pod.Spec.ReadinessGates)
	if w.Chance(50) { // the kubelet writes the Pod's status before the caches are up to date
		w.Nodes.Schedule(pod, "n1")
		w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
		w.Nodes.Run(pod.UID)
		w.Nodes.Report(pod.UID)
	}
}

func (w *story) replacePod() {
	name := fmt.Sprint("web-", w.Rand().IntN(2))
	if pod := w.pod(name); pod != nil {
		var options []client.DeleteOption
		if w.Chance(60) {
			options = append(options, client.GracePeriodSeconds(0))
		}
		w.must(w.User.Delete(context.Background(), pod.DeepCopy(), options...))
		w.Logf("user: deletes Pod %s", name)
		if w.Chance(40) {
			return
		}
	}
	if w.pod(name) == nil {
		w.makePod(name)
	}
}

// makeRequest creates a request as admission would store the request.
func (w *story) makeRequest() {
	pod := w.pod(fmt.Sprint("web-", w.Rand().IntN(2)))
	obj := request([]string{"app", "log"}[:1+w.Rand().IntN(2)]...)
	obj.Namespace, obj.Name = space, fmt.Sprint("r-", w.Rand().IntN(4))
	api.Default(obj)
	if pod == nil {
		return
	}
	obj.Spec.PodName = pod.Name
	if len(validatePod(obj, pod)) > 0 {
		return
	}
	complete(obj, pod, nil)
	if w.Chance(60) {
		unready(obj)
	}
	if w.Chance(30) {
		deadline(int64(3 + w.Rand().IntN(60)))(obj)
	}
	if w.Chance(40) {
		ttl(int32(w.Rand().IntN(20)))(obj)
	}
	if w.User.Create(context.Background(), obj) == nil { // otherwise the name is in use
		w.Logf("user: asks by %s for %v of Pod %s, unready %t", obj.Name, len(obj.Spec.Containers), pod.Name, obj.Spec.Strategy.UnreadyGracePeriodSeconds != nil)
	}
}

func (w *story) deleteRequest() {
	if obj := w.anyRequest(); obj != nil {
		w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), obj)))
		w.Logf("user: deletes request %s", obj.Name)
	}
}

// lie writes false values into a status, as a hostile Node might.
func (w *story) lie() {
	obj := w.anyRequest()
	if obj == nil || obj.Status.Phase == "" {
		return
	}
	switch s := &obj.Status; w.Rand().IntN(6) {
	case 0:
		s.Phase, s.CompletionTime = "Failed", nil
	case 1:
		s.Phase, s.CompletionTime = "Completed", new(metav1.NewTime(time.Now().AddDate(900, 0, 0)))
	case 2:
		s.Phase, s.CompletionTime = "Recreating", nil // even if the request has ended
	case 3:
		s.ContainerRecreateStates = make([]state, 100)
	case 4:
		s.Conditions = append(s.Conditions, metav1.Condition{Type: fmt.Sprint("Odd", len(s.Conditions)), Status: "Maybe"})
	case 5:
		for i := range s.Conditions {
			s.Conditions[i].LastTransitionTime = metav1.NewTime(time.Now().AddDate(0, 0, 1))
		}
	}
	w.lied[obj.UID] = true
	w.report(obj)
	w.Logf("a Node lies about %s: %s", obj.Name, obj.Status.Phase)
}

func (w *story) settle() {
	w.denied, w.agentDown = false, false
	for i := range 2 {
		if name := fmt.Sprint("web-", i); w.pod(name) == nil {
			w.makePod(name)
		}
	}
}

// denies refuses the controller's writes while a policy is in force.
func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if w.denied {
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a policy denies it"))
	}
	return nil
}

// report writes the status of a request if the stored version is the version that the agent has read. An agent with
// an old version gets a conflict.
func (w *story) report(obj *object) bool {
	err := w.User.Status().Update(context.Background(), obj)
	if !apierrors.IsConflict(err) {
		w.must(client.IgnoreNotFound(err))
	}
	return err == nil
}

// agent takes the agent's next step for each Pod.
func (w *story) agent() (changed bool) {
	if w.agentDown {
		return false
	}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		var active []*object
		for _, obj := range w.requests() {
			seen := w.seen[obj.UID]
			if seen == nil || w.Over() || w.Chance(70) {
				seen = obj
			}
			w.seen[obj.UID] = seen
			if seen.Labels[apps.LabelRequestActive] == "true" && seen.Labels[apps.LabelRequestPodUID] == string(pod.UID) && !api.HasEnded(&seen.Status) {
				active = append(active, seen)
			}
		}
		order, _ := turns(active)
		for i, obj := range order {
			obj = obj.DeepCopy()
			switch {
			case i > 0 && obj.Status.Phase == "":
				obj.Status.Phase = "Pending"
				changed = w.report(obj) || changed
			case i == 0 && obj.Status.Phase != "Recreating":
				obj.Status.Phase = "Recreating"
				w.Logf("agent: begins %s", obj.Name)
				changed = w.report(obj) || changed
			case i == 0:
				changed = w.restart(pod, obj) || changed
			}
		}
	}
	return changed
}

// restart takes the next step of the request in progress.
func (w *story) restart(pod *corev1.Pod, obj *object) bool {
	if obj.Spec.Strategy.UnreadyGracePeriodSeconds != nil {
		i := slices.IndexFunc(obj.Status.Conditions, func(c metav1.Condition) bool { return c.Type == apps.ConditionPreRecreateGrace })
		if i < 0 || !w.Over() && time.Since(obj.Status.Conditions[i].LastTransitionTime.Time) < 5*time.Second {
			return false
		}
	}
	for i := range obj.Spec.Containers {
		c := &obj.Spec.Containers[i]
		record := stateOf(&obj.Status, c.Name)
		if record.Phase == "Succeeded" {
			continue
		}
		id, _ := w.Nodes.Env(pod.UID, c.Name)
		switch {
		case id == c.StatusContext.ContainerID:
			w.judgeStop(pod, obj)
			w.Logf("agent: stops %s of Pod %s for %s", c.Name, pod.Name, obj.Name)
			w.Nodes.Exit(pod.UID, c.Name, 137)
			record.Phase, record.IsKilled = "Recreating", true
		case id != "" && slices.ContainsFunc(obj.Status.ContainerStatusSnapshot, func(s v1beta1.ContainerRecreateRequestContainerStatus) bool {
			return s.Name == c.Name && s.ContainerID == id && s.Ready
		}):
			record.Phase = "Succeeded"
		default:
			return false
		}
		return w.reportStates(obj)
	}
	obj.Status.Phase, obj.Status.CompletionTime = "Completed", new(metav1.NewTime(time.Now()))
	w.Logf("agent: completes %s", obj.Name)
	return w.report(obj)
}

// stateOf returns the state of a container in a status, and adds the state if it is missing.
func stateOf(status *v1beta1.ContainerRecreateRequestStatus, name string) *state {
	status.ContainerRecreateStates = slices.DeleteFunc(status.ContainerRecreateStates,
		func(s state) bool { return s.Name == "" }) // written by a lying agent
	for i := range status.ContainerRecreateStates {
		if s := &status.ContainerRecreateStates[i]; s.Name == name {
			return s
		}
	}
	status.ContainerRecreateStates = append(status.ContainerRecreateStates, state{Name: name, Phase: "Pending"})
	return &status.ContainerRecreateStates[len(status.ContainerRecreateStates)-1]
}

// reportStates writes only the states of containers, and does not require a version, as OpenKruise's agent does.
func (w *story) reportStates(obj *object) bool {
	target := &object{ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name}}
	current, _ := w.Server.Stored(target, client.ObjectKeyFromObject(obj)).(*object)
	if current == nil || current.UID != obj.UID {
		return true
	}
	before := current.DeepCopy()
	target = before.DeepCopy()
	target.Status.ContainerRecreateStates = obj.Status.ContainerRecreateStates
	w.must(w.User.Status().Patch(context.Background(), target, client.MergeFrom(before)))
	return true
}

// check records the container instances that the Pods' statuses show.
func (w *story) check() {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		for i := range pod.Status.ContainerStatuses {
			if s := &pod.Status.ContainerStatuses[i]; s.State.Running != nil {
				w.ran[string(pod.UID)+s.Name+s.ContainerID] = true
			}
		}
		w.checkHolders(pod)
	}
}

// checkHolders checks that every request with an entry in the readiness gate of a Pod is a request for this Pod, and
// has its finalizer.
func (w *story) checkHolders(pod *corev1.Pod) {
	holders, err := podreadiness.Holders(pod, apps.ConditionKruisePodReady)
	w.must(err)
	for _, h := range holders {
		if h.UserAgent != apps.NotReadyUserAgentRequest {
			continue
		}
		i := slices.IndexFunc(w.requests(), func(obj *object) bool { return holder(obj) == h })
		if i < 0 {
			w.Failf("left", "Pod %s is held by %s, which does not exist", pod.Name, h.Key)
		}
		obj := w.requests()[i]
		if obj.Labels[apps.LabelRequestPodUID] != string(pod.UID) || !slices.Contains(obj.Finalizers, apps.FinalizerRequestUnreadyAcquired) {
			w.Failf("left", "Pod %s is held by %s, with finalizers %v, for Pod %s of UID %s", pod.Name, h.Key, obj.Finalizers, obj.Spec.PodName, obj.Labels[apps.LabelRequestPodUID])
		}
	}
}

// holds reports whether a request has an entry in the readiness gate of its Pod. needless is true if the Pod has no
// such gate, or does not exist.
func (w *story) holds(obj *object) (held, needless bool) {
	pod := w.pod(obj.Spec.PodName)
	if pod == nil || string(pod.UID) != obj.Labels[apps.LabelRequestPodUID] || !podstate.HasGate(pod, apps.ConditionKruisePodReady) {
		return false, true
	}
	holders, err := podreadiness.Holders(pod, apps.ConditionKruisePodReady)
	w.must(err)
	return slices.Contains(holders, holder(obj)) && !podstate.IsTrue(pod, apps.ConditionKruisePodReady), false
}
