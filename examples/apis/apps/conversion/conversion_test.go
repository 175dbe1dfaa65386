package conversion_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func ptr[T any](value T) *T { return &value }

func TestToV1beta1(t *testing.T) {
	rolling := func(policy v1beta1.CloneSetPodUpdatePolicy) v1beta1.CloneSetUpdateStrategy {
		return v1beta1.CloneSetUpdateStrategy{
			Type:          v1beta1.RollingUpdate,
			RollingUpdate: &v1beta1.RollingUpdateCloneSet{PodUpdatePolicy: policy},
		}
	}
	images := func(in *pub.InPlaceUpdateStrategy) v1beta1.CloneSetUpdateStrategy {
		strategy := rolling(v1beta1.ReCreate)
		strategy.RollingUpdate.InPlaceUpdateStrategy = in
		return strategy
	}
	tests := []struct {
		name        string
		labels      map[string]string
		annotations map[string]string
		in          v1alpha1.CloneSetUpdateStrategy
		disable     bool
		want        v1beta1.CloneSetUpdateStrategy
		wantScale   v1beta1.CloneSetScaleStrategy
	}{
		{
			name: "V-40 ReCreate, V-42 claims are reused", in: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.ReCreate},
			want: rolling(v1beta1.ReCreate), wantScale: v1beta1.CloneSetScaleStrategy{EnablePVCReuse: true},
		},
		{
			name: "V-40 disablePVCReuse", in: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.ReCreate}, disable: true,
			want: rolling(v1beta1.ReCreate),
		},
		{
			name: "V-40 unknown type", in: v1alpha1.CloneSetUpdateStrategy{Type: "Blue"}, disable: true,
			want: rolling(v1beta1.ReCreate),
		},
		{
			name: "V-40 flat fields move", disable: true,
			in: v1alpha1.CloneSetUpdateStrategy{
				Type: v1alpha1.InPlaceOnly, Partition: ptr(intstr.FromString("50%")), Paused: true,
				InPlaceUpdateStrategy: &pub.InPlaceUpdateStrategy{GracePeriodSeconds: 3},
			},
			want: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.RollingUpdate,
				RollingUpdate: &v1beta1.RollingUpdateCloneSet{
					PodUpdatePolicy: v1beta1.InPlaceOnly, Partition: ptr(intstr.FromString("50%")), Paused: true,
					InPlaceUpdateStrategy: &pub.InPlaceUpdateStrategy{GracePeriodSeconds: 3},
				},
			},
		},
		{
			name: "V-40 OnDelete has no rollingUpdate", disable: true,
			in:   v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.OnDelete, Partition: ptr(intstr.FromInt32(3))},
			want: v1beta1.CloneSetUpdateStrategy{Type: v1beta1.OnDelete},
		},
		{
			name: "V-40 label becomes a field", disable: true, labels: map[string]string{apps.LabelExcludePreparingDelete: "true"},
			in: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.ReCreate}, want: rolling(v1beta1.ReCreate),
			wantScale: v1beta1.CloneSetScaleStrategy{ExcludePreparingDelete: true},
		},
		{
			name: "V-40 label of another value does not", disable: true,
			labels: map[string]string{apps.LabelExcludePreparingDelete: "yes"},
			in:     v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.ReCreate}, want: rolling(v1beta1.ReCreate),
		},
		{
			name: "V-40 annotations become fields", disable: true,
			annotations: map[string]string{
				apps.AnnotationImagePreDownloadParallelism:         "10%",
				apps.AnnotationImagePreDownloadTimeoutSeconds:      "60",
				apps.AnnotationImagePreDownloadMinUpdatedReadyPods: "2",
			},
			in: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.ReCreate},
			want: images(&pub.InPlaceUpdateStrategy{
				ImagePreDownloadParallelism:         ptr(intstr.FromString("10%")),
				ImagePreDownloadTimeoutSeconds:      ptr[int32](60),
				ImagePreDownloadMinUpdatedReadyPods: ptr[int32](2),
			}),
		},
		{
			name: "V-40 percent of ready Pods and a timeout beyond int32 have no field", disable: true,
			annotations: map[string]string{
				apps.AnnotationImagePreDownloadTimeoutSeconds:      "99999999999",
				apps.AnnotationImagePreDownloadMinUpdatedReadyPods: "30%",
			},
			in: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.ReCreate}, want: rolling(v1beta1.ReCreate),
		},
		{
			name: "V-40 image keys in the spec have no effect", disable: true,
			in: v1alpha1.CloneSetUpdateStrategy{
				Type:                  v1alpha1.ReCreate,
				InPlaceUpdateStrategy: &pub.InPlaceUpdateStrategy{ImagePreDownloadTimeoutSeconds: ptr[int32](9)},
			},
			want: images(&pub.InPlaceUpdateStrategy{}),
		},
		{
			name: "V-41 no in-place strategy is the default of an in-place policy", disable: true,
			in: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceIfPossible},
			want: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.RollingUpdate,
				RollingUpdate: &v1beta1.RollingUpdateCloneSet{
					PodUpdatePolicy: v1beta1.InPlaceIfPossible, InPlaceUpdateStrategy: &pub.InPlaceUpdateStrategy{},
				},
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in := &v1alpha1.CloneSet{}
			in.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("CloneSet"))
			in.Labels, in.Annotations = tc.labels, tc.annotations
			in.Spec.UpdateStrategy, in.Spec.ScaleStrategy.DisablePVCReuse = tc.in, tc.disable
			got := toBeta(t, in)
			if diff := cmp.Diff(tc.want, got.Spec.UpdateStrategy); diff != "" {
				t.Errorf("updateStrategy (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantScale, got.Spec.ScaleStrategy); diff != "" {
				t.Errorf("scaleStrategy (-want +got):\n%s", diff)
			}
			for key, value := range tc.annotations {
				if got.Annotations[key] != value {
					t.Errorf("annotation %s = %q, want it to stay %q", key, got.Annotations[key], value)
				}
			}
			checkAlpha(t, in)
		})
	}
}

