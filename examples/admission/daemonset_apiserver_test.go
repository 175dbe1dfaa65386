package admission_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/testing/install"
)

// startDaemonSets starts an API server whose only webhooks are the webhooks for DaemonSets.
func startDaemonSets(t *testing.T) *cluster {
	t.Helper()
	c := bare(t)
	options := admission.Options{Client: c}
	c.serveAlone(t, "daemonset", options, endpointOf("DaemonSet", options))
	return c
}

// serveAlone installs the CRD of a single kind, with webhooks served by the test. name is the kind in lower case.
func (c *cluster) serveAlone(t *testing.T, name string, options admission.Options, kinds ...admission.Endpoint) {
	t.Helper()
	mux := http.NewServeMux()
	for path, handler := range admission.Handlers(options, kinds...) {
		mux.Handle(path, handler)
	}
	tls := httptest.NewTLSServer(mux)
	t.Cleanup(tls.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw}))
	at := func(path string) tree { return tree{"url": tls.URL + path, "caBundle": ca} }

	raw, err := os.ReadFile("../config/crd/apps.kruise.io_" + name + "s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := admissiontest.Manifest(t, string(raw))
	if conversion, ok := crd["spec"].(tree)["conversion"].(tree); ok { // a kind with two versions
		conversion["webhook"].(tree)["clientConfig"] = at("/convert")
	}
	if raw, err = yaml.Marshal(crd); err != nil {
		t.Fatal(err)
	}
	if err := install.CRD(t.Context(), c, raw); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{&unstructured.Unstructured{Object: crd}}
	for verb, kind := range map[string]string{"mutate": "MutatingWebhookConfiguration", "validate": "ValidatingWebhookConfiguration"} {
		webhook := &unstructured.Unstructured{Object: tree{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": tree{"name": name + "s"},
			"webhooks": []any{tree{
				"name": verb + name + ".kb.io", "clientConfig": at("/" + verb + "-apps-kruise-io-" + name), "admissionReviewVersions": []any{"v1"},
				"sideEffects": "None", "rules": []any{tree{
					"apiGroups": []any{apps.Group}, "apiVersions": []any{"v1alpha1", "v1beta1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{name + "s"},
				}},
			}},
		}}
		if err := c.Create(t.Context(), webhook); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, webhook)
	}
	t.Cleanup(func() {
		for _, object := range objects {
			if err := c.Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Error(err)
			}
		}
	})
	c.namespace = env.Namespace(t)
}

func (c *cluster) daemonSet(t *testing.T, version, name string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: tree{"apiVersion": "apps.kruise.io/" + version, "kind": "DaemonSet"}}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestDaemonSetsOnTheAPIServer writes and reads DaemonSets in both versions.
func TestDaemonSetsOnTheAPIServer(t *testing.T) {
	c := startDaemonSets(t)
	const everything = `
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: "example.test/app:v1", future: 1}]}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      rollingUpdateType: InPlaceIfPossible
      maxUnavailable: 10%
      maxSurge: 0
      partition: 50%
      paused: true
      selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}
  minReadySeconds: 3
  burstReplicas: 20%
  revisionHistoryLimit: 4
  lifecycle: {preDelete: {labelsHandler: {d: e}, finalizersHandler: [f.test/g], markPodNotReady: true}}
`
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run("4.1 every field is kept in "+version, func(t *testing.T) {
			sent := admissiontest.Manifest(t, "apiVersion: apps.kruise.io/"+version+"\nkind: DaemonSet\n"+everything)
			object := c.named(sent, "all-"+version)
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			for _, read := range []string{"v1alpha1", "v1beta1"} {
				want, got := leaves("", admissiontest.Manifest(t, everything), map[string]any{}), leaves("", c.daemonSet(t, read, "all-"+version).Object, map[string]any{})
				for path, value := range want {
					if number, ok := value.(float64); ok {
						value = int64(number)
					}
					if diff := cmp.Diff(value, got[path]); diff != "" {
						t.Errorf("%s, read as %s (-want +got):\n%s", path, read, diff)
					}
				}
			}
		})
	}
	t.Run("V-44, D-30 v1alpha1", func(t *testing.T) {
		sent := smallOf(t, "DaemonSet", "v1alpha1", "  updateStrategy: {rollingUpdate: {rollingUpdateType: Surging}}")
		object := c.named(admissiontest.Edit(t, sent, "/metadata/annotations", tree{apps.AnnotationProgressiveCreate: "true"}), "old")
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		stored := c.daemonSet(t, "v1beta1", "old")
		if diff := cmp.Diff(tree{"partitionedScaling": true}, stored.Object["spec"].(tree)["scaleStrategy"]); diff != "" {
			t.Errorf("scaleStrategy (-want +got):\n%s", diff)
		}
		want := tree{"type": "RollingUpdate", "rollingUpdate": tree{"rollingUpdateType": "Standard", "maxSurge": int64(1), "maxUnavailable": int64(0)}}
		if diff := cmp.Diff(want, stored.Object["spec"].(tree)["updateStrategy"]); diff != "" {
			t.Errorf("updateStrategy (-want +got):\n%s", diff)
		}
		stored.Object["status"] = tree{
			"updateRevision": "abc", "currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 1, "updatedNumberScheduled": 1,
		}
		if err := c.Status().Update(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		if hash := c.daemonSet(t, "v1alpha1", "old").Object["status"].(tree)["daemonSetHash"]; hash != "abc" {
			t.Errorf("daemonSetHash %v", hash)
		}
	})
	t.Run("D-31 the template is stored as it is written", func(t *testing.T) {
		if err := c.Create(t.Context(), c.named(smallOf(t, "DaemonSet", "v1beta1"), "plain")); err != nil {
			t.Fatal(err)
		}
		want := smallOf(t, "DaemonSet", "v1beta1")["spec"].(tree)["template"]
		if diff := cmp.Diff(want, c.daemonSet(t, "v1beta1", "plain").Object["spec"].(tree)["template"]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("V-20 what is not valid is refused as such, and so is a template", func(t *testing.T) {
		err := c.Create(t.Context(), c.named(smallOf(t, "DaemonSet", "v1beta1", "  burstReplicas: few"), "bad"))
		if !apierrors.IsInvalid(err) {
			t.Errorf("burstReplicas: %v", err)
		}
		object := admissiontest.Edit(t, smallOf(t, "DaemonSet", "v1beta1"), "/spec/template/spec/containers/0/name", "No Name")
		if err := c.Create(t.Context(), c.named(object, "bad")); !apierrors.IsInvalid(err) {
			t.Errorf("the name of a container: %v", err)
		}
	})
}
