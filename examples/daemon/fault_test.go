package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/kinds/containerrecreaterequest/requesttest"
	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults runs an agent and the controller of ContainerRecreateRequests. The runtime hangs, fails, drops
// connections and restarts, and knows changes before the kubelet reports them. No container is stopped without a
// recorded reason, or twice for a request. A request succeeds only if new container instances run. In the end every
// request has ended, or its status gives the reason why not, every Pod is in service again, and the agent is idle.
func TestFaults(t *testing.T) { chaos.Run(t, faults(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, faults(t), 5) }

func faults(t testing.TB) chaos.Plan {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Kinds: []client.Object{&request{}}, Seeds: 200, Steps: 400, Quiet: 4 * time.Minute,
		New: func(world *chaos.World) chaos.Subject {
			w := &story{
				World: world, ran: map[string]faultapi.Instance{}, ordered: map[string][]order{}, stopped: map[order]int{}, idle: map[types.UID]bool{},
			}
			return chaos.Subject{
				Setup: w.manage, Beside: []func(context.Context, *chaos.Process, manager.Manager) error{w.agent}, Begin: w.begin, Users: w.users,
				Outside: w.finishAll, Settle: w.settle, Denies: w.denies, Wrote: w.judge, Check: w.check, Converged: w.converged,
			}
		},
	}
}

type request = v1beta1.ContainerRecreateRequest

// story is the state of a fault schedule, that is a test run with random faults: two Pods on a Node, and
// ContainerRecreateRequests with four names.
type story struct {
	*chaos.World

	denied bool
	// quick is true if the container runtime responds at once. trouble is the fault of all responses.
	quick   bool
	trouble fakecri.Kind
	runtime *fakecri.Server // the runtime of the running agent

	ran     map[string]faultapi.Instance // by ID
	ordered map[string][]order           // by the ID of the instance to stop
	stopped map[order]int

	mu    sync.Mutex
	stops []faultapi.Instance // since the last check
	told  []string            // since the last check
	late  []string            // stops that the agent has requested without a reason
	idle  map[types.UID]bool  // Pods whose last complete reconciliation by the agent has found no reason for a stop
}

// order identifies a stop that is recorded in the status of a request: the request and the container.
type order struct {
	request   types.UID
	container string
}

const (
	space = "ns"
	home  = "home" // the Node
	zone  = "zone" // a label read by containers
	sick  = "sick:v1"
	// password is in the environment of all containers.
	password = "hunter2"
)

// manage sets up the manager's process.
func (w *story) manage(ctx context.Context, mgr manager.Manager) error {
	return containerrecreaterequest.Setup(ctx, mgr, mgr.GetClient(), containerrecreaterequest.Options{
		RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
		},
	})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	w.quick = w.Chance(50)
	w.Nodes.Images.SetSick(sick, true)
	for i := range 2 {
		w.makePod(fmt.Sprint("web-", i))
	}
}

// users makes a random change that a user, a kubelet or a runtime could make.
func (w *story) users() {
	switch n := w.Rand().IntN(40); {
	case n < 13:
		w.makeRequest()
	case n < 14:
		w.deleteRequest()
	case n < 16:
		w.replacePod()
	case n < 18:
		requesttest.OtherHolder(context.Background(), w.World)
	case n < 23:
		w.exit()
	case n < 29:
		w.relabel()
	case n < 32:
		w.quick = !w.quick
		w.Logf("the runtime is quick: %t", w.quick)
	case n < 35:
		w.trouble = []fakecri.Kind{"", "", fakecri.Hang, fakecri.Fail, fakecri.Drop, fakecri.Restart}[w.Rand().IntN(6)]
		w.Logf("the fate of all calls at the runtime: %q", w.trouble)
	case n < 36:
		w.denied = !w.denied
		w.Logf("a policy denies all writes: %t", w.denied)
	default:
		w.finishAll()
	}
}

func (w *story) settle() { w.denied, w.trouble = false, "" }

// denies is an admission policy that refuses all writes of controller and agent while denied is true.
func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if w.denied {
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a policy denies it"))
	}
	return nil
}

