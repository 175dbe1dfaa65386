package ephemeraljob

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
)

func TestAdmission(t *testing.T) {
	server := admissiontest.Server(admission.Handlers(admission.Options{}, endpoint(admission.Options{})))
	good := admissiontest.Load(t, "testdata/small.yaml", "v1alpha1")
	const container = "/spec/template/ephemeralContainers/0"
	for _, c := range []struct {
		name        string
		object, old admissiontest.Tree
		want        int32
		warnings    []string
	}{
		{"EJ-1 valid", good, nil, 0, nil},
		{"EJ-1 a wrong type", admissiontest.Edit(t, good, "/spec/replicas", "many"), nil, http.StatusUnprocessableEntity, nil},
		{"EJ-1 a wrong type in the template", admissiontest.Edit(t, good, container+"/command", "sleep"), nil, http.StatusUnprocessableEntity, nil},
		{"EJ-1 no image", admissiontest.Edit(t, good, container+"/image", ""), nil, http.StatusUnprocessableEntity, nil},
		{"EJ-1 an update to no image", admissiontest.Edit(t, good, container+"/image", ""), good, http.StatusUnprocessableEntity, nil},
		{"EJ-1 a stored fault", admissiontest.Edit(t, good, container+"/image", ""), admissiontest.Edit(t, good, container+"/image", ""), 0, nil},
		{"EJ-1 nothing to run", admissiontest.Edit(t, good, "/spec/template/ephemeralContainers", []any{}), nil, 0, []string{
			"spec.template.ephemeralContainers: is empty, so there is nothing to run",
		}},
		{"EJ-60 no Pod", admissiontest.Edit(t, good, "/spec/selector", admissiontest.Tree{}), nil, 0, []string{"spec.selector: is empty, and selects no Pod"}},
		{"a field of a newer Kubernetes", admissiontest.Edit(t, good, container+"/moreOfIt", 1), nil, 0, []string{"what is made from the templates will not have unknown fields: spec.template.ephemeralContainers[0].moreOfIt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := server.Validate(t, c.object, c.old)
			if got.Allowed != (c.want == 0) || !got.Allowed && got.Result.Code != c.want {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff(c.warnings, got.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
