package workloadkit_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadmeCompiles: the README's code is the code of example_test.go.
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
