package v1beta1_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// podStateFields returns the fields of a version, as in OpenKruise.
func podStateFields(keys string) map[string]string {
	fields := fieldsOf("", `object metadata spec status
		string apiVersion kind`)
	maps.Copy(fields, fieldsOf("spec.", strings.ReplaceAll(`object targetRef* requiredPersistentTopology preferredPersistentTopology[] preferredPersistentTopology[].preference* persistentPodAnnotations[]
		string targetRef*.apiVersion* targetRef*.kind* targetRef*.name* persistentPodAnnotations[].key* persistentPodStateRetentionPolicy
		int32 preferredPersistentTopology[].weight*
		array persistentPodAnnotations preferredPersistentTopology requiredPersistentTopology.KEYS* preferredPersistentTopology[].preference*.KEYS*
		string requiredPersistentTopology.KEYS*[] preferredPersistentTopology[].preference*.KEYS*[]`, "KEYS", keys)))
	maps.Copy(fields, fieldsOf("status.", `int64 observedGeneration*
		object podStates podStates{} podStates{}.nodeTopologyLabels podStates{}.annotations
		string podStates{}.nodeName podStates{}.nodeTopologyLabels{} podStates{}.annotations{}`))
	fields[""] = "object"
	return fields
}

func TestPersistentPodStateCRDFields(t *testing.T) {
	checkFields(t, "persistentpodstates", podStateFields("nodeTopologyKeys"), podStateFields("keys"))
}

func TestPersistentPodStateCRDNames(t *testing.T) {
	c, _ := readCRD(t, "persistentpodstates")
	names := c.Spec.Names
	got := []string{c.Spec.Group, c.Spec.Scope, names.Kind, names.Plural, strings.Join(names.ShortNames, ",")}
	if diff := cmp.Diff([]string{"apps.kruise.io", "Namespaced", "PersistentPodState", "persistentpodstates", ""}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, version := range c.Spec.Versions {
		if stored := version.Name == "v1beta1"; version.Storage != stored || !version.Served || version.Subresources["status"] == nil || len(version.Columns) > 0 {
			t.Errorf("%s: storage %t, served %t, subresources %v, columns %v", version.Name, version.Storage, version.Served, version.Subresources, version.Columns)
		}
	}
	if len(c.Spec.Versions) != 2 || c.Spec.Conversion.Strategy != "Webhook" {
		t.Errorf("%d versions are served, and conversion is %q", len(c.Spec.Versions), c.Spec.Conversion.Strategy)
	}
}

// TestUndecodablePersistentPodStates: a list with invalid items is decoded, and an object with undecodable fields
// cannot be encoded.
func TestUndecodablePersistentPodStates(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil || !scheme.Recognizes(v1beta1.GroupVersion.WithKind("PersistentPodStateList")) {
		t.Errorf("the kind is not registered: %v", err)
	}
	const list = `{"items":[
		{"metadata":{"name":"good"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"},"requiredPersistentTopology":{"keys":["a"]}}},
		{"metadata":{"name":"odd"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"},"requiredPersistentTopology":"zone"}},
		{"metadata":{"name":"status"},"spec":{},"status":{"observedGeneration":3,"podStates":{"db-0":{"nodeName":"n1"}},"other":[1]}}]}`
	var got v1beta1.PersistentPodStateList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	if good := &got.Items[0].Spec; len(good.Undecodable) > 0 || good.TargetReference.Name != "db" || good.RequiredPersistentTopology.Keys[0] != "a" {
		t.Errorf("%+v", good)
	}
	if odd := &got.Items[1].Spec; len(odd.Undecodable) != 1 || odd.Undecodable[0].Path != "spec.requiredPersistentTopology" || odd.TargetReference.Kind != "StatefulSet" {
		t.Errorf("%+v", odd)
	}
	if _, err := json.Marshal(got.Items[1]); err == nil {
		t.Error("a spec that was not read in full is written")
	}
	if s := &got.Items[2].Status; s.ObservedGeneration != 3 || s.PodStates["db-0"].NodeName != "n1" {
		t.Errorf("%+v", s)
	}
}
