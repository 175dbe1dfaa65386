package admissiontest

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Tree is an object as decoded JSON.
type Tree = map[string]any

// Manifest reads an object from YAML.
func Manifest(t testing.TB, text string) Tree {
	t.Helper()
	var object Tree
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// Load reads an object from a file, in a version of its API. More lines of YAML add fields to the spec, and replace
// fields.
func Load(t testing.TB, file, version string, more ...string) Tree {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	object := Manifest(t, string(raw))
	apiVersion, _ := object["apiVersion"].(string)
	group, _, _ := strings.Cut(apiVersion, "/")
	object["apiVersion"] = group + "/" + version
	spec, ok := object["spec"].(Tree)
	if !ok {
		t.Fatalf("%s has no spec", file)
	}
	maps.Copy(spec, Manifest(t, strings.Join(more, "\n")))
	return object
}

// Edit returns the object with another value at a path as in a JSON patch; nil deletes. The last part of the path may
// be a missing key.
func Edit(t testing.TB, object Tree, path string, value any) Tree {
	t.Helper()
	s := step{Op: "add", Path: path, Value: value}
	if value == nil {
		s.Op = "remove"
	}
	return applied(t, object, s)
}

// Encode returns a value as JSON.
func Encode(t testing.TB, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}
