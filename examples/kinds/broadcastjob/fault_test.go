package broadcastjob

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
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps/broadcastjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, no Node gets a second Pod, and the controller never runs more Pods than allowed. The
// controller deletes Pods only for a valid reason. An ended job stays ended, and only ended jobs are deleted. In the
// end each job that can end has ended, with the right numbers.
func TestFaults(t *testing.T) {
	chaos.Run(t, plan(t))
}

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) {
	chaos.Replay(t, plan(t), 3)
}

func plan(t testing.TB) chaos.Plan {
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Kinds: []client.Object{&v1beta1.BroadcastJob{}, &corev1.Node{}}, Seeds: 300, Steps: 200, Quiet: 3 * time.Minute,
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.finish, Settle: w.settle,
				Denies: w.denies, Looks: w.look, Wrote: w.judge, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	binds bool
	// policy says which requests the API server refuses: none, new Pods, deletions, or every write to a single Pod.
	policy int
	denied string
	// ended contains the status of each job when the job had failed or completed, by UID.
	ended map[types.UID]v1beta1.BroadcastJobStatus
}

const (
	namespace = "default"
	foreign   = "other" // the image of foreign Pods
	mostNodes = 6
)

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	return Setup(ctx, mgr, mgr.GetClient(), Options{BindPods: w.binds, Options: kruise.Options{
		RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
		},
	}})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	w.ended = map[types.UID]v1beta1.BroadcastJobStatus{}
	w.binds = w.Chance(20)
	for range 3 + w.Rand().IntN(3) {
		w.join()
	}
	w.submit()
}

// submit creates a job.
func (w *story) submit() {
	j := &v1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	pod := &j.Spec.Template.Spec
	pod.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	pod.RestartPolicy = []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure}[w.Rand().IntN(2)]
	grace := int64(w.Rand().IntN(3))
	if pod.TerminationGracePeriodSeconds = &grace; w.Chance(40) {
		pod.NodeSelector = map[string]string{"pool": "web"}
	}
	w.parallelism(j)
	w.failure(j)
	if w.Chance(20) {
		j.Spec.CompletionPolicy.Type = v1beta1.Never
	} else {
		w.limits(j)
	}
	broadcastjob.Default(j)
	w.tell(j)
	w.must(w.User.Create(context.Background(), j))
}

func (w *story) parallelism(j *v1beta1.BroadcastJob) {
	value := []intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(9), intstr.FromString("20%"), intstr.FromString("50%"), intstr.FromInt32(0)}[w.Rand().IntN(6)]
	j.Spec.Parallelism = &value
}

func (w *story) failure(j *v1beta1.BroadcastJob) {
	j.Spec.FailurePolicy = v1beta1.FailurePolicy{RestartLimit: int32(w.Rand().IntN(3)), Type: []v1beta1.FailurePolicyType{
		v1beta1.FailurePolicyTypeFailFast, v1beta1.FailurePolicyTypeContinue, v1beta1.FailurePolicyTypeContinue, v1beta1.FailurePolicyTypePause,
	}[w.Rand().IntN(4)]}
}

func (w *story) limits(j *v1beta1.BroadcastJob) {
	policy := &j.Spec.CompletionPolicy
	policy.ActiveDeadlineSeconds, policy.TTLSecondsAfterFinished = nil, nil
	if w.Chance(30) {
		policy.ActiveDeadlineSeconds = new(int64(5 + w.Rand().IntN(60)))
	}
	if w.Chance(40) {
		policy.TTLSecondsAfterFinished = new(int32(w.Rand().IntN(30)))
	}
}

func (w *story) tell(j *v1beta1.BroadcastJob) {
	policy := j.Spec.CompletionPolicy
	w.Logf("user: job, parallelism %s, completes %s, deadline %d, TTL %d, %+v, paused %t, restarts %s, on Nodes %v", j.Spec.Parallelism, policy.Type, ptr.Deref(policy.ActiveDeadlineSeconds, -1),
		ptr.Deref(policy.TTLSecondsAfterFinished, -1), j.Spec.FailurePolicy, j.Spec.Paused, j.Spec.Template.Spec.RestartPolicy, j.Spec.Template.Spec.NodeSelector)
}

// owner returns the job, or nil if there is none.
func (w *story) owner() *v1beta1.BroadcastJob {
	j, _ := w.Server.Stored(&v1beta1.BroadcastJob{}, client.ObjectKey{Namespace: namespace, Name: "web"}).(*v1beta1.BroadcastJob)
	if j == nil {
		return nil
	}
	return j.DeepCopy()
}

func (w *story) users() {
	j := w.owner()
	switch n := w.Rand().IntN(40); {
	case j == nil:
		w.submit()
	case n < 3:
		w.policy, w.denied = w.Rand().IntN(4), ""
		if pod := w.AnyPod(); pod != nil {
			w.denied = pod.Name
		}
		w.Logf("admission: policy %d, Pod %s", w.policy, w.denied)
	case n < 12:
		w.changeNodes()
	case n < 22:
		w.exit(w.AnyPod(), w.Rand().IntN(10) < 3)
	case n < 24:
		w.deletePod(w.AnyPod())
	case n < 25:
		w.intrude(j)
	case n < 27:
		w.Sleep(time.Duration(w.Rand().IntN(20)) * time.Second)
	case n < 28:
		w.Logf("user: the job is deleted")
		w.must(w.User.Delete(context.Background(), j))
	default:
		w.edit(j)
	}
}

