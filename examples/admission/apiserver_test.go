package admission_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/install"
)

var (
	env       = controlplanetest.New(controlplane.Options{Nodes: controlplane.NoNodes})
	installed sync.Once
	server    *httptest.Server
)

func TestMain(m *testing.M) {
	code := env.Main(m)
	if server != nil {
		server.Close()
	}
	os.Exit(code)
}

// cluster is a test's client of an API server that calls the handlers.
type cluster struct {
	client.Client

	t         *testing.T
	cp        *controlplane.ControlPlane
	namespace string
}

func bare(t *testing.T) *cluster {
	t.Helper()
	cp := env.Start(t)
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cp.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{Client: c, t: t, cp: cp}
}

func start(t *testing.T) *cluster {
	t.Helper()
	c := bare(t)
	installed.Do(c.install)
	if server == nil {
		t.Fatal("the webhooks were not installed")
	}
	c.namespace = env.Namespace(t)
	return c
}

// install serves the handlers and installs the manifests. The webhook configurations name the test's server by URL,
// as for a manager outside the cluster.
func (c *cluster) install() {
	c.t.Helper()
	mux := http.NewServeMux()
	gates := map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true, apps.GateResourceDistribution: true, apps.GateImagePullJob: true}
	handlers := handlersOf(admission.Options{Gates: gates, Client: c})
	const requests = "/mutate-apps-kruise-io-containerrecreaterequest" // looks up existing Pods
	handlers[requests] = handlersOf(admission.Options{Reader: c})[requests]
	protecting := admission.Protection(admission.Options{Gates: map[apps.Gate]bool{
		apps.GateResourcesDeletionProtection: true, apps.GateDeletionProtectionForCRDCascading: true,
	}, Reader: c})
	for _, path := range admission.Paths(protecting) {
		handlers[path] = admission.Handlers(admission.Options{}, protecting)[path]
	}
	for path, handler := range handlers {
		mux.Handle(path, handler)
	}
	tls := httptest.NewTLSServer(mux)
	for _, install := range []func(context.Context, client.Client) error{config.InstallCRDs, config.InstallWebhooks} {
		if err := install(c.t.Context(), c); err != nil {
			c.t.Fatal(err)
		}
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw})
	for _, object := range c.configurations() {
		var patch []tree
		for path, clientConfig := range clientConfigs(object) {
			url := tls.URL + clientConfig["service"].(tree)["path"].(string)
			patch = append(patch, tree{"op": "replace", "path": path, "value": tree{"url": url, "caBundle": ca}})
		}
		if err := c.Patch(c.t.Context(), object, client.RawPatch(types.JSONPatchType, admissiontest.Encode(c.t, patch))); err != nil {
			c.t.Fatal(err)
		}
	}
	server = tls
	controlplanetest.Eventually(c.t, 20*time.Second, func(ctx context.Context) error {
		wrong := &unstructured.Unstructured{Object: small(c.t, "v1alpha1", "  minReadySeconds: -1")}
		if err := c.Create(ctx, wrong, client.DryRunAll); !apierrors.IsInvalid(err) {
			return errors.Join(errors.New("not refused"), err)
		}
		right := &unstructured.Unstructured{Object: small(c.t, "v1alpha1")}
		if err := c.Create(ctx, right, client.DryRunAll); err != nil {
			return err
		}
		if _, ok, _ := unstructured.NestedInt64(right.Object, "spec", "replicas"); !ok {
			return errors.New("not defaulted")
		}
		return nil
	})
}

