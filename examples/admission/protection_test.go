package admission_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// protectionOn returns options with the feature gates on, and a Reader whose lists fail.
func protectionOn() admission.Options {
	broken := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("no answer")
	}}
	return admission.Options{
		Gates:  map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true, apps.GateDeletionProtectionForCRDCascading: true},
		Reader: fake.NewClientBuilder().WithInterceptorFuncs(broken).Build(),
	}
}

func TestProtection(t *testing.T) {
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {policy.kruise.io/delete-protection: LABEL}}, spec: {replicas: N}}`
	deploymentWith := func(label, replicas string) string {
		return strings.NewReplacer("LABEL", label, "N}", replicas+"}").Replace(deployment)
	}
	simple := func(apiVersion, kind, label string) string {
		return `{apiVersion: ` + apiVersion + `, kind: ` + kind + `, metadata: {name: web, labels: {policy.kruise.io/delete-protection: ` + label + `}}}`
	}
	for _, tc := range []struct {
		name, path, object string
		edit               func(*admissionv1.AdmissionRequest)
		off                apps.Gate
		code               int32 // 0 for allowed
		says               string
	}{
		{name: "DP-3 DP-4 Always", path: admission.ValidateDeploymentPath, object: deploymentWith("Always", "0"), code: http.StatusForbidden, says: "forbidden by ResourcesProtectionDeletion: the label policy.kruise.io/delete-protection=Always"},
		{name: "DP-3 DP-6 replicas", path: admission.ValidateDeploymentPath, object: deploymentWith("Cascading", "3"), code: http.StatusForbidden, says: "Cascading protects it while it holds anything, and it has 3 replicas (>0)"},
		{name: "DP-6 no replicas", path: admission.ValidateDeploymentPath, object: deploymentWith("Cascading", "0")},
		{name: "DP-6 replicas that nobody has set", path: admission.ValidateDeploymentPath, object: deploymentWith("Cascading", "null")},
		{name: "4.1 another value", path: admission.ValidateDeploymentPath, object: deploymentWith("always", "3")},
		{name: "4.1 no label", path: admission.ValidateDeploymentPath, object: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3}}`},
		{name: "DP-1 gate off", path: admission.ValidateDeploymentPath, object: deploymentWith("Always", "3"), off: apps.GateResourcesDeletionProtection},
		{name: "DP-2 it is being deleted", path: admission.ValidateDeploymentPath, object: strings.Replace(deploymentWith("Always", "3"), "name: web,", `name: web, deletionTimestamp: "2026-01-01T00:00:00Z",`, 1)},
		{name: "DP-2 another operation", path: admission.ValidateDeploymentPath, object: deploymentWith("Always", "3"), edit: func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }},
		{name: "DP-2 a subresource", path: admission.ValidateDeploymentPath, object: deploymentWith("Always", "3"), edit: func(r *admissionv1.AdmissionRequest) { r.SubResource = "scale" }},
		{name: "DP-2 no old object", path: admission.ValidateDeploymentPath, object: deploymentWith("Always", "3"), edit: func(r *admissionv1.AdmissionRequest) { r.OldObject.Raw = nil }},
		{name: "DP-8 dry run", path: admission.ValidateDeploymentPath, object: deploymentWith("Always", "3"), edit: func(r *admissionv1.AdmissionRequest) { r.DryRun = new(true) }, code: http.StatusForbidden},
		{name: "ReplicaSet", path: admission.ValidateReplicaSetPath, object: strings.Replace(deploymentWith("Cascading", "1"), "kind: Deployment", "kind: ReplicaSet", 1), code: http.StatusForbidden, says: "1 replicas"},
		{name: "StatefulSet", path: admission.ValidateStatefulSetPath, object: strings.Replace(deploymentWith("Cascading", "1"), "kind: Deployment", "kind: StatefulSet", 1), code: http.StatusForbidden, says: "1 replicas"},
		{name: "4.1 Service, Always", path: admission.ValidateServicePath, object: simple("v1", "Service", "Always"), code: http.StatusForbidden},
		{name: "4.1 Service, Cascading", path: admission.ValidateServicePath, object: simple("v1", "Service", "Cascading")},
		{name: "4.1 Ingress, Always", path: admission.ValidateIngressPath, object: simple("networking.k8s.io/v1", "Ingress", "Always"), code: http.StatusForbidden},
		{name: "4.1 Ingress, Cascading", path: admission.ValidateIngressPath, object: simple("networking.k8s.io/v1", "Ingress", "Cascading")},
		{name: "DP-4 Namespace", path: admission.ValidateNamespacePath, object: simple("v1", "Namespace", "Always"), code: http.StatusForbidden},
		{name: "DP-5 nobody knows what a Namespace holds", path: admission.ValidateNamespacePath, object: simple("v1", "Namespace", "Cascading"), code: http.StatusInternalServerError, says: "no answer"},
		{name: "DP-7 without the gate", path: admission.ValidateCRDPath, object: simple("apiextensions.k8s.io/v1", "CustomResourceDefinition", "Cascading"), off: apps.GateDeletionProtectionForCRDCascading, code: http.StatusForbidden, says: "DeletionProtectionForCRDCascadingGate is off"},
		{name: "DP-7 nobody knows what a CRD holds", path: admission.ValidateCRDPath, object: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: web, labels: {policy.kruise.io/delete-protection: Cascading}}, spec: {group: example.test, names: {kind: Web}, versions: [{name: v1, storage: true, served: true}]}}`, code: http.StatusInternalServerError, says: "no answer"},
		{name: "DP-7 a CRD without a version that is served", path: admission.ValidateCRDPath, object: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: web, labels: {policy.kruise.io/delete-protection: Cascading}}, spec: {group: example.test}}`, code: http.StatusInternalServerError, says: "no version"},
		{name: "a definition of what Kubernetes has itself", path: admission.ValidateCRDPath, object: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: secrets, labels: {policy.kruise.io/delete-protection: Cascading}}, spec: {group: "", names: {kind: Secret}, versions: [{name: v1, storage: true, served: true}]}}`, code: http.StatusInternalServerError, says: "spec.group"},
		{name: "an object that cannot be read", path: admission.ValidateDeploymentPath, object: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {policy.kruise.io/delete-protection: Always}}, spec: {replicas: many}}`, code: http.StatusBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var told []admission.Refusal
			options := protectionOn()
			options.Refused = func(r admission.Refusal) { told = append(told, r) }
			if tc.off != "" {
				options.Gates[tc.off] = false
			}
			object := admissiontest.Manifest(t, tc.object)
			req := admissiontest.Request(t, admissionv1.Delete, nil, object)
			req.UserInfo = authenticationv1.UserInfo{Username: "jane"}
			if tc.edit != nil {
				tc.edit(req)
			}
			response := handlersOf(options).Review(t, tc.path, req)
			code, message := int32(0), ""
			if !response.Allowed {
				code, message = response.Result.Code, response.Result.Message
			}
			if code != tc.code || !strings.Contains(message, tc.says) {
				t.Errorf("%d %q; want %d %q", code, message, tc.code, tc.says)
			}
			var want []admission.Refusal
			if tc.code == http.StatusForbidden {
				metadata, _ := object["metadata"].(tree)
				namespace, _ := metadata["namespace"].(string)
				want = []admission.Refusal{{Event: "DeletionProtection", Kind: object["kind"].(string), Namespace: namespace, Name: "web", User: "jane"}}
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("DP-9 told (-want +got):\n%s", diff)
			}
		})
	}
}

