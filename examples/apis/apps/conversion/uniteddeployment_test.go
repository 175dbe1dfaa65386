package conversion_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// united returns a UnitedDeployment with a CloneSet template, as JSON: with the given update strategy and scale
// strategy of the template, and the given status.
func united(version, update, scale, status string) string {
	return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"UnitedDeployment","metadata":{"name":"u"},"spec":{"replicas":2,` +
		`"template":{"cloneSetTemplate":{"metadata":{"labels":{"a":"b"}},"spec":{"unknown":12345678901234567890,"updateStrategy":` + update + `,"scaleStrategy":` + scale + `}}},` +
		`"topology":{"subsets":[{"name":"a","patch":{"x":1}}]}},"status":` + status + `}`
}

// TestUnitedDeploymentConversion: both versions show the numbers of the subsets, and conversion reads a template in
// the form of OpenKruise 1.9.0.
func TestUnitedDeploymentConversion(t *testing.T) {
	const statuses = `"subsetStatuses":[{"name":"b","replicas":3,"readyReplicas":1,"partition":2},{"name":"a"}]`
	for _, c := range []struct{ name, from, version, want string }{
		{
			"UD status to v1alpha1", united("v1beta1", `{}`, `{}`, `{"replicas":1,"updatedRevision":"r",`+statuses+`}`), "v1alpha1",
			united("v1alpha1", `{}`, `{}`, `{"replicas":1,"subsetReplicas":{"a":0,"b":3},"updateStatus":{"updatedRevision":"r","currentPartitions":{"a":0,"b":2}},`+statuses+`}`),
		},
		{
			"UD status to v1beta1", united("v1alpha1", `{}`, `{}`, `{"subsetReplicas":{"a":0,"b":3},"updateStatus":{"updatedRevision":"r","currentPartitions":{"a":0,"b":2}},`+statuses+`}`), "v1beta1",
			united("v1beta1", `{}`, `{}`, `{"updatedRevision":"r",`+statuses+`}`),
		},
		{
			"UD subsets known by name alone", united("v1alpha1", `{}`, `{}`, `{"subsetReplicas":{"c":4},"updateStatus":{"currentPartitions":{"d":1,"c":2}},"subsetStatuses":[{"name":"b"}]}`), "v1beta1",
			united("v1beta1", `{}`, `{}`, `{"subsetStatuses":[{"name":"b"},{"name":"c","partition":2,"replicas":4},{"name":"d","partition":1}]}`),
		},
		{"UD no status to v1alpha1", united("v1beta1", `{}`, `{}`, `{}`), "v1alpha1", united("v1alpha1", `{}`, `{}`, `{}`)},
		{"UD no status to v1beta1", united("v1alpha1", `{}`, `{}`, `{}`), "v1beta1", united("v1beta1", `{}`, `{}`, `{}`)},
		{
			"MG-60 a flat strategy", united("v1alpha1", `{"type":"InPlaceOnly","partition":"20%","maxUnavailable":1}`, `{"disablePVCReuse":true}`, `{}`), "v1beta1",
			united("v1beta1", `{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceOnly","partition":"20%","maxUnavailable":1,"inPlaceUpdateStrategy":{}}}`, `{"enablePVCReuse":false}`, `{}`),
		},
		{
			"MG-60 a flat strategy is shown", united("v1beta1", `{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceOnly","partition":"20%","inPlaceUpdateStrategy":{}}}`, `{"enablePVCReuse":false}`, `{}`), "v1alpha1",
			united("v1alpha1", `{"type":"InPlaceOnly","partition":"20%"}`, `{"disablePVCReuse":true}`, `{}`),
		},
		{
			"MG-60 reuse of claims", united("v1alpha1", `{"type":"ReCreate"}`, `{"disablePVCReuse":false}`, `{}`), "v1beta1",
			united("v1beta1", `{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate"}}`, `{"enablePVCReuse":true}`, `{}`),
		},
		{
			"UD the nested form, written over the flat form", united("v1alpha1", `{"type":"RollingUpdate","maxSurge":2,"rollingUpdate":{"podUpdatePolicy":"InPlaceIfPossible","maxSurge":1}}`, `{"enablePVCReuse":true}`, `{}`), "v1beta1",
			united("v1beta1", `{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceIfPossible","maxSurge":1,"inPlaceUpdateStrategy":{}}}`, `{"enablePVCReuse":true}`, `{}`),
		},
		{
			"UD the flat form, written over the nested form", united("v1alpha1", `{"type":"ReCreate","maxSurge":2,"rollingUpdate":{"maxSurge":1}}`, `{}`, `{}`), "v1beta1",
			united("v1beta1", `{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate","maxSurge":2}}`, `{}`, `{}`),
		},
		{
			"UD what has no sense is carried over", `{"apiVersion":"apps.kruise.io/v1beta1","kind":"UnitedDeployment","metadata":{},"spec":{"template":7},"status":{"subsetStatuses":[null,5]}}`, "v1alpha1",
			`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"UnitedDeployment","metadata":{},"spec":{"template":7},"status":{"subsetStatuses":[null,5],"subsetReplicas":{"":0},"updateStatus":{"currentPartitions":{"":0}}}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := conversion.JSON([]byte(c.from), "apps.kruise.io/"+c.version)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(treeOf(t, []byte(c.want)), treeOf(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// checkUnited converts random objects of both versions to the other version and back. The v1alpha1 object has no
// status, because fields of a v1alpha1 status may contradict each other.
func checkUnited(t *testing.T, data []byte) {
	t.Helper()
	beta, alpha := &v1beta1.UnitedDeployment{}, &v1alpha1.UnitedDeployment{}
	beta.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("UnitedDeployment"))
	alpha.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("UnitedDeployment"))
	f := &filler{data}
	f.object(&beta.ObjectMeta, &struct{}{}, &beta.Status)
	f.value(reflect.ValueOf(&beta.Spec.Topology).Elem())
	beta.Spec.Template.CloneSetTemplate = &v1beta1.CloneSetTemplateSpec{}
	f.value(reflect.ValueOf(&beta.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy).Elem())
	f.object(&alpha.ObjectMeta, &struct{}{}, &struct{}{})
	f.value(reflect.ValueOf(&alpha.Spec.Topology).Elem())
	alpha.Spec.Template.CloneSetTemplate = &v1alpha1.CloneSetTemplateSpec{}
	f.value(reflect.ValueOf(&alpha.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy).Elem())
	checkBothWays(t, beta, alpha, to[v1alpha1.UnitedDeployment, v1beta1.UnitedDeployment], to[v1beta1.UnitedDeployment, v1alpha1.UnitedDeployment])
}

func FuzzUnitedDeploymentRoundTrip(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, data []byte) { checkUnited(t, data) })
}

// TestUnitedDeploymentRoundTrips checks a fixed set of random objects in every run; the fuzz test checks further
// objects.
func TestUnitedDeploymentRoundTrips(t *testing.T) {
	repeat(t, 11, checkUnited)
}
