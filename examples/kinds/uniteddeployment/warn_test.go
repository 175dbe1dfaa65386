package uniteddeployment

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
)

// TestWarnings: values that OpenKruise accepts are accepted, and a warning describes the unexpected effect on the
// Pods, or the missing effect.
func TestWarnings(t *testing.T) {
	const noSubsets = "spec.topology.subsets is empty: no Pods are created, and the workloads of former subsets are deleted with all their Pods"
	none := []string{
		"    - name: a\n" + zoneA, "", "    - name: b\n      nodeSelectorTerm: {matchExpressions: [{key: zone, operator: In, values: [b]}]}", "", "    subsets:\n", "    subsets: []\n",
	}
	without := func(fields string) []string {
		return []string{"spec.topology.subsets[a].patch: fields without effect on the Pods of the subset: " + fields}
	}
	scaledIn := []string{"replicas: 5", "replicas: 0"}
	for _, c := range []struct {
		name        string
		stored, obj []string
		want        []string
	}{
		{"the smallest", nil, nil, nil},
		{"UD-5 no subset any more", nil, none, []string{noSubsets}},
		{"no subset, as before", none, none, nil},
		{"no subset, and no Pods wanted", nil, all(none, scaledIn), nil},
		{"UD-13 another kind", nil, deployment(), []string{"spec.template: with deploymentTemplate in place of cloneSetTemplate, all old workloads are deleted with their Pods before new Pods are ready"}},
		{"another kind, without Pods", scaledIn, all(scaledIn, deployment()), nil},
		{"a patch of names", nil, in(subsetA, "patch: {metadata: {name: x, namespace: kube-system, labels: {x: y}}}"), without("metadata.name, metadata.namespace")},
		{"a patch of a selector", nil, in(subsetA, "patch: {spec: {selector: {matchLabels: {x: y}}, hostNetwork: false}}"), without("spec.selector")},
		{"a patch of replicas", nil, in(subsetA, "patch: {replicas: 3}"), without("replicas")},
		{"directives of a patch", nil, in(subsetA, "patch: {metadata: {labels: {$patch: replace, app: web}}, spec: {$setElementOrder/containers: [{name: app}], containers: [{name: x, $patch: delete}]}}"), nil},
		{"the same patch", in(subsetA, "patch: {spec: {selector: {}}}"), in(subsetA, "patch: {spec: {selector: {}}}"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored, obj, rules := small(t, c.stored...), small(t, c.obj...), endpoint(admission.Options{})
			got := append(rules.Warn(obj, nil), rules.WarnUpdate(obj, stored)...)
			before := rules.Warn(stored, nil)
			got = slices.DeleteFunc(got, func(text string) bool { return slices.Contains(before, text) })
			if diff := cmp.Diff(c.want, slices.Clip(got)); len(c.want)+len(got) > 0 && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWarningsAreSent: the response to an update contains both kinds of warnings.
func TestWarningsAreSent(t *testing.T) {
	stored, template := loaded(t, "v1beta1"), small(t, deployment()...).Spec.Template
	next := admissiontest.Edit(t, admissiontest.Edit(t, stored, "/spec/topology/subsets", []any{}), "/spec/template", template)
	if got := served(admission.Options{}).Validate(t, next, stored); !got.Allowed || len(got.Warnings) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestPatchRefusedByWorkload: a patch is refused if the patched workload is invalid, unless the template without the
// patch has the same error.
func TestPatchRefusedByWorkload(t *testing.T) {
	for _, c := range []struct {
		name  string
		edits []string
		want  []string
	}{
		{"a patch", in(subsetA, "patch: {spec: {hostNetwork: true, restartPolicy: Always}}"), nil},
		{"Pods that end", in(subsetA, "patch: {spec: {restartPolicy: Never}}"), []string{`spec.topology.subsets[a].patch.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		{"a deadline", in(subsetA, "patch: {spec: {activeDeadlineSeconds: 3}}"), []string{"spec.topology.subsets[a].patch.spec.activeDeadlineSeconds: Forbidden: Pods of this kind have no deadline"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, texts(validateCreate(small(t, c.edits...)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTitle: messages contain the kind, the name and the subset of an object.
func TestTitle(t *testing.T) {
	if diff := cmp.Diff("CloneSet web-a-x of subset a", titleOf(owned("web-a-x", "a", 0, 0))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
