package statefulset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
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
	"github.com/workloadkit/workloadkit/examples/kruise/restart/restarttest"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, no ordinal ever has two Pods, and no unwanted ordinal gets a Pod. Each write keeps
// the order of Pods and maxUnavailable. No needed claim is deleted, no claim becomes smaller, and a claim grows only
// when its Pod is next in the update order. Objects of other owners are not changed. In the end the cluster matches
// the spec.
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
		Scheme: scheme, Kinds: []client.Object{&v1beta1.StatefulSet{}, &v1beta1.ContainerRecreateRequest{}, &storagev1.StorageClass{}}, Seeds: 300, Steps: 200, Quiet: 6 * time.Minute, // longer than a refused update rests
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, attempted: map[types.UID]bool{}, dropped: map[string]bool{}, agents: restarttest.New(world)}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.outside, Settle: w.settle,
				Denies: w.denies, Looks: w.look, Wrote: w.judge, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	parallel, claims, hooks bool
	// follow is true if the controller enlarges claims when the size in their template is raised. offline is true if
	// file systems grow only when a new Pod mounts the volume.
	follow, offline bool
	// policy says which requests the API server refuses: none, patches of a Pod's spec, every write to a single Pod, or
	// new Pods.
	policy int
	denied string
	// attempted contains Pods and claims that the controller has tried to write without an effect, perhaps because
	// the API server has refused the write.
	attempted map[types.UID]bool
	// dropped contains claims that users have deleted. A new Pod may lack such a claim, because the deletion may
	// occur just before the controller creates the Pod.
	dropped map[string]bool
	// senseless is true if the last spec is invalid.
	senseless bool
	// agents restart containers in schedules with restarts.
	agents   *restarttest.Agents
	restarts bool
}

const (
	namespace  = "default"
	holdDelete = "example.test/hold-delete" // a label
	holdUpdate = "example.test/hold-update"
	released   = "nobody" // the label app of Pods that users have taken away
)

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	gates := apps.DefaultGates()
	gates[apps.GateStatefulSetStartOrdinal], gates[apps.GateStatefulSetAutoResizePVC] = true, true
	r, err := newReconciler(ctx, mgr, mgr.GetClient(), Options{
		Gates: gates, Presence: w.agents.Presence,
		RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
		},
	})
	if err != nil {
		return err
	}
	return r.Register(mgr, r)
}

func (w *story) begin() {
	w.parallel, w.claims, w.hooks = w.Chance(70), w.Chance(60), w.Chance(30)
	w.follow, w.offline = w.claims && w.Chance(60), w.Chance(20)
	labels := map[string]string{"app": "web"}
	set := &v1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: v1beta1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: "web", PodManagementPolicy: appsv1.OrderedReadyPodManagement,
			UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &v1beta1.RollingUpdateStatefulSet{
					PodUpdatePolicy: []v1beta1.PodUpdatePolicy{v1beta1.ReCreate, v1beta1.InPlaceIfPossible, v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly}[w.Rand().IntN(4)],
				},
			},
			RevisionHistoryLimit: ptr.To[int32](2),
		},
	}
	if w.parallel {
		set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	if w.claims {
		w.storage(set)
		w.retain(set)
	}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(int64(w.Rand().IntN(3)))
	if set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy != v1beta1.ReCreate {
		set.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}}
	}
	if w.hooks {
		set.Spec.Template.Labels[holdDelete], set.Spec.Template.Labels[holdUpdate] = "true", "true"
		set.Spec.Lifecycle = &pub.Lifecycle{
			PreDelete:     &pub.LifecycleHook{LabelsHandler: map[string]string{holdDelete: "true"}},
			InPlaceUpdate: &pub.LifecycleHook{LabelsHandler: map[string]string{holdUpdate: "true"}},
		}
	}
	w.resize(set)
	w.Logf("parallel %t, claims %t, follow %t, offline %t, hooks %t, policy %s", w.parallel, w.claims, w.follow, w.offline, w.hooks, set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy)
	w.must(w.User.Create(context.Background(), set))
	w.restarts = w.Chance(35)
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) owner() *v1beta1.StatefulSet {
	set := &v1beta1.StatefulSet{}
	w.must(w.User.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: "web"}, set))
	return set
}

func (w *story) retain(set *v1beta1.StatefulSet) {
	both := []appsv1.PersistentVolumeClaimRetentionPolicyType{appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: both[w.Rand().IntN(2)], WhenScaled: both[w.Rand().IntN(2)],
	}
}

