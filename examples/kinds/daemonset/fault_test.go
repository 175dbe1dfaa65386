package daemonset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/restart/restarttest"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, no Pod is created for a Node that is unfit or has a Pod. The controller deletes Pods
// only for a valid reason, keeps the budgets in each write, and does not write objects of other owners. In the end
// the cluster matches the spec.
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
		Scheme: scheme, Kinds: []client.Object{&v1beta1.DaemonSet{}, &v1beta1.ContainerRecreateRequest{}, &corev1.Node{}}, Seeds: 300, Steps: 200,
		Quiet: 6 * time.Minute, // longer than the back-off of a refused update
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, ended: map[endings]ending{}, agents: restarttest.New(world)}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: func() bool { return w.agents.Step(context.Background()) || w.release() }, Settle: w.settle,
				Denies: w.denies, Looks: w.look, Wrote: w.judge, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	reconciler *Reconciler // the reconciler of the running process
	// prune leaves unfit Nodes out of updates. If binds is true, new Pods are bound to their Node.
	hooks, prune, binds bool
	// policy says which requests the API server refuses: none, patches of a Pod's spec, every write to a single Pod, new
	// Pods, or deletions.
	policy int
	denied string
	// ended contains the Pods that were deleted after they had ended.
	ended map[endings]ending
	// senseless is true if the last spec is invalid.
	senseless bool
	// agents restart containers in schedules with restarts.
	agents   *restarttest.Agents
	restarts bool
}

const (
	namespace  = "default"
	holdDelete = "example.test/hold-delete" // a label
	released   = "nobody"                   // the label app of Pods that users have taken away
	foreign    = "other"                    // the image of Pods of other owners
)

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	gates := apps.DefaultGates()
	gates[apps.GateDaemonSetPruneIneligibleNodes] = w.prune
	r, err := newReconciler(ctx, mgr, mgr.GetClient(), Options{BindPods: w.binds, Options: kruise.Options{
		Gates: gates, Presence: w.agents.Presence,
		RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
		},
	}})
	if err != nil {
		return err
	}
	w.reconciler = r
	return r.Register(mgr, r)
}

func (w *story) begin() {
	w.hooks, w.prune, w.binds = w.Chance(30), w.Chance(30), w.Chance(20)
	for range 3 + w.Rand().IntN(3) {
		w.join(nil)
	}
	set := &v1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: v1beta1.DaemonSetSpec{
			Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			UpdateStrategy:       v1beta1.DaemonSetUpdateStrategy{Type: v1beta1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &v1beta1.RollingUpdateDaemonSet{}},
			RevisionHistoryLimit: ptr.To[int32](2),
		},
	}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(int64(w.Rand().IntN(3)))
	if w.Chance(50) {
		set.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "web"}
	}
	if w.hooks {
		set.Spec.Template.Labels[holdDelete] = "true"
		set.Spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: map[string]string{holdDelete: "true"}, MarkPodNotReady: w.Chance(30)}}
	}
	w.rollingType(set)
	if w.Chance(30) {
		w.progress(set)
	}
	w.Logf("hooks %t, prune %t, binds %t, grace %d", w.hooks, w.prune, w.binds, *set.Spec.Template.Spec.TerminationGracePeriodSeconds)
	w.tell(set)
	w.must(w.User.Create(context.Background(), set))
	w.restarts = w.Chance(35)
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) owner() *v1beta1.DaemonSet {
	set := &v1beta1.DaemonSet{}
	w.must(w.User.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: "web"}, set))
	return set
}

func (w *story) isOurs(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, w.owner()) }

// users makes a random change as a user.
func (w *story) users() {
	if w.restarts && w.Chance(30) {
		w.restartStep()
		return
	}
	switch n := w.Rand().IntN(40); {
	case n < 4:
		w.policy, w.denied = w.Rand().IntN(5), ""
		if pod := w.AnyPod(); pod != nil {
			w.denied = pod.Name
		}
		w.Logf("admission: policy %d, Pod %s", w.policy, w.denied)
	case n < 8:
		w.release()
	case n < 18:
		w.changeNodes()
	case n < 20:
		w.meddle()
	case n < 22:
		w.relabel()
	case n < 25:
		w.end()
	case n < 26:
		w.twin()
	case n < 28:
		w.hold(w.AnyPod())
	case n < 30:
		w.LoseState(apps.AnnotationInPlaceUpdateState, apps.AnnotationInPlaceUpdateGrace)
	default:
		w.edit()
	}
}

// restartStep requests a restart of containers, or makes the agents work.
func (w *story) restartStep() {
	if w.Chance(60) {
		w.agents.Step(context.Background())
		return
	}
	set := w.owner()
	w.agents.Ask(context.Background(), set)
	w.must(w.User.Update(context.Background(), set))
}

