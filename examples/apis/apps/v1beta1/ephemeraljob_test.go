package v1beta1_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEphemeralJobCRD: the CRD has OpenKruise's fields, names and columns, and a single version.
func TestEphemeralJobCRD(t *testing.T) {
	fields := fieldsOf("", `object metadata spec status spec.selector* spec.template*
		string apiVersion kind
		anything spec.template*.ephemeralContainers*
		boolean spec.paused
		int64 spec.activeDeadlineSeconds
		int32 spec.replicas spec.parallelism spec.ttlSecondsAfterFinished`)
	maps.Copy(fields, selectorFields("spec.selector*"))
	maps.Copy(fields, fieldsOf("status.", `int32 match running succeeded waiting failed
		string phase conditions[].type* conditions[].status* conditions[].reason conditions[].message
		date-time startTime completionTime conditions[].lastProbeTime conditions[].lastTransitionTime
		array conditions
		object conditions[]`))
	fields[""] = "object"
	c, _ := readCRD(t, "ephemeraljobs")
	if len(c.Spec.Versions) != 1 || c.Spec.Conversion.Strategy != "" {
		t.Fatalf("%d versions, conversion %q", len(c.Spec.Versions), c.Spec.Conversion.Strategy)
	}
	version, got := &c.Spec.Versions[0], map[string]string{}
	version.Schema.Root.flatten("", got)
	if diff := cmp.Diff(fields, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if version.Name != "v1alpha1" || !version.Storage || !version.Served || version.Subresources["status"] == nil {
		t.Errorf("%s: storage %t, served %t, subresources %v", version.Name, version.Storage, version.Served, version.Subresources)
	}
	names := c.Spec.Names
	is := []string{c.Spec.Group, c.Spec.Scope, names.Kind, names.Plural, strings.Join(names.ShortNames, ",")}
	if diff := cmp.Diff([]string{"apps.kruise.io", "Namespaced", "EphemeralJob", "ephemeraljobs", "ejob"}, is); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	columns := []column{
		{"STATUS", "string", ".status.phase", 0},
		{"MATCH", "integer", ".status.match", 0},
		{"SUCCEED", "integer", ".status.succeeded", 0},
		{"FAILED", "integer", ".status.failed", 0},
		{"RUNNING", "integer", ".status.running", 0},
		{"WAITING", "integer", ".status.waiting", 0},
		{"AGE", "date", ".metadata.creationTimestamp", 0},
	}
	if diff := cmp.Diff(columns, version.Columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}
