package conversion_test

import (
	"fmt"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
)

func Example() {
	stored := `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","spec":{
		"scaleStrategy":{"excludePreparingDelete":true},
		"updateStrategy":{"type":"OnDelete","rollingUpdate":{"paused":true}}}}`

	shown, _ := conversion.JSON([]byte(stored), "apps.kruise.io/v1alpha1")
	fmt.Println(string(shown))

	back, _ := conversion.JSON(shown, "apps.kruise.io/v1beta1")
	fmt.Println(string(back))
	// Output:
	// {"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"annotations":{"workloadkit.io/v1beta1-only":"{\"when\":[\"OnDelete\"],\"fields\":[{\"path\":[\"metadata\",\"labels\",\"apps.kruise.io/cloneset-scaling-exclude-preparing-delete\"],\"shown\":\"true\"},{\"path\":[\"spec\",\"updateStrategy\",\"rollingUpdate\"],\"kept\":{\"paused\":true}}]}"},"labels":{"apps.kruise.io/cloneset-scaling-exclude-preparing-delete":"true"}},"spec":{"scaleStrategy":{"disablePVCReuse":true},"updateStrategy":{"type":"OnDelete"}}}
	// {"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{},"spec":{"scaleStrategy":{"excludePreparingDelete":true},"updateStrategy":{"rollingUpdate":{"paused":true},"type":"OnDelete"}}}
}

// The example shows fields that v1alpha1 lacks, annotations and labels in place of fields, renamed fields, and notes.
func ExampleJSON() {
	for _, object := range []struct{ content, version string }{
		{`{"apiVersion":"apps.kruise.io/v1beta1","kind":"StatefulSet","spec":{"reserveOrdinals":[1,"4-6"]}}`, "apps.kruise.io/v1alpha1"},
		{`{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","spec":{"scaleStrategy":{"partitionedScaling":true}},` +
			`"status":{"updateRevision":"648478f69b"}}`, "apps.kruise.io/v1alpha1"},
		{`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"SidecarSet","spec":{"namespace":"team-a"}}`, "apps.kruise.io/v1beta1"},
		{`{"apiVersion":"policy.kruise.io/v1alpha1","kind":"PodUnavailableBudget","metadata":{"annotations":` +
			`{"kruise.io/pub-protect-operations":"DELETE,EVICT"}},"spec":{}}`, "policy.kruise.io/v1beta1"},
	} {
		converted, err := conversion.JSON([]byte(object.content), object.version)
		fmt.Println(string(converted), err)
	}
	// Output:
	// {"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","metadata":{"annotations":{"workloadkit.io/v1beta1-only":"{\"fields\":[{\"path\":[\"spec\",\"reserveOrdinals\"],\"kept\":[1,\"4-6\"]}]}"}},"spec":{}} <nil>
	// {"apiVersion":"apps.kruise.io/v1alpha1","kind":"DaemonSet","metadata":{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true","workloadkit.io/v1beta1-only":"{\"fields\":[{\"path\":[\"metadata\",\"annotations\",\"daemonset.kruise.io/progressive-create-pod\"],\"shown\":\"true\"}]}"}},"spec":{},"status":{"daemonSetHash":"648478f69b"}} <nil>
	// {"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"annotations":{"workloadkit.io/v1alpha1-only":"{\"when\":[\"{\\\"matchLabels\\\":{\\\"kubernetes.io/metadata.name\\\":\\\"team-a\\\"}}\"],\"fields\":[{\"path\":[\"spec\",\"namespace\"],\"kept\":\"team-a\"},{\"path\":[\"spec\",\"namespaceSelector\"],\"shown\":{\"matchLabels\":{\"kubernetes.io/metadata.name\":\"team-a\"}}}]}"}},"spec":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"team-a"}}}} <nil>
	// {"apiVersion":"policy.kruise.io/v1beta1","kind":"PodUnavailableBudget","metadata":{"annotations":{"kruise.io/pub-protect-operations":"DELETE,EVICT"}},"spec":{"protectOperations":["DELETE","EVICT"]}} <nil>
}