// exit ends the container of a Pod.
func (w *story) exit(pod *corev1.Pod, badly bool) bool {
	if pod == nil || pod.Spec.NodeName == "" || podstate.HasEnded(pod) {
		return false
	}
	code := 0
	if badly {
		code = 3
	}
	w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
	w.Nodes.Run(pod.UID)
	did := w.Nodes.Exit(pod.UID, "app", int32(code))
	reported := w.Nodes.Report(pod.UID)
	w.Logf("node: %s exits with %d: %t, reported %t", pod.Name, code, did, reported)
	return did || reported
}

// finish ends running Pods well, a single Pod at a time.
func (w *story) finish() bool {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if pod.DeletionTimestamp == nil && w.exit(pod, false) {
			return true
		}
	}
	return false
}

func (w *story) deletePod(pod *corev1.Pod) {
	if pod != nil {
		w.Logf("user: Pod %s is deleted", pod.Name)
		w.must(w.User.Delete(context.Background(), pod))
	}
}

// intrude creates a second Pod of the job on a Node, as OpenKruise's controller might, or a Pod of another owner with
// the name that the controller will give its next Pod.
func (w *story) intrude(j *v1beta1.BroadcastJob) {
	nodes := faultapi.All[*corev1.Node](w.Server)
	node := nodes[w.Rand().IntN(len(nodes))].Name
	pod := podstate.FromTemplate(&j.Spec.Template, namespace, *metav1.NewControllerRef(j, v1beta1.GroupVersion.WithKind("BroadcastJob")))
	pod.Name, pod.Spec.NodeName = fmt.Sprintf("extra-%d", w.Rand().IntN(3)), node
	if w.Chance(50) {
		pod.Name = nodefit.PodName("web", j.UID, node, "", func(string) bool { return false })
		pod.OwnerReferences, pod.Spec.Containers[0].Image = nil, foreign
	} else {
		pod.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1"
	}
	if w.User.Create(context.Background(), pod) == nil {
		w.Logf("user: Pod %s on Node %s, of the job's own: %t", pod.Name, node, controls(j, pod))
	}
}

func (w *story) edit(j *v1beta1.BroadcastJob) {
	switch n := w.Rand().IntN(12); {
	case n < 3:
		w.parallelism(j)
	case n < 6:
		j.Spec.Paused = !j.Spec.Paused
	case n < 8:
		w.failure(j)
	case n < 10 && j.Spec.CompletionPolicy.Type == v1beta1.Always:
		w.limits(j)
	case n < 11:
		if j.Spec.Template.Spec.NodeSelector = nil; w.Chance(50) {
			j.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "web"}
		}
	default:
		j.Spec.Parallelism = new(intstr.FromString("many")) // stored without admission
	}
	w.tell(j)
	w.must(w.User.Update(context.Background(), j))
}

// join adds a Node with a name that is free.
func (w *story) join() {
	for i := range mostNodes {
		name := fmt.Sprintf("node-%d", i)
		if w.Server.Stored(&corev1.Node{}, client.ObjectKey{Name: name}) != nil {
			continue
		}
		w.Logf("node: %s joins", name)
		w.must(w.User.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "web"}}}))
		return
	}
}

func (w *story) changeNodes() {
	nodes := faultapi.All[*corev1.Node](w.Server)
	n := nodes[w.Rand().IntN(len(nodes))].DeepCopy()
	toggle := func(key string, effect corev1.TaintEffect) {
		has := func(t corev1.Taint) bool { return t.Key == key }
		if slices.ContainsFunc(n.Spec.Taints, has) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, has)
			return
		}
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
	}
	switch c := w.Rand().IntN(13); {
	case c < 2:
		w.join()
		return
	case c < 4:
		if len(nodes) > 2 {
			w.Logf("node: %s goes", n.Name)
			w.must(w.User.Delete(context.Background(), n))
		}
		return
	case c < 6:
		toggle("example.test/dedicated", corev1.TaintEffectNoSchedule)
	case c < 7:
		toggle("example.test/broken", corev1.TaintEffectNoExecute)
	case c < 8:
		toggle(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute) // the kubelet reports late
	case c < 10:
		n.Spec.Unschedulable = !n.Spec.Unschedulable
	default:
		n.Labels["pool"] = map[string]string{"web": "db", "db": "web"}[n.Labels["pool"]]
	}
	w.Logf("node: %s has labels %v, taints %v, cordoned %t", n.Name, n.Labels, n.Spec.Taints, n.Spec.Unschedulable)
	w.must(w.User.Update(context.Background(), n))
}

func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if call.Resource.Resource != "pods" {
		return nil
	}
	if w.policy == 1 && call.Verb == "create" || w.policy == 2 && call.Verb == "delete" || w.policy == 3 && call.Name == w.denied {
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
	}
	return nil
}

// settle changes the spec so that the job can end.
func (w *story) settle() {
	w.policy = 0
	if w.owner() == nil {
		w.submit()
	}
	w.CatchUp()
	j := w.owner()
	if j == nil {
		return
	}
	if j.Spec.Paused, j.Annotations = false, map[string]string{"example.test/settled": "true"}; w.Chance(80) || j.Spec.Parallelism.StrVal == "many" {
		j.Spec.Parallelism = new(intstr.FromInt32(int32(1 + w.Rand().IntN(3))))
	}
	w.tell(j)
	w.must(w.User.Update(context.Background(), j))
}
