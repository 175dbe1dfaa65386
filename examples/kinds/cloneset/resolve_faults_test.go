package cloneset

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func replicas(n int32) func(*v1beta1.CloneSet) {
	return func(obj *v1beta1.CloneSet) { obj.Spec.Replicas = &n }
}

func both(edits ...func(*v1beta1.CloneSet)) func(*v1beta1.CloneSet) {
	return func(obj *v1beta1.CloneSet) {
		for _, edit := range edits {
			edit(obj)
		}
	}
}

func scaleLimit(limit intstr.IntOrString) func(*v1beta1.CloneSet) {
	return func(obj *v1beta1.CloneSet) { obj.Spec.ScaleStrategy.MaxUnavailable = &limit }
}

func prefer(priority pub.PriorityStrategy) func(*v1beta1.CloneSet) {
	return rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.PriorityStrategy = &priority })
}

// TestUnusable: each message names the path, the value and the allowed values. Admission refuses the creation of such
// objects with the same messages.
func TestUnusable(t *testing.T) {
	number, text := intstr.FromInt32, intstr.FromString
	const allowed = `use an integer from 0 to 2147483647, or a percentage such as "12.5%"`
	tests := []struct {
		name string
		edit func(*v1beta1.CloneSet)
		want []string
	}{
		{"negative replicas, and counts are not judged by them", replicas(-1), []string{`spec.replicas: Invalid value: -1: must be at least 0`}},
		{"no selector", func(obj *v1beta1.CloneSet) { obj.Spec.Selector = nil }, []string{`spec.selector: Required value: must select at least one label`}},
		{"malformed selector, in the same order each time", func(obj *v1beta1.CloneSet) {
			obj.Spec.Selector.MatchLabels = map[string]string{"": "", "a": "b"}
			obj.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}, {Key: "a", Operator: "In"}}
		}, []string{
			`spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`,
			"spec.selector.matchExpressions[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
			`spec.selector.matchLabels: Invalid value: "": name part must be non-empty`,
			`spec.selector.matchLabels: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an ` +
				`alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		}},
		{"selector of a reserved key", func(obj *v1beta1.CloneSet) { obj.Spec.Selector.MatchLabels[apps.LabelRevision] = "x" }, []string{
			`spec.selector: Invalid value: "app=web,controller-revision-hash=x": must not ask for controller-revision-hash, which the controller writes`,
		}},
		{"template that is not selected", func(obj *v1beta1.CloneSet) { obj.Spec.Template.Labels = map[string]string{"app": "else"} }, []string{
			`spec.template.metadata.labels: Invalid value: {"app":"else"}: must match spec.selector (app=web)`,
		}},
		{"unknown type", func(obj *v1beta1.CloneSet) { obj.Spec.UpdateStrategy.Type = "Blue" }, []string{
			`spec.updateStrategy.type: Unsupported value: "Blue": supported values: "RollingUpdate", "OnDelete"`,
		}},
		{"unknown policy", rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.PodUpdatePolicy = "Blue" }), []string{
			ru + `podUpdatePolicy: Unsupported value: "Blue": supported values: "ReCreate", "InPlaceIfPossible", "InPlaceOnly"`,
		}},
		{"2.1 maxSurge with InPlaceOnly", both(inPlaceOnly, budget(number(1), number(1))), []string{
			ru + `maxSurge: Invalid value: "1": must be 0 with InPlaceOnly, which never replaces a Pod`,
		}},
		{"no counts", both(budget(text("5"), text("-10%")), scaleLimit(text("few")), rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.Partition = ptr.To(number(-1))
		})), []string{
			`spec.scaleStrategy.maxUnavailable: Invalid value: "few": no % sign; ` + allowed,
			ru + `partition: Invalid value: -1: negative; ` + allowed,
			ru + `maxUnavailable: Invalid value: "5": no % sign; ` + allowed,
			ru + `maxSurge: Invalid value: "-10%": not a decimal number; ` + allowed,
		}},
		{"percentages of so many that it is no number", both(replicas(1000), budget(text("2147483647%"), number(0))), []string{
			ru + `maxUnavailable: Invalid value: "2147483647%": too large; ` + allowed,
		}},
		{"both orders", prefer(pub.PriorityStrategy{
			OrderPriority:  []pub.OrderPriorityTerm{{OrderedKey: "a"}},
			WeightPriority: []pub.WeightPriorityTerm{{MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
		}), []string{ru + `priorityStrategy: Forbidden: orderPriority and weightPriority exclude each other`}},
		{"weights", prefer(pub.PriorityStrategy{WeightPriority: []pub.WeightPriorityTerm{{Weight: 101}}}), []string{
			ru + `priorityStrategy.weightPriority[0].weight: Invalid value: 101: must be from 0 to 100`,
			ru + `priorityStrategy.weightPriority[0].matchSelector: Required value: must select at least one label`,
		}},
		{"order by nothing", prefer(pub.PriorityStrategy{OrderPriority: []pub.OrderPriorityTerm{{}}}), []string{
			ru + `priorityStrategy.orderPriority[0].orderedKey: Required value: name a label`,
		}},
		{"scatter", rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.ScatterStrategy = []pub.ScatterTerm{{Key: "a", Value: "b"}, {Key: "a", Value: "b"}, {}}
		}), []string{
			ru + `scatterStrategy[1]: Duplicate value: "a=b"`,
			ru + `scatterStrategy[2].key: Required value: name a label`,
		}},
		{"lists that are too long are not looked into, and the rest is", both(rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
			ru.ScatterStrategy = make([]pub.ScatterTerm, apps.MaxTerms+1)
			ru.PriorityStrategy = &pub.PriorityStrategy{
				OrderPriority: make([]pub.OrderPriorityTerm, apps.MaxTerms+1), WeightPriority: make([]pub.WeightPriorityTerm, apps.MaxTerms+1),
			}
		}), replicas(-1), func(obj *v1beta1.CloneSet) {
			for i := range apps.MaxTerms {
				obj.Spec.Selector.MatchLabels["no key "+strconv.Itoa(i)] = ""
			}
		}), []string{
			`spec.replicas: Invalid value: -1: must be at least 0`,
			`spec.selector: Too many: 1001: must have at most 1000 items`,
			ru + `priorityStrategy.orderPriority: Too many: 1001: must have at most 1000 items`,
			ru + `priorityStrategy.weightPriority: Too many: 1001: must have at most 1000 items`,
			ru + `scatterStrategy: Too many: 1001: must have at most 1000 items`,
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := valid(tc.edit)
			var got, refused []string
			_, problems, _ := resolve(obj, Options{})
			for _, err := range problems.Refusals() {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			for _, err := range validateCreate(obj, validateOptions{}) {
				refused = append(refused, err.Error())
			}
			for _, message := range got {
				if !slices.Contains(refused, message) {
					t.Errorf("admission does not say %q, but %q", message, refused)
				}
			}
		})
	}
}

// TestOnlyAdmissionRefuses: stored objects with such values continue to work, and admission refuses new objects with
// such values.
func TestOnlyAdmissionRefuses(t *testing.T) {
	number, text := intstr.FromInt32, intstr.FromString
	tests := []struct {
		name string
		edit func(*v1beta1.CloneSet)
		want []string // fields
	}{
		{"P-1 a number in quotes", scaleLimit(text("5")), []string{"spec.scaleStrategy.maxUnavailable"}},
		{"P-1 a negative number", scaleLimit(number(-1)), []string{"spec.scaleStrategy.maxUnavailable"}},
		{"P-1 a negative percentage", scaleLimit(text("-5%")), []string{"spec.scaleStrategy.maxUnavailable"}},
		{"a leading zero is nothing odd", scaleLimit(text("05%")), nil},
		{"negative seconds and limits", func(obj *v1beta1.CloneSet) {
			obj.Spec.MinReadySeconds, obj.Spec.RevisionHistoryLimit, obj.Spec.ProgressDeadlineSeconds = -1, ptr.To[int32](-1), ptr.To[int32](-1)
			obj.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{GracePeriodSeconds: -1}
		}, []string{
			"spec.revisionHistoryLimit", "spec.minReadySeconds", "spec.progressDeadlineSeconds", ru + "inPlaceUpdateStrategy.gracePeriodSeconds",
		}},
		{"V-13 no budget", budget(number(0), number(0)), []string{ru + "maxUnavailable"}},
		{"no strategy", func(obj *v1beta1.CloneSet) { obj.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{} }, []string{"spec.updateStrategy.type"}},
		{"no rolling update", func(obj *v1beta1.CloneSet) { obj.Spec.UpdateStrategy.RollingUpdate = nil }, []string{"spec.updateStrategy.rollingUpdate"}},
		{"a surge that is none of no replicas", both(replicas(0), inPlaceOnly, budget(number(1), text("10%"))), []string{ru + "maxSurge"}},
		{"a percentage that is too large of one", both(replicas(0), budget(text("999999999999%"), number(0))), []string{ru + "maxUnavailable"}},
		{"V-16 percentages that are written oddly", budget(text(".5%"), text("1.%")), nil},
		{"the largest number", both(replicas(math.MaxInt32), budget(text("100%"), number(math.MaxInt32))), nil},
		{"reserved labels in the template", func(obj *v1beta1.CloneSet) { obj.Spec.Template.Labels[apps.LabelRevision] = "mine" }, []string{
			"spec.template.metadata.labels[controller-revision-hash]",
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := valid(tc.edit)
			if _, problems, _ := resolve(obj, Options{}); len(problems) > 0 {
				t.Errorf("unusable: %v", problems.Reasons())
			}
			var got []string
			for _, err := range validateCreate(obj, validateOptions{}) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
	if errs := validateUpdate(valid(scaleLimit(text("5")), replicas(3)), valid(scaleLimit(text("5"))), validateOptions{}); len(errs) > 0 {
		t.Errorf("an odd value that is stored is refused: %v", errs)
	}
}
