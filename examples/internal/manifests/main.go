// Command manifests writes the parts of the repository that are generated from the table of kinds (package kinds):
// entries of the webhook configurations, roles, the lists in kustomizations, and the tables of permissions and
// metrics. The hand-written entries of the webhook configurations, which begin at the first comment after the
// generated entries, are not changed.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1], kinds.All()); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

// write writes the manifests and tables below root, the directory of the repository.
func write(root string, rows []kind.Row) error {
	if err := tables(root, rows); err != nil {
		return err
	}
	dir := filepath.Join(root, "examples", "config")
	files := map[string]string{"crd/Kustomization": crds(rows), "rbac/Kustomization": roles(rows)}
	for i := range rows {
		name := rows[i].Name()
		files["rbac/"+name+"_editor.yaml"], files["rbac/"+name+"_viewer.yaml"] = editor(&rows[i]), viewer(&rows[i])
	}
	var called []hook
	for _, verb := range []string{"mutate", "validate"} {
		file := map[string]string{"mutate": "webhook/mutating.yaml", "validate": "webhook/validating.yaml"}[verb]
		before, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		content, err := withEntries(string(before), entries(rows, verb))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		files[file] = content
		called = append(called, hooksOf(content)...)
	}
	files["webhook-url/Kustomization"] = byURL(rows, called)
	const role = "rbac/cluster_role.yaml"
	before, err := os.ReadFile(filepath.Join(dir, role))
	if err != nil {
		return err
	}
	if files[role], err = withRights(string(before), rows); err != nil {
		return fmt.Errorf("%s: %w", role, err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// entries returns the entries for all kinds in a webhook configuration; verb is mutate or validate.
func entries(rows []kind.Row, verb string) string {
	var out strings.Builder
	for i := range rows {
		r := &rows[i]
		for _, path := range admission.Paths(kind.Endpoints([]kind.Row{*r}, admission.Options{})...) {
			if !strings.HasPrefix(path, "/"+verb+"-") {
				continue
			}
			versions, operations := []string{r.Kind.Version}, []string{"CREATE", "UPDATE"}
			if r.Converted {
				versions = []string{"v1alpha1", r.Kind.Version}
			}
			if r.Protected && verb == "validate" {
				operations = append(operations, "DELETE")
			}
			fmt.Fprintf(&out, `- name: %s%s.kb.io
  admissionReviewVersions:
  - v1
  - v1beta1
  clientConfig:
    service:
      name: kruise-webhook-service
      namespace: kruise-system
      path: %s
      port: 443
  failurePolicy: Fail
  rules:
  - apiGroups:
    - %s
    apiVersions:
    - %s
    operations:
    - %s
    resources:
    - %s
  sideEffects: None
`, verb[:1], r.Name(), path, r.Kind.Group, strings.Join(versions, "\n    - "), strings.Join(operations, "\n    - "), r.Resource)
		}
	}
	return out.String()
}

// withEntries returns a webhook configuration in which the entries for kinds are replaced.
func withEntries(before, entries string) (string, error) {
	const start = "\nwebhooks:\n"
	head, rest, ok := strings.Cut(before, start)
	end := strings.Index(rest, "\n# ")
	if !ok || end < 0 {
		return "", fmt.Errorf("want a line %q, and a comment below the entries of kinds", strings.TrimSpace(start))
	}
	return head + start + entries + rest[end+1:], nil
}

// hook is an entry of a webhook configuration.
type hook struct{ name, path string }

// hooksOf returns the entries of a webhook configuration, in their order.
func hooksOf(configuration string) (hooks []hook) {
	for line := range strings.Lines(configuration) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "- name: "); ok {
			hooks = append(hooks, hook{name: name})
		} else if path, ok := strings.CutPrefix(line, "      path: "); ok && len(hooks) > 0 {
			hooks[len(hooks)-1].path = path
		}
	}
	return hooks
}

func editor(r *kind.Row) string {
	comment, label := fmt.Sprintf("# Whoever has the built-in role edit or admin in a namespace may use %ss there.", r.Title()), aggregate("edit")
	if r.ClusterScoped {
		comment, label = fmt.Sprintf("# Whoever has this role may use %ss. It belongs to no built-in role: who writes a %s %s.\n# Bind it with a ClusterRoleBinding.",
			r.Title(), r.Title(), r.Reach), ""
	}
	return role(r, "editor", comment, label, "get, list, watch, create, update, patch, delete, deletecollection", "get, update, patch")
}

func viewer(r *kind.Row) string {
	comment, label := fmt.Sprintf("# Whoever has the built-in role view in a namespace may read %ss there.", r.Title()), aggregate("view")
	switch {
	case r.Secret != "":
		comment, label = fmt.Sprintf("# Whoever has this role may read %ss. It belongs to no built-in role: a %s %s.\n# Bind it with a ClusterRoleBinding.",
			r.Title(), r.Title(), r.Secret), ""
	case r.ClusterScoped:
		comment = fmt.Sprintf("# Whoever has the built-in role view in the whole cluster may read %ss, which belong to no namespace.", r.Title())
	}
	return role(r, "viewer", comment, label, "get, list, watch", "get")
}

func aggregate(to string) string {
	return fmt.Sprintf("\n  labels:\n    rbac.authorization.k8s.io/aggregate-to-%s: \"true\"", to)
}

// role returns a ClusterRole as YAML. verbs are the verbs for objects, and scale the verbs for the scale subresource,
// if the kind has one.
func role(r *kind.Row, suffix, comment, label, verbs, scale string) string {
	read := r.Resource + "/status"
	out := fmt.Sprintf(`%s
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: kruise-%s-%s%s
rules:
- apiGroups: [%s]
  resources: [%s]
  verbs: [%s]
`, comment, r.Name(), suffix, label, r.Kind.Group, r.Resource, verbs)
	if r.Scaled && scale == "get" {
		read = r.Resource + "/scale, " + read
	} else if r.Scaled {
		out += fmt.Sprintf("- apiGroups: [%s]\n  resources: [%s/scale]\n  verbs: [%s]\n", r.Kind.Group, r.Resource, scale)
	}
	return out + fmt.Sprintf("- apiGroups: [%s]\n  resources: [%s]\n  verbs: [get]\n", r.Kind.Group, read)
}

// kustomization returns a kustomization that lists files. The written file has no extension, so that kubectl does not
// apply the kustomization as a manifest.
func kustomization(files []string) string {
	return "# Named without an extension, so that neither `kubectl apply -f` of this folder nor the embedded copy takes it for a manifest.\n" +
		"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- " + strings.Join(files, "\n- ") + "\n"
}

func crds(rows []kind.Row) string {
	var files []string
	for i := range rows {
		files = append(files, rows[i].Kind.Group+"_"+rows[i].Resource+".yaml")
	}
	slices.Sort(files)
	return kustomization(files)
}

func roles(rows []kind.Row) string {
	var files []string
	for i := range rows {
		files = append(files, rows[i].Name()+"_editor.yaml", rows[i].Name()+"_viewer.yaml")
	}
	slices.Sort(files)
	return kustomization(append([]string{"service_account.yaml", "cluster_role.yaml", "cluster_role_binding.yaml", "role.yaml", "role_binding.yaml"}, files...))
}

// byURL returns the kustomization for a manager that runs outside the cluster and is called by URL.
func byURL(rows []kind.Row, called []hook) string {
	const url = "https://localhost:19443"
	var out strings.Builder
	out.WriteString(urlHead)
	for i := range rows {
		if rows[i].Converted {
			fmt.Fprintf(&out, "- target: {kind: CustomResourceDefinition, name: %s.%s}\n  patch: |\n"+
				"    - {op: replace, path: /spec/conversion/webhook/clientConfig, value: {url: %s/convert}}\n", rows[i].Resource, rows[i].Kind.Group, url)
		}
	}
	for _, c := range []struct{ kind, prefix string }{{"MutatingWebhookConfiguration", "m"}, {"ValidatingWebhookConfiguration", "v"}} {
		fmt.Fprintf(&out, "- target: {kind: %s}\n  patch: |\n", c.kind)
		i := 0
		for _, h := range called {
			if strings.HasPrefix(h.name, c.prefix) {
				fmt.Fprintf(&out, "    - {op: test, path: /webhooks/%d/name, value: %s}\n    - {op: replace, path: /webhooks/%d/clientConfig, value: {url: %s%s}}\n", i, h.name, i, url, h.path)
				i++
			}
		}
	}
	return out.String()
}

const urlHead = `# CRDs and webhook configurations for a manager that runs elsewhere, called at a URL and not through the Service:
#
#   kubectl apply --server-side -k examples/config/webhook-url
#
# The URLs are those that the manager writes itself with WEBHOOK_HOST=localhost and WEBHOOK_PORT=19443. That makes it possible to apply
# this again: a manifest with the Service would meet the URL that the manager has put in its place, and only one of the two is allowed.
# For another host:
#
#   kubectl kustomize examples/config/webhook-url | sed s/localhost:19443/HOST:PORT/ | kubectl apply --server-side -f -
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- ../crd
- ../webhook
patches:
`
