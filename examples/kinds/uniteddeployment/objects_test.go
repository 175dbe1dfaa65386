package uniteddeployment

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// small returns the smallest valid object, with edits of its YAML: pairs of an old text and a new text.
func small(t testing.TB, edits ...string) *v1beta1.UnitedDeployment {
	t.Helper()
	raw, err := os.ReadFile("testdata/small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("no %q in\n%s", edits[i], text)
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	ud := &v1beta1.UnitedDeployment{}
	if err := yaml.UnmarshalStrict([]byte(text), ud); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	ud.UID = "ud"
	return ud
}

const (
	subsetA = "- name: a\n"
	subsetB = "- name: b\n"
	zoneA   = "      nodeSelectorTerm: {matchExpressions: [{key: zone, operator: In, values: [a]}]}\n"
	podMeta = "        template:\n          metadata: {labels: {app: web}}\n"
)

// in returns a text of the YAML and its replacement, which appends lines to a subset.
func in(subset string, lines ...string) []string {
	return []string{subset, subset + "      " + strings.Join(lines, "\n      ") + "\n"}
}

// deployment, set and advanced return the edits that change the template of CloneSets to the template of another
// kind.
func deployment() []string { return []string{"cloneSetTemplate", "deploymentTemplate"} }

func set() []string { return []string{"cloneSetTemplate", "statefulSetTemplate"} }

func advanced() []string { return []string{"cloneSetTemplate", "advancedStatefulSetTemplate"} }

func adaptive(settings string) []string {
	return []string{"  topology:\n", "  topology:\n    scheduleStrategy: {type: Adaptive, adaptive: {" + settings + "}}\n"}
}

// all joins edits.
func all(edits ...[]string) (out []string) {
	for _, e := range edits {
		out = append(out, e...)
	}
	return out
}