func (w *story) resize(set *v1beta1.StatefulSet) {
	set.Spec.Replicas = ptr.To(int32(w.Rand().IntN(5)))
	set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: int32(w.Rand().IntN(2) * w.Rand().IntN(4))}
	lists := [][]intstr.IntOrString{nil, nil, {intstr.FromInt32(1)}, {intstr.FromString("2-3")}, {intstr.FromInt32(0), intstr.FromString("02-2")}}
	set.Spec.ReserveOrdinals = lists[w.Rand().IntN(len(lists))]
}

// users makes a random change as a user.
func (w *story) users() {
	if w.restarts && w.Chance(30) {
		w.restartStep()
		return
	}
	switch n := w.Rand().IntN(20); {
	case n < 3:
		w.policy, w.denied = w.Rand().IntN(4), ""
		if pod := w.AnyPod(); pod != nil {
			w.denied = pod.Name
		}
		w.Logf("admission: policy %d, Pod %s", w.policy, w.denied)
	case n < 8:
		w.release()
	case n < 9:
		w.meddle()
	case n < 10:
		w.mark()
	case n < 11:
		w.relabel()
	case n < 12 && w.Chance(50):
		w.LoseState(apps.AnnotationInPlaceUpdateState, apps.AnnotationInPlaceUpdateGrace)
	case n < 13 && w.claims:
		w.driver(w.Rand().IntN(4))
	case n < 14 && w.follow:
		w.enlarge()
	case n < 15 && w.claims && w.Chance(30):
		w.drop()
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
	switch n := w.Rand().IntN(24); {
	case n < 3 && w.follow:
		set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = gigabytes(1 + w.Rand().IntN(4))
	case n < 9:
		app.Image = fmt.Sprintf("app:v%d", w.Rand().IntN(4))
	case n < 11:
		if ru.PodUpdatePolicy != v1beta1.InPlaceOnly {
			app.Command = []string{fmt.Sprintf("serve-%d", w.Rand().IntN(2))}
		}
	case n < 13:
		ru.Partition = ptr.To(int32(w.Rand().IntN(4)))
	case n < 15:
		if w.parallel {
			ru.MaxUnavailable = ptr.To(intstr.FromInt32(int32(1 + w.Rand().IntN(3))))
		}
	case n < 16:
		ru.Paused = !ru.Paused
	case n < 17:
		if set.Spec.ScaleStrategy = nil; w.Chance(50) {
			set.Spec.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(int32(1 + w.Rand().IntN(2))))}
		}
	case n < 18:
		set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromString("5-2")} // stored without admission
	case n < 19 && w.claims:
		w.retain(set)
	default:
		w.resize(set)
	}
	w.update(set)
}

func (w *story) update(set *v1beta1.StatefulSet) {
	app, ru := set.Spec.Template.Spec.Containers[0], set.Spec.UpdateStrategy.RollingUpdate
	w.Logf("user: %d from %d without %v, partition %d, %s unavailable, paused %t, image %s, command %v, scale %+v, claims of %d Gi %+v",
		*set.Spec.Replicas, set.Spec.Ordinals.Start, set.Spec.ReserveOrdinals, ptr.Deref(ru.Partition, 0), ru.MaxUnavailable, ru.Paused, app.Image, app.Command,
		set.Spec.ScaleStrategy, sizeOf(set), set.Spec.PersistentVolumeClaimRetentionPolicy)
	w.must(w.User.Update(context.Background(), set))
}

// meddle acts as another client: meddle creates a Pod with a name of the StatefulSet's Pods, either an orphan to
// adopt or a Pod of another owner, or deletes such Pods.
func (w *story) meddle() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("web-%d", w.Rand().IntN(5))}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "other"}}
	pod.Labels = map[string]string{"app": released}
	if w.Chance(30) { // selected, but not named like the Pods of the StatefulSet
		pod.Name, pod.Labels["app"] = fmt.Sprintf("db-%d", w.Rand().IntN(5)), "web"
	}
	if err := w.User.Create(context.Background(), pod); err == nil {
		w.Logf("user: Pod %s is somebody else's", pod.Name)
		return
	}
	w.giveBack()
}

// giveBack deletes the Pods of other owners with the StatefulSet's names.
func (w *story) giveBack() {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if metav1.GetControllerOf(pod) == nil && pod.DeletionTimestamp == nil {
			w.Logf("user: Pod %s is given back", pod.Name)
			w.must(w.User.Delete(context.Background(), pod))
		}
	}
}

// mark adds, as a user, the label apps.LabelSpecifiedDelete, which requests a Pod's deletion.
func (w *story) mark() {
	if pod := w.AnyPod(); pod != nil && metav1.GetControllerOf(pod) != nil {
		w.label(pod, apps.LabelSpecifiedDelete, "yes")
	}
}