// TestContentOfCRDs: custom resources are counted in a served version, even if another version is stored. If the API
// server does not find the kind, the count is zero only if the CRD was never established.
func TestContentOfCRDs(t *testing.T) {
	for _, tc := range []struct {
		name, versions, status string
		code                   int32
	}{
		{name: "another version is stored", versions: "[{name: v1alpha1, served: true, storage: false}, {name: v1, served: false, storage: true}]", status: "{}", code: http.StatusForbidden},
		{name: "not listed, and never established", versions: "[{name: v1, served: true, storage: true}]", status: "{}"},
		{name: "not listed, and not established", versions: "[{name: v1, served: true, storage: true}]", status: `{conditions: [{type: Established, status: "False"}]}`},
		{name: "not listed, though established", versions: "[{name: v1, served: true, storage: true}]", status: `{conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]}`, code: http.StatusInternalServerError},
	} {
		t.Run("DP-7 "+tc.name, func(t *testing.T) {
			list := func(_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption) error {
				kind := into.GetObjectKind().GroupVersionKind()
				if kind.Version != "v1alpha1" {
					return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: kind.Group, Kind: "Web"}, SearchedVersions: []string{kind.Version}}
				}
				return meta.SetList(into, []runtime.Object{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "precious"}}})
			}
			options := protectionOn()
			options.Reader = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: list}).Build()
			object := admissiontest.Manifest(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: webs.example.test, labels: {policy.kruise.io/delete-protection: Cascading}},
spec: {group: example.test, names: {kind: Web}, versions: `+tc.versions+`}, status: `+tc.status+`}`)
			response := handlersOf(options).Review(t, admission.ValidateCRDPath, admissiontest.Request(t, admissionv1.Delete, nil, object))
			code := int32(0)
			if !response.Allowed {
				code = response.Result.Code
			}
			if code != tc.code {
				t.Errorf("%+v; want %d", response, tc.code)
			}
		})
	}
}
