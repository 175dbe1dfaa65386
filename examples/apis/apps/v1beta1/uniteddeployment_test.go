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

// unitedFields returns the fields that both versions of a UnitedDeployment have.
func unitedFields() map[string]string {
	const topology, subset, template = "spec.topology", "spec.topology.subsets[]", "spec.template."
	fields := fieldsOf("", `object metadata spec status spec.selector* spec.template spec.topology spec.updateStrategy
		string apiVersion kind spec.updateStrategy.type
		object spec.updateStrategy.manualUpdate spec.updateStrategy.manualUpdate.partitions
		int32 spec.replicas spec.revisionHistoryLimit spec.updateStrategy.manualUpdate.partitions{}`)
	maps.Copy(fields, selectorFields("spec.selector*"))
	maps.Copy(fields, fieldsOf(topology, `array .subsets
		object .subsets[] .scheduleStrategy .scheduleStrategy.adaptive
		string .scheduleStrategy.type
		int32 .scheduleStrategy.adaptive.rescheduleCriticalSeconds .scheduleStrategy.adaptive.unschedulableDuration
		boolean .scheduleStrategy.adaptive.reserveUnschedulablePods`))
	maps.Copy(fields, fieldsOf(subset, `string .name* .tolerations[].key .tolerations[].operator .tolerations[].value .tolerations[].effect
		int64 .tolerations[].tolerationSeconds
		array .tolerations
		object .tolerations[] .nodeSelectorTerm
		int-or-string .replicas .minReplicas .maxReplicas
		anything .patch`))
	for _, terms := range []string{".nodeSelectorTerm.matchExpressions", ".nodeSelectorTerm.matchFields"} {
		maps.Copy(fields, fieldsOf(subset+terms, `object []
			string [].key* [].operator* [].values[]
			array [].values`))
		fields[subset+terms] = "array"
	}
	for _, kind := range []string{"statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate"} {
		fields[template+kind], fields[template+kind+".metadata"], fields[template+kind+".spec*"] = "object", "anything", "anything"
	}
	maps.Copy(fields, fieldsOf("status.", `int64 observedGeneration
		int32 replicas* updatedReplicas* readyReplicas updatedReadyReplicas reservedPods collisionCount
		string currentRevision* labelSelector
		array conditions subsetStatuses subsetStatuses[].conditions
		object subsetStatuses[]
		string subsetStatuses[].name
		int32 subsetStatuses[].replicas subsetStatuses[].readyReplicas subsetStatuses[].partition subsetStatuses[].reservedPods`))
	for _, conditions := range []string{"status.conditions[]", "status.subsetStatuses[].conditions[]"} {
		maps.Copy(fields, fieldsOf(conditions, `string .type* .status* .reason .message
			date-time .lastUpdateTime .lastTransitionTime`))
		fields[conditions] = "object"
	}
	fields[""] = "object"
	return fields
}

// embed adds the fields of a template, which has the stored spec of another kind.
func embed(t *testing.T, fields map[string]string, resource, template string) {
	t.Helper()
	c, _ := readCRD(t, resource)
	stored := map[string]string{}
	c.Spec.Versions[len(c.Spec.Versions)-1].Schema.Root.flatten("", stored)
	for name, kind := range stored {
		if below, ok := strings.CutPrefix(name, "spec"); ok {
			fields["spec.template."+template+".spec*"+below] = kind
		}
	}
}

func TestUnitedDeploymentCRDFields(t *testing.T) {
	alpha := unitedFields()
	embed(t, alpha, "statefulsets", "advancedStatefulSetTemplate")
	beta := maps.Clone(alpha)
	embed(t, beta, "clonesets", "cloneSetTemplate")
	beta["status.updatedRevision"] = "string"
	maps.Copy(alpha, fieldsOf("status.", `object subsetReplicas updateStatus updateStatus.currentPartitions
		int32 subsetReplicas{} updateStatus.currentPartitions{}
		string updateStatus.updatedRevision`))
	checkFields(t, "uniteddeployments", alpha, beta)
}

func TestUnitedDeploymentCRDNamesAndColumns(t *testing.T) {
	c, _ := readCRD(t, "uniteddeployments")
	names := c.Spec.Names
	got := []string{c.Spec.Group, c.Spec.Scope, names.Kind, names.Plural, strings.Join(names.ShortNames, ",")}
	if diff := cmp.Diff([]string{"apps.kruise.io", "Namespaced", "UnitedDeployment", "uniteddeployments", "ud"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	checkVersions(t, c, []column{
		{"DESIRED", "integer", ".spec.replicas", 0},
		{"CURRENT", "integer", ".status.replicas", 0},
		{"UPDATED", "integer", ".status.updatedReplicas", 0},
		{"READY", "integer", ".status.readyReplicas", 0},
		{"AGE", "date", ".metadata.creationTimestamp", 0},
	})
}

// TestUndecodableUnitedDeployments: a list with invalid items is decoded, problems have the whole paths of the
// templates, and an object with undecodable fields cannot be encoded.
func TestUndecodableUnitedDeployments(t *testing.T) {
	const list = `{"items":[
		{"metadata":{"name":"good"},"spec":{"replicas":2,"topology":{"subsets":[{"name":"a","patch":{"spec":{}}}]},"template":{"deploymentTemplate":{"spec":{"minReadySeconds":3}}}}},
		{"metadata":{"name":"clones"},"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"overhead":{"cpu":"oops"}}}}}}}},
		{"metadata":{"name":"sets"},"spec":{"template":{"advancedStatefulSetTemplate":{"spec":{"reserveOrdinals":[3000000000]}}}}},
		{"metadata":{"name":"deployments"},"spec":{"replicas":3,"template":{"deploymentTemplate":{"spec":{"paused":"yes"}}}}},
		{"metadata":{"name":"time"},"status":{"replicas":2,"conditions":[{"type":"a","status":"True","lastTransitionTime":"2026-01-01t00:00:00z"}]}}]}`
	var got v1beta1.UnitedDeploymentList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	paths := map[string][]string{}
	for i := range got.Items {
		ud := &got.Items[i]
		for _, problem := range ud.Spec.Undecodable {
			paths[ud.Name] = append(paths[ud.Name], problem.Path)
		}
		if _, err := json.Marshal(ud); (err != nil) != (len(ud.Spec.Undecodable) > 0) {
			t.Errorf("%s is encoded with error %v", ud.Name, err)
		}
	}
	want := map[string][]string{
		"clones":      {"spec.template.cloneSetTemplate.spec.template.spec.overhead.cpu"},
		"sets":        {"spec.template.advancedStatefulSetTemplate.spec.reserveOrdinals[0]"},
		"deployments": {"spec.template.deploymentTemplate.spec.paused"},
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("undecodable (-want +got):\n%s", diff)
	}
	if good := got.Items[0].Spec; string(good.Topology.Subsets[0].Patch.Raw) != `{"spec":{}}` || good.Template.DeploymentTemplate.Spec.MinReadySeconds != 3 {
		t.Errorf("%+v", good)
	}
	if n := *got.Items[3].Spec.Replicas; n != 3 {
		t.Errorf("replicas beside a template that cannot be decoded: %d", n)
	}
	if s := got.Items[4].Status; s.Replicas != 2 || len(s.Conditions) != 0 {
		t.Errorf("status with a time that is none: %+v", s)
	}
}
