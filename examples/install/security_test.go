package install_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// tables reads SECURITY.md: the rows of its tables, by the heading above each table. A row contains the text of its
// cells without back quotes.
func tables(t testing.TB) map[string][][]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	out, heading, previous := map[string][][]string{}, "", ""
	for line := range strings.Lines(strings.ReplaceAll(string(raw), "`", "")) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "## "); ok {
			heading = text
		}
		// The first two lines of a table are its header and the line below the header.
		if strings.HasPrefix(line, "| ") && strings.HasPrefix(previous, "|") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			out[heading] = append(out[heading], cells)
		}
		previous = line
	}
	return out
}

// granted returns the verbs of a role, by resource and names. The verbs of several rules about the same objects are
// joined.
func granted(t testing.TB, obj *unstructured.Unstructured) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, rule := range as[rbacv1.ClusterRole](t, obj).Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				names := strings.Join(rule.ResourceNames, ", ")
				if names == "" {
					names = "any"
				}
				of := strings.TrimPrefix(group+"/"+resource, "/") + " " + sorted(names)
				out[of] = sorted(strings.TrimPrefix(out[of]+", "+strings.Join(rule.Verbs, ", "), ", "))
			}
		}
	}
	return out
}

// sorted sorts a list of words separated by commas, and removes duplicates.
func sorted(list string) string {
	words := strings.Split(list, ", ")
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// TestSecurityNamesWhatTheManagerMayDo: SECURITY.md lists exactly the rights of the manager, each with a reason.
// Several lines about the same objects are joined.
func TestSecurityNamesWhatTheManagerMayDo(t *testing.T) {
	objects := parse(t, must(t)(kubectl(t, "kustomize", "examples/config/metrics-secure")))
	said := tables(t)
	for heading, obj := range map[string]*unstructured.Unstructured{
		"What the manager does in the whole cluster":   find(t, objects, "ClusterRole", "kruise-manager-role"),
		"What it does only with ResourceDistributions": find(t, parse(t, must(t)(kubectl(t, "kustomize", "examples/config/resourcedistribution"))), "ClusterRole", "kruise-manager-resourcedistribution"),
		"What it does only with ImagePullJobs":         find(t, parse(t, must(t)(kubectl(t, "kustomize", "examples/config/imagepulljob"))), "ClusterRole", "kruise-manager-imagepulljob"),
		"What it does in its own namespace":            find(t, objects, "Role", "kruise-manager-role"),
		"What it does only with secure metrics":        find(t, objects, "ClusterRole", "kruise-metrics-auth"),
	} {
		got := map[string]string{}
		for _, row := range said[heading] {
			if len(row) != 4 || row[3] == "" {
				t.Errorf("%s: %q, want resource, names, verbs and a reason", heading, row)
				continue
			}
			of := row[0] + " " + sorted(row[1])
			got[of] = sorted(strings.TrimPrefix(got[of]+", "+row[2], ", "))
		}
		if diff := cmp.Diff(granted(t, obj), got); diff != "" {
			t.Errorf("%s (-granted +said):\n%s", heading, diff)
		}
	}
}

// TestSecurityNamesWhatListens: SECURITY.md lists exactly the ports on which the manager listens.
func TestSecurityNamesWhatListens(t *testing.T) {
	container := as[appsv1.Deployment](t, find(t, parse(t, kustomize(t)), "Deployment", "")).Spec.Template.Spec.Containers[0]
	want := map[string]bool{}
	for _, port := range container.Ports {
		want[":"+strconv.Itoa(int(port.ContainerPort))] = true
	}
	for _, arg := range container.Args {
		if address, ok := strings.CutPrefix(arg, "--pprof-addr="); ok {
			want[address] = true
		}
	}
	var got []string
	for _, row := range tables(t)["What listens"] {
		got = append(got, row[0])
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("addresses (-deployment +said):\n%s", diff)
	}
}
