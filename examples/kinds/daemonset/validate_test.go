package daemonset

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/daemonset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
)

type edit = func(*v1beta1.DaemonSet)

// valid returns a valid, defaulted object, after edits.
func valid(edits ...edit) *v1beta1.DaemonSet {
	obj := &v1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "default", UID: "1"}}
	obj.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}
	obj.Spec.Template.Labels = map[string]string{"app": "agent"}
	obj.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	api.Default(obj)
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func rolling(edit func(*v1beta1.RollingUpdateDaemonSet)) edit {
	return func(obj *v1beta1.DaemonSet) { edit(obj.Spec.UpdateStrategy.RollingUpdate) }
}

func budget(unavailable, surge intstr.IntOrString) edit {
	return rolling(func(ru *v1beta1.RollingUpdateDaemonSet) { ru.MaxUnavailable, ru.MaxSurge = &unavailable, &surge })
}

func keep(value intstr.IntOrString) edit {
	return rolling(func(ru *v1beta1.RollingUpdateDaemonSet) { ru.Partition = &value })
}

func burst(value intstr.IntOrString) edit {
	return func(obj *v1beta1.DaemonSet) { obj.Spec.BurstReplicas = &value }
}

func both(edits ...edit) edit {
	return func(obj *v1beta1.DaemonSet) {
		for _, edit := range edits {
			edit(obj)
		}
	}
}

func inPlace(obj *v1beta1.DaemonSet) {
	obj.Spec.UpdateStrategy.RollingUpdate.RollingUpdateType = v1beta1.InPlaceIfPossibleRollingUpdateType
}

func onDelete(obj *v1beta1.DaemonSet) {
	obj.Spec.UpdateStrategy.Type = v1beta1.OnDeleteDaemonSetStrategyType
}

const ru = "spec.updateStrategy.rollingUpdate."

