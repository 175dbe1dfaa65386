package v1beta1_test

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func readDaemonSetCRD(t *testing.T) crd {
	t.Helper()
	raw, err := os.ReadFile("../../../config/crd/apps.kruise.io_daemonsets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c crd
	if err := yaml.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// daemonSetFields returns the fields that both versions of a DaemonSet have.
func daemonSetFields() map[string]string {
	fields := fieldsOf("", `object metadata spec status
		string apiVersion kind
		object spec.selector* spec.updateStrategy spec.updateStrategy.rollingUpdate spec.lifecycle
		anything spec.template*
		int32 spec.minReadySeconds spec.revisionHistoryLimit
		int-or-string spec.burstReplicas
		string spec.updateStrategy.type`)
	maps.Copy(fields, selectorFields("spec.selector*"))
	maps.Copy(fields, fieldsOf("spec.updateStrategy.rollingUpdate.", `int-or-string maxSurge maxUnavailable partition
		boolean paused
		string rollingUpdateType
		object selector`))
	maps.Copy(fields, selectorFields("spec.updateStrategy.rollingUpdate.selector"))
	for _, hook := range []string{"preDelete", "inPlaceUpdate", "preNormal"} {
		fields["spec.lifecycle."+hook] = "object"
		maps.Copy(fields, fieldsOf("spec.lifecycle."+hook, `object .labelsHandler
			string .labelsHandler{} .finalizersHandler[]
			array .finalizersHandler
			boolean .markPodNotReady`))
	}
	maps.Copy(fields, fieldsOf("status.", `int64 observedGeneration
		int32 currentNumberScheduled* numberMisscheduled* desiredNumberScheduled* numberReady* updatedNumberScheduled*
		int32 numberAvailable numberUnavailable collisionCount
		array conditions
		object conditions[]
		string conditions[].type* conditions[].status* conditions[].reason conditions[].message
		date-time conditions[].lastUpdateTime conditions[].lastTransitionTime`))
	fields[""] = "object"
	return fields
}

func TestDaemonSetCRDFields(t *testing.T) {
	beta, alpha := daemonSetFields(), daemonSetFields()
	maps.Copy(beta, fieldsOf("", `object spec.scaleStrategy
		boolean spec.scaleStrategy.partitionedScaling
		string status.updateRevision`))
	maps.Copy(alpha, fieldsOf("", `string status.daemonSetHash`))
	got := map[string]map[string]string{}
	for _, version := range readDaemonSetCRD(t).Spec.Versions {
		fields := map[string]string{}
		version.Schema.Root.flatten("", fields)
		got[version.Name] = fields
	}
	if diff := cmp.Diff(map[string]map[string]string{"v1alpha1": alpha, "v1beta1": beta}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDaemonSetCRDNamesAndColumns(t *testing.T) {
	c := readDaemonSetCRD(t)
	names := c.Spec.Names
	got := []string{c.Spec.Group, c.Spec.Scope, names.Kind, names.Plural, strings.Join(names.ShortNames, ",")}
	if diff := cmp.Diff([]string{"apps.kruise.io", "Namespaced", "DaemonSet", "daemonsets", "daemon,ads"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	columns := []column{
		{"DESIRED", "integer", ".status.desiredNumberScheduled", 0},
		{"CURRENT", "integer", ".status.currentNumberScheduled", 0},
		{"READY", "integer", ".status.numberReady", 0},
		{"UP-TO-DATE", "integer", ".status.updatedNumberScheduled", 0},
		{"AVAILABLE", "integer", ".status.numberAvailable", 0},
		{"AGE", "date", ".metadata.creationTimestamp", 0},
		{"CONTAINERS", "string", ".spec.template.spec.containers[*].name", 1},
		{"IMAGES", "string", ".spec.template.spec.containers[*].image", 1},
	}
	for _, version := range c.Spec.Versions {
		if diff := cmp.Diff(columns, version.Columns); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", version.Name, diff)
		}
		if diff := cmp.Diff(map[string]any{"status": map[string]any{}}, version.Subresources); diff != "" {
			t.Errorf("%s: subresources (-want +got):\n%s", version.Name, diff)
		}
		if stored := version.Name == "v1beta1"; version.Storage != stored || !version.Served {
			t.Errorf("%s: storage %t, served %t", version.Name, version.Storage, version.Served)
		}
	}
	if len(c.Spec.Versions) != 2 || c.Spec.Conversion.Strategy != "Webhook" {
		t.Errorf("%d versions are served, and conversion is %q", len(c.Spec.Versions), c.Spec.Conversion.Strategy)
	}
}

func TestDaemonSetIsRegistered(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"DaemonSet", "DaemonSetList"} {
		if !scheme.Recognizes(v1beta1.GroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
}

// TestUndecodableDaemonSets: a list with invalid items is decoded, and an object with undecodable fields cannot be
// encoded.
func TestUndecodableDaemonSets(t *testing.T) {
	const list = `{"items":[
		{"metadata":{"name":"good"},"spec":{"minReadySeconds":2,"selector":null,"template":{"metadata":{"name":"a"}}}},
		{"metadata":{"name":"quantity"},"spec":{"minReadySeconds":3,"template":{"spec":{"overhead":{"cpu":"oops"}}}}},
		{"metadata":{"name":"number"},"spec":{"burstReplicas":3000000000,"updateStrategy":{"rollingUpdate":{"partition":3000000000}}}},
		{"metadata":{"name":"time"},"status":{"numberReady":2,"conditions":[{"type":"A","lastTransitionTime":"2026-01-01t00:00:00z"}]}}]}`
	var got v1beta1.DaemonSetList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	paths := map[string][]string{}
	for i := range got.Items {
		ds := &got.Items[i]
		for _, problem := range ds.Spec.Undecodable {
			paths[ds.Name] = append(paths[ds.Name], problem.Path)
		}
		_, err := json.Marshal(ds)
		if (err != nil) != (len(ds.Spec.Undecodable) > 0) {
			t.Errorf("%s is encoded with error %v", ds.Name, err)
		}
		if copied := ds.DeepCopy(); !cmp.Equal(copied, ds) {
			t.Errorf("the copy of %s differs", ds.Name)
		}
	}
	want := map[string][]string{
		"quantity": {"spec.template.spec.overhead.cpu"}, "number": {"spec.burstReplicas", "spec.updateStrategy.rollingUpdate.partition"},
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("undecodable (-want +got):\n%s", diff)
	}
	if s := got.Items[3].Status; s.NumberReady != 2 || len(s.Conditions) != 0 {
		t.Errorf("status with a time that is none: %+v", s)
	}
	if n := got.Items[1].Spec.MinReadySeconds; n != 3 {
		t.Errorf("minReadySeconds beside a template that cannot be decoded: %d", n)
	}
}

func TestDaemonSetSpecIsEncodedAsItIs(t *testing.T) {
	const spec = `{"selector":null,"template":{"metadata":{"name":"a"},"spec":{"containers":null}},"updateStrategy":{},"minReadySeconds":2}`
	var ds v1beta1.DaemonSet
	if err := utiljson.Unmarshal([]byte(`{"spec":`+spec+`}`), &ds); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(ds)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), `"spec":`+spec) {
		t.Errorf("encoded as %s", raw)
	}
}
