package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRegistrationsAreCurrent: the committed files equal the files that the command generates from the types.
func TestRegistrationsAreCurrent(t *testing.T) {
	const apis = "../../apis"
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(apis)); err != nil {
		t.Fatal(err)
	}
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	written, err := filepath.Glob(filepath.Join(dir, "*", "*", output))
	if err != nil || len(written) == 0 {
		t.Fatalf("written: %q, %v", written, err)
	}
	for _, file := range written {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(apis, name))
		if diff := cmp.Diff(string(want), string(got)); diff != "" || err != nil {
			t.Errorf("%s, %v; run make generate (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestRoots(t *testing.T) {
	const types = `package v1beta1

// Web is marked, above a line of its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
type Web struct{}

// WebSpec is not.
type WebSpec struct{}

type bare int

// Name is no type.
//
// +kubebuilder:object:root=true
const Name = ""

// WebList is marked.
//
// +kubebuilder:object:root=true
type WebList struct{}
`
	file := filepath.Join(t.TempDir(), "web_types.go")
	for _, tc := range []struct {
		name, text string
		want       []string
		fails      bool
	}{
		{"types", types, []string{"Web", "WebList"}, false},
		{"no Go", "no Go", nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := roots(file)
			if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.fails {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestNothingToRegister(t *testing.T) {
	if err := write(t.TempDir()); err == nil {
		t.Error("a directory without APIs is taken")
	}
}
