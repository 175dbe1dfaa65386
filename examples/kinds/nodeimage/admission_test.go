package nodeimage

import (
	"testing"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

func TestAdmission(t *testing.T) {
	server := admissiontest.Server(admission.Handlers(admission.Options{}, endpoint(admission.Options{})))
	good := admissiontest.Edit(t, admissiontest.Load(t, "testdata/small.yaml", "v1beta1"), "/spec/images/nginx/tags/0/createdAt", "2026-03-01T02:00:00Z")
	const tag = "/spec/images/nginx/tags/0"
	wanted := admissiontest.Tree{"tag": "1", "createdAt": "2026-03-01T02:00:00Z", "pullPolicy": admissiontest.Tree{"ttlSecondsAfterFinished": 600}}
	many := admissiontest.Tree{}
	for i := range 257 {
		many["a"+string(rune('a'+i%26))+string(rune('a'+i/26))] = admissiontest.Tree{"tags": []any{}}
	}
	for _, c := range []struct {
		name, path string
		value      any
		want       int32
	}{
		{"3.3 valid", tag + "/version", 1, 0},
		{"3.3 no tag", tag + "/tag", "", 422},
		{"3.3 no valid tag", tag + "/tag", "a b", 422},
		{"3.3 no time", tag + "/createdAt", nil, 422},
		{"3.3 a negative version", tag + "/version", -1, 422},
		{"3.3 no limits", tag + "/pullPolicy", nil, 422},
		{"3.3 no TTL", tag + "/pullPolicy", admissiontest.Tree{}, 422},
		{"3.3 a tag twice", "/spec/images/nginx/tags", []any{wanted, wanted}, 422},
		{"3.3 an image without a name", "/spec/images/", admissiontest.Tree{"tags": []any{}}, 422},
		{"3.3 257 images", "/spec/images", many, 422},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := admissiontest.Answered(server.Validate(t, admissiontest.Edit(t, good, c.path, c.value), nil)); got.Code != c.want {
				t.Errorf("%+v", got)
			}
		})
	}
	options := admission.Options{Gates: map[apps.Gate]bool{apps.GateKruiseDaemon: false}}
	closed := admissiontest.Server(admission.Handlers(options, endpoint(options)))
	if answer := admissiontest.Answered(closed.Validate(t, good, nil)); answer.Code != 403 {
		t.Errorf("0.2 the gate is off: %+v", answer)
	}
}