func (w *story) pods() []*corev1.Pod  { return faultapi.All[*corev1.Pod](w.Server) }
func (w *story) requests() []*request { return faultapi.All[*request](w.Server) }

func (w *story) pod(name string) *corev1.Pod {
	pod, _ := w.Server.Stored(&corev1.Pod{}, client.ObjectKey{Namespace: space, Name: name}).(*corev1.Pod)
	return pod
}

func (w *story) anyName() string { return fmt.Sprint("web-", w.Rand().IntN(2)) }

// makePod creates a random Pod: with or without a readiness gate, a preStop hook, a label in the environment, or
// containers that end.
func (w *story) makePod(name string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name, Labels: map[string]string{zone: "a"}}}
	pod.Spec = corev1.PodSpec{
		NodeName: home, TerminationGracePeriodSeconds: new(int64(w.Rand().IntN(10))),
		Containers: []corev1.Container{{Name: "app", Image: "app:v1"}, {Name: "log", Image: "log:v1"}},
	}
	if w.Chance(75) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionKruisePodReady}}
	}
	if hook := w.Rand().IntN(6); hook < 3 {
		handler := []corev1.LifecycleHandler{
			{Exec: &corev1.ExecAction{Command: []string{"sleep", "3"}}}, {Exec: &corev1.ExecAction{Command: []string{"false"}}}, {Sleep: &corev1.SleepAction{Seconds: 2}},
		}[hook]
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &handler}
	}
	switch n := w.Rand().IntN(20); {
	case n < 12:
		pod.Annotations = map[string]string{apps.AnnotationSidecarSetHash: "x"}
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: apps.ConditionInPlaceUpdateReady})
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ZONE", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['" + zone + "']"},
		}}}
	case n < 15:
		pod.Spec.RestartPolicy = []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure}[w.Rand().IntN(2)]
	case n < 17:
		pod.Spec.Containers[1].Image = sick
	}
	w.must(w.User.Create(context.Background(), pod))
	w.Logf("user: creates Pod %s: gates %v, restarts %q, images %s and %s, label in env: %t", name, pod.Spec.ReadinessGates, pod.Spec.RestartPolicy,
		pod.Spec.Containers[0].Image, pod.Spec.Containers[1].Image, len(pod.Annotations) > 0)
	w.update(pod.Name, corev1.ConditionTrue)
	if w.Chance(70) { // the Pod runs at once, before the caches show the Pod
		w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
		w.Nodes.Run(pod.UID)
		w.Nodes.Report(pod.UID)
	}
}

func (w *story) replacePod() {
	name := w.anyName()
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

// makeRequest creates a request in the form that admission produces.
func (w *story) makeRequest() {
	pod := w.pod(w.anyName())
	if pod == nil || pod.DeletionTimestamp != nil || podstate.HasEnded(pod) {
		return
	}
	r := &request{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: fmt.Sprint("r-", w.Rand().IntN(4)), Labels: map[string]string{
		apps.LabelRequestActive: "true", apps.LabelRequestNodeName: home, apps.LabelRequestPodUID: string(pod.UID),
	}}}
	r.Spec.PodName = pod.Name
	for _, name := range [][]string{{"app"}, {"log"}, {"app", "log"}, {"log", "app"}}[w.Rand().IntN(4)] {
		status := podstate.ContainerStatus(pod, name)
		if status == nil || status.ContainerID == "" {
			return
		}
		r.Spec.Containers = append(r.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{
			Name: name, StatusContext: &v1beta1.ContainerRecreateRequestContainerContext{ContainerID: status.ContainerID, RestartCount: status.RestartCount},
		})
	}
	api.Default(r)
	w.fillRequest(r)
	if w.User.Create(context.Background(), r) == nil { // otherwise a request with the name exists already
		spec, err := json.Marshal(r.Spec)
		w.must(err)
		w.Logf("user: asks by %s: %s", r.Name, spec)
	}
}

