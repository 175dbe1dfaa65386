package controlplane

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed stages
var stageFiles embed.FS

// stages returns the configuration of kwok: all stage files with their includes inserted.
func stages() (string, error) {
	var docs []string
	for _, name := range []string{"node.yaml", "pod.yaml"} {
		doc, err := included(name, "")
		if err != nil {
			return "", err
		}
		docs = append(docs, doc)
	}
	return strings.Join(docs, "---\n"), nil
}

// included returns a stage file with every line "#include FILE" replaced by the indented file.
func included(name, indent string) (string, error) {
	data, err := stageFiles.ReadFile("stages/" + name)
	if err != nil {
		return "", fmt.Errorf("read stage file: %w", err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		text := strings.TrimLeft(line, " ")
		file, ok := strings.CutPrefix(text, "#include ")
		if !ok {
			out.WriteString(indent + line)
			continue
		}
		inner, err := included(strings.TrimSpace(file), indent+line[:len(line)-len(text)])
		if err != nil {
			return "", fmt.Errorf("include into %s: %w", name, err)
		}
		out.WriteString(inner)
	}
	return out.String(), nil
}
