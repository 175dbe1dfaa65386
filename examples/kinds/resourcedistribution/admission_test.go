package resourcedistribution_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kinds/resourcedistribution"
)

type tree = admissiontest.Tree

// served returns a server with the webhooks for ResourceDistributions.
func served(options admission.Options) admissiontest.Server {
	return admissiontest.Server(admission.Handlers(options, resourcedistribution.Row().Admission(options)))
}

// small returns the smallest valid object, with additional lines of spec.
func small(t testing.TB, version string, more ...string) tree {
	t.Helper()
	return admissiontest.Load(t, "testdata/small.yaml", version, more...)
}

// TestResourceDistributionGate: while the feature gate is off, no spec can be created or changed, but finalizers can
// be removed.
func TestResourceDistributionGate(t *testing.T) {
	object := small(t, "v1beta1")
	changed := admissiontest.Edit(t, object, "/spec/resource/data/player", "2")
	labelled := admissiontest.Edit(t, object, "/metadata/labels", tree{"a": "b"})
	for _, c := range []struct {
		name      string
		on        bool
		next, old tree
		code      int32
	}{
		{"RD-1 off, created", false, object, nil, 403},
		{"RD-1 off, changed", false, changed, object, 403},
		{"RD-1 off, labelled", false, labelled, object, 0},
		{"RD-1 on, created", true, object, nil, 0},
		{"RD-1 on, changed", true, changed, object, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := admission.Options{Gates: map[apps.Gate]bool{apps.GateResourceDistribution: c.on}}
			got := served(options).Validate(t, c.next, c.old)
			if got.Allowed != (c.code == 0) || !got.Allowed && got.Result.Code != c.code {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestUnknownFieldsOfResources: an unknown field in the resource causes a warning with the field's name; known fields
// cause no warning.
func TestUnknownFieldsOfResources(t *testing.T) {
	server := served(admission.Options{Gates: map[apps.Gate]bool{apps.GateResourceDistribution: true}})
	for _, tc := range []struct{ typo, want, more string }{
		{"/spec/resource/dat", "spec.resource.dat", ""},
		{
			"/spec/resource/stringDat", "spec.resource.stringDat",
			"  resource: {apiVersion: v1, kind: Secret, type: Opaque, metadata: {name: game-demo}, stringData: {player: \"1\"}}",
		},
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
