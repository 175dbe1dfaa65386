package uniteddeployment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/uniteddeployment"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, a subset never gets a second workload, or more Pods than its maximum. The controller
// deletes objects only for a valid reason, and sends no write that changes nothing. Pods have the labels by which the
// scale subresource counts. In the end each subset has a workload at the newest revision, and the numbers add up.
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
		Kinds: []client.Object{
			&v1beta1.UnitedDeployment{}, &v1beta1.CloneSet{}, &v1beta1.StatefulSet{}, &v1beta1.DaemonSet{},
			&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{},
		},
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, gated: map[types.UID]bool{}, since: map[types.UID]time.Time{}}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Outside: w.outside, Settle: w.settle, Denies: w.denies,
				Looks: w.look, Wrote: w.judge, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule. The Pods of a subset mount the subset's claim, without which the scheduler
// finds no Node.
type story struct {
	*chaos.World

	kind    int    // the kind of workloads, an index of templates
	mode    int    // the mode of the topology
	image   int    // the number of the newest image
	full    string // a subset for whose workload the API server refuses writes
	created int
	waits   int                     // how many of the next steps users do nothing
	gated   map[types.UID]bool      // whether a Pod had a scheduling gate, by UID
	since   map[types.UID]time.Time // since when a Pod is unschedulable, by UID
}

// These are the modes of a topology.
const (
	shares = iota
	bounds
	adapts
	reserves
)

const namespace = "default"

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	return uniteddeployment.Setup(ctx, mgr, mgr.GetClient(), uniteddeployment.Options{RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	w.mode, w.kind = w.Rand().IntN(4), w.Rand().IntN(4)
	if w.mode == reserves {
		w.kind = w.Rand().IntN(2)
	}
	for _, subset := range []string{"a", "b", "c"} {
		if w.Chance(70) {
			w.makeRoom(subset)
		}
	}
	w.submit()
}

// submit creates the UnitedDeployment.
func (w *story) submit() {
	ud := &v1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	ud.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	ud.Spec.RevisionHistoryLimit = new(int32(w.Rand().IntN(3)))
	w.retemplate(ud)
	w.rearrange(ud)
	w.scale(ud)
	if w.User.Create(context.Background(), ud) == nil {
		w.Logf("user: creates the UnitedDeployment, %s", shown(ud))
	}
}

func shown(ud *v1beta1.UnitedDeployment) string {
	topology, _ := json.Marshal(ud.Spec.Topology)
	return fmt.Sprintf("replicas %d, topology %s", *ud.Spec.Replicas, topology)
}

func (w *story) scale(ud *v1beta1.UnitedDeployment) {
	ud.Spec.Replicas = new(int32(w.Rand().IntN(7)))
	if w.mode == shares {
		*ud.Spec.Replicas += 3
	}
}

// retemplate sets a random template with another image.
func (w *story) retemplate(ud *v1beta1.UnitedDeployment) {
	w.image++
	labels := map[string]string{"app": "web"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: fmt.Sprint("app:v", w.Rand().IntN(w.image)+1)}}
	meta, selector := metav1.ObjectMeta{Labels: labels}, &metav1.LabelSelector{MatchLabels: labels}
	ud.Spec.Template = v1beta1.SubsetTemplate{}
	switch t := &ud.Spec.Template; w.kind {
	case 0:
		t.CloneSetTemplate = &v1beta1.CloneSetTemplateSpec{ObjectMeta: meta, Spec: v1beta1.CloneSetSpec{Selector: selector, Template: pod}}
	case 1:
		t.DeploymentTemplate = &v1beta1.DeploymentTemplateSpec{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: pod}}
	case 2:
		t.StatefulSetTemplate = &v1beta1.StatefulSetTemplateSpec{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: pod}}
	default:
		t.AdvancedStatefulSetTemplate = &v1beta1.AdvancedStatefulSetTemplateSpec{ObjectMeta: meta, Spec: v1beta1.StatefulSetSpec{Selector: selector, Template: pod}}
	}
}

