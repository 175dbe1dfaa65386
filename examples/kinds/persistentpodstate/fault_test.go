package persistentpodstate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/persistentpodstate"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, no record of a wanted Pod is lost, every record was true when it was written, and
// PersistentPodStates of users are not changed. In the end each ready Pod has its record, and no unneeded record is
// left.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 3) }

func plan(t testing.TB) chaos.Plan {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Seeds: 300, Steps: 300, Quiet: 3 * time.Minute,
		Kinds: []client.Object{&v1beta1.PersistentPodState{}, &appsv1.StatefulSet{}, &v1beta1.StatefulSet{}, &corev1.Node{}},
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, history: map[string][]moment{}, ran: map[string]map[string]bool{}, labels: map[string]map[string]bool{}}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.outside, Settle: w.settle, Denies: w.denies, Looks: w.look,
				Wrote: w.judge, Check: w.check, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule. Three workloads have a PersistentPodState each: db of Kubernetes, web of
// this group, and gen with a generated PersistentPodState.
type story struct {
	*chaos.World

	denied  bool
	history map[string][]moment        // states of the workloads over time, the present state last
	ran     map[string]map[string]bool // Nodes on which Pods were ready, by the Pods' names
	labels  map[string]map[string]bool // zones that the Nodes have had
}

const space = "ns"

func workloadNames() []string { return []string{"db", "gen", "web"} }

func nodeNames() []string { return []string{"n1", "n2", "n3"} }

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	return persistentpodstate.SetupWithoutKinds(ctx, mgr, mgr.GetClient(), persistentpodstate.Options{RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	for _, name := range nodeNames() {
		w.userNode(name)
	}
	for _, name := range workloadNames() {
		w.makeWorkload(name)
		w.makeState(name)
	}
}

// users makes a random change as a user.
func (w *story) users() {
	name := workloadNames()[w.Rand().IntN(3)]
	switch n := w.Rand().IntN(24); {
	case n < 9:
		w.sync(name)
	case n < 12:
		w.restart()
	case n < 14:
		w.scale(name)
	case n < 15:
		w.endWorkload(name)
	case n < 18:
		w.userNode(nodeNames()[w.Rand().IntN(3)])
	case n < 20:
		w.userState(name)
	case n < 22:
		w.annotate()
	case n < 23:
		w.denied = !w.denied
		w.Logf("writes of records are refused: %t", w.denied)
	default:
		w.Logf("garbage is collected: %v", w.Server.CollectGarbage())
	}
}

// userNode creates, labels or deletes a Node.
func (w *story) userNode(name string) {
	node := &corev1.Node{}
	zone := []string{"a", "b"}[w.Rand().IntN(2)]
	switch err := w.User.Get(context.Background(), client.ObjectKey{Name: name}, node); {
	case apierrors.IsNotFound(err):
		w.must(w.User.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone, "host": name}}}))
		w.Logf("user: creates Node %s in zone %s", name, zone)
	case w.Chance(20) && len(faultapi.All[*corev1.Node](w.Server)) == 3:
		w.must(w.User.Delete(context.Background(), node))
		w.Logf("user: deletes Node %s", name)
	default:
		node.Labels["zone"] = zone
		w.must(w.User.Update(context.Background(), node))
		w.Logf("user: has Node %s in zone %s", name, zone)
	}
	w.check()
}

// numbers returns random numbers for the spec of a workload.
func (w *story) numbers() (replicas, start int32, reserved []intstr.IntOrString) {
	replicas = int32(w.Rand().IntN(4))
	if w.Chance(30) {
		start = 2
	}
	if w.Chance(30) {
		reserved = []intstr.IntOrString{intstr.FromInt32(1)}
	}
	return replicas, start, reserved
}

// workload returns a workload, or nil if there is none.
func (w *story) workload(name string) client.Object {
	key := client.ObjectKey{Namespace: space, Name: name}
	if name == "web" {
		return w.Server.Stored(&v1beta1.StatefulSet{}, key)
	}
	return w.Server.Stored(&appsv1.StatefulSet{}, key)
}

