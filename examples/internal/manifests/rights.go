package main

import (
	"fmt"
	"strings"

	"github.com/workloadkit/workloadkit/examples/kind"
)

// shared is the comment in the ClusterRole before the hand-written rules, which are the permissions that no single
// kind determines.
const shared = "# Shared by the kinds."

// withRights returns the manager's ClusterRole with the rules for kinds replaced.
func withRights(before string, rows []kind.Row) (string, error) {
	const start = "\nrules:\n"
	head, rest, ok := strings.Cut(before, start)
	end := strings.Index(rest, shared)
	if !ok || end < 0 {
		return "", fmt.Errorf("want a line %q, and %q below the rules of kinds", strings.TrimSpace(start), shared)
	}
	return head + start + rights(rows) + rest[end:], nil
}

// rights returns the rules for all kinds, and the rule for the kinds' CRDs.
func rights(rows []kind.Row) string {
	var out strings.Builder
	rule := func(group, resources, verbs string) {
		fmt.Fprintf(&out, "- apiGroups: [%s]\n  resources: [%s]\n  verbs: [%s]\n", group, resources, verbs)
	}
	for i := range rows {
		r := &rows[i]
		if r.Rights.Objects == nil {
			continue
		}
		fmt.Fprintf(&out, "# %ss.", r.Title())
		if r.Rights.Why != "" {
			out.WriteString(" " + r.Rights.Why)
		}
		out.WriteString("\n")
		rule(r.Kind.Group, r.Resource, strings.Join(r.Rights.Objects, ", "))
		if r.Rights.Status {
			rule(r.Kind.Group, r.Resource+"/status", "patch")
		}
		if r.Rights.Owns {
			rule(r.Kind.Group, r.Resource+"/finalizers", "update")
		}
		for _, more := range r.Rights.More {
			if more.Why != "" {
				fmt.Fprintf(&out, "# %s\n", more.Why)
			}
			rule(quoted(more.Group), quoted(strings.Join(more.Resources, ", ")), strings.Join(more.Verbs, ", "))
		}
	}
	out.WriteString("# Conversion and CA bundles. Lists and watches ask for one object by a field selector on its name, which is what makes them match a name here.\n")
	crds := func(names []string, verbs string) {
		fmt.Fprintf(&out, "- apiGroups: [apiextensions.k8s.io]\n  resources: [customresourcedefinitions]\n  resourceNames:\n  - %s\n  verbs: [%s]\n", strings.Join(names, "\n  - "), verbs)
	}
	crds(kind.ConvertedCRDs(rows), "get, list, watch, patch")
	if names := unconverted(rows); len(names) > 0 {
		out.WriteString("# Whether kinds with a single version are installed.\n")
		crds(names, "list, watch")
	}
	return out.String()
}

// unconverted returns the names of the CRDs that have a single version.
func unconverted(rows []kind.Row) (names []string) {
	for i := range rows {
		if !rows[i].Converted {
			names = append(names, rows[i].Resource+"."+rows[i].Kind.Group)
		}
	}
	return names
}

// quoted returns a YAML value, in quotes if it is empty or begins with an asterisk.
func quoted(value string) string {
	if value == "" || strings.HasPrefix(value, "*") {
		return `"` + value + `"`
	}
	return value
}
