package daemonset_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kinds/daemonset"
)

type tree = admissiontest.Tree

// served returns a server with the webhooks for DaemonSets.
func served(options admission.Options) admissiontest.Server {
	return admissiontest.Server(admission.Handlers(options, daemonset.Row().Admission(options)))
}

// small returns the smallest valid object, with additional lines of spec.
func small(t testing.TB, version string, more ...string) tree {
	t.Helper()
	return admissiontest.Load(t, "testdata/small.yaml", version, more...)
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
		{name: "V-1 v1beta1, D-31 without the template", object: small(t, "v1beta1"), want: defaults},
		{name: "V-5 v1alpha1", object: small(t, "v1alpha1"), want: defaults},
		{
			name: "V-1 OnDelete", object: small(t, "v1beta1", "  updateStrategy: {type: OnDelete}"), want: scalar,
		},
		{
			name: "D-30 Surging", object: small(t, "v1alpha1", "  updateStrategy: {rollingUpdate: {rollingUpdateType: Surging}}"),
			want: map[string]any{
				"/spec/burstReplicas": 250.0, "/spec/revisionHistoryLimit": 10.0,
				"/spec/updateStrategy/type":                            "RollingUpdate",
				"/spec/updateStrategy/rollingUpdate/rollingUpdateType": "Standard",
				"/spec/updateStrategy/rollingUpdate/maxSurge":          1.0,
				"/spec/updateStrategy/rollingUpdate/maxUnavailable":    0.0,
			},
		},
		{
			name:   "V-44 the annotation of v1alpha1 stays, and is no field there",
			object: admissiontest.Edit(t, small(t, "v1alpha1"), "/metadata/annotations", tree{apps.AnnotationProgressiveCreate: "true"}),
			want:   defaults,
		},
		{
			name: "V-44 what v1beta1 alone can say is kept", want: scalar,
			object: admissiontest.Edit(t, small(t, "v1alpha1", "  updateStrategy: {type: OnDelete}"), "/metadata/annotations", note),
		},
		{
			name: "an update", object: small(t, "v1beta1"), old: small(t, "v1beta1"), want: defaults,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := served(admission.Options{})
			_, got := admissiontest.Patch(t, tt.object, server.Mutate(t, tt.object, tt.old))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			result := server.Defaulted(t, tt.object, tt.old)
			if got := admissiontest.Answered(server.Validate(t, result, tt.old)); got.Code != 0 {
				t.Errorf("refused: %+v", got)
			}
		})
	}
}

