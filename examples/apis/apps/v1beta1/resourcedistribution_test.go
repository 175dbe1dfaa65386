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

// distributionFields returns the fields of a version, as in OpenKruise.
func distributionFields(selector, failed string) map[string]string {
	fields := fieldsOf("", `object metadata spec status
		string apiVersion kind
		object spec.targets*`)
	maps.Copy(fields, fieldsOf("spec.targets*.", strings.ReplaceAll(`boolean allNamespaces
		object includedNamespaces excludedNamespaces includedNamespaces.list[] excludedNamespaces.list[]
		array includedNamespaces.list excludedNamespaces.list
		string includedNamespaces.list[].name excludedNamespaces.list[].name
		object SELECTOR SELECTOR.matchLabels SELECTOR.matchExpressions[]
		array SELECTOR.matchExpressions SELECTOR.matchExpressions[].values
		string SELECTOR.matchLabels{} SELECTOR.matchExpressions[].key* SELECTOR.matchExpressions[].operator* SELECTOR.matchExpressions[].values[]`, "SELECTOR", selector)))
	maps.Copy(fields, fieldsOf("status.", `int32 desired succeeded failed
		int64 observedGeneration
		array conditions conditions[].`+failed+`
		object conditions[]
		string conditions[].type* conditions[].status* conditions[].reason conditions[].`+failed+`[]
		date-time conditions[].lastTransitionTime`))
	fields[""], fields["spec.resource*"] = "object", "anything"
	return fields
}

func TestResourceDistributionCRDFields(t *testing.T) {
	checkFields(t, "resourcedistributions", distributionFields("namespaceLabelSelector", "failedNamespace"), distributionFields("namespaceSelector", "failedNamespaces"))
}

func TestResourceDistributionCRDNamesAndColumns(t *testing.T) {
	c, _ := readCRD(t, "resourcedistributions")
	names := c.Spec.Names
	got := []string{c.Spec.Group, c.Spec.Scope, names.Kind, names.Plural, strings.Join(names.ShortNames, ",")}
	if diff := cmp.Diff([]string{"apps.kruise.io", "Cluster", "ResourceDistribution", "resourcedistributions", "distributor"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	columns := []column{{"TOTAL", "integer", ".status.desired", 0}, {"SUCCEED", "integer", ".status.succeeded", 0}, {"FAILED", "integer", ".status.failed", 0}}
	for _, version := range c.Spec.Versions {
		if diff := cmp.Diff(columns, version.Columns); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", version.Name, diff)
		}
		if stored := version.Name == "v1beta1"; version.Storage != stored || !version.Served || version.Subresources["status"] == nil {
			t.Errorf("%s: storage %t, served %t, subresources %v", version.Name, version.Storage, version.Served, version.Subresources)
		}
	}
	if len(c.Spec.Versions) != 2 || c.Spec.Conversion.Strategy != "Webhook" {
		t.Errorf("%d versions are served, and conversion is %q", len(c.Spec.Versions), c.Spec.Conversion.Strategy)
	}
}

// TestUndecodableResourceDistributions: a list with invalid items is decoded, and an object with undecodable fields
// cannot be encoded.
func TestUndecodableResourceDistributions(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil || !scheme.Recognizes(v1beta1.GroupVersion.WithKind("ResourceDistributionList")) {
		t.Errorf("the kind is not registered: %v", err)
	}
	const list = `{"items":[
		{"metadata":{"name":"good"},"spec":{"resource":{"data":{"a":7}},"targets":{"allNamespaces":true}}},
		{"metadata":{"name":"odd"},"spec":{"resource":{},"targets":{"allNamespaces":"yes"}}},
		{"metadata":{"name":"time"},"spec":{"resource":{}},"status":{"desired":1,"conditions":[{"type":"a","status":"True","lastTransitionTime":"2026-01-01t00:00:00z"}]}}]}`
	var got v1beta1.ResourceDistributionList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	if good := &got.Items[0].Spec; len(good.Undecodable) > 0 || string(good.Resource.Raw) != `{"data":{"a":7}}` || !good.Targets.AllNamespaces {
		t.Errorf("%+v", good)
	}
	if odd := &got.Items[1].Spec; len(odd.Undecodable) != 1 || odd.Undecodable[0].Path != "spec.targets.allNamespaces" {
		t.Errorf("%+v", odd.Undecodable)
	}
	if _, err := json.Marshal(got.Items[1]); err == nil {
		t.Error("a spec that was not read in full is written")
	}
	if s := &got.Items[2].Status; s.Desired != 1 {
		t.Errorf("%+v", s)
	}
}