func TestToV1alpha1(t *testing.T) {
	inPlace := func(strategy pub.InPlaceUpdateStrategy) v1beta1.CloneSetUpdateStrategy {
		return v1beta1.CloneSetUpdateStrategy{
			Type: v1beta1.RollingUpdate,
			RollingUpdate: &v1beta1.RollingUpdateCloneSet{
				PodUpdatePolicy: v1beta1.InPlaceIfPossible, InPlaceUpdateStrategy: &strategy,
			},
		}
	}
	tests := []struct {
		name        string
		labels      map[string]string
		annotations map[string]string
		in          v1beta1.CloneSetUpdateStrategy
		exclude     bool
		want        v1alpha1.CloneSetUpdateStrategy
		wantLabels  map[string]string
		// wantAnnotations leaves out the note.
		wantAnnotations map[string]string
		wantNote        bool
	}{
		{
			name: "V-41 rollingUpdate missing is ReCreate", in: v1beta1.CloneSetUpdateStrategy{Type: v1beta1.RollingUpdate},
			want: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.ReCreate}, wantNote: true,
		},
		{
			name: "V-41 empty in-place strategy becomes none, without a note", in: inPlace(pub.InPlaceUpdateStrategy{}),
			want: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceIfPossible},
		},
		{
			name: "V-41 image fields become annotations",
			in: inPlace(pub.InPlaceUpdateStrategy{
				GracePeriodSeconds: 3, ImagePreDownloadParallelism: ptr(intstr.FromInt32(2)),
				ImagePreDownloadTimeoutSeconds: ptr[int32](60), ImagePreDownloadMinUpdatedReadyPods: ptr[int32](0),
			}),
			want: v1alpha1.CloneSetUpdateStrategy{
				Type:                  v1alpha1.InPlaceIfPossible,
				InPlaceUpdateStrategy: &pub.InPlaceUpdateStrategy{GracePeriodSeconds: 3},
			},
			wantAnnotations: map[string]string{
				apps.AnnotationImagePreDownloadParallelism:         "2",
				apps.AnnotationImagePreDownloadTimeoutSeconds:      "60",
				apps.AnnotationImagePreDownloadMinUpdatedReadyPods: "0",
			},
			wantNote: true, // the note says that the stored object lacks such annotations
		},
		{
			name: "V-41 annotations not in effect are not shown, those without a field stay",
			annotations: map[string]string{
				apps.AnnotationImagePreDownloadTimeoutSeconds:      "60",
				apps.AnnotationImagePreDownloadMinUpdatedReadyPods: "30%",
			},
			in:   inPlace(pub.InPlaceUpdateStrategy{}),
			want: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceIfPossible},
			wantAnnotations: map[string]string{
				apps.AnnotationImagePreDownloadMinUpdatedReadyPods: "30%",
			},
			wantNote: true,
		},
		{
			name: "C-30 excludePreparingDelete is written back", in: inPlace(pub.InPlaceUpdateStrategy{}), exclude: true,
			want:       v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceIfPossible},
			wantLabels: map[string]string{apps.LabelExcludePreparingDelete: "true"}, wantNote: true,
		},
		{
			name: "C-30 label not in effect is not shown", in: inPlace(pub.InPlaceUpdateStrategy{}),
			labels: map[string]string{apps.LabelExcludePreparingDelete: "true"},
			want:   v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceIfPossible}, wantNote: true,
		},
		{
			name: "V-41 OnDelete with settings", want: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.OnDelete},
			in: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.OnDelete, RollingUpdate: &v1beta1.RollingUpdateCloneSet{Paused: true},
			},
			wantNote: true,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in := &v1beta1.CloneSet{}
			in.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("CloneSet"))
			in.Labels, in.Annotations = tc.labels, tc.annotations
			in.Spec.UpdateStrategy, in.Spec.ScaleStrategy.ExcludePreparingDelete = tc.in, tc.exclude
			got := toAlpha(t, in)
			_, note := got.Annotations[apps.AnnotationV1beta1Only]
			if note != tc.wantNote {
				t.Errorf("note = %q, want one: %t", got.Annotations[apps.AnnotationV1beta1Only], tc.wantNote)
			}
			if delete(got.Annotations, apps.AnnotationV1beta1Only); len(got.Annotations) == 0 {
				got.Annotations = nil
			}
			if diff := cmp.Diff(tc.want, got.Spec.UpdateStrategy); diff != "" {
				t.Errorf("updateStrategy (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantLabels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAnnotations, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			checkBeta(t, in)
		})
	}
}