func TestValidateDaemonSet(t *testing.T) {
	complete := func(version string, more ...string) tree {
		return served(admission.Options{}).Defaulted(t, small(t, version, more...), nil)
	}
	const zero = "spec.updateStrategy.rollingUpdate.maxUnavailable: FieldValueRequired: Required value: must be at least 1 or 1% when maxSurge is 0"
	none := "  updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 0%}}"
	broken := admissiontest.Edit(t, complete("v1beta1"), "/spec/burstReplicas", "5")
	tests := []struct {
		name        string
		object, old tree
		want        admissiontest.Answer
	}{
		{name: "v1beta1", object: complete("v1beta1")},
		{name: "v1alpha1", object: complete("v1alpha1")},
		{name: "V-19, V-20 a creation", object: complete("v1beta1", none), want: admissiontest.Invalid(zero)},
		{name: "V-19, V-20 a creation in v1alpha1", object: complete("v1alpha1", none), want: admissiontest.Invalid(zero)},
		{name: "V-19, V-20 an update", object: complete("v1beta1", none), old: complete("v1beta1"), want: admissiontest.Invalid(zero)},
		{name: "V-19 an update of what is stored so", object: admissiontest.Edit(t, complete("v1beta1", none), "/spec/minReadySeconds", 5.0), old: complete("v1beta1", none)},
		{
			name: "V-16 a number in quotes", object: broken,
			want: admissiontest.Invalid(`spec.burstReplicas: FieldValueInvalid: Invalid value: "5": no % sign; use an integer of at least 0, or a whole percentage such as "30%"`),
		},
		{
			name: "V-10 the selector", old: complete("v1beta1"),
			object: admissiontest.Edit(t, admissiontest.Edit(t, complete("v1beta1"), "/spec/selector/matchLabels/more", "a"), "/spec/template/metadata/labels/more", "a"),
			want: admissiontest.Invalid("spec: FieldValueForbidden: Forbidden: selector cannot change; updates may change only template, scaleStrategy, " +
				"updateStrategy, lifecycle, burstReplicas, minReadySeconds and revisionHistoryLimit"),
		},
		{
			name: "V-12 the name", object: admissiontest.Edit(t, complete("v1beta1"), "/metadata/name", "a.b-c.d"),
		},
		{
			name: "4.1 Surging with a budget", object: admissiontest.Edit(t, small(t, "v1alpha1", "  updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: Surging, maxUnavailable: 1}}"), "/spec/burstReplicas", 1.0),
			want: admissiontest.Invalid(`spec.updateStrategy.rollingUpdate.maxUnavailable: FieldValueInvalid: Invalid value: "1": must be 0 with Surging; use Standard`),
		},
		{
			name: "a field that cannot be decoded", object: admissiontest.Edit(t, complete("v1beta1"), "/spec/burstReplicas", 3e9),
			want: admissiontest.Invalid("spec.burstReplicas: FieldValueTypeInvalid: Invalid value: is 3000000000, must be an integer of at most 32 bits, or text such as \"5%\""),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := admissiontest.Answered(served(admission.Options{}).Validate(t, tt.object, tt.old))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDaemonSetsAreDeleted: a DaemonSet can be deleted even if the DaemonSet has the label for deletion protection.
func TestDaemonSetsAreDeleted(t *testing.T) {
	object := admissiontest.Edit(t, small(t, "v1beta1"), "/metadata/labels", tree{apps.LabelDeleteProtection: apps.DeleteProtectionAlways})
	options := admission.Options{Gates: map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true}}
	if got := admissiontest.Answered(served(options).Validate(t, nil, object)); got.Code != 0 {
		t.Errorf("refused: %+v", got)
	}
}

// TestDaemonSetTemplatesAreJudged: the API server validates the templates, and the errors name the fields of the
// DaemonSet.
func TestDaemonSetTemplatesAreJudged(t *testing.T) {
	judge := interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "x", field.ErrorList{
			field.Required(field.NewPath("template", "spec", "containers").Index(0).Child("image"), ""),
		})
	}}
	server := served(admission.Options{Client: fake.NewClientBuilder().WithInterceptorFuncs(judge).Build()})
	object := server.Defaulted(t, small(t, "v1beta1"), nil)
	want := admissiontest.Invalid("spec.template.spec.containers[0].image: FieldValueRequired: Required value")
	if diff := cmp.Diff(want, admissiontest.Answered(server.Validate(t, object, nil))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	next := admissiontest.Edit(t, object, "/spec/minReadySeconds", 5.0)
	if got := admissiontest.Answered(server.Validate(t, next, object)); got.Code != 0 {
		t.Errorf("the same template is judged again: %+v", got)
	}
}

func TestConvertDaemonSet(t *testing.T) {
	object := admissiontest.Edit(t, small(t, "v1beta1"), "/status", tree{"updateRevision": "abc"})
	objects, _ := served(admission.Options{}).Convert(t, "v1", "apps.kruise.io/v1alpha1", object)["convertedObjects"].([]any)
	if len(objects) != 1 {
		t.Fatalf("converted to %v", objects)
	}
	converted := objects[0].(tree)
	if diff := cmp.Diff(tree{"daemonSetHash": "abc"}, converted["status"]); diff != "" || converted["apiVersion"] != "apps.kruise.io/v1alpha1" {
		t.Errorf("status of %v (-want +got):\n%s", converted["apiVersion"], diff)
	}
}

// TestWarnOfCrowdedSurge: the webhook returns a single warning if maxSurge asks for a second Pod on each Node, and
// the template, for example by a host port, allows only one Pod on a Node.
func TestWarnOfCrowdedSurge(t *testing.T) {
	crowded := func(more ...string) tree {
		object := small(t, "v1beta1", append(more, "  updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: Standard, maxSurge: 1, maxUnavailable: 0}}")...)
		containers := object["spec"].(tree)["template"].(tree)["spec"].(tree)["containers"].([]any)
		containers[0].(tree)["ports"] = []any{tree{"containerPort": 80.0, "hostPort": 8080.0}}
		return object
	}
	plain := small(t, "v1beta1", "  updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: Standard, maxSurge: 0, maxUnavailable: 1}}")
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
			response := served(admission.Options{}).Validate(t, tc.object, tc.old)
			if !response.Allowed || len(response.Warnings) != tc.want {
				t.Fatalf("allowed %t (%v), warnings %q", response.Allowed, response.Result, response.Warnings)
			}
			if tc.want > 0 && !strings.Contains(response.Warnings[0], "spec.template.spec.containers[0].ports[0].hostPort") {
				t.Errorf("warnings %q do not name the port", response.Warnings)
			}
		})
	}
}
