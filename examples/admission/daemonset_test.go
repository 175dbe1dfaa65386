package admission_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// smallDaemonSet is the smallest valid DaemonSet in a version, with more lines of spec.
func smallDaemonSet(version string, more ...string) string {
	return strings.ReplaceAll(small(version, more...), "kind: CloneSet", "kind: DaemonSet")
}

// reviewDaemonSet asks for the mutation or validation of a DaemonSet.
func reviewDaemonSet(t *testing.T, options admission.Options, verb string, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	handlers := admission.Handlers(options, endpointOf("CloneSet", options), endpointOf("DaemonSet", options))
	sent := admissionv1.AdmissionReview{Request: req}
	sent.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	code, body := ask(t, handlers["/"+verb+"-apps-kruise-io-daemonset"], encode(t, sent))
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &got); err != nil || code != http.StatusOK || got.Response == nil {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	return got.Response
}

func TestMutateDaemonSet(t *testing.T) {
	defaults := map[string]any{
		"/spec/burstReplicas": 250.0, "/spec/revisionHistoryLimit": 10.0,
		"/spec/updateStrategy": tree{
			"type": "RollingUpdate", "rollingUpdate": tree{"rollingUpdateType": "Standard", "maxUnavailable": 1.0, "maxSurge": 0.0},
		},
	}
	scalar := map[string]any{"/spec/burstReplicas": 250.0, "/spec/revisionHistoryLimit": 10.0}
	note := tree{apps.AnnotationV1beta1Only: `{"when":["OnDelete"],"fields":[{"path":["spec","scaleStrategy"],"kept":{}}]}`}
	tests := []struct {
		name        string
		object, old tree
		want        map[string]any
	}{
		{name: "V-1 v1beta1, D-31 without the template", object: manifest(t, smallDaemonSet("v1beta1")), want: defaults},
		{name: "V-5 v1alpha1", object: manifest(t, smallDaemonSet("v1alpha1")), want: defaults},
		{
			name: "V-1 OnDelete", object: manifest(t, smallDaemonSet("v1beta1", "  updateStrategy: {type: OnDelete}")), want: scalar,
		},
		{
			name: "D-30 Surging", object: manifest(t, smallDaemonSet("v1alpha1", "  updateStrategy: {rollingUpdate: {rollingUpdateType: Surging}}")),
			want: with(scalar, map[string]any{
				"/spec/updateStrategy/type":                            "RollingUpdate",
				"/spec/updateStrategy/rollingUpdate/rollingUpdateType": "Standard",
				"/spec/updateStrategy/rollingUpdate/maxSurge":          1.0,
				"/spec/updateStrategy/rollingUpdate/maxUnavailable":    0.0,
			}),
		},
		{
			name:   "V-44 the annotation of v1alpha1 stays, and is no field there",
			object: edit(t, manifest(t, smallDaemonSet("v1alpha1")), "/metadata/annotations", tree{apps.AnnotationProgressiveCreate: "true"}),
			want:   defaults,
		},
		{
			name: "V-44 what v1beta1 alone can say is kept", want: scalar,
			object: edit(t, manifest(t, smallDaemonSet("v1alpha1", "  updateStrategy: {type: OnDelete}")), "/metadata/annotations", note),
		},
		{
			name: "an update", object: manifest(t, smallDaemonSet("v1beta1")), old: manifest(t, smallDaemonSet("v1beta1")), want: defaults,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			operation := admissionv1.Create
			if tt.old != nil {
				operation = admissionv1.Update
			}
			patch := steps(t, reviewDaemonSet(t, admission.Options{}, "mutate", request(t, operation, tt.object, tt.old)))
			if diff := cmp.Diff(tt.want, added(t, patch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			result := apply(t, tt.object, patch)
			if again := steps(t, reviewDaemonSet(t, admission.Options{}, "mutate", request(t, operation, result, tt.old))); len(again) > 0 {
				t.Errorf("defaulted again: %v", again)
			}
			if got := answered(reviewDaemonSet(t, admission.Options{}, "validate", request(t, operation, result, tt.old))); got.Code != 0 {
				t.Errorf("refused: %+v", got)
			}
		})
	}
}

func TestValidateDaemonSet(t *testing.T) {
	complete := func(version string, more ...string) tree {
		object := manifest(t, smallDaemonSet(version, more...))
		return apply(t, object, steps(t, reviewDaemonSet(t, admission.Options{}, "mutate", request(t, admissionv1.Create, object, nil))))
	}
	const zero = "spec.updateStrategy.rollingUpdate.maxUnavailable: FieldValueRequired: Required value: must be at least 1 or 1% when maxSurge is 0"
	none := "  updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 0%}}"
	broken := edit(t, complete("v1beta1"), "/spec/burstReplicas", "5")
	tests := []struct {
		name        string
		object, old tree
		want        answer
	}{
		{name: "v1beta1", object: complete("v1beta1")},
		{name: "v1alpha1", object: complete("v1alpha1")},
		{name: "V-19, V-20 a creation", object: complete("v1beta1", none), want: invalid(zero)},
		{name: "V-19, V-20 a creation in v1alpha1", object: complete("v1alpha1", none), want: invalid(zero)},
		{name: "V-19, V-20 an update", object: complete("v1beta1", none), old: complete("v1beta1"), want: invalid(zero)},
		{name: "V-19 an update of what is stored so", object: edit(t, complete("v1beta1", none), "/spec/minReadySeconds", 5.0), old: complete("v1beta1", none)},
		{
			name: "V-16 a number in quotes", object: broken,
			want: invalid(`spec.burstReplicas: FieldValueInvalid: Invalid value: "5": no % sign; use an integer of at least 0, or a whole percentage such as "30%"`),
		},
		{
			name: "V-10 the selector", old: complete("v1beta1"),
			object: edit(t, edit(t, complete("v1beta1"), "/spec/selector/matchLabels/more", "a"), "/spec/template/metadata/labels/more", "a"),
			want: invalid("spec: FieldValueForbidden: Forbidden: selector cannot change; updates may change only template, scaleStrategy, " +
				"updateStrategy, lifecycle, burstReplicas, minReadySeconds and revisionHistoryLimit"),
		},
		{
			name: "V-12 the name", object: edit(t, complete("v1beta1"), "/metadata/name", "a.b-c.d"),
		},
		{
			name: "4.1 Surging with a budget", object: edit(t, manifest(t, smallDaemonSet("v1alpha1",
				"  updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: Surging, maxUnavailable: 1}}")), "/spec/burstReplicas", 1.0),
			want: invalid(`spec.updateStrategy.rollingUpdate.maxUnavailable: FieldValueInvalid: Invalid value: "1": must be 0 with Surging; use Standard`),
		},
		{
			name: "a field that cannot be decoded", object: edit(t, complete("v1beta1"), "/spec/burstReplicas", 3e9),
			want: invalid("spec.burstReplicas: FieldValueTypeInvalid: Invalid value: is 3000000000, must be an integer of at most 32 bits, or text such as \"5%\""),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			operation := admissionv1.Create
			if tt.old != nil {
				operation = admissionv1.Update
			}
			got := answered(reviewDaemonSet(t, admission.Options{}, "validate", request(t, operation, tt.object, tt.old)))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDaemonSetsAreDeleted: V-30 does not cover DaemonSets.
func TestDaemonSetsAreDeleted(t *testing.T) {
	object := edit(t, manifest(t, smallDaemonSet("v1beta1")), "/metadata/labels", tree{apps.LabelDeleteProtection: apps.DeleteProtectionAlways})
	options := admission.Options{Gates: map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true}}
	if got := answered(reviewDaemonSet(t, options, "validate", request(t, admissionv1.Delete, nil, object))); got.Code != 0 {
		t.Errorf("refused: %+v", got)
	}
}

// TestDaemonSetTemplatesAreJudged: the API server judges the templates, and its messages name the fields of the
// DaemonSet.
func TestDaemonSetTemplatesAreJudged(t *testing.T) {
	api := &judge{answer: func(*corev1.PodTemplate) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "x", field.ErrorList{
			field.Required(field.NewPath("template", "spec", "containers").Index(0).Child("image"), ""),
		})
	}}
	options := admission.Options{Client: api}
	object := manifest(t, smallDaemonSet("v1beta1"))
	object = apply(t, object, steps(t, reviewDaemonSet(t, options, "mutate", request(t, admissionv1.Create, object, nil))))
	want := invalid("spec.template.spec.containers[0].image: FieldValueRequired: Required value")
	if diff := cmp.Diff(want, answered(reviewDaemonSet(t, options, "validate", request(t, admissionv1.Create, object, nil)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	next := edit(t, object, "/spec/minReadySeconds", 5.0)
	if got := answered(reviewDaemonSet(t, options, "validate", request(t, admissionv1.Update, next, object))); got.Code != 0 {
		t.Errorf("the same template is judged again: %+v", got)
	}
}

func TestConvertDaemonSet(t *testing.T) {
	options := admission.Options{}
	handlers := admission.Handlers(options, endpointOf("CloneSet", options), endpointOf("DaemonSet", options))
	object := edit(t, manifest(t, smallDaemonSet("v1beta1")), "/status", tree{"updateRevision": "abc"})
	code, body := ask(t, handlers[admission.ConvertPath], encode(t, tree{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
		"request": tree{"uid": "1", "desiredAPIVersion": "apps.kruise.io/v1alpha1", "objects": []any{object}},
	}))
	var got struct {
		Response struct{ ConvertedObjects []tree }
	}
	if err := json.Unmarshal(body, &got); err != nil || code != http.StatusOK || len(got.Response.ConvertedObjects) != 1 {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	converted := got.Response.ConvertedObjects[0]
	if diff := cmp.Diff(tree{"daemonSetHash": "abc"}, converted["status"]); diff != "" || converted["apiVersion"] != "apps.kruise.io/v1alpha1" {
		t.Errorf("status of %v (-want +got):\n%s", converted["apiVersion"], diff)
	}
}

// TestWarnOfCrowdedSurge: a single warning tells a user who asks for a second Pod on a Node with room for a single Pod.
func TestWarnOfCrowdedSurge(t *testing.T) {
	crowded := func(more ...string) tree {
		object := manifest(t, smallDaemonSet("v1beta1", append(more, "  updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: Standard, maxSurge: 1, maxUnavailable: 0}}")...))
		containers := object["spec"].(tree)["template"].(tree)["spec"].(tree)["containers"].([]any)
		containers[0].(tree)["ports"] = []any{tree{"containerPort": 80.0, "hostPort": 8080.0}}
		return object
	}
	plain := manifest(t, smallDaemonSet("v1beta1", "  updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: Standard, maxSurge: 0, maxUnavailable: 1}}"))
	for _, tc := range []struct {
		name        string
		object, old tree
		want        int
	}{
		{"created", crowded(), nil, 1},
		{"written again", crowded("  minReadySeconds: 5"), crowded(), 0},
		{"surge is asked for now", crowded(), plain, 1},
		{"no surge", plain, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operation := admissionv1.Create
			if tc.old != nil {
				operation = admissionv1.Update
			}
			response := reviewDaemonSet(t, admission.Options{}, "validate", request(t, operation, tc.object, tc.old))
			if !response.Allowed || len(response.Warnings) != tc.want {
				t.Fatalf("allowed %t (%v), warnings %q", response.Allowed, response.Result, response.Warnings)
			}
			if tc.want > 0 && !strings.Contains(response.Warnings[0], "spec.template.spec.containers[0].ports[0].hostPort") {
				t.Errorf("warnings %q do not name the port", response.Warnings)
			}
		})
	}
}
