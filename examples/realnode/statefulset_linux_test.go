package realnode_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// statefulSet is a StatefulSet, whose Pods have ordinals.
type statefulSet struct {
	client.Client
	key  client.ObjectKey
	spec v1beta1.StatefulSetSpec // for create, which sets replicas, template and selector
}

func (f *fixture) statefulSet(name string, management appsv1.PodManagementPolicyType, policy v1beta1.PodUpdatePolicy) *statefulSet {
	rolling := &v1beta1.RollingUpdateStatefulSet{PodUpdatePolicy: policy}
	if management == appsv1.ParallelPodManagement {
		rolling.MaxUnavailable = ptr.To(intstr.FromString("100%"))
	}
	return &statefulSet{Client: f, key: client.ObjectKey{Namespace: f.namespace, Name: name}, spec: v1beta1.StatefulSetSpec{
		ServiceName: name, PodManagementPolicy: management,
		UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: rolling},
	}}
}

func (s *statefulSet) name() string          { return s.key.Name }
func (s *statefulSet) revisionLabel() string { return apps.LabelRevision }

func (s *statefulSet) create(ctx context.Context, replicas int, template *corev1.PodTemplateSpec) error {
	set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}, Spec: s.spec}
	set.Spec.Replicas, set.Spec.Template = ptr.To(int32(replicas)), *template
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: template.Labels}
	return s.Create(ctx, set)
}

func (s *statefulSet) edit(ctx context.Context, change func(*corev1.PodTemplateSpec)) error {
	return s.editSpec(ctx, func(spec *v1beta1.StatefulSetSpec) { change(&spec.Template) })
}

func (s *statefulSet) editSpec(ctx context.Context, change func(*v1beta1.StatefulSetSpec)) error {
	var set v1beta1.StatefulSet
	if err := s.Get(ctx, s.key, &set); err != nil {
		return err
	}
	change(&set.Spec)
	return s.Update(ctx, &set)
}

func (s *statefulSet) isSettled(ctx context.Context) error {
	var set v1beta1.StatefulSet
	if err := s.Get(ctx, s.key, &set); err != nil {
		return err
	}
	if got := set.Status; got.ObservedGeneration != set.Generation || got.Replicas != *set.Spec.Replicas || got.AvailableReplicas != got.Replicas ||
		got.UpdatedAvailableReplicas != got.Replicas || got.CurrentRevision != got.UpdateRevision {
		return fmt.Errorf("StatefulSet %s, generation %d: %+v", set.Name, set.Generation, got)
	}
	return nil
}

func TestStatefulSetImage(t *testing.T) {
	f := startManager(t, manager.Options{})
	f.imageInPlace(f.statefulSet("web", appsv1.ParallelPodManagement, v1beta1.InPlaceIfPossible), 3)
}

func TestStatefulSetResize(t *testing.T) {
	f := startManager(t, manager.Options{Gates: resizeGates()})
	f.resizes(t, func(f *fixture, name string) workload {
		return f.statefulSet(name, appsv1.ParallelPodManagement, v1beta1.InPlaceOnly)
	})
}

// TestStatefulSetOrder: at any time, at most one existing Pod is out of service. A Pod is created only when all Pods
// with lower ordinals are in service, and updated only when all Pods with higher ordinals are in service.
func TestStatefulSetOrder(t *testing.T) {
	f := startManager(t, manager.Options{})
	w := f.statefulSet("seq", appsv1.OrderedReadyPodManagement, v1beta1.InPlaceIfPossible)
	recorder := controllertest.Watch(t, f, f.namespace, nil)
	before := f.create(w, 3)
	after := f.change(w, setImage(0, f.image("v2")))
	f.allRestartedOnce(before, after)
	var steps []string
	out := map[string]bool{}
	for _, event := range recorder.Events() {
		app, running := podstate.Container(event.Pod, "app"), podstate.ContainerStatus(event.Pod, "app")
		if step := event.Pod.Name + " " + app.Image; !slices.Contains(steps, step) {
			steps = append(steps, step)
		}
		if out[event.Pod.Name] = true; podstate.IsReady(event.Pod) && gatesOpen(event.Pod) && running.Image == app.Image {
			delete(out, event.Pod.Name)
		}
		if len(out) > 1 {
			t.Fatalf("out of service after %v: %v", steps, slices.Sorted(maps.Keys(out)))
		}
	}
	v1, v2 := f.image("v1"), f.image("v2")
	want := []string{"seq-0 " + v1, "seq-1 " + v1, "seq-2 " + v1, "seq-2 " + v2, "seq-1 " + v2, "seq-0 " + v2}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("Pods and their images, in order (-want +got):\n%s", diff)
	}
}