func (w *story) fillRequest(r *request) {
	s := r.Spec.Strategy
	s.OrderedRecreate, s.ForceRecreate, s.MinStartedSeconds = w.Chance(40), w.Chance(30), []int32{0, 0, 3, 10}[w.Rand().IntN(4)]
	if w.Chance(40) {
		s.FailurePolicy = v1beta1.ContainerRecreateRequestFailurePolicyIgnore
	}
	if w.Chance(40) {
		s.UnreadyGracePeriodSeconds = new(int64(w.Rand().IntN(6)))
	}
	if w.Chance(30) {
		s.TerminationGracePeriodSeconds = new(int64(w.Rand().IntN(3)))
	}
	if w.Chance(30) {
		r.Spec.ActiveDeadlineSeconds = new(int64(3 + w.Rand().IntN(60)))
	}
	if w.Chance(40) {
		r.Spec.TTLSecondsAfterFinished = new(int32(w.Rand().IntN(20)))
	}
}

func (w *story) deleteRequest() {
	if all := w.requests(); len(all) > 0 {
		r := all[w.Rand().IntN(len(all))].DeepCopy()
		w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), r)))
		w.Logf("user: deletes request %s", r.Name)
	}
}

// exit lets a container crash or end by itself.
func (w *story) exit() {
	if pod := w.AnyPod(); pod != nil {
		name, code := []string{"app", "log"}[w.Rand().IntN(2)], int32(w.Rand().IntN(2))
		w.Logf("container %s of Pod %s exits with code %d: %t", name, pod.Name, code, w.Nodes.Exit(pod.UID, name, code))
	}
}

// relabel begins an in-place update: first the Pod is taken out of service, then the label changes.
func (w *story) relabel() {
	pod := w.pod(w.anyName())
	if pod == nil || !podstate.IsActive(pod) || !podstate.HasGate(pod, apps.ConditionInPlaceUpdateReady) {
		return
	}
	w.update(pod.Name, corev1.ConditionFalse)
	pod = w.pod(pod.Name).DeepCopy()
	pod.Labels[zone] = []string{"a", "b", "c"}[w.Rand().IntN(3)]
	w.must(w.User.Update(context.Background(), pod))
	w.Logf("user: label of Pod %s is %s", pod.Name, pod.Labels[zone])
}

// update sets the condition InPlaceUpdateReady of a Pod with this readiness gate, at the beginning or the end of an
// in-place update.
func (w *story) update(name string, status corev1.ConditionStatus) {
	pod := w.pod(name).DeepCopy()
	if !podstate.HasGate(pod, apps.ConditionInPlaceUpdateReady) || podstate.IsTrue(pod, apps.ConditionInPlaceUpdateReady) == (status == corev1.ConditionTrue) {
		return
	}
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == apps.ConditionInPlaceUpdateReady })
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: apps.ConditionInPlaceUpdateReady, Status: status, LastTransitionTime: metav1.Now(),
	})
	w.must(w.User.Status().Update(context.Background(), pod))
}

// finishAll acts as the controller of the Pods: an in-place update ends when the agent's report is about the present
// container instances.
func (w *story) finishAll() (changed bool) {
	for _, pod := range w.pods() {
		if c := podstate.Condition(pod, apps.ConditionInPlaceUpdateReady); c == nil || c.Status != corev1.ConditionFalse || !isReported(pod) {
			continue
		}
		w.judgeEnv(pod)
		w.update(pod.Name, corev1.ConditionTrue)
		w.Logf("others: the update of Pod %s is over", pod.Name)
		changed = true
	}
	return changed
}

// isReported reports whether, according to the report, all instances run with the present labels.
func isReported(pod *corev1.Pod) bool {
	report, err := runtimemeta.Decode(pod.Annotations[apps.AnnotationRuntimeContainersMeta])
	if err != nil {
		return false
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if !runtimemeta.ReadsMetadata(c, nil) {
			continue
		}
		status := podstate.ContainerStatus(pod, c.Name)
		if status == nil {
			return false
		}
		if entry := report.Instance(c.Name, status.ContainerID); entry == nil || entry.Hashes.ExtractedEnvFromMetadataHash != runtimemeta.ExpectedHash(pod, c, nil) {
			return false
		}
	}
	return true
}
