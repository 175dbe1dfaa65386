package statefulset_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func Example() {
	obj := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	obj.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	obj.Spec.Template.Labels = map[string]string{"app": "db"}
	obj.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("7-3")}
	statefulset.Default(obj, nil, statefulset.DefaultOptions{})
	fmt.Println(obj.Spec.PodManagementPolicy, obj.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable)
	_, err := statefulset.Ordinals(obj, true)
	fmt.Println(err)
	// Output:
	// OrderedReady 1
	// InvalidOrdinal: spec.reserveOrdinals[1]: "7-3": the range runs backwards; use an integer from 0 to 2147483647, or a range of two such as "3-7"
}

func ptr[T any](value T) *T { return &value }

func readStored(t *testing.T) *v1beta1.StatefulSet {
	t.Helper()
	raw, err := os.ReadFile("testdata/db.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stored := &v1beta1.StatefulSet{}
	if err := yaml.UnmarshalStrict(raw, stored); err != nil {
		t.Fatal(err)
	}
	return stored
}

func everyGate() statefulset.DefaultOptions {
	return statefulset.DefaultOptions{AutoDeletePVC: true, AutoResizePVC: true}
}

// TestDefaultAgreesWithStoredObject defaults the object applied by a user and compares the result with the object
// stored by OpenKruise.
func TestDefaultAgreesWithStoredObject(t *testing.T) {
	stored := readStored(t)
	applied := &v1beta1.StatefulSet{}
	if err := json.Unmarshal([]byte(stored.Annotations[corev1.LastAppliedConfigAnnotation]), applied); err != nil {
		t.Fatal(err)
	}
	applied.Spec.Template.Spec.Containers[0].Image = stored.Spec.Template.Spec.Containers[0].Image
	statefulset.Default(applied, nil, everyGate())
	if diff := cmp.Diff(stored.Spec, applied.Spec); diff != "" {
		t.Errorf("(-stored +defaulted):\n%s", diff)
	}
}

// TestStoredObjectIsSettled: the defaults change nothing in an object stored by OpenKruise, whichever gates are on.
func TestStoredObjectIsSettled(t *testing.T) {
	for _, opts := range []statefulset.DefaultOptions{{}, everyGate()} {
		stored := readStored(t)
		obj := stored.DeepCopy()
		statefulset.Default(obj, stored, opts)
		if diff := cmp.Diff(stored, obj); diff != "" {
			t.Errorf("changed (-stored +defaulted):\n%s", diff)
		}
	}
}

func TestDefault(t *testing.T) {
	const retain, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	rolling := func() v1beta1.StatefulSetUpdateStrategy {
		return v1beta1.StatefulSetUpdateStrategy{
			Type: "RollingUpdate", RollingUpdate: &v1beta1.RollingUpdateStatefulSet{
				PodUpdatePolicy: v1beta1.ReCreate, Partition: ptr[int32](0), MaxUnavailable: ptr(intstr.FromInt32(1)), MinReadySeconds: ptr[int32](0),
			},
		}
	}
	// full returns the defaults of an empty spec, with the given edit. Of the gates, only the gates for templates are
	// on.
	full := func(edit func(*v1beta1.StatefulSetSpec)) v1beta1.StatefulSetSpec {
		spec := v1beta1.StatefulSetSpec{
			Replicas: ptr[int32](1), RevisionHistoryLimit: ptr[int32](10), PodManagementPolicy: "OrderedReady", UpdateStrategy: rolling(),
		}
		if edit != nil {
			edit(&spec)
		}
		return spec
	}
	tests := []struct {
		name string
		opts statefulset.DefaultOptions
		in   v1beta1.StatefulSetSpec
		want v1beta1.StatefulSetSpec
	}{
		{name: "3.1 V-1 nothing set", want: full(nil)},
		{
			name: "V-1 rollingUpdate is created",
			in:   v1beta1.StatefulSetSpec{UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{Type: "RollingUpdate"}}, want: full(nil),
		},
		{
			name: "V-1 OnDelete is left alone",
			in:   v1beta1.StatefulSetSpec{UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{Type: "OnDelete"}},
			want: full(func(spec *v1beta1.StatefulSetSpec) {
				spec.UpdateStrategy = v1beta1.StatefulSetUpdateStrategy{Type: "OnDelete"}
			}),
		},
		{
			name: "V-1 settings of OnDelete are left alone",
			in: v1beta1.StatefulSetSpec{UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{
				Type: "OnDelete", RollingUpdate: &v1beta1.RollingUpdateStatefulSet{Paused: true},
			}},
			want: full(func(spec *v1beta1.StatefulSetSpec) {
				spec.UpdateStrategy = v1beta1.StatefulSetUpdateStrategy{Type: "OnDelete", RollingUpdate: &v1beta1.RollingUpdateStatefulSet{Paused: true}}
			}),
		},
		{
			name: "V-1 values are kept, zeros too",
			in: v1beta1.StatefulSetSpec{
				Replicas: ptr[int32](0), RevisionHistoryLimit: ptr[int32](0), PodManagementPolicy: "Parallel",
				UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateStatefulSet{
					PodUpdatePolicy: v1beta1.InPlaceOnly, Partition: ptr[int32](4), MaxUnavailable: ptr(intstr.FromString("0%")), MinReadySeconds: ptr[int32](9),
				}},
			},
			want: v1beta1.StatefulSetSpec{
				Replicas: ptr[int32](0), RevisionHistoryLimit: ptr[int32](0), PodManagementPolicy: "Parallel",
				UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{Type: "RollingUpdate", RollingUpdate: &v1beta1.RollingUpdateStatefulSet{
					PodUpdatePolicy: v1beta1.InPlaceOnly, Partition: ptr[int32](4), MaxUnavailable: ptr(intstr.FromString("0%")), MinReadySeconds: ptr[int32](9),
				}},
			},
		},
		{
			name: "3.1 gate StatefulSetAutoDeletePVC", opts: statefulset.DefaultOptions{AutoDeletePVC: true},
			want: full(func(spec *v1beta1.StatefulSetSpec) {
				spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: retain, WhenScaled: retain}
			}),
		},
		{
			name: "3.1 gate StatefulSetAutoDeletePVC, one of two is set", opts: statefulset.DefaultOptions{AutoDeletePVC: true},
			in: v1beta1.StatefulSetSpec{PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: remove}},
			want: full(func(spec *v1beta1.StatefulSetSpec) {
				spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: retain, WhenScaled: remove}
			}),
		},
		{
			name: "3.1 gate StatefulSetAutoResizePVCGate", opts: statefulset.DefaultOptions{AutoResizePVC: true},
			want: full(func(spec *v1beta1.StatefulSetSpec) { spec.VolumeClaimUpdateStrategy.Type = v1beta1.ClaimsOnDelete }),
		},
		{
			name: "3.1 gate StatefulSetAutoResizePVCGate, a strategy is kept", opts: statefulset.DefaultOptions{AutoResizePVC: true},
			in: v1beta1.StatefulSetSpec{VolumeClaimUpdateStrategy: v1beta1.VolumeClaimUpdateStrategy{Type: "OnPodRollingUpdate"}},
			want: full(func(spec *v1beta1.StatefulSetSpec) {
				spec.VolumeClaimUpdateStrategy.Type = v1beta1.ClaimsOnPodRollingUpdate
			}),
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := &v1beta1.StatefulSet{Spec: tc.in}
			tc.opts.TemplateNoDefaults = true
			for range 2 {
				statefulset.Default(obj, nil, tc.opts)
				if diff := cmp.Diff(tc.want, obj.Spec); diff != "" {
					t.Errorf("spec (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestDefaultTemplates(t *testing.T) {
	plain := &v1beta1.StatefulSet{}
	plain.Spec.Template.Spec.HostNetwork = true
	plain.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:v1"}}
	plain.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}
	plain.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	changed := plain.DeepCopy()
	changed.Spec.Template.Spec.Containers[0].Image = "app:v2"
	changed.Spec.VolumeClaimTemplates[0].Name = "logs"
	type values struct {
		policy, initPolicy corev1.PullPolicy
		hostPort           int32
		phase              corev1.PersistentVolumeClaimPhase
	}
	defaulted := values{corev1.PullAlways, corev1.PullIfNotPresent, 0, corev1.ClaimPending}
	withPort := defaulted
	withPort.hostPort = 80
	tests := []struct {
		name   string
		stored *v1beta1.StatefulSet
		opts   statefulset.DefaultOptions
		want   values
	}{
		{name: "V-2 V-4 on creation", want: defaulted},
		{name: "V-2 unchanged templates keep their form", stored: plain},
		{name: "V-2 changed templates get defaults", stored: changed, want: defaulted},
		{name: "V-2 gate TemplateNoDefaults", opts: statefulset.DefaultOptions{TemplateNoDefaults: true}},
		{name: "V-3 host ports with the gate", opts: statefulset.DefaultOptions{HostNetworkHostPorts: true}, want: withPort},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := plain.DeepCopy()
			statefulset.Default(obj, tc.stored, tc.opts)
			pod := obj.Spec.Template.Spec
			got := values{
				pod.Containers[0].ImagePullPolicy, pod.InitContainers[0].ImagePullPolicy, pod.Containers[0].Ports[0].HostPort,
				obj.Spec.VolumeClaimTemplates[0].Status.Phase,
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(values{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
