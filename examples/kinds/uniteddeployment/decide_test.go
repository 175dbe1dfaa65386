package uniteddeployment

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/revision"
)

func mustResolve(t testing.TB, ud *v1beta1.UnitedDeployment) *settings {
	t.Helper()
	s, problems, _ := resolve(ud)
	if problems != nil {
		t.Fatal(problems.Reasons())
	}
	return s
}

func mustBuild(t testing.TB, ud *v1beta1.UnitedDeployment, n numbers) (workload, numbers) {
	t.Helper()
	w, n, err := build(ud, mustResolve(t, ud).template, &ud.Spec.Topology.Subsets[0], "web-1", n)
	if err != nil {
		t.Fatal(err)
	}
	return w, n
}

// tree returns an object as decoded JSON.
func tree(t testing.TB, object any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBuild: the workload of a subset has the labels, the selector and the Nodes of the subset.
func TestBuild(t *testing.T) {
	labels := `{app: web, apps.kruise.io/subset-name: a, apps.kruise.io/controller-revision-hash: web-1}`
	node := func(terms string) string {
		return `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ` + terms + `}}}`
	}
	const zone = `{key: zone, operator: In, values: [a]}`
	withAffinity := func(terms string) []string {
		return []string{"          spec:\n", "          spec:\n            " + node(terms) + "\n"}
	}
	want := func(spec, podLabels, podSpec string) string {
		return `{metadata: {generateName: web-a-, namespace: default, labels: ` + labels + `, annotations: {apps.kruise.io/subset-patch: PATCH},
			ownerReferences: [{apiVersion: apps.kruise.io/v1beta1, kind: UnitedDeployment, name: web, uid: ud, controller: true, blockOwnerDeletion: true}]},
			spec: {replicas: 3, selector: {matchLabels: {app: web, apps.kruise.io/subset-name: a}}, ` + spec + `
			template: {metadata: {labels: ` + podLabels + `}, spec: {containers: [{name: app, image: "example.test/app:v1", resources: {}}], ` + podSpec + `}}}, status: STATUS}`
	}
	for _, c := range []struct {
		name  string
		edits []string
		want  string
	}{
		{"UD-7 CloneSets", nil, want(`scaleStrategy: {}, updateStrategy: {rollingUpdate: {partition: 2}},`, labels, node(`[{matchExpressions: [`+zone+`]}]`))},
		{"UD-7 Deployments have no partition", deployment(), want(`strategy: {},`, labels, node(`[{matchExpressions: [`+zone+`]}]`))},
		{"UD-7 StatefulSets", set(), want(`serviceName: "", updateStrategy: {rollingUpdate: {partition: 2}},`, labels, node(`[{matchExpressions: [`+zone+`]}]`))},
		{"UD-7 StatefulSets of this group", advanced(), want(`updateStrategy: {rollingUpdate: {partition: 2}},`, labels, node(`[{matchExpressions: [`+zone+`]}]`))},
		{
			"UD-35 OnDelete has no partition", all(set(), []string{podMeta, "        updateStrategy: {type: OnDelete}\n" + podMeta}),
			want(`serviceName: "", updateStrategy: {type: OnDelete},`, labels, node(`[{matchExpressions: [`+zone+`]}]`)),
		},
		{
			"UD-10 every term of the template", withAffinity(`[{matchExpressions: [{key: disk, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [host]}]}]`),
			want(`scaleStrategy: {}, updateStrategy: {rollingUpdate: {partition: 2}},`, labels,
				node(`[{matchExpressions: [{key: disk, operator: Exists}, `+zone+`]}, {matchFields: [{key: metadata.name, operator: In, values: [host]}], matchExpressions: [`+zone+`]}]`)),
		},
		{"UD-10 A-27 an empty term adds nothing", []string{zoneA, ""}, want(`scaleStrategy: {}, updateStrategy: {rollingUpdate: {partition: 2}},`, labels, "")},
		{
			"UD-10 fields alone",
			[]string{zoneA, "      nodeSelectorTerm: {matchFields: [{key: metadata.name, operator: In, values: [host]}]}\n"},
			want(`scaleStrategy: {}, updateStrategy: {rollingUpdate: {partition: 2}},`, labels, node(`[{matchFields: [{key: metadata.name, operator: In, values: [host]}]}]`)),
		},
		{
			"UD-10 tolerations", all([]string{zoneA, ""}, in(subsetA, "tolerations: [{key: x, operator: Exists}]"), []string{"          spec:\n", "          spec:\n            tolerations: [{key: spot}]\n"}),
			want(`scaleStrategy: {}, updateStrategy: {rollingUpdate: {partition: 2}},`, labels, `tolerations: [{key: spot}, {key: x, operator: Exists}]`),
		},
		{
			"UD-11 the patch comes last", in(subsetA, `patch: {"metadata":{"labels":{"tier":"x"}},"spec":{"affinity":null,"containers":[{"name":"app","image":"example.test/app:v1","resources":{}}]}}`),
			want(`scaleStrategy: {}, updateStrategy: {rollingUpdate: {partition: 2}},`, `{tier: x, `+labels[1:], ""),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t, c.edits...)
			w, _ := mustBuild(t, ud, numbers{replicas: 3, kept: new(int32(2))})
			got := tree(t, w)
			var wanted map[string]any
			quoted, err := json.Marshal(patchOf(&ud.Spec.Topology.Subsets[0]))
			if err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer("STATUS", "{}", "PATCH", string(quoted)).Replace(c.want)
			if err := yaml.Unmarshal([]byte(text), &wanted); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			wanted["status"] = got["status"]
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSelectorOfExpressions: the selector of a workload keeps the expressions, and adds the subset.
func TestSelectorOfExpressions(t *testing.T) {
	ud := small(t, "selector: {matchLabels: {app: web}}\n  template", "selector: {matchExpressions: [{key: app, operator: Exists}]}\n  template")
	w, _ := mustBuild(t, ud, numbers{})
	want := &metav1.LabelSelector{
		MatchLabels: map[string]string{apps.LabelSubsetName: "a"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}},
	}
	if diff := cmp.Diff(want, *partsOf(w).selector); diff != "" {
		t.Errorf("UD-8 (-want +got):\n%s", diff)
	}
	if ud.Spec.Selector.MatchLabels != nil {
		t.Error("the UnitedDeployment's selector was changed")
	}
}

// TestLongNames: the generateName of a workload contains the subset's name, unless the result would not be a valid
// name.
func TestLongNames(t *testing.T) {
	ud := small(t, subsetA, "- name: A_\n")
	if w, _ := mustBuild(t, ud, numbers{}); w.GetGenerateName() != "web-" {
		t.Errorf("UD-7 %s", w.GetGenerateName())
	}
}

// stored returns a workload as the API server would store it: with a name and with defaults.
func stored(w workload, name string) workload {
	w.SetUID(types.UID(name))
	w.SetName(name)
	p := partsOf(w)
	p.pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	if d, ok := w.(*appsv1.Deployment); ok {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromString("25%"))}
	}
	return w
}

