package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kinds/cloneset"
)

// The example serves every path on a server, and asks for the defaults of an object as the API server would.
func ExampleHandlers() {
	mux := http.NewServeMux()
	options := admission.Options{Gates: map[apps.Gate]bool{apps.GateTemplateNoDefaults: true}}
	for path, handler := range admission.Handlers(options, cloneset.Row().Admission(options)) {
		mux.Handle(path, handler)
	}
	r := httptest.NewRequest(http.MethodPost, "/mutate-apps-kruise-io-cloneset", strings.NewReader(`{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": {
			"uid": "1", "operation": "CREATE", "kind": {"group": "apps.kruise.io", "version": "v1alpha1", "kind": "CloneSet"},
			"object": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "spec": {"replicas": 3, "updateStrategy": {"partition": "80%"}}}
		}
	}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)

	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.ReplaceAll(string(review.Response.Patch), "},{", "},\n {"))
	// Output:
	// [{"op":"add","path":"/spec/revisionHistoryLimit","value":10},
	//  {"op":"add","path":"/spec/updateStrategy/maxSurge","value":0},
	//  {"op":"add","path":"/spec/updateStrategy/maxUnavailable","value":"20%"},
	//  {"op":"add","path":"/spec/updateStrategy/type","value":"ReCreate"}]
}
