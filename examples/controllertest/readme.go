package controllertest

import (
	"os"
	"strings"
	"testing"
)

// Commands returns the commands in the first shell block of a document's section, one per line, without comments. If
// the section contains no commands, the test fails.
func Commands(t testing.TB, path, section string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "# "+section+"\n")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	block, _, _ := strings.Cut(rest, "```")
	for line := range strings.Lines(block) {
		command, _, _ := strings.Cut(line, "  # ")
		lines = append(lines, strings.TrimSpace(command))
	}
	if len(lines) == 0 {
		t.Fatalf("%s has no commands in section %q", path, section)
	}
	return lines
}
