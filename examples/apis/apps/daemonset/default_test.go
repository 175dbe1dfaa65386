package daemonset_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/daemonset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func Example() {
	obj := &v1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}
	obj.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}
	obj.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	daemonset.Default(obj)
	fmt.Println(obj.Spec.BurstReplicas, obj.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable)
	// Output: 250 1
}

func ptr[T any](value T) *T { return &value }

func readStored(t *testing.T) *v1beta1.DaemonSet {
	t.Helper()
	raw, err := os.ReadFile("testdata/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stored := &v1beta1.DaemonSet{}
	if err := yaml.UnmarshalStrict(raw, stored); err != nil {
		t.Fatal(err)
	}
	return stored
}

// TestDefaultAgreesWithStoredObjects defaults the object applied by a user in v1alpha1 and compares the result with the
// object stored by OpenKruise; a later patch changed the image.
func TestDefaultAgreesWithStoredObjects(t *testing.T) {
	stored := readStored(t)
	alpha := &v1alpha1.DaemonSet{}
	if err := json.Unmarshal([]byte(stored.Annotations[corev1.LastAppliedConfigAnnotation]), alpha); err != nil {
		t.Fatal(err)
	}
	daemonset.DefaultV1alpha1(alpha)
	raw, err := json.Marshal(alpha)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = conversion.JSON(raw, v1beta1.GroupVersion.String()); err != nil {
		t.Fatal(err)
	}
	applied := &v1beta1.DaemonSet{}
	if err := json.Unmarshal(raw, applied); err != nil {
		t.Fatal(err)
	}
	applied.Spec.Template.Spec.Containers[0].Image = stored.Spec.Template.Spec.Containers[0].Image
	daemonset.Default(applied)
	if diff := cmp.Diff(stored.Spec, applied.Spec); diff != "" {
		t.Errorf("(-stored +defaulted):\n%s", diff)
	}
}

// TestStoredObjectsAreSettled: the defaults change nothing in objects stored by OpenKruise.
func TestStoredObjectsAreSettled(t *testing.T) {
	stored := readStored(t)
	obj := stored.DeepCopy()
	daemonset.Default(obj)
	if diff := cmp.Diff(stored, obj); diff != "" {
		t.Errorf("is changed (-stored +defaulted):\n%s", diff)
	}
}

func TestDefault(t *testing.T) {
	number := intstr.FromInt32
	standard := func(unavailable, surge *intstr.IntOrString) v1beta1.DaemonSetUpdateStrategy {
		return v1beta1.DaemonSetUpdateStrategy{Type: "RollingUpdate", RollingUpdate: &v1beta1.RollingUpdateDaemonSet{
			RollingUpdateType: "Standard", MaxUnavailable: unavailable, MaxSurge: surge,
		}}
	}
	full := v1beta1.DaemonSetSpec{
		BurstReplicas: ptr(number(250)), RevisionHistoryLimit: ptr[int32](10), UpdateStrategy: standard(ptr(number(1)), ptr(number(0))),
	}
	with := func(strategy v1beta1.DaemonSetUpdateStrategy) v1beta1.DaemonSetSpec {
		spec := full
		spec.UpdateStrategy = strategy
		return spec
	}
	rolling := func(ru v1beta1.RollingUpdateDaemonSet) v1beta1.DaemonSetUpdateStrategy {
		return v1beta1.DaemonSetUpdateStrategy{RollingUpdate: &ru}
	}
	container := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}
	everything := v1beta1.DaemonSetSpec{
		BurstReplicas: ptr(intstr.FromString("10%")), RevisionHistoryLimit: ptr[int32](0), MinReadySeconds: 3,
		UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{Type: "RollingUpdate", RollingUpdate: &v1beta1.RollingUpdateDaemonSet{
			RollingUpdateType: "InPlaceIfPossible", MaxUnavailable: ptr(number(0)), MaxSurge: ptr(number(0)), Paused: ptr(false),
		}},
	}
	tests := []struct {
		name     string
		in, want v1beta1.DaemonSetSpec
	}{
		{"4.1 nothing set", v1beta1.DaemonSetSpec{}, full},
		{"V-1 rollingUpdate is created", v1beta1.DaemonSetSpec{UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{Type: "RollingUpdate"}}, full},
		{
			"V-1 OnDelete gets nothing",
			v1beta1.DaemonSetSpec{UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{Type: "OnDelete"}},
			with(v1beta1.DaemonSetUpdateStrategy{Type: "OnDelete"}),
		},
		{
			"V-1 OnDelete keeps rollingUpdate as it is",
			v1beta1.DaemonSetSpec{UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{Type: "OnDelete", RollingUpdate: &v1beta1.RollingUpdateDaemonSet{}}},
			with(v1beta1.DaemonSetUpdateStrategy{Type: "OnDelete", RollingUpdate: &v1beta1.RollingUpdateDaemonSet{}}),
		},
		{
			"4.1 maxUnavailable alone",
			v1beta1.DaemonSetSpec{UpdateStrategy: rolling(v1beta1.RollingUpdateDaemonSet{MaxUnavailable: ptr(number(5))})},
			with(standard(ptr(number(5)), nil)),
		},
		{
			"4.1 maxSurge alone",
			v1beta1.DaemonSetSpec{UpdateStrategy: rolling(v1beta1.RollingUpdateDaemonSet{MaxSurge: ptr(number(2))})},
			with(standard(nil, ptr(number(2)))),
		},
		{"4.1 everything set", everything, everything},
		{
			"D-31 the template is left alone",
			v1beta1.DaemonSetSpec{Template: container},
			func() v1beta1.DaemonSetSpec { spec := full; spec.Template = container; return spec }(),
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := &v1beta1.DaemonSet{Spec: *tc.in.DeepCopy()}
			for range 2 {
				daemonset.Default(obj)
				if diff := cmp.Diff(tc.want, obj.Spec); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestDefaultV1alpha1(t *testing.T) {
	number := intstr.FromInt32
	surging := func(kind v1beta1.DaemonSetUpdateStrategyType, unavailable, surge *intstr.IntOrString) v1beta1.DaemonSetUpdateStrategy {
		return v1beta1.DaemonSetUpdateStrategy{Type: kind, RollingUpdate: &v1beta1.RollingUpdateDaemonSet{
			RollingUpdateType: v1alpha1.SurgingRollingUpdateType, MaxUnavailable: unavailable, MaxSurge: surge,
		}}
	}
	standard := func(in v1beta1.DaemonSetUpdateStrategy) v1beta1.DaemonSetUpdateStrategy {
		in.RollingUpdate.RollingUpdateType = "Standard"
		return in
	}
	tests := []struct {
		name     string
		in, want v1beta1.DaemonSetUpdateStrategy
	}{
		{"D-30 Surging", surging("", nil, nil), standard(surging("", ptr(number(0)), ptr(number(1))))},
		{"D-30 Surging with a surge", surging("RollingUpdate", nil, ptr(number(3))), standard(surging("RollingUpdate", ptr(number(0)), ptr(number(3))))},
		{"D-30 Surging with a budget", surging("", ptr(number(2)), nil), standard(surging("", ptr(number(2)), ptr(number(1))))},
		{"V-1 Surging of OnDelete", surging("OnDelete", nil, nil), surging("OnDelete", nil, nil)},
		{"D-30 another type", standard(surging("", nil, nil)), standard(surging("", nil, nil))},
		{"D-30 nothing", v1beta1.DaemonSetUpdateStrategy{}, v1beta1.DaemonSetUpdateStrategy{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := &v1alpha1.DaemonSet{Spec: v1alpha1.DaemonSetSpec{UpdateStrategy: tc.in}}
			daemonset.DefaultV1alpha1(obj)
			if diff := cmp.Diff(tc.want, obj.Spec.UpdateStrategy); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