// TestMergeRule edits the converted object, in the version that lacks some of the original's fields, and converts the
// object back.
func TestMergeRule(t *testing.T) {
	alpha := func(edit func(*v1alpha1.CloneSet)) *v1alpha1.CloneSet {
		obj := &v1alpha1.CloneSet{}
		obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("CloneSet"))
		edit(obj)
		return obj
	}
	unknown := alpha(func(obj *v1alpha1.CloneSet) { obj.Spec.UpdateStrategy.Type = "Blue" })
	onDelete := alpha(func(obj *v1alpha1.CloneSet) {
		obj.Spec.UpdateStrategy = v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.OnDelete, Paused: true}
	})
	specKeys := alpha(func(obj *v1alpha1.CloneSet) {
		obj.Spec.UpdateStrategy.Type = v1alpha1.InPlaceOnly
		obj.Spec.UpdateStrategy.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{
			GracePeriodSeconds: 1, ImagePreDownloadTimeoutSeconds: ptr[int32](9),
		}
	})
	tests := []struct {
		name string
		in   *v1alpha1.CloneSet
		edit func(*v1beta1.CloneSet)
		want func(*v1alpha1.CloneSetUpdateStrategy)
	}{
		{
			name: "an unrelated edit keeps the unknown type", in: unknown,
			edit: func(obj *v1beta1.CloneSet) { obj.Spec.UpdateStrategy.RollingUpdate.Paused = true },
			want: func(s *v1alpha1.CloneSetUpdateStrategy) { s.Paused = true },
		},
		{
			name: "a new policy replaces the unknown type", in: unknown,
			edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceOnly
			},
			want: func(s *v1alpha1.CloneSetUpdateStrategy) { s.Type = v1alpha1.InPlaceOnly },
		},
		{
			name: "what OnDelete hid does not come back under another type", in: onDelete,
			edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{
					Type: v1beta1.RollingUpdate, RollingUpdate: &v1beta1.RollingUpdateCloneSet{PodUpdatePolicy: v1beta1.ReCreate},
				}
			},
			want: func(s *v1alpha1.CloneSetUpdateStrategy) {
				*s = v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.ReCreate}
			},
		},
		{
			name: "keys without effect survive an edit beside them", in: specKeys,
			edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy.GracePeriodSeconds = 5
			},
			want: func(s *v1alpha1.CloneSetUpdateStrategy) { s.InPlaceUpdateStrategy.GracePeriodSeconds = 5 },
		},
		{
			name: "keys without effect go with the object they are in", in: specKeys,
			edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = nil
			},
			want: func(s *v1alpha1.CloneSetUpdateStrategy) { s.InPlaceUpdateStrategy = nil },
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			stored := toBeta(t, tc.in)
			if _, ok := stored.Annotations[apps.AnnotationV1alpha1Only]; !ok {
				t.Fatal("nothing kept")
			}
			tc.edit(stored)
			want := tc.in.Spec.UpdateStrategy.DeepCopy()
			tc.want(want)
			if diff := cmp.Diff(*want, toAlpha(t, stored).Spec.UpdateStrategy); diff != "" {
				t.Errorf("updateStrategy (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEditedAnnotationWins: the note says that a field was absent, but a user has changed the annotation for the
// field in v1alpha1. The user's value counts.
func TestEditedAnnotationWins(t *testing.T) {
	stored := &v1beta1.CloneSet{}
	stored.Annotations = map[string]string{apps.AnnotationImagePreDownloadTimeoutSeconds: "60"}
	stored.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{
		Type: v1beta1.RollingUpdate, RollingUpdate: &v1beta1.RollingUpdateCloneSet{PodUpdatePolicy: v1beta1.ReCreate},
	}
	shown := toAlpha(t, stored)
	shown.Annotations[apps.AnnotationImagePreDownloadTimeoutSeconds] = "61"
	got := toBeta(t, shown)
	want := &pub.InPlaceUpdateStrategy{ImagePreDownloadTimeoutSeconds: ptr[int32](61)}
	if diff := cmp.Diff(want, got.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy); diff != "" {
		t.Errorf("inPlaceUpdateStrategy (-want +got):\n%s", diff)
	}
}

// TestReservedKeys puts the note of each version on an object of the other version. Conversion must remove the note.
func TestReservedKeys(t *testing.T) {
	const kept = `{"when":["ReCreate"],"fields":[{"path":["spec","scaleStrategy","disablePVCReuse"],"kept":true}]}`
	alpha := &v1alpha1.CloneSet{}
	alpha.Annotations = map[string]string{apps.AnnotationV1alpha1Only: kept}
	alpha.Spec.UpdateStrategy.Type = v1alpha1.ReCreate
	stored := toBeta(t, alpha)
	if stored.Annotations != nil {
		t.Errorf("on v1beta1: %v", stored.Annotations)
	}
	stored.Annotations = map[string]string{apps.AnnotationV1beta1Only: kept}
	if shown := toAlpha(t, stored); shown.Annotations != nil {
		t.Errorf("on v1alpha1: %v", shown.Annotations)
	}
}

func TestJSONKeepsUnknownFields(t *testing.T) {
	const object = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet",` +
		`"metadata":{"name":"web","creationTimestamp":null,"future":1},"spec":{"selector":{},` +
		`"template":{"metadata":{"creationTimestamp":null},"spec":{"future":{"b":1.0,"a":[null]}}},` +
		`"volumeClaimTemplates":[{"future":true}]},"status":{"availableReplicas":0,"readyReplicas":0,"replicas":0,` +
		`"updatedReadyReplicas":0,"updatedReplicas":0}}`
	alpha, err := conversion.JSON([]byte(object), "apps.kruise.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	beta, err := conversion.JSON(alpha, "apps.kruise.io/v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := errors.Join(json.Unmarshal([]byte(object), &want), json.Unmarshal(beta, &got)); err != nil {
		t.Fatal(err)
	}
	for _, strategy := range []string{"scaleStrategy", "updateStrategy"} {
		want["spec"].(map[string]any)[strategy] = map[string]any{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSONRefuses(t *testing.T) {
	for object, version := range map[string]string{
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet"}`: "apps.kruise.io/v2",
		`{"apiVersion":"apps.kruise.io/v2","kind":"CloneSet"}`:      "apps.kruise.io/v1beta1",
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"Other"}`:    "apps.kruise.io/v1alpha1",
	} {
		if _, err := conversion.JSON([]byte(object), version); !errors.Is(err, conversion.ErrUnknown) {
			t.Errorf("JSON(%s, %s) = %v, want ErrUnknown", object, version, err)
		}
	}
	for _, object := range []string{
		``, `[]`, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","spec":[]}`,
		`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","spec":{"updateStrategy":"x"}}`,
	} {
		if _, err := conversion.JSON([]byte(object), "apps.kruise.io/v1alpha1"); err == nil {
			t.Errorf("JSON(%s) succeeded", object)
		}
	}
	const nulls = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":null,"spec":null}`
	if _, err := conversion.JSON([]byte(nulls), "apps.kruise.io/v1alpha1"); err != nil {
		t.Errorf("JSON(%s) = %v", nulls, err)
	}
}

// TestHostile converts unusual objects that the API server can store. No conversion may fail, or return an object
// that the API server would refuse.
func TestHostile(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	deep := strings.Repeat("[", 9_900) + strings.Repeat("]", 9_900)
	for name, object := range map[string]string{
		"a key in another case in the template":      `{"spec":{"template":{"spec":{"containers":[]},"SPEC":5}}}`,
		"a key in another case in a container":       `{"spec":{"template":{"spec":{"containers":[{"name":"c","Ports":"x"}]}}}}`,
		"a key in another case in a claim":           `{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"x"},"SPEC":3}]}}`,
		"a key in another case in the spec":          `{"spec":{"Template":5,"UpdateStrategy":6},"STATUS":7}`,
		"a template that is a number":                `{"spec":{"template":5}}`,
		"a claim that is a number":                   `{"spec":{"volumeClaimTemplates":[7]}}`,
		"a quantity that is none":                    `{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"oops"}}}]}}}}`,
		"a quantity that takes minutes to read":      `{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e-200000000"}}}]}}}}`,
		"a deep template":                            `{"spec":{"template":` + deep + `}}`,
		"settings of OnDelete larger than the note":  `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"paused":true,"scatterStrategy":[{"key":"a","value":"` + long + `"}]}}}}`,
		"annotations that leave no room":             `{"metadata":{"annotations":{"a":"` + long[:262_100] + `"}},"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"paused":true}}}}`,
		"annotations that leave no room for a field": `{"metadata":{"annotations":{"a":"` + long[:262_100] + `"}},"spec":{"updateStrategy":{"rollingUpdate":{"inPlaceUpdateStrategy":{"imagePreDownloadTimeoutSeconds":5}}}}}`,
		"numbers that no Go type takes":              `{"spec":{"scaleStrategy":{"maxUnavailable":3000000000},"updateStrategy":{"partition":-3000000000,"rollingUpdate":{"maxSurge":1e30}}}}`,
		"times that no Go type takes":                `{"spec":{},"status":{"conditions":[{"lastUpdateTime":"2026-01-01t00:00:00z"}]}}`,
		"a note that restores an invalid label":      noted(`{"path":["metadata","labels","bad key!"],"kept":"x"}`),
		"a note that restores an invalid value":      noted(`{"path":["metadata","labels","apps.kruise.io/cloneset-scaling-exclude-preparing-delete"],"kept":"not valid!"}`),
		"a note that restores somebody's label":      noted(`{"path":["metadata","labels","app"],"kept":"x"}`),
		"a note that restores somebody's annotation": noted(`{"path":["metadata","annotations","a"],"kept":"x"}`),
		"a note that restores labels that are none":  noted(`{"path":["metadata","labels"],"shown":{},"kept":5}`),
		"a note that restores a template":            noted(`{"path":["spec","template"],"kept":5}`),
		"a note with keys in another case":           noted(`{"path":["spec","updateStrategy","PARTITION"],"kept":[]}`),
	} {
		for from, to := range map[string]string{"v1beta1": "v1alpha1", "v1alpha1": "v1beta1"} {
			t.Run(from+" "+name, func(t *testing.T) {
				head := `{"apiVersion":"apps.kruise.io/` + from + `","kind":"CloneSet",`
				there, err := conversion.JSON([]byte(head+strings.TrimPrefix(object, "{")), "apps.kruise.io/"+to)
				if err != nil {
					t.Fatal(err)
				}
				stored(t, there)
				back, err := conversion.JSON(there, "apps.kruise.io/"+from)
				if err != nil {
					t.Fatal(err)
				}
				stored(t, back)
				var was, is struct{ Spec map[string]json.RawMessage }
				if err := errors.Join(json.Unmarshal([]byte(object), &was), json.Unmarshal(back, &is)); err != nil {
					t.Fatal(err)
				}
				for _, key := range []string{"template", "volumeClaimTemplates"} {
					if diff := cmp.Diff(string(was.Spec[key]), string(is.Spec[key])); diff != "" {
						t.Errorf("%s (-want +got):\n%s", key, diff)
					}
				}
			})
		}
	}
}

// noted returns an object of each version, with a note that a user has written.
func noted(field string) string {
	note, err := json.Marshal(`{"when":["RollingUpdate","ReCreate"],"fields":[` + field + `]}`)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s,%q:%s}},"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate"}}}}`,
		apps.AnnotationV1alpha1Only, note, apps.AnnotationV1beta1Only, note)
}

// stored makes the checks that the API server makes of a converted object.
func stored(t *testing.T, object []byte) {
	t.Helper()
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &meta); err != nil {
		t.Fatal(err)
	}
	errs := metav1validation.ValidateLabels(meta.Labels, field.NewPath("labels"))
	for _, err := range append(errs, apivalidation.ValidateAnnotations(meta.Annotations, field.NewPath("annotations"))...) {
		t.Error(err)
	}
}

// TestCheck: Check refuses an object if the values to keep do not fit into the annotation on the converted object.
func TestCheck(t *testing.T) {
	onDelete := func(filling string, annotation int) string {
		return `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"annotations":{"a":"` + strings.Repeat("x", annotation) + `"}},` +
			`"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"scatterStrategy":[{"key":"a","value":"` + filling + `"}]}}}}`
	}
	images := func(annotation int) string {
		return `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"annotations":{"a":"` + strings.Repeat("x", annotation) + `"}},` +
			`"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"inPlaceUpdateStrategy":{"imagePreDownloadTimeoutSeconds":5}}}}}`
	}
	for _, tc := range []struct {
		name, object string
		want         []string
	}{
		{"little", onDelete("x", 1), nil},
		{"much, with room", onDelete(strings.Repeat("x", 200_000), 1), nil},
		{"too much", onDelete(strings.Repeat("x", 300_000), 1), []string{"spec.updateStrategy"}},
		{"too much beside other annotations", onDelete(strings.Repeat("x", 100_000), 200_000), []string{"spec.updateStrategy"}},
		{"no room for the annotation of a field", images(262_100), []string{"spec.updateStrategy"}},
		{"room for the annotation of a field", images(200_000), nil},
		{"v1alpha1", `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","spec":{"updateStrategy":{"type":"OnDelete","paused":true}}}`, nil},
		{"no version", `{}`, []string{"spec"}},
		{"nothing", ``, []string{"spec"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range conversion.Check([]byte(tc.object)) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