func (w *story) makeWorkload(name string) {
	meta := metav1.ObjectMeta{Namespace: space, Name: name}
	if name == "gen" {
		meta.Annotations = w.annotations()
	}
	replicas, start, reserved := w.numbers()
	var object client.Object = &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Ordinals: &appsv1.StatefulSetOrdinals{Start: start}}}
	if name == "web" {
		object = &v1beta1.StatefulSet{ObjectMeta: meta, Spec: v1beta1.StatefulSetSpec{Replicas: &replicas, ReserveOrdinals: reserved}}
	}
	w.must(w.User.Create(context.Background(), object))
	w.Logf("user: creates %s with %v of its Pods, annotated %v", name, w.wanted(object), meta.Annotations)
	w.note(name)
}

func (w *story) scale(name string) {
	object := w.workload(name)
	if object == nil {
		w.makeWorkload(name)
		return
	}
	replicas, start, reserved := w.numbers()
	switch set := object.DeepCopyObject().(type) {
	case *appsv1.StatefulSet:
		set.Spec.Replicas, set.Spec.Ordinals = &replicas, &appsv1.StatefulSetOrdinals{Start: start}
		object = set
	case *v1beta1.StatefulSet:
		set.Spec.Replicas, set.Spec.ReserveOrdinals = &replicas, reserved
		object = set
	}
	w.must(w.User.Update(context.Background(), object))
	w.Logf("user: has %s want %v", name, w.wanted(object))
	w.note(name)
}

// endWorkload begins or ends the deletion of a workload.
func (w *story) endWorkload(name string) {
	object := w.workload(name)
	if object == nil {
		w.makeWorkload(name)
		return
	}
	object, _ = object.DeepCopyObject().(client.Object)
	switch {
	case name == "gen" && object.GetDeletionTimestamp() == nil && w.Chance(40):
		w.replaceWorkload(object)
		return
	case object.GetDeletionTimestamp() != nil:
		object.SetFinalizers(nil)
		w.must(w.User.Update(context.Background(), object))
		w.Logf("%s is gone", name)
	case w.Chance(50):
		object.SetFinalizers([]string{"test/wait"})
		w.must(w.User.Update(context.Background(), object))
		fallthrough
	default:
		w.must(w.User.Delete(context.Background(), object))
		w.Logf("user: deletes %s", name)
	}
	w.note(name)
}

// replaceWorkload acts like kubectl delete --cascade=orphan and kubectl apply: the garbage collector removes the
// owner references to the workload from all dependents.
func (w *story) replaceWorkload(object client.Object) {
	orphan := func(object client.Object) {
		object.SetOwnerReferences(nil)
		w.must(w.User.Update(context.Background(), object))
	}
	for _, pod := range w.pods(object.GetName()) {
		orphan(pod.DeepCopy())
	}
	if state := w.state(object.GetName()); state != nil {
		orphan(state.DeepCopy())
	}
	w.must(w.User.Delete(context.Background(), object))
	if left := w.workload(object.GetName()); left != nil {
		left, _ = left.DeepCopyObject().(client.Object)
		left.SetFinalizers(nil)
		w.must(w.User.Update(context.Background(), left))
	}
	w.note(object.GetName())
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetDeletionTimestamp(nil)
	object.SetFinalizers(nil)
	w.must(w.User.Create(context.Background(), object))
	w.Logf("user: replaces %s, and leaves what it controls", object.GetName())
	w.note(object.GetName())
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if parent, _, ok := ordinals.ParseName(pod.Name); ok && parent == object.GetName() && metav1.GetControllerOf(pod) == nil {
			pod = pod.DeepCopy()
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(object, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			w.must(w.User.Update(context.Background(), pod)) // the controller adopts the Pods
		}
	}
}

// annotations returns random annotations for the workload gen, which request a PersistentPodState or not.
func (w *story) annotations() map[string]string {
	out := map[string]string{apps.AnnotationGeneratePersistentPodState: []string{"true", "true", "false"}[w.Rand().IntN(3)]}
	if w.Chance(80) {
		out[apps.AnnotationRequiredPersistentTopology] = []string{"zone", "host", "zone,host"}[w.Rand().IntN(3)]
	}
	return out
}