func (w *story) edit() {
	set := w.owner()
	app, ru := &set.Spec.Template.Spec.Containers[0], set.Spec.UpdateStrategy.RollingUpdate
	switch n := w.Rand().IntN(30); {
	case n < 10:
		app.Image = fmt.Sprintf("app:v%d", w.Rand().IntN(4))
	case n < 12:
		app.Command = []string{fmt.Sprintf("serve-%d", w.Rand().IntN(2))}
	case n < 13:
		if set.Spec.Template.Spec.NodeSelector = nil; w.Chance(50) {
			set.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "web"}
		}
	case n < 16:
		ru.Partition = w.count(4, "0%", "34%", "50%", "100%")
	case n < 19:
		w.budget(set)
	case n < 21:
		w.rollingType(set)
	case n < 22:
		if ru.Selector = nil; w.Chance(60) {
			ru.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"wave": []string{"a", "b"}[w.Rand().IntN(2)]}}
		}
	case n < 24:
		ru.Paused = ptr.To(!ptr.Deref(ru.Paused, false))
	case n < 25:
		if set.Spec.UpdateStrategy.Type = v1beta1.RollingUpdateDaemonSetStrategyType; w.Chance(50) {
			set.Spec.UpdateStrategy.Type = v1beta1.OnDeleteDaemonSetStrategyType
		}
	case n < 26:
		w.progress(set)
	case n < 28:
		set.Spec.BurstReplicas = w.count(2, "34%", "50%")
	case n < 29:
		set.Spec.MinReadySeconds = int32(w.Rand().IntN(3) * 2)
	default:
		ru.MaxUnavailable = ptr.To(intstr.FromString("many")) // stored without admission
	}
	w.update(set)
}

// count returns a random count from 1 to most, or from 0 if "0%" is possible, or a random percentage.
func (w *story) count(most int, percentages ...string) *intstr.IntOrString {
	if w.Chance(40) {
		return ptr.To(intstr.FromString(percentages[w.Rand().IntN(len(percentages))]))
	}
	if percentages[0] == "0%" {
		return ptr.To(intstr.FromInt32(int32(w.Rand().IntN(most))))
	}
	return ptr.To(intstr.FromInt32(int32(1 + w.Rand().IntN(most))))
}

func (w *story) rollingType(set *v1beta1.DaemonSet) {
	ru := set.Spec.UpdateStrategy.RollingUpdate
	ru.RollingUpdateType = []v1beta1.RollingUpdateType{v1beta1.StandardRollingUpdateType, v1beta1.InPlaceIfPossibleRollingUpdateType}[w.Rand().IntN(2)]
	w.budget(set)
}

// budget sets one of the two limits to a random value. A second Pod can run on a Node only if Pods are replaced.
func (w *story) budget(set *v1beta1.DaemonSet) {
	ru := set.Spec.UpdateStrategy.RollingUpdate
	ru.MaxUnavailable, ru.MaxSurge = w.count(3, "34%", "50%"), nil
	if ru.RollingUpdateType == v1beta1.StandardRollingUpdateType && w.Chance(50) {
		ru.MaxUnavailable, ru.MaxSurge = nil, ru.MaxUnavailable
	}
}

func (w *story) progress(set *v1beta1.DaemonSet) {
	if set.Spec.ScaleStrategy = nil; w.Chance(70) {
		set.Spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
		set.Spec.UpdateStrategy.RollingUpdate.Partition = w.count(4, "0%", "34%", "50%", "100%")
	}
}

func (w *story) tell(set *v1beta1.DaemonSet) {
	app, ru := set.Spec.Template.Spec.Containers[0], set.Spec.UpdateStrategy.RollingUpdate
	w.Logf("user: %s/%s, partition %s, %s unavailable, surge %s, selector %v, paused %t, progressive %+v, burst %s, ready for %d s, image %s, command %v, on Nodes %v",
		set.Spec.UpdateStrategy.Type, ru.RollingUpdateType, ru.Partition, ru.MaxUnavailable, ru.MaxSurge, ru.Selector, ptr.Deref(ru.Paused, false),
		set.Spec.ScaleStrategy, set.Spec.BurstReplicas, set.Spec.MinReadySeconds, app.Image, app.Command, set.Spec.Template.Spec.NodeSelector)
}

func (w *story) update(set *v1beta1.DaemonSet) {
	w.tell(set)
	w.must(w.User.Update(context.Background(), set))
}

func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if call.Resource.Resource != "pods" {
		return w.agents.Denies(call)
	}
	refused := false
	switch w.policy {
	case 1:
		refused = call.Verb == "patch" && call.Subresource == ""
	case 2:
		refused = call.Name == w.denied && (call.Verb == "delete" || call.Verb == "patch" && call.Subresource == "")
	case 3:
		refused = call.Verb == "create"
	case 4:
		refused = call.Verb == "delete"
	}
	if !refused {
		return nil
	}
	return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
}

// settle changes the last spec so that the controller can reach the wanted state.
func (w *story) settle() {
	w.policy = 0
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if len(pod.Finalizers) > 0 {
			w.hold(pod)
		}
	}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if pod.Labels["app"] == released && pod.Spec.Containers[0].Image != foreign && w.Chance(50) {
			w.label(pod, "app", "web")
		}
	}
	w.CatchUp()
	w.admitPending()
	set := w.owner()
	ru := set.Spec.UpdateStrategy.RollingUpdate
	if w.Chance(70) {
		set.Spec.UpdateStrategy.Type = v1beta1.RollingUpdateDaemonSetStrategyType
	}
	if ru.Paused = nil; !makesSense(set) {
		w.budget(set)
	}
	if w.senseless = w.Chance(5); w.senseless {
		set.Spec.UpdateStrategy.Type = v1beta1.RollingUpdateDaemonSetStrategyType
		ru.MaxUnavailable = ptr.To(intstr.FromString("many")) // stored without admission
	}
	for _, rev := range faultapi.All[*appsv1.ControllerRevision](w.Server) {
		if strings.HasPrefix(rev.Labels[apps.LabelRevision], twin) { // the controller gets no events of revisions
			metav1.SetMetaDataAnnotation(&set.ObjectMeta, "example.test/look", "again")
		}
	}
	if w.restarts && w.Chance(70) {
		w.agents.Ask(context.Background(), set)
	}
	w.update(set)
}
