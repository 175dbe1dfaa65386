package admissiontest

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

// step is an operation of a JSON patch.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Patch applies the patch of a response to the object, and also returns the patch as values by path. For the
// operation add, the key is the path; for any other operation, the key begins with the operation, as in "remove
// /metadata/annotations".
func Patch(t testing.TB, object Tree, response *admissionv1.AdmissionResponse) (patched Tree, changes map[string]any) {
	t.Helper()
	if !response.Allowed {
		t.Fatalf("refused: %+v", response.Result)
	}
	if (response.Patch == nil) != (response.PatchType == nil) {
		t.Fatalf("patch %q of type %v", response.Patch, response.PatchType)
	}
	var steps []step
	if response.Patch != nil {
		if err := json.Unmarshal(response.Patch, &steps); err != nil {
			t.Fatal(err)
		}
	}
	changes = map[string]any{}
	for _, s := range steps {
		key := s.Path
		if s.Op != "add" {
			key = s.Op + " " + key
		}
		changes[key] = s.Value
	}
	return applied(t, object, steps...), changes
}

// PodDefaults returns the patch, as values by path, that sets the defaults of a Pod template with a single container
// whose image has a tag, and the changes in more.
func PodDefaults(more ...map[string]any) map[string]any {
	const container = "/spec/template/spec/containers/0/"
	all := map[string]any{
		container + "imagePullPolicy":                       "Always",
		container + "terminationMessagePath":                "/dev/termination-log",
		container + "terminationMessagePolicy":              "File",
		"/spec/template/spec/dnsPolicy":                     "ClusterFirst",
		"/spec/template/spec/restartPolicy":                 "Always",
		"/spec/template/spec/schedulerName":                 "default-scheduler",
		"/spec/template/spec/securityContext":               Tree{},
		"/spec/template/spec/terminationGracePeriodSeconds": 30.0,
	}
	for _, changes := range more {
		maps.Copy(all, changes)
	}
	return all
}

// applied applies a patch strictly to a copy: parents of a path, and values to replace or remove, must exist.
func applied(t testing.TB, object Tree, steps ...step) Tree {
	t.Helper()
	var result Tree
	if err := json.Unmarshal(Encode(t, object), &result); err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		words := strings.Split(s.Path, "/")[1:]
		for i := range words {
			words[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(words[i])
		}
		after, ok := s.at(result, words)
		if !ok {
			t.Fatalf("%+v does not apply to %s", s, Encode(t, object))
		}
		result = after.(Tree)
	}
	return result
}

// at applies the step below a value, and reports whether the step applies.
func (s step) at(value any, words []string) (after any, ok bool) {
	switch value := value.(type) {
	case Tree:
		return value, s.inObject(value, words[0], words[1:])
	case []any:
		return s.inList(value, words[0], words[1:])
	}
	return nil, false
}

func (s step) inObject(object Tree, key string, below []string) (ok bool) {
	value, there := object[key]
	switch {
	case len(below) > 0:
		if value, ok = s.at(value, below); ok {
			object[key] = value
		}
		return ok
	case !there && s.Op != "add":
		return false
	case s.Op == "remove":
		delete(object, key)
	default:
		object[key] = s.Value
	}
	return true
}

func (s step) inList(list []any, key string, below []string) (after []any, ok bool) {
	if key == "-" && len(below) == 0 && s.Op == "add" {
		return append(list, s.Value), true
	}
	i, err := strconv.Atoi(key)
	if err != nil || i < 0 || i >= len(list) {
		return nil, false
	}
	if len(below) == 0 {
		list[i] = s.Value
		return list, s.Op == "replace"
	}
	list[i], ok = s.at(list[i], below)
	return list, ok
}
