package workloadkit_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQuestions: each package at the root answers a question, and so do the packages below rollout, fairqueue,
// runtimemeta, and the packages about Nodes. The question has the same text in the package's comment, in doc.go and
// in the README.
func TestQuestions(t *testing.T) {
	inComments := map[string]string{}
	answers := regexp.MustCompile(`Package \w+ answers "([^"]+\?)"`)
	var files []string
	for _, pattern := range []string{"*/*.go", "rollout/*/*.go", "ownercache/fairqueue/*.go", "inplaceupdate/runtimemeta/*.go", "node/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(file.Doc.Text()), " ")
		if found := answers.FindStringSubmatch(text); found != nil {
			inComments[filepath.ToSlash(filepath.Dir(path))] = found[1]
		} else if text != "" {
			t.Errorf("%s: the package comment says no question: %.60s", path, text)
		}
	}
	listed := func(file, pattern string) map[string]string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(raw), -1) {
			out[found[1]] = strings.ToLower(found[2][:1]) + found[2][1:]
		}
		return out
	}
	if diff := cmp.Diff(inComments, listed("doc.go", `(?m)^//\t([\w/]+) +(.+\?)$`)); diff != "" {
		t.Errorf("doc.go (-package comments +doc.go):\n%s", diff)
	}
	if diff := cmp.Diff(inComments, listed("README.md", "(?m)^\\| \\[`([\\w/]+)`\\]\\([\\w/]+\\) \\| (.+?\\?)( \\(.*\\))? \\|$")); diff != "" {
		t.Errorf("README.md (-package comments +README):\n%s", diff)
	}
}
