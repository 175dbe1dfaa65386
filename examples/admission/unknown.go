package admission

import (
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	strictjson "sigs.k8s.io/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
)

// maxUnknown is how many unknown fields a warning names.
const maxUnknown = 5

// templatePart is a part of a spec with a Go type of Kubernetes.
type templatePart struct {
	path string
	into any
}

// templatePartsOf returns the template parts of a kind. For the rest of a spec, the API server itself reports fields
// unknown to its schema.
func templatePartsOf(kind string, s spec) []templatePart {
	switch kind {
	case "AdvancedCronJob":
		return []templatePart{
			{"template.jobTemplate", &batchv1.JobTemplateSpec{}},
			{"template.broadcastJobTemplate.metadata", &metav1.ObjectMeta{}},
			{"template.broadcastJobTemplate.spec.template", &corev1.PodTemplateSpec{}},
			{"template.imageListPullJobTemplate.metadata", &metav1.ObjectMeta{}},
		}
	case "ResourceDistribution":
		var copied metav1.TypeMeta
		if utiljson.Unmarshal(s["resource"], &copied) == nil && copied.Kind == "Secret" {
			return []templatePart{{"resource", &corev1.Secret{}}}
		}
		return []templatePart{{"resource", &corev1.ConfigMap{}}}
	}
	return []templatePart{
		{"template", &corev1.PodTemplateSpec{}},
		{"volumeClaimTemplates", &[]corev1.PersistentVolumeClaim{}},
		{"containers", &[]pub.SidecarContainer{}},
		{"initContainers", &[]pub.SidecarContainer{}},
		{"volumes", &[]corev1.Volume{}},
	}
}

// partAt returns the value at a path of a spec, or nil.
func partAt(s spec, path string) json.RawMessage {
	key, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		return s[key]
	}
	var inner spec
	if utiljson.Unmarshal(s[key], &inner) != nil {
		return nil
	}
	return partAt(inner, rest)
}

// unknownFields returns a warning about template fields missing in the created objects, because the linked Kubernetes
// does not know the fields. Most such fields are typing errors. Unknown fields are no problem: an older manager must
// not refuse fields known to a newer API server. Fields present before are not named again.
func unknownFields(kind string, next, stored []byte) string {
	news, before := specOf(next), specOf(stored)
	var fields []string
	for _, part := range templatePartsOf(kind, news) {
		fields = append(fields, unknownIn(partAt(news, part.path), partAt(before, part.path), "spec."+part.path, part.into)...)
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
		return nil // the decoder reports the fault
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
