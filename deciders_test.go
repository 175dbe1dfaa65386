package workloadkit_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// named lists the packages of the examples whose names and values both deciding and acting files use.
const named = "examples/apis/... examples/kinds/advancedcronjob/schedule examples/kruise examples/kruise/judge examples/workloads"

// TestDecidingFilesArePure: the files decide*.go and resolve*.go in the folder of a kind have no effects, and no
// input except their arguments.
func TestDecidingFilesArePure(t *testing.T) {
	var files []string
	for _, pattern := range []string{"decide*.go", "resolve*.go", "onnode/decide*.go"} {
		found, err := filepath.Glob(filepath.Join("examples", "kinds", "*", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	rooms := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		rooms[filepath.Base(filepath.Dir(file))] = true
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		var imports []string
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imports = append(imports, imported)
		}
		for _, imported := range impure(layers(), imports) {
			t.Errorf("%s imports %s, which a decision does not need", file, imported)
		}
	}
	if whole, _ := filepath.Glob("examples/kinds/*"); len(whole) > 0 && len(rooms) < 6 {
		t.Errorf("deciding files in %d rooms alone", len(rooms))
	}
}

// impure returns the imports that a deciding file must not have.
func impure(table []layer, imports []string) (found []string) {
	forbidden := append(strings.Fields(outside), "k8s.io/utils/clock")
	for _, imported := range imports {
		own, isOwn := strings.CutPrefix(imported, module+"/")
		row, known := rowOf(table, own)
		var ok bool
		switch {
		case slices.Contains(forbidden, imported):
		case isOwn:
			ok = known && row.kind == pure || slices.ContainsFunc(strings.Fields(named), func(pattern string) bool { return fits(pattern, own) })
		case strings.Contains(strings.SplitN(imported, "/", 2)[0], "."):
			ok = slices.ContainsFunc(pure.modules(), func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") })
		default:
			ok = true // a package of the standard library
		}
		if !ok {
			found = append(found, imported)
		}
	}
	return found
}

func TestImpure(t *testing.T) {
	fine := []string{"slices", "encoding/json", "k8s.io/api/core/v1", "k8s.io/utils/ptr", module + "/rollout", module + "/examples/apis/apps/v1beta1", module + "/examples/kruise"}
	wrong := []string{
		"context", "os", "k8s.io/utils/clock", "k8s.io/client-go/rest", "sigs.k8s.io/controller-runtime/pkg/client",
		module + "/fanout", module + "/examples/manager", module + "/examples/kinds/cloneset",
	}
	if diff := cmp.Diff(wrong, impure(layers(), slices.Concat(fine, wrong))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
