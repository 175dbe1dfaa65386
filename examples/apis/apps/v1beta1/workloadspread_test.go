package v1beta1_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// spreadFields returns the fields of a version, as in OpenKruise.
func spreadFields(required, preferred, conditions string) map[string]string {
	fields := fieldsOf("", `object metadata spec status
		string apiVersion kind`)
	maps.Copy(fields, fieldsOf("spec.", `object targetRef* targetFilter subsets*[] scheduleStrategy scheduleStrategy.adaptive subsets*[].tolerations[]
		string targetRef*.apiVersion* targetRef*.kind* targetRef*.name* targetFilter.replicasPathList[] subsets*[].name* scheduleStrategy.type
		array targetFilter.replicasPathList subsets* subsets*[].tolerations
		string subsets*[].tolerations[].effect subsets*[].tolerations[].key subsets*[].tolerations[].operator subsets*[].tolerations[].value
		int64 subsets*[].tolerations[].tolerationSeconds
		int-or-string subsets*[].maxReplicas
		anything subsets*[].patch
		boolean scheduleStrategy.adaptive.disableSimulationSchedule
		int32 scheduleStrategy.adaptive.rescheduleCriticalSeconds`))
	maps.Copy(fields, selectorFields("spec.targetFilter.selector"))
	fields["spec.targetFilter.selector"] = "object"
	const term = `object TERM TERM.matchExpressions[] TERM.matchFields[]
		array TERM.matchExpressions TERM.matchFields TERM.matchExpressions[].values TERM.matchFields[].values
		string TERM.matchExpressions[].key* TERM.matchExpressions[].operator* TERM.matchExpressions[].values[]
		string TERM.matchFields[].key* TERM.matchFields[].operator* TERM.matchFields[].values[]`
	maps.Copy(fields, fieldsOf("spec.subsets*[].", strings.ReplaceAll(term, "TERM", required)))
	maps.Copy(fields, fieldsOf("spec.subsets*[].", strings.ReplaceAll(term, "TERM", preferred+"[].preference*")))
	maps.Copy(fields, fieldsOf("spec.subsets*[]."+preferred, `
		object []
		int32 [].weight*`))
	fields["spec.subsets*[]."+preferred] = "array"
	maps.Copy(fields, fieldsOf("status.", `int64 observedGeneration
		object versionedSubsetStatuses`))
	for _, list := range []string{"status.subsetStatuses", "status.versionedSubsetStatuses{}"} {
		fields[list] = "array"
		maps.Copy(fields, fieldsOf(list+"[].", `string name*
			int32 replicas* missingReplicas*
			object creatingPods deletingPods conditions[]
			date-time creatingPods{} deletingPods{}
			array conditions
			`+conditions))
		fields[list+"[]"] = "object"
	}
	fields[""] = "object"
	return fields
}

func TestWorkloadSpreadCRDFields(t *testing.T) {
	checkFields(t, "workloadspreads",
		spreadFields("requiredNodeSelectorTerm", "preferredNodeSelectorTerms", `string conditions[].type* conditions[].status* conditions[].reason conditions[].message
			date-time conditions[].lastTransitionTime`),
		spreadFields("requiredNodeSelector", "preferredNodeSelector", `string conditions[].type* conditions[].status* conditions[].reason* conditions[].message*
			date-time conditions[].lastTransitionTime*
			int64 conditions[].observedGeneration`))
}

func TestWorkloadSpreadCRDNames(t *testing.T) {
	c, _ := readCRD(t, "workloadspreads")
	names := c.Spec.Names
	got := []string{c.Spec.Group, c.Spec.Scope, names.Kind, names.Plural, strings.Join(names.ShortNames, ",")}
	if diff := cmp.Diff([]string{"apps.kruise.io", "Namespaced", "WorkloadSpread", "workloadspreads", "ws"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	columns := []column{
		{"WorkloadName", "string", ".spec.targetRef.name", 0},
		{"WorkloadKind", "string", ".spec.targetRef.kind", 0},
		{"Adaptive", "boolean", `.spec.scheduleStrategy.type[?(@ == "Adaptive")]`, 0},
		{"Age", "date", ".metadata.creationTimestamp", 0},
	}
	for _, version := range c.Spec.Versions {
		if diff := cmp.Diff(columns, version.Columns); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", version.Name, diff)
		}
		if stored := version.Name == "v1beta1"; version.Storage != stored || !version.Served || version.Subresources["status"] == nil || len(version.Subresources) > 1 {
			t.Errorf("%s: storage %t, served %t, subresources %v", version.Name, version.Storage, version.Served, version.Subresources)
		}
	}
	if len(c.Spec.Versions) != 2 || c.Spec.Conversion.Strategy != "Webhook" {
		t.Errorf("%d versions are served, and conversion is %q", len(c.Spec.Versions), c.Spec.Conversion.Strategy)
	}
}

// TestUndecodableWorkloadSpreads: a list with invalid items is decoded, and an object with undecodable fields cannot
// be encoded.
func TestUndecodableWorkloadSpreads(t *testing.T) {
	const list = `{"items":[
		{"metadata":{"name":"good"},"spec":{"targetRef":{"name":"web"},"subsets":[{"name":"a","maxReplicas":"3","patch":{"x":[1]}}]}},
		{"metadata":{"name":"odd"},"spec":{"targetRef":{"name":"web"},"subsets":[{"name":"a","tolerations":7}]}},
		{"metadata":{"name":"status"},"spec":{},"status":{"observedGeneration":3,"versionedSubsetStatuses":7,"subsetStatuses":[{"name":"a"}]}}]}`
	var got v1beta1.WorkloadSpreadList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	if good := &got.Items[0].Spec; len(good.Undecodable) > 0 || good.TargetReference.Name != "web" || string(good.Subsets[0].Patch.Raw) != `{"x":[1]}` {
		t.Errorf("%+v", good)
	}
	if odd := &got.Items[1].Spec; len(odd.Undecodable) != 1 || odd.Undecodable[0].Path != "spec.subsets[0].tolerations" || odd.TargetReference.Name != "web" {
		t.Errorf("%+v", odd)
	}
	if _, err := json.Marshal(got.Items[1]); err == nil {
		t.Error("a spec that was not read in full is written")
	}
	if s := &got.Items[2].Status; s.ObservedGeneration != 3 || s.SubsetStatuses[0].Name != "a" {
		t.Errorf("%+v", s)
	}
}
