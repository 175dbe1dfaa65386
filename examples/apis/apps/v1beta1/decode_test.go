package v1beta1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TestUndecodable: a list is decoded whatever the templates contain, and an object with undecodable fields cannot be
// encoded.
func TestUndecodable(t *testing.T) {
	const list = `{"items":[
		{"metadata":{"name":"good"},"spec":{"replicas":2,"selector":null,"template":{"metadata":{"name":"a"}}}},
		{"metadata":{"name":"quantity"},"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"oops"}}}]}}}},
		{"metadata":{"name":"annotation"},"spec":{"template":{"metadata":{"annotations":{"x":true}}},"volumeClaimTemplates":[5]}},
		{"metadata":{"name":"slow"},"spec":{"template":{"spec":{"overhead":{"cpu":"1e-200000000"}}}}},
		{"metadata":{"name":"number"},"spec":{"scaleStrategy":{"maxUnavailable":3000000000},"updateStrategy":{"rollingUpdate":{"partition":3000000000}}}},
		{"metadata":{"name":"time"},"status":{"replicas":2,"conditions":[{"type":"Progressing","lastUpdateTime":"2026-01-01t00:00:00z"}]}}]}`
	var got v1beta1.CloneSetList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	paths := map[string][]string{}
	for i := range got.Items {
		cs := &got.Items[i]
		for _, problem := range cs.Spec.Undecodable {
			paths[cs.Name] = append(paths[cs.Name], problem.Path)
		}
		_, err := json.Marshal(cs)
		if (err != nil) != (len(cs.Spec.Undecodable) > 0) {
			t.Errorf("%s is encoded with error %v", cs.Name, err)
		}
		if copied := cs.DeepCopy(); !cmp.Equal(copied, cs) {
			t.Errorf("the copy of %s differs", cs.Name)
		}
	}
	want := map[string][]string{
		"quantity": {"spec.template.spec.containers[0].resources.limits.cpu"}, "annotation": {"spec.template.metadata.annotations.x", "spec.volumeClaimTemplates[0]"}, "slow": {"spec.template.spec.overhead.cpu"},
		"number": {"spec.scaleStrategy.maxUnavailable", "spec.updateStrategy.rollingUpdate.partition"},
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("undecodable (-want +got):\n%s", diff)
	}
	if s := got.Items[5].Status; s.Replicas != 2 || len(s.Conditions) != 0 {
		t.Errorf("status with a time that is none: %+v", s)
	}
	if n := *got.Items[1].Spec.Replicas; n != 3 {
		t.Errorf("replicas beside a template that cannot be decoded: %d", n)
	}
}

func TestSpecIsEncodedAsItIs(t *testing.T) {
	const spec = `{"replicas":2,"selector":null,"template":{"metadata":{"name":"a"},"spec":{"containers":null}},"scaleStrategy":{},"updateStrategy":{}}`
	var cs v1beta1.CloneSet
	if err := utiljson.Unmarshal([]byte(`{"spec":`+spec+`}`), &cs); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(cs)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), `"spec":`+spec) {
		t.Errorf("encoded as %s", raw)
	}
}

// TestStatefulSetUndecodable: invalid StatefulSets are decoded in the same way. Their lists of numbers and their
// status can be invalid too.
func TestStatefulSetUndecodable(t *testing.T) {
	const list = `{"items":[
		{"metadata":{"name":"good"},"spec":{"replicas":2,"reserveOrdinals":[1,"3-5"],"template":{"metadata":{"name":"a"}}}},
		{"metadata":{"name":"number"},"spec":{"replicas":3,"reserveOrdinals":[1,3000000000],"updateStrategy":{"rollingUpdate":{"maxUnavailable":-3000000000}}}},
		{"metadata":{"name":"templates"},"spec":{"template":{"spec":{"overhead":{"cpu":"1e-200000000"}}},"volumeClaimTemplates":[{"spec":{"resources":{"requests":{"storage":"oops"}}}}]}},
		{"metadata":{"name":"time"},"status":{"replicas":2,"conditions":[{"type":"FailedCreatePod","lastTransitionTime":"2026-01-01t00:00:00z"}]}}]}`
	var got v1beta1.StatefulSetList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	paths := map[string][]string{}
	for i := range got.Items {
		set := &got.Items[i]
		for _, problem := range set.Spec.Undecodable {
			paths[set.Name] = append(paths[set.Name], problem.Path)
		}
		_, err := json.Marshal(set)
		if (err != nil) != (len(set.Spec.Undecodable) > 0) {
			t.Errorf("%s is encoded with error %v", set.Name, err)
		}
		if copied := set.DeepCopy(); !cmp.Equal(copied, set) {
			t.Errorf("the copy of %s differs", set.Name)
		}
	}
	want := map[string][]string{
		"number":    {"spec.reserveOrdinals[1]", "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"templates": {"spec.template.spec.overhead.cpu", "spec.volumeClaimTemplates[0].spec.resources.requests.storage"},
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("undecodable (-want +got):\n%s", diff)
	}
	if n := *got.Items[1].Spec.Replicas; n != 3 || got.Items[1].Spec.ReserveOrdinals != nil {
		t.Errorf("beside what cannot be decoded: %d replicas, %v", n, got.Items[1].Spec.ReserveOrdinals)
	}
	if s := got.Items[3].Status; s.Replicas != 2 || len(s.Conditions) != 0 {
		t.Errorf("status with a time that is none: %+v", s)
	}
}

func TestStatefulSetIsEncodedAsItIs(t *testing.T) {
	const object = `{"metadata":{"name":"db"},"spec":{"replicas":2,"selector":null,"template":{"metadata":{"name":"a"},"spec":{"containers":null}},` +
		`"volumeClaimUpdateStrategy":{"type":"OnPodRollingUpdate"},"serviceName":"db","podManagementPolicy":"Parallel","updateStrategy":{"type":"RollingUpdate",` +
		`"rollingUpdate":{"partition":0,"maxUnavailable":"10%","podUpdatePolicy":"InPlaceOnly","paused":true,"unorderedUpdate":{"priorityStrategy":{}},"minReadySeconds":0}},` +
		`"revisionHistoryLimit":0,"reserveOrdinals":[1,"3-5"],"lifecycle":{},"scaleStrategy":{"maxUnavailable":2},` +
		`"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete","whenScaled":"Retain"},"ordinals":{"start":3}},` +
		`"status":{"observedGeneration":1,"replicas":2,"readyReplicas":3,"availableReplicas":4,"currentReplicas":5,"updatedReplicas":6,"updatedReadyReplicas":7,` +
		`"updatedAvailableReplicas":8,"currentRevision":"a","updateRevision":"b","collisionCount":0,"conditions":[{"type":"FailedCreatePod","status":"True"}],` +
		`"labelSelector":"a=b","volumeClaims":[{"volumeClaimName":"data","compatibleReplicas":1,"compatibleReadyReplicas":0}]}}`
	var set v1beta1.StatefulSet
	if err := utiljson.Unmarshal([]byte(object), &set); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object, string(raw)); diff != "" {
		t.Errorf("encoded (-want +got):\n%s", diff)
	}
}
