package cloneset_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps/cloneset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func Example() {
	obj := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	obj.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	obj.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}
	cloneset.Default(obj, nil, cloneset.DefaultOptions{})
	fmt.Println(obj.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable)
	// Output: 20%
}

func ptr[T any](value T) *T { return &value }

func readStored(t *testing.T, name string) *v1beta1.CloneSet {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	stored := &v1beta1.CloneSet{}
	if err := yaml.UnmarshalStrict(raw, stored); err != nil {
		t.Fatal(err)
	}
	return stored
}

// TestDefaultAgreesWithStoredObjects defaults objects as applied by users and compares the result with OpenKruise's
// stored objects. A later patch changed the image and an annotation of the fixture "web".
func TestDefaultAgreesWithStoredObjects(t *testing.T) {
	stored := readStored(t, "web")
	applied := &v1beta1.CloneSet{}
	if err := json.Unmarshal([]byte(stored.Annotations[corev1.LastAppliedConfigAnnotation]), applied); err != nil {
		t.Fatal(err)
	}
	applied.Spec.Template.Annotations = stored.Spec.Template.Annotations
	applied.Spec.Template.Spec.Containers[0].Image = stored.Spec.Template.Spec.Containers[0].Image
	cloneset.Default(applied, nil, cloneset.DefaultOptions{})
	if diff := cmp.Diff(stored.Spec, applied.Spec); diff != "" {
		t.Errorf("web (-stored +defaulted):\n%s", diff)
	}

	stored = readStored(t, "old-api")
	alpha := &v1alpha1.CloneSet{}
	if err := json.Unmarshal([]byte(stored.Annotations[corev1.LastAppliedConfigAnnotation]), alpha); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(alpha)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = conversion.JSON(raw, v1beta1.GroupVersion.String()); err != nil {
		t.Fatal(err)
	}
	applied = &v1beta1.CloneSet{}
	if err := json.Unmarshal(raw, applied); err != nil {
		t.Fatal(err)
	}
	cloneset.Default(applied, nil, cloneset.DefaultOptions{})
	if diff := cmp.Diff(stored.Spec, applied.Spec); diff != "" {
		t.Errorf("old-api (-stored +defaulted):\n%s", diff)
	}
}

// TestStoredObjectsAreSettled: the defaults change nothing in objects stored by OpenKruise.
func TestStoredObjectsAreSettled(t *testing.T) {
	for _, name := range []string{"web", "old-api"} {
		stored := readStored(t, name)
		obj := stored.DeepCopy()
		cloneset.Default(obj, stored, cloneset.DefaultOptions{})
		if diff := cmp.Diff(stored, obj); diff != "" {
			t.Errorf("%s is changed (-stored +defaulted):\n%s", name, diff)
		}
	}
}

func TestDefaultUpdateStrategy(t *testing.T) {
	full := func(policy v1beta1.CloneSetPodUpdatePolicy, inPlace *pub.InPlaceUpdateStrategy) v1beta1.CloneSetUpdateStrategy {
		return v1beta1.CloneSetUpdateStrategy{
			Type: v1beta1.RollingUpdate,
			RollingUpdate: &v1beta1.RollingUpdateCloneSet{
				PodUpdatePolicy: policy, Partition: ptr(intstr.FromInt32(0)),
				MaxUnavailable: ptr(intstr.FromString("20%")), MaxSurge: ptr(intstr.FromInt32(0)),
				InPlaceUpdateStrategy: inPlace,
			},
		}
	}
	tests := []struct {
		name     string
		in, want v1beta1.CloneSetUpdateStrategy
	}{
		{name: "V-1 nothing set", want: full(v1beta1.ReCreate, nil)},
		{
			name: "V-1 rollingUpdate is created",
			in:   v1beta1.CloneSetUpdateStrategy{Type: v1beta1.RollingUpdate}, want: full(v1beta1.ReCreate, nil),
		},
		{
			name: "V-1 in-place policies get an in-place strategy",
			in: v1beta1.CloneSetUpdateStrategy{
				RollingUpdate: &v1beta1.RollingUpdateCloneSet{PodUpdatePolicy: v1beta1.InPlaceOnly},
			},
			want: full(v1beta1.InPlaceOnly, &pub.InPlaceUpdateStrategy{}),
		},
		{
			name: "V-1 OnDelete is left alone",
			in: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.OnDelete, RollingUpdate: &v1beta1.RollingUpdateCloneSet{Paused: true},
			},
			want: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.OnDelete, RollingUpdate: &v1beta1.RollingUpdateCloneSet{Paused: true},
			},
		},
		{
			name: "V-1 values are kept, zeros too",
			in: v1beta1.CloneSetUpdateStrategy{
				RollingUpdate: &v1beta1.RollingUpdateCloneSet{
					MaxUnavailable: ptr(intstr.FromInt32(0)), MaxSurge: ptr(intstr.FromString("10%")),
					Partition: ptr(intstr.FromInt32(4)),
				},
			},
			want: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.RollingUpdate,
				RollingUpdate: &v1beta1.RollingUpdateCloneSet{
					PodUpdatePolicy: v1beta1.ReCreate, MaxUnavailable: ptr(intstr.FromInt32(0)),
					MaxSurge: ptr(intstr.FromString("10%")), Partition: ptr(intstr.FromInt32(4)),
				},
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := &v1beta1.CloneSet{}
			obj.Spec.UpdateStrategy = tc.in
			for range 2 {
				cloneset.Default(obj, nil, cloneset.DefaultOptions{})
				if diff := cmp.Diff(tc.want, obj.Spec.UpdateStrategy); diff != "" {
					t.Errorf("updateStrategy (-want +got):\n%s", diff)
				}
			}
			if *obj.Spec.Replicas != 1 || *obj.Spec.RevisionHistoryLimit != 10 || obj.Spec.ProgressDeadlineSeconds != nil {
				t.Errorf("replicas %d, revisionHistoryLimit %d, progressDeadlineSeconds %v",
					*obj.Spec.Replicas, *obj.Spec.RevisionHistoryLimit, obj.Spec.ProgressDeadlineSeconds)
			}
		})
	}
}

func TestDefaultTemplates(t *testing.T) {
	plain := &v1beta1.CloneSet{}
	plain.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	plain.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	changed := plain.DeepCopy()
	changed.Spec.Template.Spec.Containers[0].Image = "app:v2"
	changed.Spec.VolumeClaimTemplates[0].Name = "logs"
	tests := []struct {
		name     string
		stored   *v1beta1.CloneSet
		opts     cloneset.DefaultOptions
		defaults bool
	}{
		{name: "V-2 V-4 on creation", defaults: true},
		{name: "V-2 unchanged templates keep their form", stored: plain},
		{name: "V-2 changed templates get defaults", stored: changed, defaults: true},
		{name: "V-2 gate TemplateNoDefaults", opts: cloneset.DefaultOptions{TemplateNoDefaults: true}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := plain.DeepCopy()
			cloneset.Default(obj, tc.stored, tc.opts)
			policy, phase := corev1.PullPolicy(""), corev1.PersistentVolumeClaimPhase("")
			if tc.defaults {
				policy, phase = corev1.PullAlways, corev1.ClaimPending
			}
			if got := obj.Spec.Template.Spec.Containers[0].ImagePullPolicy; got != policy {
				t.Errorf("imagePullPolicy = %q, want %q", got, policy)
			}
			if got := obj.Spec.VolumeClaimTemplates[0].Status.Phase; got != phase {
				t.Errorf("claim phase = %q, want %q", got, phase)
			}
		})
	}
}
