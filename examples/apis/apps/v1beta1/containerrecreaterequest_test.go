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

// requestFields returns the fields that both versions of a ContainerRecreateRequest have. OpenKruise has the same
// fields, except preStop.sleep.
func requestFields() map[string]string {
	fields := fieldsOf("", `object metadata spec status
		string apiVersion kind spec.podName*
		array spec.containers*
		object spec.containers*[] spec.strategy
		int64 spec.activeDeadlineSeconds
		int32 spec.ttlSecondsAfterFinished`)
	maps.Copy(fields, fieldsOf("spec.containers*[].", `string name*
		object preStop preStop.exec preStop.httpGet preStop.tcpSocket preStop.sleep preStop.httpGet.httpHeaders[] ports[] statusContext
		array preStop.exec.command preStop.httpGet.httpHeaders ports
		string preStop.exec.command[] preStop.httpGet.host preStop.httpGet.path preStop.httpGet.scheme
		string preStop.httpGet.httpHeaders[].name* preStop.httpGet.httpHeaders[].value* preStop.tcpSocket.host
		int-or-string preStop.httpGet.port* preStop.tcpSocket.port*
		int64 preStop.sleep.seconds*
		int32 ports[].containerPort* ports[].hostPort statusContext.restartCount*
		string ports[].hostIP ports[].name statusContext.containerID*
		string_with_default ports[].protocol`))
	maps.Copy(fields, fieldsOf("spec.strategy.", `string failurePolicy
		boolean orderedRecreate forceRecreate
		int64 terminationGracePeriodSeconds unreadyGracePeriodSeconds
		int32 minStartedSeconds`))
	maps.Copy(fields, fieldsOf("status.", `string phase* message
		date-time completionTime
		array containerRecreateStates
		object containerRecreateStates[]
		string containerRecreateStates[].name* containerRecreateStates[].phase* containerRecreateStates[].message
		boolean containerRecreateStates[].isKilled`))
	fields[""] = "object"
	return fields
}

func TestContainerRecreateRequestCRDFields(t *testing.T) {
	beta := requestFields()
	maps.Copy(beta, fieldsOf("status.", `array containerStatusSnapshot conditions
		object containerStatusSnapshot[] conditions[]
		string containerStatusSnapshot[].name* containerStatusSnapshot[].containerID
		boolean containerStatusSnapshot[].ready*
		int32 containerStatusSnapshot[].restartCount*
		string conditions[].type* conditions[].status* conditions[].reason* conditions[].message*
		date-time conditions[].lastTransitionTime*
		int64 conditions[].observedGeneration`))
	checkFields(t, "containerrecreaterequests", requestFields(), beta)
}

func TestContainerRecreateRequestCRDNamesAndColumns(t *testing.T) {
	c, _ := readCRD(t, "containerrecreaterequests")
	names := c.Spec.Names
	got := []string{c.Spec.Group, c.Spec.Scope, names.Kind, names.Plural, strings.Join(names.ShortNames, ",")}
	if diff := cmp.Diff([]string{"apps.kruise.io", "Namespaced", "ContainerRecreateRequest", "containerrecreaterequests", "crr"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	columns := []column{
		{"PHASE", "string", ".status.phase", 0},
		{"POD", "string", ".spec.podName", 0},
		{"NODE", "string", `.metadata.labels.crr\.apps\.kruise\.io/node-name`, 0},
		{"AGE", "date", ".metadata.creationTimestamp", 0},
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

func TestContainerRecreateRequestIsRegistered(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ContainerRecreateRequest", "ContainerRecreateRequestList"} {
		if !scheme.Recognizes(v1beta1.GroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
}

// TestUndecodableContainerRecreateRequests: a list with invalid items is decoded, and an object with undecodable
// fields cannot be encoded.
func TestUndecodableContainerRecreateRequests(t *testing.T) {
	const list = `{"items":[
		{"metadata":{"name":"good"},"spec":{"podName":"a","containers":[{"name":"app"}]}},
		{"metadata":{"name":"port"},"spec":{"podName":"a","containers":[{"name":"app","preStop":{"httpGet":{"port":3000000000}}}]}},
		{"metadata":{"name":"time"},"spec":{"podName":"a"},"status":{"phase":"Completed","completionTime":"2026-01-01t00:00:00z"}}]}`
	var got v1beta1.ContainerRecreateRequestList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	for i, problems := range []int{0, 1, 0} {
		item := &got.Items[i]
		if len(item.Spec.Undecodable) != problems || item.Spec.PodName != "a" {
			t.Errorf("%s: Pod %q, problems %v, want %d", item.Name, item.Spec.PodName, item.Spec.Undecodable, problems)
		}
		if _, err := json.Marshal(item); (err != nil) != (problems > 0) {
			t.Errorf("%s: written with error %v", item.Name, err)
		}
	}
	if status := got.Items[2].Status; status.Phase != v1beta1.ContainerRecreateRequestCompleted || status.CompletionTime != nil {
		t.Errorf("status %+v", status)
	}
}
