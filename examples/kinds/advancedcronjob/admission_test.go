package advancedcronjob_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob"
)

type tree = admissiontest.Tree

// served returns a server with the webhooks for AdvancedCronJobs.
func served(options admission.Options) admissiontest.Server {
	return admissiontest.Server(admission.Handlers(options, advancedcronjob.Row().Admission(options)))
}

// broadcasts is the part of a spec with a BroadcastJob template.
const broadcasts = `
  template:
    broadcastJobTemplate:
      metadata: {labels: {team: a}}
      spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: "example.test/app:v1"}]}}}
`

// small returns the smallest valid object, with additional lines of spec.
func small(t testing.TB, version string, more ...string) tree {
	t.Helper()
	return admissiontest.Load(t, "testdata/small.yaml", version, more...)
}

// TestUnknownFieldsOfTemplates: an unknown field in a template causes a warning with the field's name; known fields
// cause no warning.
func TestUnknownFieldsOfTemplates(t *testing.T) {
	server := served(admission.Options{})
	for _, tc := range []struct{ typo, want, more string }{
		{"/spec/template/jobTemplate/spec/backofLimit", "spec.template.jobTemplate.spec.backofLimit", ""},
		{
			"/spec/template/jobTemplate/spec/template/spec/containers/0/readinesProbe",
			"spec.template.jobTemplate.spec.template.spec.containers[0].readinesProbe", "",
		},
		{"/spec/template/jobTemplate/metadata/label", "spec.template.jobTemplate.metadata.label", ""},
		{
			"/spec/template/broadcastJobTemplate/spec/template/spec/failurePolicy",
			"spec.template.broadcastJobTemplate.spec.template.spec.failurePolicy", broadcasts,
		},
		{"/spec/template/broadcastJobTemplate/metadata/label", "spec.template.broadcastJobTemplate.metadata.label", broadcasts},
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			t.Run(tc.want+" of "+version, func(t *testing.T) {
				plain := small(t, version, tc.more)
				if got := server.Validate(t, plain, nil); !got.Allowed || len(got.Warnings) > 0 {
					t.Errorf("without a typo: allowed %t, %v, warnings %q", got.Allowed, got.Result, got.Warnings)
				}
				want := []string{"what is made from the templates will not have unknown fields: " + tc.want}
				got := server.Validate(t, admissiontest.Edit(t, plain, tc.typo, "x"), nil)
				if diff := cmp.Diff(want, got.Warnings); diff != "" || !got.Allowed {
					t.Errorf("with a typo: allowed %t, %v, warnings (-want +got):\n%s", got.Allowed, got.Result, diff)
				}
			})
		}
	}
}

// TestUndecodableInTemplates: if a value in a template does not fit into the field's Go type, the webhook's error
// contains the whole path of the field.
func TestUndecodableInTemplates(t *testing.T) {
	server := served(admission.Options{})
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		odd := admissiontest.Edit(t, small(t, version, broadcasts), "/spec/template/broadcastJobTemplate/spec/parallelism", 9999999999999)
		for verb, response := range map[string]*admissionv1.AdmissionResponse{
			"mutate": server.Mutate(t, odd, nil), "validate": server.Validate(t, odd, nil),
		} {
			want := admissiontest.Invalid("spec.template.broadcastJobTemplate.spec.parallelism: FieldValueTypeInvalid: Invalid value: " +
				`is 9999999999999, must be an integer of at most 32 bits, or text such as "5%"`)
			if diff := cmp.Diff(want, admissiontest.Answered(response)); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", verb, version, diff)
			}
		}
	}
}