// TestUnusable: each message names the path, the value and the allowed values. Admission refuses the creation of such
// objects with the same messages.
func TestUnusable(t *testing.T) {
	number, text := intstr.FromInt32, intstr.FromString
	const allowed = `use an integer of at least 0, or a whole percentage such as "30%"`
	tests := []struct {
		name string
		edit edit
		want []string
	}{
		{"nothing", func(*v1beta1.DaemonSet) {}, nil},
		{"not even defaulted", func(obj *v1beta1.DaemonSet) {
			obj.Spec = v1beta1.DaemonSetSpec{Selector: obj.Spec.Selector, Template: obj.Spec.Template}
		}, nil},
		{"D-11 no selector", func(obj *v1beta1.DaemonSet) { obj.Spec.Selector = nil }, []string{`spec.selector: Required value: must select at least one label`}},
		{
			"D-11 an empty selector", func(obj *v1beta1.DaemonSet) { obj.Spec.Selector = &metav1.LabelSelector{} },
			[]string{`spec.selector: Required value: must select at least one label`},
		},
		{
			"4.1 a selector beside the template", func(obj *v1beta1.DaemonSet) { obj.Spec.Template.Labels = nil },
			[]string{`spec.template.metadata.labels: Invalid value: null: must match spec.selector (app=agent)`},
		},
		{
			"a selector that asks for what the controller writes", func(obj *v1beta1.DaemonSet) {
				obj.Spec.Selector.MatchLabels[apps.LabelRevision] = "1"
				obj.Spec.Template.Labels[apps.LabelRevision] = "1"
			}, []string{
				`spec.selector: Invalid value: "app=agent,controller-revision-hash=1": must not ask for controller-revision-hash, which the controller writes`,
			},
		},
		{
			"4.1 type", func(obj *v1beta1.DaemonSet) { obj.Spec.UpdateStrategy.Type = "Never" },
			[]string{`spec.updateStrategy.type: Unsupported value: "Never": supported values: "RollingUpdate", "OnDelete"`},
		},
		{
			"4.1 rollingUpdateType", rolling(func(ru *v1beta1.RollingUpdateDaemonSet) { ru.RollingUpdateType = "Surging" }),
			[]string{ru + `rollingUpdateType: Unsupported value: "Surging": supported values: "Standard", "InPlaceIfPossible"`},
		},
		{
			"4.1 InPlaceIfPossible with a surge", both(inPlace, budget(number(0), text("1%"))),
			[]string{ru + `maxSurge: Invalid value: "1%": must be 0 with InPlaceIfPossible, which changes the Pod that is there`},
		},
		{"4.1 InPlaceIfPossible without", both(inPlace, budget(text("20%"), text("0%"))), nil},
		{"V-16 numbers in quotes", both(budget(text("5"), text("")), keep(text("5")), burst(text("5"))), []string{
			`spec.burstReplicas: Invalid value: "5": no % sign; ` + allowed,
			ru + `maxUnavailable: Invalid value: "5": no % sign; ` + allowed,
			ru + `maxSurge: Invalid value: "": no % sign; ` + allowed,
			ru + `partition: Invalid value: "5": no % sign; ` + allowed,
		}},
		{"negative numbers", both(budget(number(-1), number(1)), keep(number(-2)), burst(number(-3))), []string{
			`spec.burstReplicas: Invalid value: -3: negative; ` + allowed,
			ru + `maxUnavailable: Invalid value: -1: negative; ` + allowed,
			ru + `partition: Invalid value: -2: negative; ` + allowed,
		}},
		{"a percentage that no number holds", keep(text("99999999999%")), []string{
			ru + `partition: Invalid value: "99999999999%": too large; ` + allowed,
		}},
		{"a malformed selector of Nodes, in the same order each time", rolling(func(ru *v1beta1.RollingUpdateDaemonSet) {
			ru.Selector = &metav1.LabelSelector{
				MatchLabels: map[string]string{"": "", "no value": "a"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}},
			}
		}), []string{
			ru + `selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`,
			ru + `selector.matchLabels: Invalid value: "": name part must be non-empty`,
			ru + `selector.matchLabels: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with ` +
				`an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			ru + `selector.matchLabels: Invalid value: "no value": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with ` +
				`an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		}},
		{"an empty selector of Nodes", rolling(func(ru *v1beta1.RollingUpdateDaemonSet) { ru.Selector = &metav1.LabelSelector{} }), nil},
		{"a selector of Nodes that nobody reads", rolling(func(ru *v1beta1.RollingUpdateDaemonSet) {
			ru.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
			for i := range apps.MaxTerms + 1 {
				ru.Selector.MatchLabels["no key "+strconv.Itoa(i)] = ""
			}
		}), []string{ru + `selector: Too many: 1001: must have at most 1000 items`}},
		{"Nodes that nobody reads", func(obj *v1beta1.DaemonSet) {
			expression := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn}
			for i := range apps.MaxTerms {
				expression.Values = append(expression.Values, strconv.Itoa(i))
			}
			obj.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{MatchExpressions: []corev1.NodeSelectorRequirement{expression}},
				}},
			}}
		}, []string{"spec.template.spec.affinity.nodeAffinity: Too many: 1002: must have at most 1000 items"}},
		{"V-1 what OnDelete does not read", both(onDelete, inPlace, budget(text("x"), number(-1)), keep(text("5"))), nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := valid(tc.edit)
			_, problems, _ := resolve(obj, nil)
			faulttest.Problems(t, tc.want, problems, validateCreate(obj))
		})
	}
}

