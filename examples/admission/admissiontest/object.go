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

// Manifest parses an object from YAML.
func Manifest(t testing.TB, text string) Tree {
	t.Helper()
	var object Tree
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// Load reads an object from a file, in an API version. Lines of YAML in more add or replace fields of the spec.
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

// Edit returns a copy of the object with another value at a path as in a JSON patch; nil deletes the value. The last
// part of the path may be a key that does not exist yet.
func Edit(t testing.TB, object Tree, path string, value any) Tree {
	t.Helper()
	s := step{Op: "add", Path: path, Value: value}
	if value == nil {
		s.Op = "remove"
	}
	return applied(t, object, s)
}

// Encode encodes a value as JSON.
func Encode(t testing.TB, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}
