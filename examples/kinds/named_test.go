package kinds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/workloadkit/workloadkit/examples/kinds"
)

// mayName lists the files outside the kinds' folders and API types that may name a kind, each with the reason.
func mayName() map[string]string {
	return map[string]string{
		"admission/protection.go":                "the built-in StatefulSet, and an event of OpenKruise",
		"admission/agent_rights.go":              "the objects that policies of node agents bind",
		"config/agents.go":                       "the folder with the rights for pull secrets",
		"daemon/images/*":                        "the agent reads and writes the NodeImage of its Node",
		"kruise/probes/*":                        "the marks of a PodProbeMarker, for controllers and the agent",
		"bench/options.go":                       "the kind to measure by default",
		"controllers/sidecarterminator/setup.go": "the controller writes requests to recreate containers",
		"internal/hostile/*":                     "hostile objects of each kind",
		"quickstart/story_*.go":                  "a story is about a kind",
		"workloads/lookup.go":                    "the built-in StatefulSet and this project's are looked up alike",
		"workloads/numbered.go":                  "the built-in StatefulSet and this project's number their Pods alike",
	}
}

// TestKindsAreNamedInTheirRooms: shared code contains no list of kinds and no switch over kinds, because each new
// kind would need a change there. Shared code asks the fields of the kinds' kind.Rows instead.
func TestKindsAreNamedInTheirRooms(t *testing.T) {
	names, used := map[string]bool{}, map[string]bool{}
	for _, row := range kinds.All() {
		names[row.Kind.Kind], names[row.Resource], names[row.Name()] = true, true, true
	}
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel("..", file)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "apis" || name == "cli" || path.Dir(name) == "kinds"): // API types, a client of any manager, and kinds
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && names[text] && !isAllowed(name, used) {
				t.Errorf("%s names %q: ask the kind's row", name, text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pattern := range mayName() {
		if !used[pattern] {
			t.Errorf("%s names no kind any more", pattern)
		}
	}
}

func isAllowed(file string, used map[string]bool) bool {
	for pattern := range mayName() {
		if ok, _ := path.Match(pattern, file); ok {
			used[pattern] = true
			return true
		}
	}
	return false
}