// TestOnlyAdmissionRefuses: stored objects with such values continue to work, and admission refuses new objects with
// such values.
func TestOnlyAdmissionRefuses(t *testing.T) {
	number, text := intstr.FromInt32, intstr.FromString
	reserve := func(obj *v1beta1.DaemonSet) {
		obj.Spec.Template.Labels[apps.LabelTemplateGeneration] = "3"
		obj.Spec.Template.Annotations = map[string]string{apps.AnnotationInPlaceUpdateState: "{}"}
	}
	tests := []struct {
		name string
		edit edit
		want []string // "path: type" each
	}{
		{"defaults", func(*v1beta1.DaemonSet) {}, nil},
		{"V-19 both budgets", budget(number(1), text("1%")), []string{ru + "maxSurge: Invalid value"}},
		{"V-19 no budget", budget(number(0), number(0)), []string{ru + "maxUnavailable: Required value"}},
		{"V-19 0% is none", budget(text("0%"), text("0%")), []string{ru + "maxUnavailable: Required value"}},
		{"V-19 0 and nothing", rolling(func(ru *v1beta1.RollingUpdateDaemonSet) { ru.MaxSurge, ru.MaxUnavailable = ptr.To(number(0)), nil }), []string{
			ru + "maxUnavailable: Required value",
		}},
		{"V-19 0 without a surge", rolling(func(ru *v1beta1.RollingUpdateDaemonSet) { ru.MaxUnavailable, ru.MaxSurge = ptr.To(number(0)), nil }), []string{
			ru + "maxUnavailable: Required value",
		}},
		{"V-19 a surge alone", budget(text("0%"), number(1)), nil},
		{"V-19 a budget without a surge", rolling(func(ru *v1beta1.RollingUpdateDaemonSet) { ru.MaxSurge = nil }), nil},
		{"4.1 100%", both(budget(text("100%"), number(0)), keep(text("100%")), burst(text("150%"))), nil},
		{"4.1 more than 100%", both(budget(text("101%"), number(0)), keep(text("200%"))), []string{
			ru + "maxUnavailable: Invalid value", ru + "partition: Invalid value",
		}},
		{"4.1 more than 100% of surge", budget(number(0), text("101%")), []string{ru + "maxSurge: Invalid value"}},
		{"V-19 the partition is a whole percentage", keep(text("12.5%")), []string{ru + "partition: Invalid value"}},
		{"V-19 partition 0%", keep(text("0%")), nil},
		{"P-1 so are the others", both(budget(text("12.5%"), number(0)), burst(text("0.5%"))), []string{
			"spec.burstReplicas: Invalid value", ru + "maxUnavailable: Invalid value",
		}},
		{"V-1 what OnDelete does not read", both(onDelete, budget(number(1), number(1))), nil},
		{"4.1 negative seconds and limits", func(obj *v1beta1.DaemonSet) {
			obj.Spec.MinReadySeconds, obj.Spec.RevisionHistoryLimit = -1, ptr.To[int32](-1)
		}, []string{"spec.revisionHistoryLimit: Invalid value", "spec.minReadySeconds: Invalid value"}},
		{"4.1 preDelete", func(obj *v1beta1.DaemonSet) { obj.Spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{}} }, nil},
		{"4.1 other hooks", func(obj *v1beta1.DaemonSet) {
			obj.Spec.Lifecycle = &pub.Lifecycle{InPlaceUpdate: &pub.LifecycleHook{}, PreNormal: &pub.LifecycleHook{}}
		}, []string{"spec.lifecycle.inPlaceUpdate: Forbidden", "spec.lifecycle.preNormal: Forbidden"}},
		{"4.1 Pods that end", func(obj *v1beta1.DaemonSet) {
			obj.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			obj.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
		}, []string{"spec.template.spec.restartPolicy: Unsupported value", "spec.template.spec.activeDeadlineSeconds: Forbidden"}},
		{"what the controller writes", reserve, []string{
			"spec.template.metadata.labels[pod-template-generation]: Invalid value",
			"spec.template.metadata.annotations[apps.kruise.io/inplace-update-state]: Invalid value",
		}},
		{"4.1 no type", func(obj *v1beta1.DaemonSet) { obj.Spec.UpdateStrategy.Type = "" }, []string{"spec.updateStrategy.type: Required value"}},
		{"4.1 RollingUpdate without settings", func(obj *v1beta1.DaemonSet) { obj.Spec.UpdateStrategy.RollingUpdate = nil }, []string{
			"spec.updateStrategy.rollingUpdate: Required value",
		}},
		{"V-12 name", func(obj *v1beta1.DaemonSet) { obj.Name = "Agent_1" }, []string{"metadata.name: Invalid value"}},
		{"V-12 no name", func(obj *v1beta1.DaemonSet) { obj.Name = "" }, []string{"metadata.name: Required value"}},
		{"V-12 the longest name", func(obj *v1beta1.DaemonSet) { obj.Name = strings.Repeat("a", 242) }, nil},
		{"V-12 a name that no revision can have", func(obj *v1beta1.DaemonSet) { obj.Name = strings.Repeat("a", 243) }, []string{"metadata.name: Too long"}},
		{"V-12 a prefix", func(obj *v1beta1.DaemonSet) { obj.Name, obj.GenerateName = "", "agent-" }, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := valid(tc.edit)
			if _, problems, _ := resolve(obj, nil); len(problems) > 0 {
				t.Errorf("unusable: %v", problems.Reasons())
			}
			var got []string
			for _, err := range validateCreate(obj) {
				got = append(got, err.Field+": "+err.Type.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if errs := validateUpdate(obj, valid(tc.edit, func(obj *v1beta1.DaemonSet) { obj.Spec.MinReadySeconds++ })); len(tc.want) > 0 &&
				!strings.Contains(tc.name, "seconds") && len(errs) > 0 {
				t.Errorf("an update of what is stored so is refused: %v", errs)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	tests := []struct {
		name string
		edit edit
		want []string
	}{
		{"V-10 the selector", func(obj *v1beta1.DaemonSet) {
			obj.Spec.Selector.MatchLabels["more"], obj.Spec.Template.Labels["more"] = "a", "a"
		}, []string{"spec: Forbidden"}},
		{"V-10 everything else", func(obj *v1beta1.DaemonSet) {
			obj.Spec = v1beta1.DaemonSetSpec{
				Selector: obj.Spec.Selector, Template: *obj.Spec.Template.DeepCopy(),
				ScaleStrategy:  &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true},
				UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{Type: v1beta1.OnDeleteDaemonSetStrategyType},
				Lifecycle:      &pub.Lifecycle{PreDelete: &pub.LifecycleHook{}},
				BurstReplicas:  ptr.To(intstr.FromInt32(1)), MinReadySeconds: 1, RevisionHistoryLimit: ptr.To[int32](1),
			}
			obj.Spec.Template.Spec.Containers[0].Image = "app:v2"
		}, nil},
		{"V-19 a new problem", budget(intstr.FromInt32(0), intstr.FromInt32(0)), []string{ru + "maxUnavailable: Required value"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range validateUpdate(valid(tc.edit), valid()) {
				got = append(got, err.Field+": "+err.Type.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateV1alpha1(t *testing.T) {
	with := func(kind v1beta1.DaemonSetUpdateStrategyType, rollingType v1beta1.RollingUpdateType, unavailable *intstr.IntOrString) *v1alpha1.DaemonSet {
		return &v1alpha1.DaemonSet{Spec: v1alpha1.DaemonSetSpec{UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{
			Type: kind, RollingUpdate: &v1beta1.RollingUpdateDaemonSet{RollingUpdateType: rollingType, MaxUnavailable: unavailable},
		}}}
	}
	one := ptr.To(intstr.FromInt32(1))
	tests := []struct {
		name     string
		obj, old *v1alpha1.DaemonSet
		want     []string
	}{
		{"4.1 nothing", &v1alpha1.DaemonSet{}, nil, nil},
		{"4.1 Surging", with("RollingUpdate", "Surging", ptr.To(intstr.FromString("0%"))), nil, nil},
		{"4.1 Surging without a budget", with("RollingUpdate", "Surging", nil), nil, nil},
		{"4.1 Surging with a budget", with("RollingUpdate", "Surging", one), nil, []string{ru + `maxUnavailable: Invalid value: "1": must be 0 with Surging; use Standard`}},
		{"4.1 Surging with a budget, as stored", with("RollingUpdate", "Surging", one), with("RollingUpdate", "Surging", one), nil},
		{"4.1 Surging of OnDelete", with("OnDelete", "Surging", one), nil, nil},
		{"4.1 Standard", with("RollingUpdate", "Standard", one), nil, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range validateV1alpha1(tc.obj, tc.old) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStoredObjectIsValid: admission accepts an update of an object that OpenKruise has stored.
func TestStoredObjectIsValid(t *testing.T) {
	raw, err := os.ReadFile("../../apis/apps/daemonset/testdata/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stored := &v1beta1.DaemonSet{}
	if err := yaml.UnmarshalStrict(raw, stored); err != nil {
		t.Fatal(err)
	}
	if errs := validateCreate(stored); len(errs) > 0 {
		t.Errorf("is refused: %v", errs)
	}
}
