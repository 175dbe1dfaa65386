// Package bundle packs a few text files into a single text and unpacks the text again, in the txtar format: a line
// "-- NAME --" begins each file. A module needs such a text to embed the files of a module in a subdirectory: the
// directive go:embed cannot embed files of another module, and the published parent module does not contain these
// files.
package bundle

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Pack reads the named files below dir and returns the files as a single text.
func Pack(dir string, names []string) ([]byte, error) {
	var out bytes.Buffer
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		fmt.Fprintf(&out, "-- %s --\n", name)
		out.Write(data)
		if !bytes.HasSuffix(data, []byte("\n")) {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// Unpack writes the files of a packed text below dir.
func Unpack(packed, dir string) error {
	var name string
	content := map[string]*strings.Builder{}
	for line := range strings.Lines(packed) {
		if n, ok := header(line); ok {
			name = n
			content[name] = &strings.Builder{}
			continue
		}
		if name == "" {
			return fmt.Errorf("unpack into %s: text before the first file name", dir)
		}
		content[name].WriteString(line)
	}
	for name, text := range content {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("unpack into %s: file name %q leads out of it", dir, name)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
	}
	return nil
}

func header(line string) (string, bool) {
	line = strings.TrimRight(line, "\n")
	if !strings.HasPrefix(line, "-- ") || !strings.HasSuffix(line, " --") || len(line) < len("-- x --") {
		return "", false
	}
	return strings.TrimSpace(line[len("-- ") : len(line)-len(" --")]), true
}
