package ephemeraljob

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, a Pod gets the containers of a job once, and only while the Pod is wanted. The number
// of busy Pods stays within the limit, and no other field of a Pod changes. A job ends only for a valid reason, stays
// ended, and is deleted only after its TTL. In the end each job that can end has ended, and each other job says why.
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
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Kinds: []client.Object{&v1alpha1.EphemeralJob{}}, Seeds: 300, Steps: 200, Quiet: 3 * time.Minute,
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

	pods int // number of Pods created so far
	// policy says which requests the API server refuses: none, ephemeral containers, those of a single Pod, or writes to
	// jobs.
	policy int
	denied string
}

const namespace = "default"

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	return Setup(ctx, mgr, mgr.GetClient(), kruise.Options{RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	for range 2 + w.Rand().IntN(4) {
		w.newPod()
	}
	w.submit()
}

func (w *story) newPod() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p%d", w.pods), Labels: map[string]string{"app": "web"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	if w.pods++; w.Chance(20) {
		pod.Labels["app"] = "other"
	}
	w.Logf("user: Pod %s of %s", pod.Name, pod.Labels["app"])
	w.must(w.User.Create(context.Background(), pod))
}

// submit creates a job.
func (w *story) submit() {
	j := job(func(j *v1alpha1.EphemeralJob) { j.UID, j.Generation, j.Name = "", 0, "look" })
	w.template(j)
	w.numbers(j)
	w.limits(j)
	w.tell(j)
	w.must(w.User.Create(context.Background(), j))
}

func (w *story) template(j *v1alpha1.EphemeralJob) {
	containers([][]string{{"debugger"}, {"debugger", "dump"}, {"tool"}}[w.Rand().IntN(3)]...)(j)
}

func (w *story) numbers(j *v1alpha1.EphemeralJob) {
	j.Spec.Replicas, j.Spec.Parallelism = nil, nil
	if w.Chance(50) {
		replicas(int32(w.Rand().IntN(5)))(j)
	}
	if w.Chance(80) {
		parallelism(int32(w.Rand().IntN(4)))(j)
	}
}

func (w *story) limits(j *v1alpha1.EphemeralJob) {
	j.Spec.ActiveDeadlineSeconds, j.Spec.TTLSecondsAfterFinished = nil, nil
	if w.Chance(30) {
		deadline(int64(5 + w.Rand().IntN(60)))(j)
	}
	if w.Chance(40) {
		ttl(int32(w.Rand().IntN(30)))(j)
	}
}

func (w *story) tell(j *v1alpha1.EphemeralJob) {
	var names []string
	for i := range j.Spec.Template.EphemeralContainers {
		names = append(names, j.Spec.Template.EphemeralContainers[i].Name)
	}
	w.Logf("user: job with %q for %d Pods, %d at once, deadline %d, TTL %d, paused %t", names, ptr.Deref(j.Spec.Replicas, -1), ptr.Deref(j.Spec.Parallelism, 1),
		ptr.Deref(j.Spec.ActiveDeadlineSeconds, -1), ptr.Deref(j.Spec.TTLSecondsAfterFinished, -1), j.Spec.Paused)
}

// owner returns the job, or nil if there is none.
func (w *story) owner() *v1alpha1.EphemeralJob {
	j, _ := w.Server.Stored(&v1alpha1.EphemeralJob{}, client.ObjectKey{Namespace: namespace, Name: "look"}).(*v1alpha1.EphemeralJob)
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
	case n < 6:
		w.newPod()
	case n < 17:
		w.exit(w.AnyPod(), w.Rand().IntN(10) < 3)
	case n < 20:
		w.deletePod(w.AnyPod())
	case n < 24:
		w.relabel(w.AnyPod())
	case n < 27:
		w.intrude(w.AnyPod())
	case n < 28:
		broken := w.Chance(50)
		w.Logf("registry: the tool is broken: %t", broken)
		w.Nodes.Images.SetBroken("tool:v1", broken)
	case n < 30:
		w.Sleep(time.Duration(w.Rand().IntN(20)) * time.Second)
	case n < 31 && j.DeletionTimestamp == nil:
		w.Logf("user: the job is deleted")
		w.must(w.User.Delete(context.Background(), j))
	case j.DeletionTimestamp == nil:
		w.edit(j)
	}
}

// exit ends an ephemeral container of a Pod.
func (w *story) exit(pod *corev1.Pod, badly bool) (did bool) {
	if pod == nil || pod.Spec.NodeName == "" {
		return false
	}
	code := int32(0)
	if badly {
		code = 3
	}
	w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
	w.Nodes.Run(pod.UID)
	for i := range pod.Spec.EphemeralContainers {
		if name := pod.Spec.EphemeralContainers[i].Name; !did && w.Nodes.Exit(pod.UID, name, code) {
			w.Logf("node: %s of %s exits with %d", name, pod.Name, code)
			did = true
		}
	}
	reported := w.Nodes.Report(pod.UID)
	return did || reported
}

// finish ends running ephemeral containers successfully, one at a time.
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

func (w *story) relabel(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	pod = pod.DeepCopy()
	pod.Labels["app"] = map[string]string{"web": "other", "other": "web"}[pod.Labels["app"]]
	w.Logf("user: Pod %s is of %s", pod.Name, pod.Labels["app"])
	w.must(w.User.Update(context.Background(), pod))
}

// intrude adds an ephemeral container as another client, perhaps with a name in the job's template, or with the UID
// of another job.
func (w *story) intrude(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	name := []string{"debugger", "dump", "shell"}[w.Rand().IntN(3)]
	body := fmt.Sprintf(`{"spec":{"ephemeralContainers":[{"name":%q,"image":"shell:v1","env":[{"name":%q,"value":"another"}]}]}}`, name, apps.EnvEphemeralJobID)
	if w.User.SubResource("ephemeralcontainers").Patch(context.Background(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(body))) == nil {
		w.Logf("user: Pod %s gets %s", pod.Name, name)
	}
}

func (w *story) edit(j *v1alpha1.EphemeralJob) {
	switch n := w.Rand().IntN(12); {
	case n < 4:
		w.numbers(j)
	case n < 7:
		j.Spec.Paused = !j.Spec.Paused
	case n < 9:
		w.template(j)
	case n < 11:
		w.limits(j)
	default:
		j.Spec.Template.EphemeralContainers = []corev1.EphemeralContainer{} // admission allows an empty list
	}
	w.tell(j)
	w.must(w.User.Update(context.Background(), j))
}

func (w *story) denies(call faultapi.Call, _ client.Object) error {
	pods := call.Resource.Resource == "pods"
	if pods && w.policy == 1 || pods && w.policy == 2 && call.Name == w.denied || !pods && w.policy == 3 && call.Subresource == "" {
		return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
	}
	return nil
}

// settle changes the last spec so that the controller can reach the wanted state.
func (w *story) settle() {
	w.policy = 0
	w.Nodes.Images.SetBroken("tool:v1", false)
	if w.owner() == nil {
		w.submit()
	}
	w.CatchUp()
	j := w.owner()
	if j == nil || j.DeletionTimestamp != nil {
		return
	}
	if j.Spec.Paused, j.Annotations = false, map[string]string{"example.test/settled": "true"}; ptr.Deref(j.Spec.Parallelism, 1) < 1 {
		parallelism(2)(j)
	}
	if len(j.Spec.Template.EphemeralContainers) == 0 {
		w.template(j)
	}
	w.tell(j)
	w.must(w.User.Update(context.Background(), j))
}