func (w *story) annotate() {
	object := w.workload("gen")
	if object == nil {
		return
	}
	set, _ := object.DeepCopyObject().(*appsv1.StatefulSet)
	set.Annotations = w.annotations()
	w.must(w.User.Update(context.Background(), set))
	w.Logf("user: annotates gen with %v", set.Annotations)
	w.note("gen")
}

// state returns the PersistentPodState of a name, or nil if there is none.
func (w *story) state(name string) *v1beta1.PersistentPodState {
	state, _ := w.Server.Stored(&v1beta1.PersistentPodState{}, client.ObjectKey{Namespace: space, Name: name}).(*v1beta1.PersistentPodState)
	return state
}

func (w *story) makeState(name string) {
	state := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}
	state.Spec.TargetReference = v1beta1.PersistentPodStateTarget{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name}
	switch name {
	case "web":
		state.Spec.TargetReference.APIVersion = "apps.kruise.io/v1alpha1"
	case "gen":
		if w.Chance(70) {
			return // the generator creates this object
		}
	}
	state.Spec.RequiredPersistentTopology = &v1beta1.NodeTopologyTerm{Keys: []string{"zone"}}
	w.must(w.User.Create(context.Background(), state))
	w.Logf("user: creates PersistentPodState %s", name)
}

// userState changes, deletes or creates a PersistentPodState.
func (w *story) userState(name string) {
	state := w.state(name)
	if state == nil {
		w.makeState(name)
		return
	}
	state = state.DeepCopy()
	if w.Chance(20) {
		w.must(w.User.Delete(context.Background(), state))
		w.Logf("user: deletes PersistentPodState %s", name)
		if w.Chance(50) {
			w.makeState(name) // another object of the same name
		}
		return
	}
	if w.Chance(50) {
		state.Spec.PersistentPodStateRetentionPolicy = []v1beta1.PersistentPodStateRetentionPolicy{"", v1beta1.PersistentPodStateWhenDeleted}[w.Rand().IntN(2)]
	} else {
		state.Spec.RequiredPersistentTopology = &v1beta1.NodeTopologyTerm{Keys: [][]string{{"zone"}, {"host"}, {"zone", "host"}}[w.Rand().IntN(3)]}
	}
	w.must(w.User.Update(context.Background(), state))
	w.Logf("user: has %s keep %v, policy %q", name, state.Spec.RequiredPersistentTopology.Keys, state.Spec.PersistentPodStateRetentionPolicy)
}

// wanted returns the wanted ordinals of a workload.
func (w *story) wanted(object client.Object) (out []int) {
	var set ordinals.Set
	var err error
	switch s := object.(type) {
	case *appsv1.StatefulSet:
		set, err = ordinals.Of(ordinals.Paths{}, int(s.Spec.Ordinals.Start), int(*s.Spec.Replicas))
	case *v1beta1.StatefulSet:
		set, err = ordinals.Of(ordinals.Paths{}, 0, int(*s.Spec.Replicas), s.Spec.ReserveOrdinals...)
	}
	w.must(err)
	for ordinal := range set.All() {
		out = append(out, ordinal)
	}
	return out
}

// pods returns the Pods of a workload, in the order of their names.
func (w *story) pods(workload string) (out []*corev1.Pod) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if ref := metav1.GetControllerOf(pod); ref != nil && ref.Name == workload {
			out = append(out, pod)
		}
	}
	return out
}

// sync takes the next step of the workload's controller, and reports whether there was a step to take.
func (w *story) sync(name string) bool {
	object := w.workload(name)
	if object == nil || object.GetDeletionTimestamp() != nil {
		return false
	}
	missing := map[string]bool{}
	for _, ordinal := range w.wanted(object) {
		missing[ordinals.Name(name, ordinal)] = true
	}
	for _, pod := range w.pods(name) {
		if !missing[pod.Name] && pod.DeletionTimestamp == nil {
			w.must(w.User.Delete(context.Background(), pod.DeepCopy()))
			w.Logf("%s deletes Pod %s", name, pod.Name)
			return true
		}
		delete(missing, pod.Name)
	}
	for _, ordinal := range w.wanted(object) {
		if pod := ordinals.Name(name, ordinal); missing[pod] {
			w.makePod(object, pod)
			return true
		}
	}
	return false
}

