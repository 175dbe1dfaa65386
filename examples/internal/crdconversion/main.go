// Command crdconversion adds the conversion webhook to each CRD with several versions in a directory, because
// controller-gen has no marker for conversion. The command only adds lines to a file, and adds nothing in a second
// run.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// conversion is the text to add below spec. The manager sets the caBundle later. The first key of spec is "group", so
// the keys remain sorted, as in all output of controller-gen.
const conversion = `  conversion:
    strategy: Webhook
    webhook:
      clientConfig:
        service:
          name: kruise-webhook-service
          namespace: kruise-system
          path: /convert
          port: 443
      conversionReviewVersions:
      - v1
      - v1beta1
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crdconversion DIRECTORY")
		os.Exit(2)
	}
	if err := rewrite(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crdconversion:", err)
		os.Exit(1)
	}
}

func rewrite(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRDs in %s", dir)
	}
	for _, file := range files {
		before, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		after, err := add(before)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if bytes.Equal(before, after) {
			continue
		}
		if err := os.WriteFile(file, after, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manifest contains the fields of a CRD to read.
type manifest struct {
	Kind string `json:"kind"`
	Spec struct {
		Conversion any   `json:"conversion"`
		Versions   []any `json:"versions"`
	} `json:"spec"`
}

// add returns the CRD with the conversion webhook, or an unchanged CRD if there is only a single version.
func add(crd []byte) ([]byte, error) {
	m, err := read(crd)
	if err != nil {
		return nil, err
	}
	if m.Spec.Conversion != nil || len(m.Spec.Versions) < 2 {
		return crd, nil
	}
	head, tail, ok := bytes.Cut(crd, []byte("\nspec:\n"))
	if !ok || !bytes.HasPrefix(tail, []byte("  group:")) {
		return nil, fmt.Errorf("spec does not begin with group, as controller-gen writes it")
	}
	out := bytes.Join([][]byte{head, []byte("\nspec:\n" + conversion), tail}, nil)
	if m, err = read(out); err != nil {
		return nil, fmt.Errorf("with a conversion webhook: %w", err)
	}
	if m.Spec.Conversion == nil {
		return nil, fmt.Errorf("the conversion webhook did not end up in spec")
	}
	return out, nil
}

func read(crd []byte) (manifest, error) {
	var m manifest
	if err := yaml.UnmarshalStrict(crd, &map[string]any{}); err != nil {
		return m, err
	}
	if err := yaml.Unmarshal(crd, &m); err != nil {
		return m, err
	}
	if m.Kind != "CustomResourceDefinition" {
		return m, fmt.Errorf("kind %q is no CustomResourceDefinition", m.Kind)
	}
	return m, nil
}
