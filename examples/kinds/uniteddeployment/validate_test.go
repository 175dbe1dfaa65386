package uniteddeployment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/uniteddeployment"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func texts(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

// TestValidateCreate: each fault is refused, with the path, the value and a remedy.
func TestValidateCreate(t *testing.T) {
	const template = "spec.template.statefulSetTemplate"
	for _, c := range []struct {
		name  string
		edits []string
		want  []string // the beginnings of the errors
	}{
		{"UD-1 the smallest", nil, nil},
		{"UD-1 Deployments", deployment(), nil},
		{"UD-1 StatefulSets", set(), nil},
		{"UD-1 StatefulSets of this group", advanced(), nil},
		{"UD-1 no subset", []string{"    subsets:\n    - name: a\n" + zoneA + "    - name: b\n" + strings.ReplaceAll(zoneA, "[a]", "[b]"), "    subsets: []\n"}, nil},
		{"UD-1 negative replicas", []string{"replicas: 5", "replicas: -1"}, []string{"spec.replicas: Invalid value: -1: must be at least 0"}},
		{"UD-1 labels of another", []string{podMeta, strings.ReplaceAll(podMeta, "web", "other")}, []string{
			"spec.template.cloneSetTemplate.spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}: must match spec.selector (app=web)",
		}},
		{
			"UD-1 metadata of a StatefulSet", all(set(), []string{"metadata: {labels: {app: web}}\n      spec", "metadata: {}\n      spec"}),
			[]string{template + ".metadata.labels: Invalid value: null: must match spec.selector (app=web)"},
		},
		{"UD-1 metadata of a CloneSet", []string{"metadata: {labels: {app: web}}\n      spec", "metadata: {}\n      spec"}, nil},
		{
			"UD-1 numbers of a StatefulSet", all(set(), []string{podMeta, "        replicas: 3\n        updateStrategy: {rollingUpdate: {partition: 2}}\n" + podMeta}),
			[]string{template + ".spec.replicas: Invalid value: 3: must be unset", template + ".spec.updateStrategy.rollingUpdate.partition: Invalid value: 2: must be unset"},
		},
		{"UD-1 numbers of a CloneSet", []string{podMeta, "        replicas: 3\n" + podMeta}, nil},
		{
			"UD-1 a selector of expressions alone", []string{
				"selector: {matchLabels: {app: web}}\n  template", "selector: {matchExpressions: [{key: app, operator: In, values: [web, api]}]}\n  template",
			}, nil,
		},
		{"UD-1 an empty selector", []string{"selector: {matchLabels: {app: web}}\n  template", "selector: {}\n  template"}, []string{"spec.selector: Required value"}},
		{
			"UD-1 a selector of the controller's labels",
			[]string{"selector: {matchLabels: {app: web}}\n  template", "selector: {matchLabels: {app: web, apps.kruise.io/subset-name: a}}\n  template"},
			[]string{`spec.selector: Invalid value: "app=web,apps.kruise.io/subset-name=a": must not ask for apps.kruise.io/subset-name`},
		},
		{"UD-1 type of schedule", []string{"  topology:\n", "  topology:\n    scheduleStrategy: {type: Odd}\n"}, []string{`spec.topology.scheduleStrategy.type: Unsupported value: "Odd"`}},
		{"UD-1 type of update", []string{"  topology:\n", "  updateStrategy: {type: Odd}\n  topology:\n"}, []string{`spec.updateStrategy.type: Unsupported value: "Odd"`}},
		{
			"UD-1 partitions",
			[]string{"  topology:\n", "  updateStrategy: {manualUpdate: {partitions: {a: -1, b: 2, c: 3}}}\n  topology:\n"},
			[]string{"spec.updateStrategy.manualUpdate.partitions[a]: Invalid value: -1", `spec.updateStrategy.manualUpdate.partitions[c]: Invalid value: 3: no subset has the name "c"`},
		},
		{"UD-1 names differ", []string{subsetB, subsetA}, []string{`spec.topology.subsets[a].name: Invalid value: "a": `}},
		{"UD-1 a name is required", []string{subsetB, "- name: \"\"\n"}, []string{"spec.topology.subsets[1].name: Invalid value: "}},
		{"UD-1 a name is a label", []string{subsetB, "- name: B_\n"}, []string{"spec.topology.subsets[B_].name: Invalid value: \"B_\": a lowercase RFC 1123 label"}},
		{"UD-1 a patch", in(subsetA, "patch: {metadata: {labels: {zone: x}}, spec: {containers: [{name: app, env: [{name: Z, value: x}]}]}}"), nil},
		{"UD-1 a patch of another form", in(subsetA, "patch: [7]"), []string{`spec.topology.subsets[a].patch: Invalid value: "[7]": is no strategic merge patch`}},
		{"UD-1 a patch that makes no template", in(subsetA, "patch: {spec: {hostNetwork: yes please}}"), []string{"spec.topology.subsets[a].patch: Invalid value: "}},
		{"UD-1 a patch of the selector", in(subsetA, "patch: {metadata: {labels: {app: other}}}"), []string{"spec.topology.subsets[a].patch: Invalid value: \"{\\\"metadata\\\":{\\\"labels\\\":{\\\"app\\\":\\\"other\\\"}}}\": must leave the labels of selectors alone"}},
		{"a patch of the revision", in(subsetA, "patch: {metadata: {labels: {apps.kruise.io/controller-revision-hash: mine}}}"), []string{`spec.topology.subsets[a].patch: Invalid value: "{\"metadata\":{\"labels\":{\"apps.kruise.io/controller-revision-hash\":\"mine\"}}}": must leave label apps.kruise.io/controller-revision-hash alone`}},
		{"a patch of the reservation", in(subsetA, "patch: {metadata: {labels: {apps.kruise.io/united-deployment-reserved-pod: \"true\"}}}"), []string{`spec.topology.subsets[a].patch: Invalid value: "{\"metadata\":{\"labels\":{\"apps.kruise.io/united-deployment-reserved-pod\":\"true\"}}}": must leave label apps.kruise.io/united-deployment-reserved-pod alone`}},
		{"UD-2 a share in percent", in(subsetA, "replicas: 30%"), nil},
		{"UD-2 no percentage", in(subsetA, "replicas: thirty"), []string{`spec.topology.subsets[a].replicas: Invalid value: "thirty": `}},
		{"UD-2 above 100%", in(subsetA, "replicas: 101%"), []string{`spec.topology.subsets[a].replicas: Invalid value: "101%": `}},
		{"UD-3 shares and a rest", in(subsetA, "replicas: 3"), nil},
		{"UD-3 shares make the replicas", all(in(subsetA, "replicas: 3"), in(subsetB, "replicas: 40%")), nil},
		{"UD-3 too many", all(in(subsetA, "replicas: 3"), in(subsetB, "replicas: 3")), []string{`spec.topology.subsets: Invalid value: 6: the sum of the shares, of 5 replicas; lower a share, or raise spec.replicas`}},
		{"UD-3 too few", all(in(subsetA, "replicas: 1"), in(subsetB, "replicas: 3")), []string{`spec.topology.subsets: Invalid value: 4: the sum of the shares, of 5 replicas; raise a share`}},
		{"UD-4 bounds", all(in(subsetA, "minReplicas: 1", "maxReplicas: 50%"), in(subsetB, "minReplicas: 90%")), nil},
		{"UD-4 bounds cross", in(subsetA, "minReplicas: 3", "maxReplicas: 2"), []string{`spec.topology.subsets[a].minReplicas: Invalid value: 3: above the maximum of 2`}},
		{"UD-4 bounds cross for the replicas", in(subsetA, "minReplicas: 3", "maxReplicas: 20%"), []string{`spec.topology.subsets[a].minReplicas: Invalid value: 3: above the maximum of 1`}},
		{"UD-4 all are bounded", all(in(subsetA, "maxReplicas: 3"), in(subsetB, "maxReplicas: 3")), []string{"spec.topology.subsets: Invalid value: 2: must have a subset without maxReplicas"}},
		{"UD-4 shares beside bounds", all(in(subsetA, "maxReplicas: 3"), in(subsetB, "replicas: 3")), []string{`spec.topology.subsets[b].replicas: Invalid value: 3: not used together with InOrder`}},
		{"UD-4 shares beside type Adaptive", all(adaptive(""), in(subsetB, "replicas: 3")), []string{`spec.topology.subsets[b].replicas: Invalid value: 3: not used together with InOrder`}},
		{"UD-4 type Adaptive without bounds", adaptive(""), nil},
		{"UD-27 reserved Pods of CloneSets", adaptive("reserveUnschedulablePods: true"), nil},
		{"UD-27 reserved Pods of Deployments", all(adaptive("reserveUnschedulablePods: true"), deployment()), nil},
		{"UD-27 reserved Pods of StatefulSets", all(adaptive("reserveUnschedulablePods: true"), advanced()), []string{"spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods: Invalid value: true"}},
		{"UD-21 negative times", adaptive("rescheduleCriticalSeconds: -1, unschedulableDuration: -2"), []string{
			"spec.topology.scheduleStrategy.adaptive.rescheduleCriticalSeconds: Invalid value: -1", "spec.topology.scheduleStrategy.adaptive.unschedulableDuration: Invalid value: -2",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := small(t, c.edits...)
			api.Default(obj, nil, api.DefaultOptions{})
			got := texts(validateCreate(obj))
			for i := range got {
				if i < len(c.want) && strings.HasPrefix(got[i], c.want[i]) {
					got[i] = c.want[i]
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestExactlyOneTemplate: a spec without a template is refused, and so is a spec with several templates.
func TestExactlyOneTemplate(t *testing.T) {
	none, two := small(t), small(t)
	none.Spec.Template.CloneSetTemplate = nil
	two.Spec.Template.DeploymentTemplate = small(t, deployment()...).Spec.Template.DeploymentTemplate
	for name, c := range map[string]*v1beta1.UnitedDeployment{"UD-1 none": none, "UD-1 two": two} {
		t.Run(name, func(t *testing.T) {
			got := texts(validateCreate(c))
			if len(got) != 1 || !strings.Contains(got[0], "spec.template: Invalid value: ") || !strings.Contains(got[0], "must have exactly one template") {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestTotalSize: the size of the workloads of all subsets together is limited. Without the limit, a spec that the API
// server accepts could need gigabytes of memory.
func TestTotalSize(t *testing.T) {
	for _, c := range []struct {
		name                 string
		subsets, env         int
		terms, requirements  int
		patched, wantRefusal bool
	}{
		{"many small subsets", 1000, 10, 1, 1, true, false},
		{"few subsets of a large template", 10, 1500, 0, 0, true, false},
		{"many subsets of a large template", 1000, 1500, 0, 0, false, true},
		{"many subsets that patch a large template", 1000, 1500, 0, 0, true, true},
		{"many terms with many requirements", 1, 0, 1900, 2000, false, true},
		{"many terms with few requirements", 2, 0, 1900, 2, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ud := small(t)
			pod := &ud.Spec.Template.CloneSetTemplate.Spec.Template
			for i := range c.env {
				pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("V", i), Value: strings.Repeat("x", 550)})
			}
			if c.terms > 0 {
				pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: make([]corev1.NodeSelectorTerm, c.terms),
				}}}
			}
			ud.Spec.Topology.Subsets = nil
			for i := range c.subsets {
				subset := v1beta1.Subset{Name: fmt.Sprint("s", i)}
				for range c.requirements {
					subset.NodeSelectorTerm.MatchExpressions = append(subset.NodeSelectorTerm.MatchExpressions, corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpExists})
				}
				if c.patched {
					subset.Patch.Raw = []byte(`{"metadata":{"annotations":{"a":"b"}}}`)
				}
				ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, subset)
			}
			_, problems, _ := resolve(ud)
			if got := strings.Contains(fmt.Sprint(problems.Reasons().Err()), "more than 16 MiB"); got != c.wantRefusal {
				t.Errorf("refused: %t, %v", got, problems)
			}
		})
	}
}

// TestValidateUpdate: subsets can be added and removed, and the Nodes of an existing subset cannot change. Templates
// can change as far as the API server lets the workloads change.
func TestValidateUpdate(t *testing.T) {
	change := func(old, next string) []string { return []string{old, next} }
	for _, c := range []struct {
		name      string
		old, next []string
		want      []string // the beginnings of the errors
	}{
		{"UD-5 another subset", nil, change(subsetB, "- name: c\n"), nil},
		{"UD-5 another image", nil, change("app:v1", "app:v2"), nil},
		{"UD-5 other Nodes", nil, change("values: [a]", "values: [c]"), []string{"spec.topology.subsets[a].nodeSelectorTerm: Forbidden"}},
		{"UD-5 other tolerations", nil, in(subsetA, "tolerations: [{operator: Exists}]"), []string{"spec.topology.subsets[a].tolerations: Forbidden"}},
		{"UD-5 another kind", nil, deployment(), nil},
		{"UD-5 the selector", change("replicas: 5", "replicas: 6"), change("selector: {matchLabels: {app: web}}\n  template", "selector: {matchExpressions: [{key: app, operator: Exists}]}\n  template"), []string{"spec.selector: Forbidden"}},
		{"UD-5 the service of a StatefulSet", set(), all(set(), change(podMeta, "        serviceName: s\n"+podMeta)), []string{"spec.template.statefulSetTemplate.spec: Forbidden"}},
		{
			"UD-5 free fields of a StatefulSet", set(), all(set(), change(podMeta, "        minReadySeconds: 3\n        updateStrategy: {type: OnDelete}\n        ordinals: {start: 1}\n"+
				"        revisionHistoryLimit: 3\n        persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}\n"+podMeta)), nil,
		},
		{"UD-5 the service of a StatefulSet of this group", advanced(), all(advanced(), change(podMeta, "        serviceName: s\n"+podMeta)), []string{"spec.template.advancedStatefulSetTemplate.spec: Forbidden"}},
		{
			"UD-5 free fields of a StatefulSet of this group", advanced(),
			all(advanced(), change(podMeta, "        reserveOrdinals: [1]\n        scaleStrategy: {maxUnavailable: 1}\n        podManagementPolicy: OrderedReady\n"+podMeta)), nil,
		},
		{"UD-3 stored problems", all(in(subsetA, "replicas: 9")), all(in(subsetA, "replicas: 9"), change("app:v1", "app:v2")), nil},
		{"UD-3 a new problem", all(in(subsetA, "replicas: 4")), all(in(subsetA, "replicas: 9")), []string{"spec.topology.subsets: Invalid value: 9"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := texts(validateUpdate(small(t, c.next...), small(t, c.old...)))
			for i := range got {
				if i < len(c.want) && strings.HasPrefix(got[i], c.want[i]) {
					got[i] = c.want[i]
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