// makePod creates a Pod as admission would change the Pod, and binds the Pod to a suitable Node, if there is one.
func (w *story) makePod(owner client.Object, name string) {
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	if owner.GetName() == "web" {
		kind = v1beta1.GroupVersion.WithKind("StatefulSet")
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	if state := w.state(owner.GetName()); state != nil {
		_ = persistentpodstate.Inject(pod, state)
	}
	if err := w.User.Create(context.Background(), pod); err != nil {
		w.Logf("Pod %s is not created: %v", name, err)
		return
	}
	nodes := faultapi.All[*corev1.Node](w.Server)
	chosen := nodes[w.Rand().IntN(len(nodes))].Name
	for _, node := range nodes {
		if node.Labels["zone"] == pod.Spec.NodeSelector["zone"] && w.Chance(50) {
			chosen = node.Name
		}
	}
	w.Nodes.Schedule(pod, chosen)
	w.Logf("%s creates Pod %s on %s, asked for %v", owner.GetName(), name, chosen, pod.Spec.NodeSelector)
	if w.Chance(60) { // the kubelet reports before the caches are up to date
		w.Nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
		w.Nodes.Run(pod.UID)
		w.Nodes.SetReady(pod.UID, "app", true)
		w.Nodes.Report(pod.UID)
	}
}

// restart deletes a Pod, with or without a grace period.
func (w *story) restart() {
	pod := w.AnyPod()
	if pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	var options []client.DeleteOption
	if w.Chance(60) {
		options = append(options, client.GracePeriodSeconds(0))
	}
	w.must(w.User.Delete(context.Background(), pod.DeepCopy(), options...))
	w.Logf("user: deletes Pod %s", pod.Name)
}

func (w *story) outside() (changed bool) {
	for _, name := range workloadNames() {
		changed = w.sync(name) || changed
	}
	return w.Server.CollectGarbage() || changed
}

func (w *story) settle() {
	w.denied = false
	for _, name := range nodeNames() {
		if w.Server.Stored(&corev1.Node{}, client.ObjectKey{Name: name}) == nil {
			w.userNode(name)
		}
	}
	for _, name := range workloadNames() {
		if object := w.workload(name); object != nil && object.GetDeletionTimestamp() != nil {
			w.endWorkload(name)
		}
	}
}

// denies refuses writes of records while a policy is in force.
func (w *story) denies(call faultapi.Call, _ client.Object) error {
	if w.denied && call.Resource.Resource == "persistentpodstates" {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentpodstates"}, call.Name, errors.New("a policy denies it"))
	}
	return nil
}

// check records the present state of Pods and Nodes.
func (w *story) check() {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if podstate.IsReady(pod) {
			set(w.ran, pod.Name, pod.Spec.NodeName)
		}
	}
	for _, node := range faultapi.All[*corev1.Node](w.Server) {
		set(w.labels, node.Name, node.Labels["zone"])
	}
}

func set(of map[string]map[string]bool, key, value string) {
	if of[key] == nil {
		of[key] = map[string]bool{}
	}
	of[key][value] = true
}

// moment is the state of a workload at a point in time.
type moment struct {
	there, asks bool
	uid         string
	wanted      map[string]bool
}

// note appends the present state of a workload to its history.
func (w *story) note(name string) {
	m := moment{wanted: map[string]bool{}}
	if object := w.workload(name); object != nil {
		m.there, m.uid = object.GetDeletionTimestamp() == nil, string(object.GetUID())
		m.asks = object.GetAnnotations()[apps.AnnotationGeneratePersistentPodState] == "true"
		for _, ordinal := range w.wanted(object) {
			m.wanted[ordinals.Name(name, ordinal)] = true
		}
	}
	w.history[name] = append(w.history[name], m)
	w.Logf("  %s is now %s", name, fmt.Sprint(m.wanted))
}