// configurations returns the CRDs and both webhook configurations, unchanged.
func (c *cluster) configurations() []*unstructured.Unstructured {
	c.t.Helper()
	var objects []*unstructured.Unstructured
	for name, kind := range map[string]string{
		"advancedcronjobs.apps.kruise.io":          "apiextensions.k8s.io/v1 CustomResourceDefinition",
		"clonesets.apps.kruise.io":                 "apiextensions.k8s.io/v1 CustomResourceDefinition",
		"containerrecreaterequests.apps.kruise.io": "apiextensions.k8s.io/v1 CustomResourceDefinition",
		"statefulsets.apps.kruise.io":              "apiextensions.k8s.io/v1 CustomResourceDefinition",
		"kruise-mutating-webhook-configuration":    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration",
		"kruise-validating-webhook-configuration":  "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
	} {
		object := &unstructured.Unstructured{}
		apiVersion, kind, _ := strings.Cut(kind, " ")
		object.SetAPIVersion(apiVersion)
		object.SetKind(kind)
		if err := c.Get(c.t.Context(), client.ObjectKey{Name: name}, object); err != nil {
			c.t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// clientConfigs returns the client configs of an object, each by the path of its webhook.
func clientConfigs(object *unstructured.Unstructured) map[string]tree {
	configs := map[string]tree{}
	if clientConfig, ok, _ := unstructured.NestedMap(object.Object, "spec", "conversion", "webhook", "clientConfig"); ok {
		configs["/spec/conversion/webhook/clientConfig"] = clientConfig
	}
	webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
	for i := range webhooks { // each webhook has its own client config
		configs[fmt.Sprintf("/webhooks/%d/clientConfig", i)] = webhooks[i].(tree)["clientConfig"].(tree)
	}
	return configs
}

// get returns a CloneSet in a version.
func (c *cluster) get(version, name string) tree {
	c.t.Helper()
	return c.getKind("CloneSet", version, name)
}

func (c *cluster) getKind(kind, version, name string) tree {
	c.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("apps.kruise.io/" + version)
	object.SetKind(kind)
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, object); err != nil {
		c.t.Fatal(err)
	}
	return decoded(c.t, object.Object)
}

// decoded returns the object with numbers of the types that the other tests use.
func decoded(t testing.TB, object tree) tree {
	t.Helper()
	var result tree
	if err := json.Unmarshal(admissiontest.Encode(t, object), &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// named returns a copy of the object with another name in the test's namespace, without the fields that the API
// server sets.
func (c *cluster) named(object tree, name string) *unstructured.Unstructured {
	c.t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(admissiontest.Encode(c.t, object)); err != nil {
		c.t.Fatal(err)
	}
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	delete(o.Object, "metadata")
	o.SetNamespace(c.namespace)
	o.SetName(name)
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return o
}

func (c *cluster) create(object tree, name string) {
	c.t.Helper()
	if err := c.Create(c.t.Context(), c.named(object, name)); err != nil {
		c.t.Fatal(err)
	}
}

// kubectl runs the real kubectl.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	path, err := controlplane.Binary(c.t.Context(), "kubectl", controlplane.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.CommandContext(c.t.Context(), path, append([]string{"--kubeconfig", c.cp.Kubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestInstallCRDWithObjectsOfAnOldVersion: a CRD can be installed and serves the stored version, although no webhook
// can convert objects of the old version yet.
func TestInstallCRDWithObjectsOfAnOldVersion(t *testing.T) {
	t.Parallel()
	c := bare(t)
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.install.test}
spec:
  group: install.test
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  scope: Cluster
  conversion: CONVERSION
  versions:
  - {name: v1, served: true, storage: OLD, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: true, storage: NEW, schema: {openAPIV3Schema: {type: object}}}
`
	before := strings.NewReplacer("CONVERSION", "{strategy: None}", "OLD", "true", "NEW", "false").Replace(crd)
	after := strings.NewReplacer("OLD", "false", "NEW", "true", "CONVERSION", `{strategy: Webhook, webhook: {conversionReviewVersions: [v1],
    clientConfig: {service: {namespace: default, name: nobody, path: /convert, port: 443}}}}`).Replace(crd)
	if err := install.CRD(t.Context(), c, []byte(before)); err != nil {
		t.Fatal(err)
	}
	thing := &unstructured.Unstructured{Object: admissiontest.Manifest(t, "{apiVersion: install.test/v1, kind: Thing, metadata: {name: old}}")}
	if err := c.Create(t.Context(), thing); err != nil {
		t.Fatal(err)
	}
	if err := install.CRD(t.Context(), c, []byte(after)); err != nil {
		t.Fatal(err)
	}
	list := &unstructured.UnstructuredList{Object: admissiontest.Manifest(t, "{apiVersion: install.test/v2, kind: ThingList}")}
	controlplanetest.Eventually(t, 10*time.Second, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := c.List(ctx, list); err == nil {
			return errors.New("objects of the old version are listed without a webhook: the test shows nothing")
		}
		return nil
	})
	// If the CRD were left, tests that list all objects would fail.
	definition := &unstructured.Unstructured{Object: admissiontest.Manifest(t, before)}
	if err := c.Delete(context.WithoutCancel(t.Context()), definition); err != nil {
		t.Error(err)
	}
}

// TestInstallAgain: a second installation, by package config or by kubectl, keeps the manager's writes to client
// configs.
func TestInstallAgain(t *testing.T) {
	c := start(t)
	before := c.configurations()
	if err := errors.Join(config.InstallCRDs(t.Context(), c), config.InstallWebhooks(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	versions := func(objects []*unstructured.Unstructured) map[string]string {
		got := map[string]string{}
		for _, object := range objects {
			got[object.GetName()] = object.GetResourceVersion()
		}
		return got
	}
	again := c.configurations()
	for i := range again {
		if diff := cmp.Diff(clientConfigs(before[slices.IndexFunc(before, func(o *unstructured.Unstructured) bool {
			return o.GetName() == again[i].GetName()
		})]), clientConfigs(again[i])); diff != "" {
			t.Errorf("%s (-before +after):\n%s", again[i].GetName(), diff)
		}
	}
	// With the first installation, the client of this test becomes the field manager of the fields with the Service.
	if err := errors.Join(config.InstallCRDs(t.Context(), c), config.InstallWebhooks(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(versions(again), versions(c.configurations())); diff != "" {
		t.Errorf("resource versions (-before +after):\n%s", diff)
	}
}

func TestManifestsForKubectl(t *testing.T) {
	c := start(t)
	for _, flags := range [][]string{{"--server-side", "--field-manager=test"}, {}} {
		// The manifests are already installed with another address. A dry run shows what kubectl would write.
		dir := t.TempDir()
		for _, name := range []string{"mutating", "validating"} {
			raw, err := os.ReadFile("../config/webhook/" + name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			renamed := strings.Replace(string(raw), "name: kruise-"+name, "name: other-"+name, 1)
			if err := os.WriteFile(dir+"/"+name+".yaml", []byte(renamed), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out := c.kubectl(append([]string{"apply", "--dry-run=server", "-f", dir}, flags...)...)
		if strings.Count(out, "other-") != 2 || strings.Contains(strings.ToLower(out), "warn") {
			t.Errorf("%v: %s", flags, out)
		}
	}
}

// TestAnnouncements applies the manifests of OpenKruise's release announcements, in v1alpha1, with kubectl.
func TestAnnouncements(t *testing.T) {
	for _, flags := range [][]string{nil, {"--server-side"}} {
		for name, want := range map[string]struct{ alpha, beta tree }{
			"env-from-annotation": {
				alpha: tree{"type": "InPlaceIfPossible", "partition": 0.0, "maxUnavailable": "20%", "maxSurge": 0.0},
				beta: tree{"type": "RollingUpdate", "rollingUpdate": tree{
					"podUpdatePolicy": "InPlaceIfPossible", "partition": 0.0, "maxUnavailable": "20%", "maxSurge": 0.0,
					"inPlaceUpdateStrategy": tree{},
				}},
			},
			"partition-percentage": {
				alpha: tree{"type": "ReCreate", "partition": "80%", "maxUnavailable": "20%", "maxSurge": 0.0},
				beta: tree{"type": "RollingUpdate", "rollingUpdate": tree{
					"podUpdatePolicy": "ReCreate", "partition": "80%", "maxUnavailable": "20%", "maxSurge": 0.0,
				}},
			},
		} {
			t.Run(name+strings.Join(flags, ""), func(t *testing.T) {
				t.Parallel()
				c := start(t)
				file := "testdata/" + name + ".yaml"
				c.kubectl(append([]string{"apply", "-n", c.namespace, "-f", file}, flags...)...)
				alpha, beta := c.get("v1alpha1", name), c.get("v1beta1", name)
				if diff := cmp.Diff(want.alpha, alpha["spec"].(tree)["updateStrategy"]); diff != "" {
					t.Errorf("v1alpha1 (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(want.beta, beta["spec"].(tree)["updateStrategy"]); diff != "" {
					t.Errorf("v1beta1 (-want +got):\n%s", diff)
				}
				for _, got := range []tree{alpha, beta} {
					container := got["spec"].(tree)["template"].(tree)["spec"].(tree)["containers"].([]any)[0].(tree)
					if container["imagePullPolicy"] != "Always" || got["spec"].(tree)["revisionHistoryLimit"] != 10.0 {
						t.Errorf("no defaults: %v", got["spec"])
					}
				}
				// In v1alpha1, the reuse of claims is on by default.
				if diff := cmp.Diff(tree{"enablePVCReuse": true}, beta["spec"].(tree)["scaleStrategy"]); diff != "" {
					t.Errorf("scaleStrategy (-want +got):\n%s", diff)
				}
				sent := leaves("", admissiontest.Load(t, "testdata/"+name+".yaml", "v1alpha1")["spec"], map[string]any{})
				kept(t, sent, leaves("", alpha["spec"], map[string]any{}))
				// A second kubectl apply of the same file must write nothing.
				c.kubectl(append([]string{"apply", "-n", c.namespace, "-f", file}, flags...)...)
				if again := c.get("v1alpha1", name); again["metadata"].(tree)["resourceVersion"] != alpha["metadata"].(tree)["resourceVersion"] {
					t.Errorf("applied again (-before +after):\n%s", cmp.Diff(alpha, again))
				}
			})
		}
	}
}

// kept checks that got contains every value that was sent.
func kept(t *testing.T, sent, got map[string]any) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(sent)) {
		if diff := cmp.Diff(sent[path], got[path]); diff != "" {
			t.Errorf("%s (-sent +got):\n%s", path, diff)
		}
	}
}

func TestRefusedWithAllPaths(t *testing.T) {
	t.Parallel()
	c := start(t)
	tests := []struct {
		object tree
		want   []string
	}{
		// The test uses no negative number of replicas: the schema would refuse the object before the API server calls the
		// webhook.
		{small(t, "v1alpha1", "  minReadySeconds: -1\n  updateStrategy: {partition: some, maxUnavailable: -3%, type: Blue}"), []string{
			"spec.updateStrategy.type", "spec.updateStrategy.partition", "spec.updateStrategy.maxUnavailable", "spec.minReadySeconds",
		}},
		{small(t, "v1beta1", "  minReadySeconds: -1\n  updateStrategy: {rollingUpdate: {partition: some, podUpdatePolicy: Blue, maxUnavailable: -3%}}"), []string{
			"spec.updateStrategy.rollingUpdate.podUpdatePolicy", "spec.updateStrategy.rollingUpdate.partition",
			"spec.updateStrategy.rollingUpdate.maxUnavailable", "spec.minReadySeconds",
		}},
	}
	for _, tt := range tests {
		err := c.Create(t.Context(), c.named(tt.object, "web"))
		var status apierrors.APIStatus
		if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
			t.Fatalf("got %v", err)
		}
		var got []string
		for _, cause := range status.Status().Details.Causes {
			got = append(got, cause.Field)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	c := start(t)
	object := admissiontest.Edit(t, small(t, "v1alpha1"), "/metadata/labels", tree{apps.LabelDeleteProtection: apps.DeleteProtectionAlways})
	c.create(object, "web")
	web := c.named(object, "web")
	if err := c.Delete(t.Context(), web); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "remove the label") {
		t.Errorf("V-30: %v", err)
	}
	c.kubectl("label", "-n", c.namespace, "clonesets.v1beta1.apps.kruise.io", "web", apps.LabelDeleteProtection+"-")
	if err := c.Delete(t.Context(), web); err != nil {
		t.Error(err)
	}
}

func TestUnknownFieldsOfTemplatesAreKept(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		object := small(t, version, "  volumeClaimTemplates: [{metadata: {name: data}, future: {a: [1, {b: c}]}}]")
		object = admissiontest.Edit(t, object, "/spec/template/spec/future", tree{"x": []any{"y"}})
		object = admissiontest.Edit(t, object, "/spec/template/spec/containers/0/future", 1.5)
		c.create(object, version)
		sent := leaves("", object["spec"], map[string]any{})
		for _, read := range []string{"v1alpha1", "v1beta1"} {
			kept(t, sent, leaves("", c.get(read, version)["spec"], map[string]any{}))
		}
		// Then the object is edited through the other version.
		other := map[string]string{"v1alpha1": "v1beta1", "v1beta1": "v1alpha1"}[version]
		c.kubectl("patch", "-n", c.namespace, "clonesets."+other+".apps.kruise.io", version, "--type=merge", "-p", `{"spec":{"replicas":4}}`)
		got := c.get(version, version)["spec"].(tree)
		kept(t, sent, leaves("", got, map[string]any{}))
		if got["replicas"] != 4.0 {
			t.Errorf("replicas %v", got["replicas"])
		}
	}
}

// TestEveryField: an object with every field of the schema is stored completely and served in both versions, and a
// write through the other version loses nothing.
func TestEveryField(t *testing.T) {
	for _, kind := range []string{"CloneSet", "StatefulSet"} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			for _, without := range []string{"orderPriority", "weightPriority"} { // the two exclude each other
				t.Run(kind+" "+version+" without "+without, func(t *testing.T) {
					t.Parallel()
					start(t).keepsEveryField(kind, version, without)
				})
			}
		}
	}
}

func (c *cluster) keepsEveryField(kind, version, without string) {
	c.t.Helper()
	other := map[string]string{"v1alpha1": "v1beta1", "v1beta1": "v1alpha1"}[version]
	object := everyField(c.t, kind, version, without)
	c.create(object, "first")
	c.setStatus(object, "first")
	sent := leaves("", tree{"spec": object["spec"], "status": object["status"]}, map[string]any{})
	first := c.getKind(kind, version, "first")
	kept(c.t, sent, leaves("", first, map[string]any{}))

	shown := c.getKind(kind, other, "first")
	c.create(shown, "second")
	c.setStatus(shown, "second")
	second := c.getKind(kind, version, "second")
	kept(c.t, sent, leaves("", second, map[string]any{}))
	for _, part := range []string{"spec", "status"} {
		if diff := cmp.Diff(first[part], second[part]); diff != "" {
			c.t.Errorf("%s after the way through %s (-want +got):\n%s", part, other, diff)
		}
	}
	if diff := cmp.Diff(shown["spec"], c.getKind(kind, other, "second")["spec"]); diff != "" {
		c.t.Errorf("spec of %s (-want +got):\n%s", other, diff)
	}
}

func (c *cluster) setStatus(object tree, name string) {
	c.t.Helper()
	patch := admissiontest.Encode(c.t, tree{"status": object["status"]})
	if err := c.Status().Patch(c.t.Context(), c.named(object, name), client.RawPatch(types.MergePatchType, patch)); err != nil {
		c.t.Fatal(err)
	}
}

// openAPI is the part of OpenAPI that the CRD uses.
type openAPI struct {
	Type        string             `json:"type"`
	Format      string             `json:"format"`
	Properties  map[string]openAPI `json:"properties"`
	Items       *openAPI           `json:"items"`
	Additional  *openAPI           `json:"additionalProperties"`
	IntOrString bool               `json:"x-kubernetes-int-or-string"`
	KeepUnknown bool               `json:"x-kubernetes-preserve-unknown-fields"`
}

// everyField makes an object from the schema of its kind's CRD.
func everyField(t *testing.T, kind, version, without string) tree {
	t.Helper()
	raw, err := os.ReadFile("../config/crd/apps.kruise.io_" + strings.ToLower(kind) + "s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					Root openAPI `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			object := v.Schema.Root.fill(t, "", without).(tree)
			if version == "v1alpha1" && kind == "CloneSet" {
				object["spec"].(tree)["updateStrategy"].(tree)["type"] = "InPlaceIfPossible"
			}
			object["apiVersion"], object["kind"], object["metadata"] = "apps.kruise.io/"+version, kind, tree{}
			return object
		}
	}
	t.Fatalf("no version %s", version)
	return nil
}

// meaningful returns values for fields that accept only certain values, by the ends of the fields' paths.
func meaningful(t *testing.T) map[string]any {
	gates := []any{tree{"conditionType": "InPlaceUpdateReady"}}
	template := admissiontest.Edit(t, small(t, "v1beta1"), "/spec/template/spec/readinessGates", gates)["spec"].(tree)["template"]
	return map[string]any{
		".spec.template":                  template,
		".spec.volumeClaimTemplates":      []any{tree{"metadata": tree{"name": "data"}, "spec": tree{"accessModes": []any{"ReadWriteOnce"}}}},
		".matchLabels":                    tree{"app": "web"},
		".matchExpressions":               []any{tree{"key": "app", "operator": "In", "values": []any{"web"}}},
		".progressDeadlineSeconds":        600.0,
		".updateStrategy.type":            "RollingUpdate",
		".podUpdatePolicy":                "InPlaceIfPossible",
		".maxSurge":                       1.0,
		".imagePreDownloadParallelism":    2.0,
		".podManagementPolicy":            "Parallel",
		".reserveOrdinals":                []any{1.0, "3-5"},
		".whenDeleted":                    "Delete",
		".whenScaled":                     "Retain",
		".volumeClaimUpdateStrategy.type": "OnPodRollingUpdate",
	}
}

// fill returns a value for the schema in which every field is set.
func (s openAPI) fill(t *testing.T, path, without string) any {
	t.Helper()
	for end, value := range meaningful(t) {
		if strings.HasSuffix(path, end) {
			return value
		}
	}
	switch {
	case s.IntOrString:
		return "30%"
	case s.KeepUnknown:
		t.Fatalf("%s: what would be meaningful?", path)
	case s.Format == "date-time":
		return "2026-07-01T10:00:00Z"
	}
	switch s.Type {
	case "integer":
		return 7.0
	case "boolean":
		return true
	case "string":
		return "some"
	case "array":
		return []any{s.Items.fill(t, path+"[]", without)}
	case "object":
		object := tree{}
		if s.Additional != nil {
			object["key"] = s.Additional.fill(t, path+"{}", without)
		}
		for name, property := range s.Properties {
			if name != without {
				object[name] = property.fill(t, path+"."+name, without)
			}
		}
		return object
	}
	t.Fatalf("%s has type %q", path, s.Type)
	return nil
}

// TestWithoutConversion: while a CRD has no conversion webhook, no value is lost. An object that a client reads as
// v1alpha1 lacks the fields that v1alpha1 does not have, so every write through v1alpha1 is refused.
func TestWithoutConversion(t *testing.T) {
	c := start(t)
	c.create(admissiontest.Load(t, "../kinds/cloneset/testdata/everything.yaml", "v1beta1"), "web")
	before := c.get("v1beta1", "web")["spec"]
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	if err := c.Get(t.Context(), client.ObjectKey{Name: "clonesets.apps.kruise.io"}, crd); err != nil {
		t.Fatal(err)
	}
	conversion, _, _ := unstructured.NestedMap(crd.Object, "spec", "conversion")
	convert := func(value tree) {
		t.Helper()
		patch := admissiontest.Encode(t, []tree{{"op": "replace", "path": "/spec/conversion", "value": value}})
		if err := c.Patch(context.WithoutCancel(t.Context()), crd, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
	convert(tree{"strategy": "None"})
	t.Cleanup(func() { convert(conversion) })
	controlplanetest.Eventually(t, 20*time.Second, func(ctx context.Context) error {
		old := &unstructured.Unstructured{}
		old.SetAPIVersion("apps.kruise.io/v1alpha1")
		old.SetKind("CloneSet")
		old.SetNamespace(c.namespace)
		old.SetName("web")
		err := c.Patch(ctx, old, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"1"}}}`)), client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "does not convert") {
			return fmt.Errorf("annotated through v1alpha1: %w", err)
		}
		return nil
	})
	if diff := cmp.Diff(before, c.get("v1beta1", "web")["spec"]); diff != "" {
		t.Errorf("spec (-before +after):\n%s", diff)
	}
}