// rearrange sets a random topology.
func (w *story) rearrange(ud *v1beta1.UnitedDeployment) {
	number := func(most int) *intstr.IntOrString { return new(intstr.FromInt(w.Rand().IntN(most + 1))) }
	ud.Spec.Topology = v1beta1.Topology{}
	if w.mode == adapts || w.mode == reserves {
		ud.Spec.Topology.ScheduleStrategy = v1beta1.UnitedDeploymentScheduleStrategy{Type: v1beta1.AdaptiveSchedule, Adaptive: &v1beta1.AdaptiveUnitedDeploymentStrategy{
			RescheduleCriticalSeconds: new(int32(5)), UnschedulableDuration: new(int32(20)), ReserveUnschedulablePods: w.mode == reserves,
		}}
	}
	for i, name := range []string{"a", "b", "c"}[:2+w.Rand().IntN(2)] {
		s := v1beta1.Subset{Name: name}
		s.Patch.Raw = fmt.Appendf(nil, `{"spec":{"volumes":[{"name":"room","persistentVolumeClaim":{"claimName":"room-%s"}}]}}`, name)
		switch {
		case w.mode == shares && i == 0:
			s.Replicas = number(3)
		case w.mode != shares && i == 0:
			s.MaxReplicas = number(4)
		case w.mode != shares && i == 1 && w.Chance(50):
			s.MinReplicas = number(2)
		}
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, s)
	}
}

// users makes a random change as a user.
func (w *story) users() {
	switch {
	case w.waits > 0:
		w.waits--
		w.Sleep(2 * time.Second)
		return
	case w.mode == adapts && w.Chance(10):
		w.outgrow()
		return
	}
	switch n := w.Rand().IntN(20); {
	case n < 8:
		w.change()
	case n < 11:
		subset := []string{"a", "b", "c"}[w.Rand().IntN(3)]
		if w.Chance(50) {
			w.makeRoom(subset)
		} else {
			w.Logf("no room for further Pods in subset %s", subset)
			w.closeRoom(subset)
		}
	case n < 15:
		w.meddle()
	case n < 17:
		w.full = []string{"a", "b", ""}[w.Rand().IntN(3)]
		w.Logf("writes in subset %q are refused", w.full)
	default:
		w.Logf("garbage is collected: %v", w.Server.CollectGarbage())
	}
}

// makeRoom and closeRoom create and delete the claim of a subset, without which no Pod of the subset can run. A claim
// that is being deleted counts as missing.
func (w *story) makeRoom(subset string) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "room-" + subset}}
	if w.User.Create(context.Background(), claim) == nil {
		w.Logf("room in subset %s", subset)
	}
}

func (w *story) closeRoom(subset string) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "room-" + subset}}
	_ = w.User.Delete(context.Background(), claim)
	if w.User.Get(context.Background(), client.ObjectKeyFromObject(claim), claim) == nil {
		claim.Finalizers = nil
		w.must(w.User.Update(context.Background(), claim))
	}
}

// change edits, deletes or creates the UnitedDeployment.
func (w *story) change() {
	ud := &v1beta1.UnitedDeployment{}
	if w.User.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: "web"}, ud) != nil {
		w.submit()
		return
	}
	switch n := w.Rand().IntN(20); {
	case n < 8:
		w.scale(ud)
	case n < 12:
		w.retemplate(ud)
	case n < 15:
		ud.Spec.UpdateStrategy.ManualUpdate = &v1beta1.ManualUpdate{Partitions: map[string]int32{"a": int32(w.Rand().IntN(4)), "b": int32(w.Rand().IntN(4))}}
	case n < 18:
		w.rearrange(ud)
	case n < 19 && w.mode != reserves:
		w.kind = w.Rand().IntN(4)
		w.retemplate(ud)
	default:
		w.Logf("user: deletes the UnitedDeployment")
		w.must(w.User.Delete(context.Background(), ud))
		return
	}
	w.Logf("user: edits the UnitedDeployment, %s", shown(ud))
	w.must(w.User.Update(context.Background(), ud))
}