// TestStatefulSetClaims: the files on the volume of a Pod survive every update and the deletion of the Pod.
func TestStatefulSetClaims(t *testing.T) {
	f := startManager(t, manager.Options{})
	w := f.statefulSet("db", appsv1.ParallelPodManagement, v1beta1.InPlaceIfPossible)
	volumes := f.volumes(w, 4)
	mark := url.Values{"path": {"/data/mark"}}
	pods := f.create(w, 3)
	for i := range pods {
		f.ask(&pods[i], 8080, http.MethodPut, "/file", mark, pods[i].Name)
	}
	claims := f.claims()
	setMode := func(template *corev1.PodTemplateSpec) {
		app := &template.Spec.Containers[0]
		app.Env = append(app.Env, corev1.EnvVar{Name: fmt.Sprintf("MODE_%d", len(app.Env))})
	}
	for _, tt := range []struct {
		name   string
		change func(*v1beta1.StatefulSetSpec)
		count  int
		fresh  []string // Pods missing before
	}{
		{"update in place", ofTemplate(setImage(0, f.image("v2"))), 3, nil},
		{"recreate", ofTemplate(setMode), 3, []string{"db-0", "db-1", "db-2"}},
		{"scale in", replicas(2), 2, nil},
		{"scale out", replicas(3), 3, []string{"db-2"}},
		{"recreate where claims go with Pods that are not wanted", func(spec *v1beta1.StatefulSetSpec) {
			setMode(&spec.Template)
			spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
			}
		}, 3, []string{"db-0", "db-1", "db-2"}},
	} {
		after := f.changeSpec(w, tt.change)
		var fresh []string
		for i := range after {
			if !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.UID == after[i].UID }) {
				fresh = append(fresh, after[i].Name)
			}
			if got := f.ask(&after[i], 8080, http.MethodGet, "/file", mark, ""); got != after[i].Name {
				t.Errorf("%s: the volume of %s holds %q", tt.name, after[i].Name, got)
			}
		}
		if diff := cmp.Diff(tt.fresh, fresh); diff != "" || len(after) != tt.count {
			t.Errorf("%s: %d Pods, want %d; new ones (-want +got):\n%s", tt.name, len(after), tt.count, diff)
		}
		if diff := cmp.Diff(claims, f.claims()); diff != "" {
			t.Errorf("%s: claims (-want +got):\n%s", tt.name, diff)
		}
		pods = after
	}
	f.claimGoesWithPod(w, volumes)
}

// claimGoesWithPod lowers and raises the replicas. The claim of the third Pod is deleted after the Pod, and then
// created again.
func (f *fixture) claimGoesWithPod(w *statefulSet, volumes string) {
	f.t.Helper()
	before, offset := f.claims(), controllertest.End(f.t, f.cp.AuditLog())
	f.changeSpec(w, replicas(2))
	want := maps.Clone(before)
	delete(want, "data-db-2")
	controlplanetest.Eventually(f.t, within, func(context.Context) error {
		if diff := cmp.Diff(want, f.claims()); diff != "" {
			return fmt.Errorf("claims (-want +got):\n%s", diff)
		}
		return nil
	})
	requests, _ := controllertest.Requests(f.t, f.cp.AuditLog(), offset, "")
	var deletions []string
	for _, r := range requests {
		if r.Namespace == f.namespace && r.Verb == "delete" && r.Code < http.StatusBadRequest {
			deletions = append(deletions, r.Resource+" "+r.Name)
		}
	}
	// The kubelet sends the last deletion of the Pod when the containers have ended.
	if diff := cmp.Diff([]string{"pods db-2", "persistentvolumeclaims data-db-2"}, slices.Compact(deletions)); diff != "" {
		f.t.Errorf("deletions (-want +got):\n%s", diff)
	}
	f.changeSpec(w, replicas(3))
	was, is := before["data-db-2"], f.claims()["data-db-2"]
	files, err := os.ReadDir(filepath.Join(volumes, is.Volume))
	if is.UID == "" || is.UID == was.UID || is.Volume == was.Volume || err != nil || len(files) != 0 {
		f.t.Errorf("the claim was %+v and is %+v, with files %v: %v", was, is, files, err)
	}
}

// volumes makes the workload claim a volume for each Pod, and creates the given number of volumes. Each volume is a
// directory below dir, and has the name of the volume.
func (f *fixture) volumes(w *statefulSet, count int) (dir string) {
	f.t.Helper()
	dir = f.t.TempDir()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for i := range count {
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", f.namespace, i)}}
		volume.Spec = corev1.PersistentVolumeSpec{
			StorageClassName: f.namespace, AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: filepath.Join(dir, volume.Name), Type: ptr.To(corev1.HostPathDirectoryOrCreate),
			}},
		}
		if err := f.Create(f.t.Context(), volume); err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = f.Delete(context.WithoutCancel(f.t.Context()), volume) })
	}
	w.spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &f.namespace, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}}
	return dir
}

// claim identifies a PersistentVolumeClaim and its volume.
type claim struct {
	UID    types.UID
	Volume string
}

// claims returns the claims of the namespace, by name.
func (f *fixture) claims() map[string]claim {
	f.t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := f.List(f.t.Context(), &list, client.InNamespace(f.namespace)); err != nil {
		f.t.Fatal(err)
	}
	out := map[string]claim{}
	for i := range list.Items {
		out[list.Items[i].Name] = claim{list.Items[i].UID, list.Items[i].Spec.VolumeName}
	}
	return out
}

// changeSpec edits the spec, waits until the StatefulSet has settled, and returns the Pods. After a conflict,
// changeSpec edits again.
func (f *fixture) changeSpec(w *statefulSet, change func(*v1beta1.StatefulSetSpec)) []corev1.Pod {
	f.t.Helper()
	controlplanetest.Eventually(f.t, within, func(ctx context.Context) error { return w.editSpec(ctx, change) })
	return f.settled(w)
}

func replicas(count int32) func(*v1beta1.StatefulSetSpec) {
	return func(spec *v1beta1.StatefulSetSpec) { spec.Replicas = &count }
}

func ofTemplate(edit templateEdit) func(*v1beta1.StatefulSetSpec) {
	return func(spec *v1beta1.StatefulSetSpec) { edit(&spec.Template) }
}
