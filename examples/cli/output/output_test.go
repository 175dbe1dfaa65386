package output_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/cli/output"
)

func TestPrint(t *testing.T) {
	type report struct {
		Name string `json:"name"`
	}
	for format, want := range map[string]string{
		"":     "text a, wide false: ^[[2Jok\ntext b, wide false: ^[[2Jok\n",
		"wide": "text a, wide true: ^[[2Jok\ntext b, wide true: ^[[2Jok\n",
		"name": "a\nb\n",
		"yaml": "name: a\n---\nname: b\n",
		"json": "{\n    \"name\": \"a\"\n}\n{\n    \"name\": \"b\"\n}\n",
	} {
		var out bytes.Buffer
		p := output.Printer{Out: &out, Format: format}
		for _, name := range []string{"a", "b"} {
			err := p.Print(report{name}, name+"\n", func(wide bool) string {
				return "text " + name + ", wide " + map[bool]string{true: "true", false: "false"}[wide] + ": \x1b[2Jok\n" // an escape sequence that clears a terminal
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("format %q (-want +got):\n%s", format, diff)
		}
	}
	p := output.Printer{Out: &bytes.Buffer{}, Format: "xml"}
	if err := p.Print(report{}, "", nil); err == nil || !strings.Contains(err.Error(), `"xml" is not json, yaml, name or wide`) {
		t.Errorf("an unknown format: %v", err)
	}
}
