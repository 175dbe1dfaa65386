package admission

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	strictjson "sigs.k8s.io/json"
)

// maxUnknown is the largest number of unknown fields that a warning names.
const maxUnknown = 5

// Spec is the spec of an object, by field.
type Spec map[string]json.RawMessage

// TemplatePart is a part of a spec whose Go type belongs to Kubernetes.
type TemplatePart struct {
	// Path is the path from the spec to the part, with dots.
	Path string
	// Into points to a zero value of the type.
	Into any
}

// podParts returns the parts of a spec with Pod or claim templates.
func podParts(Spec) []TemplatePart {
	return []TemplatePart{
		{"template", &corev1.PodTemplateSpec{}},
		{"volumeClaimTemplates", &[]corev1.PersistentVolumeClaim{}},
	}
}

// partAt returns the value at a path of a spec, or nil.
func partAt(s Spec, path string) json.RawMessage {
	key, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		return s[key]
	}
	var inner Spec
	if utiljson.Unmarshal(s[key], &inner) != nil {
		return nil
	}
	return partAt(inner, rest)
}

// unknownFields returns a warning about fields of templates that the created objects will not have, because the
// linked Kubernetes does not know the fields. Most such fields are typing errors. An unknown field is not an error,
// because an older manager must not refuse fields that a newer API server knows. The warning does not name fields
// that the stored object has already.
func unknownFields(partsOf func(Spec) []TemplatePart, next, stored []byte) string {
	if partsOf == nil {
		partsOf = podParts
	}
	news, before := specOf(next), specOf(stored)
	var fields []string
	for _, part := range partsOf(news) {
		fields = append(fields, unknownIn(partAt(news, part.Path), partAt(before, part.Path), "spec."+part.Path, part.Into)...)
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
	return UnknownFields(next, at, into)
}

// UnknownFields returns the paths, below a path, of the fields in a text that the type of into does not have. The result
// is empty if the text cannot be decoded.
func UnknownFields(next []byte, at string, into any) []string {
	problems, err := strictjson.UnmarshalStrict(next, into, strictjson.DisallowUnknownFields)
	if err != nil {
		return nil // the decoder reports the error
	}
	var fields []string
	for _, problem := range problems {
		text := strings.Trim(strings.TrimPrefix(problem.Error(), "unknown field "), `"`)
		separator := "."
		if strings.HasPrefix(text, "[") {
			separator = ""
		}
		fields = append(fields, Shown(at+separator+text))
	}
	return fields
}
