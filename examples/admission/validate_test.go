package admission_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

func TestBadRequests(t *testing.T) {
	object := small(t, "v1beta1")
	change := func(f func(*admissionv1.AdmissionRequest)) []byte {
		req := admissiontest.Request(t, admissionv1.Create, object, nil)
		f(req)
		return admissiontest.Encode(t, tree{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": req})
	}
	tests := []struct {
		name string
		body []byte
		code int32
		want string
	}{
		{"nothing", nil, 400, "served here is"},
		{"no JSON", []byte("{"), 400, "unexpected end of JSON input"},
		{"another kind", []byte(`{"apiVersion":"v1","kind":"Pod"}`), 400, `served here is`},
		{"no request", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), 400, "served here is CloneSet.apps.kruise.io in v1beta1 and v1alpha1"},
		{"request null", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`), 400, "served here is"},
		{"about another kind", change(func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "DaemonSet" }), 400, `"apps.kruise.io/v1beta1, Kind=DaemonSet"`},
		{"about another version", change(func(r *admissionv1.AdmissionRequest) { r.Kind.Version = "v1" }), 400, `served here is`},
		{"no object", change(func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil }), 400, "the request has no object"},
		{"an object that is none", change(func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`[1]`) }), 400, "decoding CloneSet.apps.kruise.io"},
		{
			"a field of the wrong type", change(func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`{"spec":{"replicas":"5"}}`) }), 422,
			`CloneSet.apps.kruise.io "web" is invalid: spec.replicas: Invalid value: is text, must be an integer of at most 32 bits`,
		},
		{
			"a quantity that is none", change(func(r *admissionv1.AdmissionRequest) {
				r.Object.Raw = []byte(`{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"much"}}}]}}}}`)
			}), 422, `spec.template.spec.containers[0].resources.limits.cpu: Invalid value: "much" is no quantity, such as`,
		},
	}
	for _, path := range []string{mutatePath, validatePath} {
		for _, tt := range tests {
			t.Run(path+" "+tt.name, func(t *testing.T) {
				code, body := handlersOf(admission.Options{}).Ask(t, path, tt.body)
				var got admissionv1.AdmissionReview
				if err := json.Unmarshal(body, &got); err != nil || code != http.StatusOK || got.Response == nil || got.Response.Result == nil {
					t.Fatalf("%d %s: %v", code, body, err)
				}
				if got.Response.Allowed || got.Response.Result.Code != tt.code || !strings.Contains(got.Response.Result.Message, tt.want) {
					t.Errorf("got %+v", got.Response.Result)
				}
			})
		}
	}
}

func TestReviewsOfV1beta1(t *testing.T) {
	for _, path := range []string{mutatePath, validatePath} {
		req := admissiontest.Request(t, admissionv1.Create, handlersOf(admission.Options{}).Defaulted(t, small(t, "v1alpha1"), nil), nil)
		body := admissiontest.Encode(t, tree{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": req})
		_, answer := handlersOf(admission.Options{}).Ask(t, path, body)
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(answer, &got); err != nil {
			t.Fatal(err)
		}
		if got.APIVersion != "admission.k8s.io/v1beta1" || got.Response == nil || !got.Response.Allowed || got.Response.UID != "the-uid" {
			t.Errorf("%s: %s", path, answer)
		}
	}
}

// TestUndecodableObjectsLeave: users can remove finalizers and labels of stored objects that cannot be decoded,
// because such an update does not change the spec.
func TestUndecodableObjectsLeave(t *testing.T) {
	undecodable := func(more tree) tree {
		object := withTemplate(t, func(p, _ tree) { p["spec"].(tree)["overhead"] = tree{"cpu": "oops"} })
		maps.Copy(object["metadata"].(tree), more)
		return object
	}
	held := undecodable(tree{"finalizers": []any{"foregroundDeletion"}, "deletionTimestamp": "2026-01-01T00:00:00Z"})
	for _, tc := range []struct {
		name     string
		old, new tree
		allowed  bool
	}{
		{"a finalizer goes", held, undecodable(tree{"deletionTimestamp": "2026-01-01T00:00:00Z"}), true},
		{"a label comes", undecodable(nil), undecodable(tree{"labels": tree{"a": "b"}}), true},
		{"the spec changes", undecodable(nil), admissiontest.Edit(t, undecodable(nil), "/spec/replicas", 5), false},
		{"it is mended", undecodable(nil), withTemplate(t, func(tree, tree) {}), true},
		{"a good one is spoilt", withTemplate(t, func(tree, tree) {}), undecodable(nil), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, path := range []string{mutatePath, validatePath} {
				if got := handlersOf(admission.Options{}).Review(t, path, admissiontest.Request(t, admissionv1.Update, tc.new, tc.old)); got.Allowed != tc.allowed {
					t.Errorf("%s: allowed %v: %v", path, got.Allowed, got.Result)
				}
			}
		})
	}
	protected := map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true}
	for _, object := range []tree{undecodable(nil), undecodable(tree{"labels": tree{apps.LabelDeleteProtection: "Always"}})} {
		_, isProtected := object["metadata"].(tree)["labels"]
		got := handlersOf(admission.Options{Gates: protected}).Review(t, validatePath, admissiontest.Request(t, admissionv1.Delete, nil, object))
		if got.Allowed == isProtected {
			t.Errorf("deletion of %v: allowed %v: %v", object["metadata"], got.Allowed, got.Result)
		}
	}
}

// TestUnknownFields: an unknown field is no reason to refuse an object, but a reason for a warning.
func TestUnknownFields(t *testing.T) {
	object := func(change func(p, c tree)) tree { return withTemplate(t, change) }
	typo := func(_, c tree) { c["readinesProbe"] = tree{} }
	claims := admissiontest.Edit(t, object(func(tree, tree) {}), "/spec/volumeClaimTemplates", []any{tree{"metadata": tree{"name": "a"}, "spec": tree{"accessMode": "x"}}})
	for _, tc := range []struct {
		name     string
		old, new tree
		want     string
	}{
		{"none", nil, object(func(tree, tree) {}), ""},
		{"in a container", nil, object(typo), "unknown fields: spec.template.spec.containers[0].readinesProbe"},
		{"as it is stored", object(typo), admissiontest.Edit(t, object(typo), "/spec/replicas", 3), ""},
		{"new on update", object(func(tree, tree) {}), object(typo), "spec.template.spec.containers[0].readinesProbe"},
		{"in another case", nil, object(func(p, _ tree) { p["spec"].(tree)["RestartPolicy"] = "Always" }), "spec.template.spec.RestartPolicy"},
		{"in a claim", nil, claims, "spec.volumeClaimTemplates[0].spec.accessMode"},
		{"many", nil, object(func(p, _ tree) {
			for i := range 20 {
				p[fmt.Sprintf("f%02d", i)] = i
			}
		}), "spec.template.f00, spec.template.f01, spec.template.f02, spec.template.f03, spec.template.f04 and 15 more"},
		{"one that would break a header", nil, object(func(p, _ tree) { p["a\nb"] = 1 }), "spec.template.a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operation := admissionv1.Create
			if tc.old != nil {
				operation = admissionv1.Update
			}
			got := handlersOf(admission.Options{}).Review(t, validatePath, admissiontest.Request(t, operation, tc.new, tc.old))
			warnings := strings.Join(got.Warnings, "; ")
			if !got.Allowed || (warnings == "") != (tc.want == "") || !strings.Contains(warnings, tc.want) || strings.Contains(warnings, "\n") {
				t.Errorf("allowed %v, warnings %q, want %q: %v", got.Allowed, warnings, tc.want, got.Result)
			}
		})
	}
}