// relabel changes labels so that the StatefulSet does not select a Pod any more, or may adopt the Pod again.
func (w *story) relabel() {
	pod := w.AnyPod()
	switch {
	case pod == nil || pod.Spec.Containers[0].Image == "other":
	case w.Chance(30):
		w.label(pod, apps.LabelPodIndex, "7")
	case pod.Labels["app"] == released:
		w.label(pod, "app", "web")
	default:
		w.label(pod, "app", released)
	}
}

func (w *story) label(pod *corev1.Pod, key, value string) {
	changed := pod.DeepCopy()
	if changed.Labels[key] = value; value == "" {
		delete(changed.Labels, key)
	}
	w.Logf("user: Pod %s, label %s=%s", pod.Name, key, value)
	w.must(w.User.Update(context.Background(), changed))
}

// release removes the label or finalizer for which a Pod waits.
func (w *story) release() bool {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		key := map[string]string{"PreparingDelete": holdDelete, "PreparingUpdate": holdUpdate}[pod.Labels[apps.LabelLifecycleState]]
		switch {
		case key != "" && pod.Labels[key] != "":
			w.label(pod, key, "")
			return true
		case pod.Labels[apps.LabelLifecycleState] == "Updated" && pod.Labels[holdUpdate] == "":
			w.label(pod, holdUpdate, "true")
			return true
		}
	}
	return false
}

func (w *story) denies(call faultapi.Call, before client.Object) error {
	if claim, ok := before.(*corev1.PersistentVolumeClaim); ok && call.Verb == "patch" {
		return w.deniesGrowth(call, claim)
	}
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
	}
	if !refused {
		return nil
	}
	return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))
}

// settle changes the last spec so that the controller can reach the wanted state, even if a Pod of another owner
// keeps a name.
func (w *story) settle() {
	w.policy = 0
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if pod.Labels["app"] == released && pod.Spec.Containers[0].Image != "other" {
			w.label(pod, "app", "web")
		}
	}
	if w.Chance(70) {
		w.giveBack()
	}
	w.CatchUp()
	set := w.owner()
	ru := set.Spec.UpdateStrategy.RollingUpdate
	if ru.Paused = false; ordinalsOf(set) == nil {
		set.Spec.ReserveOrdinals = nil
	}
	if w.senseless = w.Chance(5); w.senseless {
		set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromString("5-2")} // stored without admission
	}
	if lost := w.lost(set); w.parallel {
		ru.MaxUnavailable = ptr.To(intstr.FromInt32(int32(lost + 1)))
		set.Spec.ScaleStrategy = nil
	} else if lost > 0 {
		w.giveBack() // with OrderedReady, all later Pods wait for this name
	}
	if w.restarts && w.Chance(70) {
		w.agents.Ask(context.Background(), set)
	}
	w.update(set)
}

// lost counts the wanted ordinals that cannot get a Pod because a Pod of another owner has the name.
func (w *story) lost(set *v1beta1.StatefulSet) (n int) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if slices.Contains(ordinalsOf(set), ordinalOf(pod.Name)) && !w.isOurs(pod) && pod.Labels["app"] != "web" {
			n++
		}
	}
	return n
}

func (w *story) isOurs(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, w.owner()) }

// ordinalsOf returns the wanted ordinals in order, computed without the controller's code, or nil if the spec is
// invalid.
func ordinalsOf(set *v1beta1.StatefulSet) []int {
	reserved := map[int]bool{}
	for _, entry := range set.Spec.ReserveOrdinals {
		switch entry.String() {
		case "5-2":
			return nil
		case "2-3":
			reserved[2], reserved[3] = true, true
		case "02-2":
			reserved[2] = true
		default:
			reserved[entry.IntValue()] = true
		}
	}
	list := []int{}
	for o := int(set.Spec.Ordinals.Start); len(list) < int(*set.Spec.Replicas); o++ {
		if !reserved[o] {
			list = append(list, o)
		}
	}
	return list
}

// ordinalOf parses a name without the controller's code.
func ordinalOf(name string) int {
	for o := range 30 {
		if name == fmt.Sprintf("web-%d", o) {
			return o
		}
	}
	return -1
}

// outside acts as all other clients: as the controllers that handle lifecycle hooks, as the volume driver, and as
// users who restart Pods so that volumes grow.
func (w *story) outside() bool {
	return w.agents.Step(context.Background()) || w.release() || w.claims && w.driver(0) || w.offline && w.restart()
}

// serves reports whether a Pod is in service, and is not about to be taken out of service.
func serves(pod *corev1.Pod) bool {
	state := pod.Labels[apps.LabelLifecycleState]
	return podstate.IsReady(pod) && podstate.GateOpen(pod, apps.ConditionInPlaceUpdateReady) && (state == "" || state == "Normal")
}
