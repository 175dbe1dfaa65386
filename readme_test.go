package workloadkit_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadmeCompiles: the code in the README is the same as in example_test.go.
func TestReadmeCompiles(t *testing.T) {
	between := func(file, begin, end string) string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, found := strings.Cut(string(raw), begin)
		block, _, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s has nothing between %q and %q", file, begin, end)
		}
		return strings.TrimSpace(block)
	}
	shown, compiled := between("README.md", "```go\n", "```"), between("example_test.go", "// README:begin\n", "// README:end")
	if diff := cmp.Diff(compiled, shown); diff != "" {
		t.Errorf("README differs from example_test.go (-compiled +shown):\n%s", diff)
	}
}

// TestControllerPage: the code on the documentation page about a controller is the code of the operator, and the page
// shows the operator's two functions completely.
func TestControllerPage(t *testing.T) {
	read := func(file string) string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	operator, wiring := read("examples/embed/fleet/fleet.go"), read("examples/embed/fleet/setup.go")
	shown := ""
	for i, block := range strings.Split(read("docs/controller.md"), "```go\n")[1:] {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(operator, code) && !strings.Contains(wiring, code) {
			t.Errorf("block %d is not the operator's code:\n%s", i+1, code)
		}
		shown += code
	}
	_, functions, _ := strings.Cut(operator, "type reconciler struct")
	for line := range strings.Lines(functions) {
		if strings.HasPrefix(line, "\t") && !strings.Contains(shown, line) {
			t.Errorf("the page leaves out %q", line)
		}
	}
}
