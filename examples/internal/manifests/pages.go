package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/workloadkit/workloadkit/examples/kind"
)

// tables writes the generated tables into the pages of the documentation.
func tables(root string, rows []kind.Row) error {
	metrics, err := metricsTable(rows)
	if err != nil {
		return err
	}
	for _, t := range []struct{ page, name, table string }{
		{"SECURITY.md", "rights of kinds", rightsTable(rows)}, {"examples/README.md", "metrics of kinds", metrics},
	} {
		path := filepath.Join(root, t.page)
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after, err := withTable(string(before), t.name, t.table)
		if err != nil {
			return fmt.Errorf("%s: %w", t.page, err)
		}
		if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// withTable returns a page in which a table is replaced: the lines between a comment with the table's name and the next
// comment.
func withTable(page, name, table string) (string, error) {
	mark := "<!-- make generate: " + name + " -->\n"
	head, rest, ok := strings.Cut(page, mark)
	end := strings.Index(rest, "<!--")
	if !ok || end < 0 {
		return "", fmt.Errorf("want a line %q, and a comment below the table", strings.TrimSpace(mark))
	}
	return head + mark + table + rest[end:], nil
}

// rightsTable returns the table of the permissions that the kinds need, with reasons.
func rightsTable(rows []kind.Row) string {
	var out strings.Builder
	line := func(resource string, verbs []string, why string) {
		fmt.Fprintf(&out, "| `%s` | any | %s | %s |\n", resource, strings.Join(verbs, ", "), why)
	}
	out.WriteString("| resource | names | verbs | why |\n|---|---|---|---|\n")
	for i := range rows {
		r := &rows[i]
		if r.Rights.Objects == nil {
			continue
		}
		own := r.Kind.Group + "/" + r.Resource
		line(own, r.Rights.Objects, strings.TrimSpace("Its own kind. "+r.Rights.Why))
		if r.Rights.Status {
			line(own+"/status", []string{"patch"}, "The status.")
		}
		if r.Rights.Owns {
			line(own+"/finalizers", []string{"update"}, "Never sent; some API servers ask for the right before accepting an owner with blocked deletion.")
		}
		for _, more := range r.Rights.More {
			for _, resource := range more.Resources {
				line(strings.TrimPrefix(more.Group+"/"+resource, "/"), more.Verbs, more.Why)
			}
		}
	}
	fmt.Fprintf(&out, "| `apiextensions.k8s.io/customresourcedefinitions` | `%s` | get, list, watch, patch | CA bundle and address of conversion. |\n",
		strings.Join(kind.ConvertedCRDs(rows), ", "))
	if names := unconverted(rows); len(names) > 0 {
		fmt.Fprintf(&out, "| `apiextensions.k8s.io/customresourcedefinitions` | `%s` | list, watch | Whether a kind is installed. |\n", strings.Join(names, ", "))
	}
	return out.String()
}

// metricsTable returns the table of the metrics of all kinds' controllers.
func metricsTable(rows []kind.Row) (string, error) {
	var out strings.Builder
	out.WriteString("| metric | meaning |\n|---|---|\n")
	for i := range rows {
		if rows[i].Setup == nil {
			continue
		}
		if _, err := rows[i].RegisterMetrics(listing{&out}); err != nil {
			return "", fmt.Errorf("metrics of %s: %w", rows[i].Name(), err)
		}
	}
	return out.String(), nil
}

// listing collects registered metrics as rows of a table.
type listing struct{ out *strings.Builder }

var description = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)", .*variableLabels: \{([^}]*)\}`)

func (l listing) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc, 10)
	c.Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		found := description.FindStringSubmatch(d.String())
		if found == nil || found[2] == "" {
			return fmt.Errorf("no name or help in %s", d)
		}
		name := found[1]
		if found[3] != "" {
			name += "{" + found[3] + "}"
		}
		fmt.Fprintf(l.out, "| `%s` | %s |\n", name, found[2])
	}
	return nil
}

func (l listing) MustRegister(...prometheus.Collector) { panic(errors.ErrUnsupported) }

func (l listing) Unregister(prometheus.Collector) bool { return false }