// workloads returns copies of all workloads.
func (w *story) workloads() (out []client.Object) {
	for _, found := range faultapi.All[*v1beta1.CloneSet](w.Server) {
		out = append(out, found.DeepCopy())
	}
	for _, found := range faultapi.All[*appsv1.Deployment](w.Server) {
		out = append(out, found.DeepCopy())
	}
	for _, found := range faultapi.All[*appsv1.StatefulSet](w.Server) {
		out = append(out, found.DeepCopy())
	}
	for _, found := range faultapi.All[*v1beta1.StatefulSet](w.Server) {
		out = append(out, found.DeepCopy())
	}
	return out
}

// meddle changes a random workload as a user.
func (w *story) meddle() {
	all := w.workloads()
	if len(all) == 0 {
		return
	}
	object := all[w.Rand().IntN(len(all))]
	var what string
	ctx := context.Background()
	switch n := w.Rand().IntN(10); {
	case n < 2:
		w.Logf("user: deletes %s", object.GetName())
		w.must(client.IgnoreNotFound(w.User.Delete(ctx, object)))
		return
	case n < 4:
		w.created++
		twin := object.DeepCopyObject().(client.Object)
		twin.SetName(fmt.Sprint("twin-", w.created))
		twin.SetUID("")
		twin.SetResourceVersion("")
		twin.SetFinalizers(nil)
		twin.SetLabels(maps.Clone(twin.GetLabels()))
		twin.GetLabels()["theirs"] = "twin"
		if w.Chance(50) { // so that the workload is adopted again
			twin.SetOwnerReferences(nil)
		}
		w.Logf("user: creates %s beside %s", twin.GetName(), object.GetName())
		w.must(w.User.Create(ctx, twin))
		return
	case n < 6:
		what = "takes away the owner of"
		object.SetOwnerReferences(nil)
		if w.Chance(50) {
			object.SetAnnotations(nil)
		}
	case n < 7:
		what = "changes labels of"
		object.SetLabels(maps.Clone(object.GetLabels()))
		object.GetLabels()["app"] = []string{"web", "other"}[w.Rand().IntN(2)]
		if w.Chance(30) {
			delete(object.GetLabels(), apps.LabelSubsetName)
		}
	case n < 8:
		what = "holds the end of"
		if object.GetDeletionTimestamp() == nil {
			object.SetFinalizers([]string{"test/hold"})
		}
	default:
		what = "scales"
		*numbersOf(object).replicas = new(int32(w.Rand().IntN(5)))
	}
	w.Logf("user: %s %s", what, object.GetName())
	w.must(w.User.Update(ctx, object))
}

// settle ends the refusals of the API server and the waits of users, and creates the claims without which the
// subsets' Pods cannot run. With the type Adaptive, the first subset may stay without its claim. If no subset had a
// claim, the controller would move Pods between the subsets for ever.
func (w *story) settle() {
	w.full = ""
	for _, subset := range []string{"a", "b", "c"} {
		if subset != "a" || w.mode != adapts || w.Chance(50) {
			w.makeRoom(subset)
		}
	}
	for _, object := range w.workloads() {
		if len(object.GetFinalizers()) > 0 {
			object.SetFinalizers(nil)
			w.must(client.IgnoreNotFound(w.User.Update(context.Background(), object)))
		}
	}
	w.Server.CollectGarbage()
}

// denies refuses writes in a subset.
func (w *story) denies(call faultapi.Call, before client.Object) error {
	if w.full == "" || !slices.Contains([]string{"clonesets", "deployments", "statefulsets"}, call.Resource.Resource) {
		return nil
	}
	var of metav1.PartialObjectMetadata
	if before != nil {
		of.Labels = before.GetLabels()
	} else {
		w.must(json.Unmarshal(call.Body, &of))
	}
	if of.Labels[apps.LabelSubsetName] != w.full {
		return nil
	}
	return apierrors.NewForbidden(call.Resource, call.Name, errors.New("refused in the subset"))
}
