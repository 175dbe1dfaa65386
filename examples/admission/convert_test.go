package admission_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
)

func TestConvert(t *testing.T) {
	metadata := func(name string) tree {
		return tree{
			"name": name, "namespace": "default", "uid": "uid-of-" + name, "generation": 7.0, "resourceVersion": "12",
			"creationTimestamp": "2026-07-01T10:00:00Z", "finalizers": []any{"a/b"}, "managedFields": []any{tree{"manager": "x"}},
		}
	}
	for _, reviewVersion := range []string{"v1", "v1beta1"} {
		for from, to := range map[string]string{"v1alpha1": "v1beta1", "v1beta1": "v1alpha1"} {
			t.Run(reviewVersion+" "+from+" to "+to, func(t *testing.T) {
				var objects, sent []any
				for _, name := range []string{"a", "b", "c"} {
					object := small(t, from)
					object["metadata"] = metadata(name)
					object["spec"].(tree)["template"].(tree)["future"] = tree{"of": name}
					objects, sent = append(objects, object), append(sent, metadata(name))
				}
				response := handlersOf(admission.Options{}).Convert(t, reviewVersion, "apps.kruise.io/"+to, objects...)
				if diff := cmp.Diff(tree{"status": "Success", "metadata": tree{}}, response["result"]); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				converted := response["convertedObjects"].([]any)
				var got []any
				for i := range converted {
					object := converted[i].(tree)
					if object["apiVersion"] != "apps.kruise.io/"+to || object["kind"] != "CloneSet" {
						t.Errorf("got %v", object)
					}
					template := objects[i].(tree)["spec"].(tree)["template"]
					if diff := cmp.Diff(template, object["spec"].(tree)["template"]); diff != "" {
						t.Errorf("template (-want +got):\n%s", diff)
					}
					delete(object["metadata"].(tree), "annotations") // conversion stores fields of the old version in annotations
					got = append(got, object["metadata"])
				}
				if diff := cmp.Diff(sent, got); diff != "" {
					t.Errorf("metadata, in order (-want +got):\n%s", diff)
				}
				back := handlersOf(admission.Options{}).Convert(t, reviewVersion, "apps.kruise.io/"+from, converted...)["convertedObjects"].([]any)
				for i := range back {
					want := leaves("", objects[i], map[string]any{})
					have := leaves("", back[i], map[string]any{})
					for path, value := range want {
						if diff := cmp.Diff(value, have[path]); diff != "" {
							t.Errorf("there and back, %s (-want +got):\n%s", path, diff)
						}
					}
				}
			})
		}
	}
}

func TestConvertNothing(t *testing.T) {
	response := handlersOf(admission.Options{}).Convert(t, "v1", "apps.kruise.io/v1beta1")
	if diff := cmp.Diff([]any{}, response["convertedObjects"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestConvertParts: for server-side apply, the API server also converts objects that contain only some fields.
func TestConvertParts(t *testing.T) {
	for from, to := range map[string]string{"v1alpha1": "v1beta1", "v1beta1": "v1alpha1"} {
		for _, part := range []string{`{}`, `{"spec":null}`, `{"metadata":null}`, `{"spec":{"replicas":3}}`, `{"status":{}}`} {
			object := admissiontest.Manifest(t, part)
			object["apiVersion"], object["kind"] = "apps.kruise.io/"+from, "CloneSet"
			response := handlersOf(admission.Options{}).Convert(t, "v1", "apps.kruise.io/"+to, object)
			if response["result"].(tree)["status"] != "Success" {
				t.Errorf("%s of %s: %v", part, from, response["result"])
			}
		}
	}
}

func TestConvertFailures(t *testing.T) {
	good := small(t, "v1alpha1")
	tests := []struct {
		name, to string
		bad      any
		want     string
	}{
		{"wrong type", "apps.kruise.io/v1beta1", admissiontest.Edit(t, good, "/spec/updateStrategy", "many"), `object 2 of 3: converting CloneSet default/web from "apps.kruise.io/v1alpha1" to "apps.kruise.io/v1beta1": decoding: json`},
		{"another kind", "apps.kruise.io/v1beta1", tree{"apiVersion": "v1", "kind": "Pod", "metadata": tree{"name": "p", "namespace": "n"}}, `converting Pod n/p from "v1" to "apps.kruise.io/v1beta1": Pod is not converted here`},
		{"another group", "apps.kruise.io/v1beta1", admissiontest.Edit(t, good, "/apiVersion", "apps/v1"), `CloneSet.apps is not converted here`},
		{"another version", "apps.kruise.io/v1beta1", admissiontest.Edit(t, good, "/apiVersion", "apps.kruise.io/v2"), `not of a kind and version that is converted here`},
		{"no object", "apps.kruise.io/v1beta1", []any{1}, `object 2 of 3`},
		{"null", "apps.kruise.io/v1beta1", nil, `object 2 of 3`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := handlersOf(admission.Options{}).Convert(t, "v1", tt.to, good, tt.bad, good)
			result := response["result"].(tree)
			message, _ := result["message"].(string)
			if result["status"] != "Failure" || !strings.Contains(message, tt.want) {
				t.Errorf("result %v, want %s", result, tt.want)
			}
			if diff := cmp.Diff([]any{}, response["convertedObjects"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	response := handlersOf(admission.Options{}).Convert(t, "v1", "apps.kruise.io/v3", good)
	if result := response["result"].(tree); result["status"] != "Failure" || !strings.Contains(result["message"].(string), "v3") {
		t.Errorf("result %v", result)
	}
}

func TestConvertBadReviews(t *testing.T) {
	handlers := handlersOf(admission.Options{})
	for body, want := range map[string]string{
		``: "EOF", `{`: "EOF", `[]`: "cannot unmarshal", `{}`: "is not a ConversionReview",
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`:                                 "has no request",
		`{"apiVersion":"apiextensions.k8s.io/v2","kind":"ConversionReview","request":{}}`:                    "is not a ConversionReview",
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`:                         "is not a ConversionReview",
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"objects":{"a":"b"}}}`: "cannot unmarshal",
	} {
		if code, got := handlers.Ask(t, admission.ConvertPath, []byte(body)); code != http.StatusBadRequest || !strings.Contains(string(got), want) {
			t.Errorf("%s: %d %s, want %s", body, code, got, want)
		}
	}
	w := httptest.NewRecorder()
	handlers[admission.ConvertPath].ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/convert", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", w.Code)
	}
}
