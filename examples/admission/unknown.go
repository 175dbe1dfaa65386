package admission

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	strictjson "sigs.k8s.io/json"
)

// maxUnknown is how many unknown fields a warning names.
const maxUnknown = 5

// templates are what no schema of a CRD checks.
type templates struct {
	Template             json.RawMessage `json:"template"`
	VolumeClaimTemplates json.RawMessage `json:"volumeClaimTemplates"`
}

// unknownFields returns a warning about fields of templates that Pods and claims will not have, because the Kubernetes that this was built
// with does not know them. Most are mistakes in writing. They are no problem: an older manager must not refuse what a newer API server
// knows. Fields that were there before are not named again.
func unknownFields(next, stored []byte) string {
	news, before := templatesOf(next), templatesOf(stored)
	fields := unknownIn(news.Template, before.Template, "spec.template", &corev1.PodTemplateSpec{})
	fields = append(fields, unknownIn(news.VolumeClaimTemplates, before.VolumeClaimTemplates, "spec.volumeClaimTemplates", &[]corev1.PersistentVolumeClaim{})...)
	if len(fields) == 0 {
		return ""
	}
	more := ""
	if n := len(fields) - maxUnknown; n > 0 {
		fields, more = fields[:maxUnknown], fmt.Sprintf(" and %d more", n)
	}
	return "what is made from the templates will not have unknown fields: " + strings.Join(fields, ", ") + more
}

func templatesOf(object []byte) templates {
	var parts struct {
		Spec templates `json:"spec"`
	}
	if utiljson.Unmarshal(object, &parts) != nil {
		return templates{} // of no object, or said by whoever decodes it
	}
	return parts.Spec
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
