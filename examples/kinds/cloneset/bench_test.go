package cloneset

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/revision"
)

// benchPods returns n available Pods, half of them at each revision.
func benchPods(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	since := metav1.NewTime(time.Unix(0, 0))
	for i := range pods {
		rev := "web-old"
		if i%2 == 0 {
			rev = "web-new"
		}
		pods[i] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprintf("web-%05d", (i*7919)%n),
				Labels: map[string]string{apps.LabelRevision: rev, apps.LabelLifecycleState: apps.LifecycleNormal},
			},
			Spec: corev1.PodSpec{NodeName: "n"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: apps.ConditionInPlaceUpdateReady, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since},
			}},
		}
	}
	return pods
}

// BenchmarkDecision10000 measures the decision about scaling and updates for the Pods of a CloneSet.
func BenchmarkDecision10000(b *testing.B) {
	const n = 10_000
	cs := &v1beta1.CloneSet{Spec: v1beta1.CloneSetSpec{
		Replicas: ptr.To[int32](n),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
		UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSet{
			PodUpdatePolicy: v1beta1.InPlaceIfPossible, Partition: ptr.To(intstr.FromString("50%")),
		}},
	}}
	pods := benchPods(n)
	settings, problems, _ := resolve(cs, Options{Options: kruise.Options{}.Complete()})
	if problems != nil {
		b.Fatal(problems.Reasons())
	}
	updater, err := kruise.InPlace(apps.DefaultGates(), apps.ReservedPodLabels())
	if err != nil {
		b.Fatal(err)
	}
	config, err := kruise.PodControl(updater, podcontrol.Config{HashLabel: apps.LabelPodTemplateHash, FullRevisions: true, DeleteLabel: apps.LabelSpecifiedDelete})
	if err != nil {
		b.Fatal(err)
	}
	control, err := podcontrol.New(config)
	if err != nil {
		b.Fatal(err)
	}
	decoder := revision.NewDecoder(10, nil)
	histories, err := revision.NewHistories(kruise.RevisionKeys(apps.LabelRevisionHash), decoder)
	if err != nil {
		b.Fatal(err)
	}
	planner, reader := inplaceupdate.NewPlanner(updater, decoder, nil), podcontrol.NewReader(control)
	before := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-old", UID: "1"}}
	after := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-new", UID: "2"}}
	h := histories.Of(revision.Owner{}, nil, []*appsv1.ControllerRevision{before, after})
	want := podcontrol.Want{Update: after.Name, Selector: labels.Everything()}
	b.ReportAllocs()
	for b.Loop() {
		o := &observation{
			cs: cs, settings: settings, history: h, current: before, update: after,
			pods: reader.Read("cs", pods, want, time.Unix(100, 0)), world: world{plan: planner.Plan},
		}
		if todo := decide(o); len(todo.Update)+len(todo.create)+len(todo.Delete) != 0 {
			b.Fatalf("%+v", todo)
		}
	}
}

// informers is a cache of real client-go stores, filled once per benchmark.
type informers struct {
	cache.Cache

	byType map[reflect.Type]toolscache.SharedIndexInformer
}

func (c informers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return c.byType[reflect.TypeOf(obj)], nil
}

// unused is a client that an idle controller never calls.
type unused struct{ client.Client }

// loans is a manager with only the methods that the controllers use.
type loans struct {
	manager.Manager

	informers informers
}

func (l loans) GetAPIReader() client.Reader                     { return unused{} }
func (l loans) GetCache() cache.Cache                           { return l.informers }
func (l loans) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }
func (l loans) Add(manager.Runnable) error                      { return nil }
func (l loans) GetScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return scheme
}

// BenchmarkReconcileIdle10000 measures a whole reconciliation of a CloneSet with 10,000 Pods and nothing to do. No
// request is sent.
func BenchmarkReconcileIdle10000(b *testing.B) {
	const n = 10_000
	cs := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "cs", ResourceVersion: "5", Generation: 1},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To[int32](n),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
		},
	}
	histories, err := revision.NewHistories(kruise.RevisionKeys(apps.LabelRevisionHash), revision.NewDecoder(10, nil))
	if err != nil {
		b.Fatal(err)
	}
	decision, err := histories.Of(revision.OwnerOf(cs, v1beta1.GroupVersion.WithKind("CloneSet")), new(int32), nil).Decide(&cs.Spec.Template)
	if err != nil {
		b.Fatal(err)
	}
	rev := decision.Revision
	rev.UID = "rev"
	cs.Status = v1beta1.CloneSetStatus{
		ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n, UpdatedReadyReplicas: n,
		UpdatedAvailableReplicas: n, ExpectedUpdatedReplicas: n, UpdateRevision: rev.Name, CurrentRevision: rev.Name,
		CollisionCount: new(int32), LabelSelector: "app=web",
	}
	objects := []client.Object{cs, rev}
	for _, pod := range benchPods(n) {
		pod.Namespace, pod.UID = "default", types.UID(pod.Name)
		pod.Labels["app"], pod.Labels[apps.LabelRevision] = "web", rev.Name
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cs, v1beta1.GroupVersion.WithKind("CloneSet"))}
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionInPlaceUpdateReady}}
		objects = append(objects, pod)
	}
	stores := filled(b, objects...)
	r, err := newReconciler(b.Context(), loans{informers: stores}, unused{}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, informer := range stores.byType {
		go informer.Run(b.Context().Done())
		if !toolscache.WaitForCacheSync(b.Context().Done(), informer.HasSynced) {
			b.Fatal("an informer does not sync")
		}
	}
	tracker := r.Cache.Clients().Tracker()
	for _, store := range tracker.Stores() {
		if err := tracker.Require(store, "1"); err != nil {
			b.Fatal(err)
		}
	}
	req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cs)}
	pass := func(b *testing.B) {
		if result, err := r.Reconcile(b.Context(), req); err != nil || result != (reconcile.Result{}) {
			b.Fatal(result, err)
		}
	}
	b.Run("again and again", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pass(b)
		}
	})
	// The benchmark writes to other memory between reconciliations, as a program with other work would, so that the
	// processor's caches no longer contain the Pods.
	b.Run("once in a while", func(b *testing.B) {
		other := make([]byte, 256<<20)
		for b.Loop() {
			b.StopTimer()
			for i := 0; i < len(other); i += 64 {
				other[i]++
			}
			b.StartTimer()
			pass(b)
		}
	})
}

// filled returns informers that contain the objects.
func filled(b testing.TB, objects ...client.Object) informers {
	b.Helper()
	out := informers{byType: map[reflect.Type]toolscache.SharedIndexInformer{}}
	for _, obj := range []client.Object{&v1beta1.CloneSet{}, &corev1.Pod{}, &appsv1.ControllerRevision{}, &corev1.PersistentVolumeClaim{}} {
		source := fcache.NewFakeControllerSource()
		for _, o := range objects {
			if reflect.TypeOf(o) == reflect.TypeOf(obj) {
				source.Add(o)
			}
		}
		source.Add(obj.DeepCopyObject().(client.Object)) // so that stores without objects have a version, too
		out.byType[reflect.TypeOf(obj)] = toolscache.NewSharedIndexInformer(source, obj, 0, toolscache.Indexers{})
		b.Cleanup(source.Shutdown)
	}
	return out
}