// TestChangeOf: a workload is patched if, and only if, the revision, the patch or a number differs.
func TestChangeOf(t *testing.T) {
	merge := func(spec string) *patch {
		var body map[string]any
		if err := json.Unmarshal([]byte(`{"metadata":{"uid":"w"},"spec":`+spec+`}`), &body); err != nil {
			t.Fatal(err)
		}
		return &patch{Type: types.MergePatchType, Body: body}
	}
	for _, c := range []struct {
		name   string
		edits  []string
		change func(workload)
		n      numbers
		want   *patch // nil for no patch; a JSON patch without a body stands for a patch of the whole spec
	}{
		{"UD-14 nothing", nil, func(workload) {}, numbers{replicas: 3, kept: new(int32(1))}, nil},
		{"UD-14 foreign labels", nil, func(w workload) { w.GetLabels()["x"] = "y" }, numbers{replicas: 3, kept: new(int32(1))}, nil},
		{"UD-14 replicas", nil, func(workload) {}, numbers{replicas: 4, kept: new(int32(1))}, merge(`{"replicas":4}`)},
		{"UD-14 partition", nil, func(workload) {}, numbers{replicas: 3, kept: new(int32(0))}, merge(`{"updateStrategy":{"rollingUpdate":{"partition":0}}}`)},
		{"UD-14 both, of a StatefulSet", set(), func(workload) {}, numbers{replicas: 0, kept: new(int32(0))}, merge(`{"replicas":0,"updateStrategy":{"rollingUpdate":{"partition":0}}}`)},
		{"UD-35 a Deployment has no partition", deployment(), func(workload) {}, numbers{replicas: 3, kept: new(int32(3))}, nil},
		{"UD-34 Deployments", deployment(), func(workload) {}, numbers{replicas: 3, unavailable: new(intstr.FromInt(2))}, merge(`{"strategy":{"rollingUpdate":{"maxUnavailable":2}}}`)},
		{"UD-34 CloneSets", nil, func(workload) {}, numbers{replicas: 3, kept: new(int32(1)), unavailable: new(intstr.FromInt(2))}, merge(`{"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}}`)},
		{"UD-14 revision", nil, func(w workload) { w.GetLabels()[apps.LabelSubsetRevision] = "web-0" }, numbers{replicas: 3, kept: new(int32(1))}, &patch{Type: types.JSONPatchType}},
		{"UD-14 patch", nil, func(w workload) { w.GetAnnotations()[apps.AnnotationSubsetPatch] = `{}` }, numbers{replicas: 3, kept: new(int32(1))}, &patch{Type: types.JSONPatchType}},
		{
			"UD-14 the same patch in another spelling", in(subsetA, `patch: {"metadata": {"labels": {"x": "y"}}, "spec": {}}`),
			func(w workload) {
				w.GetAnnotations()[apps.AnnotationSubsetPatch] = `{"spec":{},"metadata":{"labels":{"x":"y"}}}`
			},
			numbers{replicas: 3, kept: new(int32(1))},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t, c.edits...)
			have, _ := mustBuild(t, ud, numbers{replicas: 3, kept: new(int32(1))})
			c.change(stored(have, "w"))
			want, n := mustBuild(t, ud, c.n)
			got := changeOf(have, want, n)
			if got != nil && got.Type == types.MergePatchType {
				got.Body = tree(t, got.Body)
			}
			if c.want != nil && c.want.Type == types.JSONPatchType {
				checkWhole(t, got, have, want)
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// checkWhole applies a JSON patch of the whole spec.
func checkWhole(t *testing.T, got *patch, have, want workload) {
	t.Helper()
	if got == nil || got.Type != types.JSONPatchType || !got.Whole {
		t.Fatalf("%+v", got)
	}
	have.GetLabels()["theirs"] = "stays"
	before, body := tree(t, have), mustJSON(t, got.Body)
	decoded, err := jsonpatch.DecodePatch(body)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := decoded.Apply(mustJSON(t, before))
	if err != nil {
		t.Fatalf("%v of %s", err, body)
	}
	var after, wanted map[string]any
	if err := json.Unmarshal(raw, &after); err != nil {
		t.Fatal(err)
	}
	want.GetLabels()["theirs"] = "stays"
	wanted = tree(t, want)
	for _, key := range []string{"labels", "annotations"} {
		if diff := cmp.Diff(wanted["metadata"].(map[string]any)[key], after["metadata"].(map[string]any)[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	if diff := cmp.Diff(wanted["spec"], after["spec"]); diff != "" {
		t.Errorf("UD-9 (-want +got):\n%s", diff)
	}
}

func mustJSON(t testing.TB, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestRevisionsOfOpenKruise: names and contents of revisions equal those of OpenKruise, and a template in the form of
// OpenKruise 1.9.0 does not count as changed.
func TestRevisionsOfOpenKruise(t *testing.T) {
	files, err := filepath.Glob("testdata/openkruise-*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		t.Run("UD-37 "+file, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var ud v1beta1.UnitedDeployment
			var rev appsv1.ControllerRevision
			for document := range strings.SplitSeq(string(raw), "\n---\n") {
				text, err := yaml.YAMLToJSON([]byte(document))
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(document, "kind: ControllerRevision") {
					err = json.Unmarshal(text, &rev)
				} else if text, err = conversion.JSON(text, "apps.kruise.io/v1beta1"); err == nil {
					err = json.Unmarshal(text, &ud)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			data, err := encode(&ud.Spec.Template)
			if err != nil {
				t.Fatal(err)
			}
			if name := revision.Name(ud.Name, revision.Hash(data, new(int32))); !strings.Contains(file, "flat") && name != rev.Name {
				t.Errorf("%s would be named %s: %s", rev.Name, name, data)
			}
			if !isIn(&rev, &ud.Spec.Template, data) {
				t.Errorf("%s holds another template than %s", rev.Data.Raw, data)
			}
			ud.Spec.Template.CloneSetTemplate.Spec.MinReadySeconds++
			if data, err = encode(&ud.Spec.Template); err != nil || isIn(&rev, &ud.Spec.Template, data) {
				t.Errorf("a change is none: %v", err)
			}
			if isIn(&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte("{")}}, &ud.Spec.Template, data) {
				t.Error("broken data hold the template")
			}
		})
	}
}
