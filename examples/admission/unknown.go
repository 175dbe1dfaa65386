package admission

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	strictjson "sigs.k8s.io/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// maxUnknown is how many unknown fields a warning names.
const maxUnknown = 5

// unknownFields returns a warning about fields of templates that Pods and claims will not have, because the Kubernetes that this was built
// with does not know them. Most are mistakes in writing. They are no problem: an older manager must not refuse what a newer API server
// knows. Fields that were there before are not named again.
func unknownFields(next, stored []byte) string {
	news, before := specOf(next), specOf(stored)
	var fields []string
	for _, part := range []struct {
		key  string
		into any
	}{
		{"template", &corev1.PodTemplateSpec{}},
		{"volumeClaimTemplates", &[]corev1.PersistentVolumeClaim{}},
		{"containers", &[]pub.SidecarContainer{}},
		{"initContainers", &[]pub.SidecarContainer{}},
		{"volumes", &[]corev1.Volume{}},
	} {
		fields = append(fields, unknownIn(news[part.key], before[part.key], "spec."+part.key, part.into)...)
	}
	if len(fields) == 0 {
		return ""
	}
	more := ""
	if n := len(fields) - maxUnknown; n > 0 {
		fields, more = fields[:maxUnknown], fmt.Sprintf(" and %d more", n)
	}
	return "what is made from the templates will not have unknown fields: " + strings.Join(fields, ", ") + more
}

func unknownIn(next, stored json.RawMessage, at string, into any) []string {
	if len(next) == 0 || string(next) == string(stored) {
		return nil
	}
	problems, err := strictjson.UnmarshalStrict(next, into, strictjson.DisallowUnknownFields)
	if err != nil {
		return nil // said by whoever decodes it
	}
	var fields []string
	for _, problem := range problems {
		text := strings.Trim(strings.TrimPrefix(problem.Error(), "unknown field "), `"`)
		separator := "."
		if strings.HasPrefix(text, "[") {
			separator = ""
		}
		fields = append(fields, shown(at+separator+text))
	}
	return fields
}
