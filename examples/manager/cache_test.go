package manager_test

import (
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
)

func controlledBy(apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "web", UID: "u", Controller: new(true)}}
}

// transformed returns an object as the cache stores the object.
func transformed(t *testing.T, in client.Object) client.Object {
	t.Helper()
	return transformedFor(t, kinds.All(), in)
}

// transformedFor returns an object as the cache stores the object for the kinds of the rows.
func transformedFor(t *testing.T, rows []kind.Row, in client.Object) client.Object {
	t.Helper()
	for kind, by := range manager.Cached(rows) {
		if reflect.TypeOf(kind) == reflect.TypeOf(in) {
			out, err := by.Transform(in.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			return out.(client.Object)
		}
	}
	t.Fatalf("%T is kept as it is", in)
	return nil
}

// TestCacheKeepsLittleOfStrangers: of objects of other projects, the cache keeps only the fields that this project's
// controllers read.
func TestCacheKeepsLittleOfStrangers(t *testing.T) {
	claim := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-web-1"},
	}}
	pod := func(owners []metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "web-1", UID: "p", ResourceVersion: "7", Labels: map[string]string{"app": "web"}, OwnerReferences: owners,
				Annotations: map[string]string{"large": "x"},
			},
			Spec: corev1.PodSpec{
				NodeName: "node", Containers: []corev1.Container{{Name: "app", Image: "app"}},
				Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, claim},
			},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, Message: "x", ContainerStatuses: []corev1.ContainerStatus{{Name: "app"}},
				Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			},
		}
	}
	little := func(owners []metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "web-1", UID: "p", ResourceVersion: "7", Labels: map[string]string{"app": "web"}, OwnerReferences: owners,
			},
			Spec:   corev1.PodSpec{NodeName: "node", Volumes: []corev1.Volume{claim}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	recordable := func(owners []metav1.OwnerReference) *corev1.Pod {
		out := little(owners)
		out.Annotations = map[string]string{"large": "x"}
		out.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return out
	}
	unnumbered := func(of func([]metav1.OwnerReference) *corev1.Pod, owners []metav1.OwnerReference) *corev1.Pod {
		out := of(owners)
		out.Name = "web-x7f2k"
		return out
	}
	games := controlledBy("game.example.com/v1", "GameSet")
	revision := func(owners []metav1.OwnerReference, data string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web-1", Labels: map[string]string{"app": "web"}, OwnerReferences: owners},
			Data:       runtime.RawExtension{Raw: []byte(data)}, Revision: 3,
		}
	}
	ours, others := controlledBy("apps.kruise.io/v1beta1", "CloneSet"), controlledBy("apps/v1", "StatefulSet")
	numbered := controlledBy("apps.kruise.io/v1beta1", "StatefulSet")
	for _, tc := range []struct {
		name     string
		in, want client.Object
	}{
		{"a Pod of a CloneSet", pod(ours), pod(ours)},
		{"a Pod of an older version's CloneSet", pod(controlledBy("apps.kruise.io/v1alpha1", "CloneSet")), pod(controlledBy("apps.kruise.io/v1alpha1", "CloneSet"))},
		{"a Pod of Kruise's StatefulSet", pod(numbered), pod(numbered)},
		{"PS-1 a Pod of Kubernetes' StatefulSet", pod(others), recordable(others)},
		{"PS-11 a numbered Pod of another kind", pod(games), recordable(games)},
		{"a Pod of another kind without a number", unnumbered(pod, games), unnumbered(little, games)},
		{"a Pod of a Job", pod(controlledBy("batch/v1", "Job")), little(controlledBy("batch/v1", "Job"))},
		{
			"a StatefulSet of Kubernetes", &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web", Annotations: map[string]string{"a": "b", corev1.LastAppliedConfigAnnotation: "long"}},
				Spec: appsv1.StatefulSetSpec{
					Replicas: new(int32(3)), Ordinals: &appsv1.StatefulSetOrdinals{Start: 5}, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "x"}},
					VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{}},
				},
				Status: appsv1.StatefulSetStatus{Replicas: 3},
			}, &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web", Annotations: map[string]string{"a": "b"}},
				Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(3)), Ordinals: &appsv1.StatefulSetOrdinals{Start: 5}},
			},
		},
		{"a Pod of nobody", pod(nil), little(nil)},
		{
			"a Node", &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"long": "x"}, ResourceVersion: "7"},
				Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a"}}, Unschedulable: true, PodCIDR: "10.0.0.0/24"},
				Status:     corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}, Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2")}},
			}, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}, ResourceVersion: "7"},
				Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a"}}, Unschedulable: true},
				Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2")}},
			},
		},
		{"a revision of a CloneSet", revision(ours, "{}"), revision(ours, "{}")},
		{"a revision of Kruise's StatefulSet", revision(numbered, "{}"), revision(numbered, "{}")},
		{"a revision of Kubernetes' StatefulSet", revision(others, "{}"), revision(others, "")},
		{"a revision of nobody", revision(nil, "{}"), revision(nil, "{}")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, transformed(t, tc.in), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCacheKeepsWhatSeveralKindsRead: of a Pod with a PersistentPodState and a PodUnavailableBudget, the cache keeps
// the fields that the controllers of both kinds read.
func TestCacheKeepsWhatSeveralKindsRead(t *testing.T) {
	in := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "web-1", UID: "p", OwnerReferences: controlledBy("apps/v1", "StatefulSet"),
			Annotations: map[string]string{"ip": "10.0.0.1", "kruise.io/related-pub": "web"},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.ContainersReady}}},
	}
	want := in.DeepCopy()
	out, ok := transformed(t, in).(*corev1.Pod)
	if !ok {
		t.Fatal("the Pod became something else")
	}
	if diff := cmp.Diff(want.Annotations, out.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Status.Conditions, out.Status.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// TestCacheKeepsWhatAnyRowReads: if the controllers of two kinds read objects of the same type, the cache keeps the
// identity of the objects, and the fields that either controller reads.
func TestCacheKeepsWhatAnyRowReads(t *testing.T) {
	labels := kind.Row{Cached: []kind.Cached{{Object: &corev1.ConfigMap{}, Keep: func(kept, found client.Object) { kept.SetLabels(found.GetLabels()) }}}}
	owners := kind.Row{Cached: []kind.Cached{{Object: &corev1.ConfigMap{}, Keep: func(kept, found client.Object) { kept.SetOwnerReferences(found.GetOwnerReferences()) }}}}
	in := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "web-0", UID: "c", ResourceVersion: "7", Annotations: map[string]string{"large": "x"}, Labels: map[string]string{"app": "web"},
			OwnerReferences: controlledBy("example.com/v1", "ConfigSet"),
		},
		Data: map[string]string{"large": "x"},
	}
	for _, tc := range []struct {
		name  string
		rows  []kind.Row
		strip func(*corev1.ConfigMap)
	}{
		{"both", []kind.Row{labels, owners}, func(*corev1.ConfigMap) {}},
		{"the first alone", []kind.Row{labels}, func(m *corev1.ConfigMap) { m.OwnerReferences = nil }},
		{"the second alone", []kind.Row{owners}, func(m *corev1.ConfigMap) { m.Labels = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := in.DeepCopy()
			want.Annotations, want.Data = nil, nil
			tc.strip(want)
			if diff := cmp.Diff(client.Object(want), transformedFor(t, tc.rows, in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			meta := &metav1.PartialObjectMetadata{TypeMeta: in.TypeMeta, ObjectMeta: in.ObjectMeta}
			for object, by := range manager.Cached(tc.rows) {
				if _, ok := object.(*corev1.ConfigMap); !ok {
					continue
				}
				got, err := by.Transform(meta)
				if diff := cmp.Diff(any(&metav1.PartialObjectMetadata{TypeMeta: want.TypeMeta, ObjectMeta: want.ObjectMeta}), got); diff != "" || err != nil {
					t.Errorf("metadata: %v (-want +got):\n%s", err, diff)
				}
			}
		})
	}
}

// TestCacheKeepsStrangersThatAreWorkedOn: the cache keeps all fields of a Pod of another project's controller only as
// long as this project's controllers have work to do on the Pod.
func TestCacheKeepsStrangersThatAreWorkedOn(t *testing.T) {
	const completed = "apps.kruise.io/container-launch-priority-completed"
	barrier := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "KRUISE_CONTAINER_BARRIER", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "web-1-barrier"}, Key: "p_0"},
		}}}
	}
	gate := func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "KruisePodReady"}}
	}
	for _, tc := range []struct {
		name   string
		change []func(*corev1.Pod)
		whole  bool
	}{
		{"nothing to do", nil, false},
		{"LP-8 a barrier", []func(*corev1.Pod){barrier}, true},
		{"LP-11 a barrier that is completed", []func(*corev1.Pod){barrier, func(pod *corev1.Pod) { pod.Annotations[completed] = "true" }}, false},
		{"PR-1 a gate without condition", []func(*corev1.Pod){gate}, true},
		{"PR-1 a gate with a condition", []func(*corev1.Pod){gate, func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: "KruisePodReady", Status: "False"}}
		}}, false},
		{"sidecars", []func(*corev1.Pod){func(pod *corev1.Pod) { pod.Annotations["kruise.io/sidecarset-injected-list"] = "a" }}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "n", Name: "web-1", UID: "p", Annotations: map[string]string{"large": "x"}, OwnerReferences: controlledBy("apps/v1", "ReplicaSet"),
				},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
			}
			for _, f := range tc.change {
				f(in)
			}
			want := in.DeepCopy()
			in.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
			out, ok := transformed(t, in).(*corev1.Pod)
			if !ok {
				t.Fatal("the Pod became something else")
			}
			if !tc.whole {
				want.Annotations, want.Spec, want.Status = nil, corev1.PodSpec{}, corev1.PodStatus{}
			}
			if diff := cmp.Diff(want, out, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneNamespaceSeesClusterScopedKinds: the cache of a manager of one namespace has a single entry for each
// cluster-scoped kind, not limited to the namespace, and keeps the fields that the kind's row lists.
func TestOneNamespaceSeesClusterScopedKinds(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := manager.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	byObject, err := manager.CachedOfOneNamespace(scheme, kinds.All())
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]int{}, map[string]int{}
	for _, row := range kinds.All() {
		if row.ClusterScoped {
			want[row.Kind.Kind] = 1
		}
	}
	for object, by := range byObject {
		name := reflect.TypeOf(object).Elem().Name()
		if want[name] == 0 {
			continue
		}
		if got[name]++; by.Field == nil || !by.Field.Empty() {
			t.Errorf("%s: only objects with %v are listed", name, by.Field)
		}
		if image, ok := object.(*v1beta1.NodeImage); ok {
			kept, err := by.Transform(&v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"large": "x"}}})
			if diff := cmp.Diff(any(&v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), kept); diff != "" || err != nil {
				t.Errorf("%T: %v (-want +got):\n%s", image, err, diff)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestCacheFailuresAreCounted: the metric counts failures that leave a cache behind the API server, but not the
// regular ends of watches.
func TestCacheFailuresAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	failed, err := manager.CountWatchErrors(registry)
	if err != nil {
		t.Fatal(err)
	}
	reflector := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{}, &corev1.Pod{}, toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), toolscache.ReflectorOptions{})
	for _, err := range []error{
		io.EOF, apierrors.NewResourceExpired("too old"),
		errors.New("json: cannot unmarshal"), apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil),
	} {
		failed(t.Context(), reflector, err)
	}
	if diff := cmp.Diff(map[string]float64{"kruise_cache_failures_total *v1.Pod": 2}, gathered(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
