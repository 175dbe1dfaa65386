package statefulset

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
)

type change = func(*v1beta1.StatefulSet)

// valid returns a valid, defaulted object, after edits.
func valid(edits ...change) *v1beta1.StatefulSet {
	obj := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default", UID: "1"}}
	obj.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	obj.Spec.ServiceName, obj.Spec.PodManagementPolicy = "db", appsv1.ParallelPodManagement
	obj.Spec.Template.Labels = map[string]string{"app": "db"}
	obj.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	obj.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "InPlaceUpdateReady"}}
	api.Default(obj, nil, api.DefaultOptions{AutoDeletePVC: true, AutoResizePVC: true})
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func both(edits ...change) change {
	return func(obj *v1beta1.StatefulSet) {
		for _, edit := range edits {
			edit(obj)
		}
	}
}

func rollingWith(edit func(*v1beta1.RollingUpdateStatefulSet)) change {
	return func(obj *v1beta1.StatefulSet) { edit(obj.Spec.UpdateStrategy.RollingUpdate) }
}

func replicas(n int32) change {
	return func(obj *v1beta1.StatefulSet) { obj.Spec.Replicas = &n }
}

func reserved(entries ...any) change {
	return func(obj *v1beta1.StatefulSet) {
		for _, entry := range entries {
			switch entry := entry.(type) {
			case int:
				obj.Spec.ReserveOrdinals = append(obj.Spec.ReserveOrdinals, intstr.FromInt32(int32(entry)))
			case string:
				obj.Spec.ReserveOrdinals = append(obj.Spec.ReserveOrdinals, intstr.FromString(entry))
			}
		}
	}
}

func start(n int32) change {
	return func(obj *v1beta1.StatefulSet) { obj.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}

func limited(limit intstr.IntOrString) change {
	return rollingWith(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.MaxUnavailable = &limit })
}

func scaleBudget(limit intstr.IntOrString) change {
	return func(obj *v1beta1.StatefulSet) {
		obj.Spec.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: &limit}
	}
}

func prefer(priority pub.PriorityStrategy) change {
	return rollingWith(func(ru *v1beta1.RollingUpdateStatefulSet) {
		ru.UnorderedUpdate = &v1beta1.UnorderedUpdate{PriorityStrategy: &priority}
	})
}

func retention(whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) change {
	return func(obj *v1beta1.StatefulSet) {
		obj.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: whenDeleted, WhenScaled: whenScaled}
	}
}

func management(policy appsv1.PodManagementPolicyType) change {
	return func(obj *v1beta1.StatefulSet) { obj.Spec.PodManagementPolicy = policy }
}

const (
	ru       = "spec.updateStrategy.rollingUpdate."
	priority = ru + "unorderedUpdate.priorityStrategy"
)

// TestUnusable: each message names the path, the value and the allowed values. Admission refuses the creation of such
// objects with the same messages.
func TestUnusable(t *testing.T) {
	number, text := intstr.FromInt32, intstr.FromString
	const (
		allowed = `use an integer from 0 to 2147483647, or a percentage such as "12.5%"`
		entry   = `use an integer from 0 to 2147483647, or a range of two such as "3-7"`
		too     = "2147483648-2147483649"
	)
	tests := []struct {
		name string
		edit change
		want []string
	}{
		{"3.1 negative replicas", replicas(-1), []string{`spec.replicas: Invalid value: -1: no number of replicas; use 0 or more`}},
		{"S-6 reserved: a negative number", reserved(-1, "-1"), []string{
			`spec.reserveOrdinals[0]: Invalid value: -1: negative; ` + entry,
			`spec.reserveOrdinals[1]: Invalid value: -1: not an ordinal or range; ` + entry,
		}},
		{"S-6 reserved: a range that runs backwards", reserved(4, "7-3"), []string{
			`spec.reserveOrdinals[1]: Invalid value: "7-3": the range runs backwards; ` + entry,
		}},
		{"S-6 reserved: no number", reserved("x", "", "1-2-3", "1-", "3 - 4", "٣", "-3", "a-b", "99999999999999999999"), []string{
			`spec.reserveOrdinals[0]: Invalid value: "x": not an ordinal or range; ` + entry,
			`spec.reserveOrdinals[1]: Invalid value: "": not an ordinal or range; ` + entry,
			`spec.reserveOrdinals[2]: Invalid value: "1-2-3": not an ordinal or range; ` + entry,
			`spec.reserveOrdinals[3]: Invalid value: "1-": not an ordinal or range; ` + entry,
			`spec.reserveOrdinals[4]: Invalid value: "3 - 4": not an ordinal or range; ` + entry,
			`spec.reserveOrdinals[5]: Invalid value: "٣": not an ordinal or range; ` + entry,
			`spec.reserveOrdinals[6]: Invalid value: -3: not an ordinal or range; ` + entry,
			`spec.reserveOrdinals[7]: Invalid value: "a-b": not an ordinal or range; ` + entry,
			`spec.reserveOrdinals[8]: Invalid value: "99999999999999999999": not an ordinal or range; ` + entry,
		}},
		{"S-6 reserved: numbers that are too large", reserved("2147483648", too, "0-99999999999999999999"), []string{
			`spec.reserveOrdinals[0]: Invalid value: 2147483648: not an ordinal or range; ` + entry,
			`spec.reserveOrdinals[1]: Invalid value: "` + too + `": not an ordinal or range; ` + entry,
			`spec.reserveOrdinals[2]: Invalid value: "0-99999999999999999999": not an ordinal or range; ` + entry,
		}},
		{"S-6 reserved: all numbers", reserved("0-2147483647"), []string{
			`spec.replicas: Invalid value: 1: only 0 ordinals are free from 0 on; lower the start or the replicas, or reserve fewer`,
		}},
		{"S-6 more entries than anybody reads", func(obj *v1beta1.StatefulSet) {
			obj.Spec.ReserveOrdinals = make([]intstr.IntOrString, 10_001)
			obj.Spec.Replicas = ptr.To[int32](-1)
		}, []string{
			`spec.replicas: Invalid value: -1: must be at least 0`,
			`spec.reserveOrdinals: Too many: 10001: must have at most 10000 items`,
		}},
		{"3.1 a negative start", start(-1), []string{`spec.ordinals.start: Invalid value: -1: no ordinal to start from; use 0 to 2147483647`}},
		{"3.1 a start that leaves no room", both(start(math.MaxInt32-2), replicas(4)), []string{
			`spec.replicas: Invalid value: 4: only 3 ordinals are free from 2147483645 on; lower the start or the replicas, or reserve fewer`,
		}},
		{"3.1 a start that leaves no room beside what is reserved", both(start(math.MaxInt32-2), replicas(3), reserved("2147483646")), []string{
			`spec.replicas: Invalid value: 3: only 2 ordinals are free from 2147483645 on; lower the start or the replicas, or reserve fewer`,
		}},
		{"3.1 no selector", func(obj *v1beta1.StatefulSet) { obj.Spec.Selector = nil }, []string{`spec.selector: Required value: must select at least one label`}},
		{"selector of a key that the controller writes", func(obj *v1beta1.StatefulSet) { obj.Spec.Selector.MatchLabels[apps.LabelPodName] = "x" }, []string{
			`spec.selector: Invalid value: "app=db,statefulset.kubernetes.io/pod-name=x": must not ask for statefulset.kubernetes.io/pod-name, which the controller writes`,
		}},
		{"3.1 template that is not selected", func(obj *v1beta1.StatefulSet) { obj.Spec.Template.Labels = map[string]string{"app": "else"} }, []string{
			`spec.template.metadata.labels: Invalid value: {"app":"else"}: must match spec.selector (app=db)`,
		}},
		{"3.1 unknown management", management("Blue"), []string{
			`spec.podManagementPolicy: Unsupported value: "Blue": supported values: "OrderedReady", "Parallel"`,
		}},
		{"3.1 unknown retention", retention("Blue", "Green"), []string{
			`spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Blue": supported values: "Retain", "Delete"`,
			`spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Green": supported values: "Retain", "Delete"`,
		}},
		{"3.1 unknown type", func(obj *v1beta1.StatefulSet) { obj.Spec.UpdateStrategy.Type = "Blue" }, []string{
			`spec.updateStrategy.type: Unsupported value: "Blue": supported values: "RollingUpdate", "OnDelete"`,
		}},
		{"3.1 unknown policy", rollingWith(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.PodUpdatePolicy = "Blue" }), []string{
			ru + `podUpdatePolicy: Unsupported value: "Blue": supported values: "ReCreate", "InPlaceIfPossible", "InPlaceOnly"`,
		}},
		{"3.1 negative partition", rollingWith(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.Partition = ptr.To[int32](-1) }), []string{
			ru + `partition: Invalid value: -1: must be at least 0`,
		}},
		{"V-16 V-17 no counts", both(limited(text("5")), scaleBudget(number(-1))), []string{
			`spec.scaleStrategy.maxUnavailable: Invalid value: -1: negative; ` + allowed,
			ru + `maxUnavailable: Invalid value: "5": no % sign; ` + allowed,
		}},
		{"percentages of so many that it is no number", both(replicas(1000), limited(text("2147483647%"))), []string{
			ru + `maxUnavailable: Invalid value: "2147483647%": too large; ` + allowed,
		}},
		{"V-18 both orders", prefer(pub.PriorityStrategy{
			OrderPriority:  []pub.OrderPriorityTerm{{OrderedKey: "a"}},
			WeightPriority: []pub.WeightPriorityTerm{{MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
		}), []string{priority + `: Forbidden: orderPriority and weightPriority exclude each other`}},
		{"V-18 weights", prefer(pub.PriorityStrategy{WeightPriority: []pub.WeightPriorityTerm{{Weight: 101}, {Weight: -1}}}), []string{
			priority + `.weightPriority[0].weight: Invalid value: 101: must be from 0 to 100`,
			priority + `.weightPriority[0].matchSelector: Required value: must select at least one label`,
			priority + `.weightPriority[1].weight: Invalid value: -1: must be from 0 to 100`,
			priority + `.weightPriority[1].matchSelector: Required value: must select at least one label`,
		}},
		{"V-18 order by nothing", prefer(pub.PriorityStrategy{OrderPriority: []pub.OrderPriorityTerm{{}}}), []string{
			priority + `.orderPriority[0].orderedKey: Required value: name a label`,
		}},
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
	tests := []struct {
		name string
		edit change
		want []string // fields
	}{
		{"V-17 no budget", both(limited(number(0)), scaleBudget(text("0%"))), []string{"spec.scaleStrategy.maxUnavailable", ru + "maxUnavailable"}},
		{"V-17 no budget as a percentage", both(limited(text("0.0%")), scaleBudget(number(0))), []string{"spec.scaleStrategy.maxUnavailable", ru + "maxUnavailable"}},
		{"V-17 OrderedReady with more than 1", both(management("OrderedReady"), limited(number(2)), scaleBudget(number(2))), []string{
			"spec.scaleStrategy.maxUnavailable", ru + "maxUnavailable",
		}},
		{"V-17 OrderedReady with a percentage", both(management("OrderedReady"), limited(text("100%"))), []string{ru + "maxUnavailable"}},
		{"V-17 OrderedReady by default", both(management(""), limited(number(2))), []string{ru + "maxUnavailable"}},
		{"3.1 unorderedUpdate with OrderedReady", both(management("OrderedReady"), prefer(pub.PriorityStrategy{})), []string{ru + "unorderedUpdate"}},
		{"3.1 in-place policies without their readiness gate", both(func(obj *v1beta1.StatefulSet) {
			obj.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "Other"}}
		}, rollingWith(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.PodUpdatePolicy = v1beta1.InPlaceIfPossible })), []string{
			"spec.template.spec.readinessGates",
		}},
		{"3.1 minReadySeconds", rollingWith(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.MinReadySeconds = ptr.To[int32](301) }), []string{ru + "minReadySeconds"}},
		{"3.1 negative seconds and limits", both(func(obj *v1beta1.StatefulSet) { obj.Spec.RevisionHistoryLimit = ptr.To[int32](-1) },
			rollingWith(func(ru *v1beta1.RollingUpdateStatefulSet) {
				ru.MinReadySeconds, ru.InPlaceUpdateStrategy = ptr.To[int32](-1), &pub.InPlaceUpdateStrategy{GracePeriodSeconds: -1}
			})), []string{"spec.revisionHistoryLimit", ru + "minReadySeconds", ru + "inPlaceUpdateStrategy.gracePeriodSeconds"}},
		{"3.1 OnDelete with rollingUpdate", func(obj *v1beta1.StatefulSet) { obj.Spec.UpdateStrategy.Type = "OnDelete" }, []string{"spec.updateStrategy.rollingUpdate"}},
		{"3.1 no rollingUpdate", func(obj *v1beta1.StatefulSet) { obj.Spec.UpdateStrategy.RollingUpdate = nil }, []string{"spec.updateStrategy.rollingUpdate"}},
		{"3.1 no strategy", func(obj *v1beta1.StatefulSet) { obj.Spec.UpdateStrategy = v1beta1.StatefulSetUpdateStrategy{} }, []string{"spec.updateStrategy.type"}},
		{"3.1 half a retention policy", retention("Delete", ""), []string{"spec.persistentVolumeClaimRetentionPolicy.whenScaled"}},
		{"3.1 unknown update of claims", func(obj *v1beta1.StatefulSet) { obj.Spec.VolumeClaimUpdateStrategy.Type = "Blue" }, []string{"spec.volumeClaimUpdateStrategy.type"}},
		{"S-1 serviceName that is no subdomain of a Pod", func(obj *v1beta1.StatefulSet) { obj.Spec.ServiceName = "a.b" }, []string{"spec.serviceName"}},
		{"3.1 restartPolicy and deadline", func(obj *v1beta1.StatefulSet) {
			obj.Spec.Template.Spec.RestartPolicy, obj.Spec.Template.Spec.ActiveDeadlineSeconds = corev1.RestartPolicyNever, ptr.To[int64](5)
		}, []string{"spec.template.spec.restartPolicy", "spec.template.spec.activeDeadlineSeconds"}},
		{"labels in the template that the controller writes", func(obj *v1beta1.StatefulSet) {
			obj.Spec.Template.Labels[apps.LabelPodIndex], obj.Spec.Template.Labels[apps.LabelPodTemplateHash] = "1", "fine"
		}, []string{"spec.template.metadata.labels[apps.kubernetes.io/pod-index]"}},
		{"3.1 claim templates without a name and twice the same", func(obj *v1beta1.StatefulSet) {
			claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
			obj.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim, claim, {}}
		}, []string{"spec.volumeClaimTemplates[1].metadata.name", "spec.volumeClaimTemplates[2].metadata.name"}},
		{"a percentage that is too large of one", both(replicas(0), limited(text("999999999999%"))), []string{ru + "maxUnavailable"}},
		{"V-12 name with a dot, which no hostname has", func(obj *v1beta1.StatefulSet) { obj.Name = "a.b" }, []string{"metadata.name"}},
		{"V-12 name that no Pod's label can hold", func(obj *v1beta1.StatefulSet) { obj.Name = strings.Repeat("a", 53) }, []string{"metadata.name"}},
		{"V-12 the longest name", func(obj *v1beta1.StatefulSet) { obj.Name = strings.Repeat("a", 52) }, nil},
		{"V-12 generated name", func(obj *v1beta1.StatefulSet) { obj.Name, obj.GenerateName = "", "db-" }, nil},
		{"V-12 no name", func(obj *v1beta1.StatefulSet) { obj.Name = "" }, []string{"metadata.name"}},
		{"S-2 ranges that overlap, are single, or have zeros in front", reserved("3-9", "5-20", 7, 7, "0003-005", "4"), nil},
		{"S-2 a range that nobody could count through", both(reserved("0-2000000000"), replicas(10_000)), nil},
		{"S-2 nothing reserved that counts", both(start(2), reserved(0, 1)), nil},
		{"3.1 as many as there are numbers", both(start(1), replicas(math.MaxInt32)), nil},
		{"S-40 nothing set", func(obj *v1beta1.StatefulSet) {
			obj.Spec.UpdateStrategy, obj.Spec.Replicas = v1beta1.StatefulSetUpdateStrategy{Type: "RollingUpdate"}, nil
		}, []string{"spec.updateStrategy.rollingUpdate"}},
		{"V-17 budgets", both(limited(text("30%")), scaleBudget(number(math.MaxInt32))), nil},
		{"V-17 OrderedReady with 1", both(management("OrderedReady"), limited(number(1)), scaleBudget(number(1))), nil},
		{"V-18 weight 0", prefer(pub.PriorityStrategy{WeightPriority: []pub.WeightPriorityTerm{{MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}}), nil},
		{"3.1 the longest minReadySeconds", rollingWith(func(ru *v1beta1.RollingUpdateStatefulSet) { ru.MinReadySeconds = ptr.To[int32](300) }), nil},
		{"3.1 no serviceName", func(obj *v1beta1.StatefulSet) { obj.Spec.ServiceName = "" }, nil},
		{"3.1 OnDelete", func(obj *v1beta1.StatefulSet) {
			obj.Spec.UpdateStrategy = v1beta1.StatefulSetUpdateStrategy{Type: "OnDelete"}
		}, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := valid(tc.edit)
			if _, problems, _ := resolve(obj, nil); len(problems) > 0 {
				t.Errorf("unusable: %v", problems.Reasons())
			}
			var got []string
			for _, err := range validateCreate(obj) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzReserved: if the spec is valid, there are enough ordinals for all replicas, with and without the gate of the
// start ordinal.
func FuzzReserved(f *testing.F) {
	f.Add(int32(3), int32(0), "1 3-5")
	f.Add(int32(4), int32(2147483645), "2147483646")
	f.Add(int32(-1), int32(-1), "-1 7-3 x 0-2147483647")
	f.Add(int32(2), int32(0), "99999999999999999999 0003-005 1- -")
	f.Fuzz(func(t *testing.T, count, first int32, list string) {
		obj := valid(replicas(count), start(first))
		for entry := range strings.FieldsSeq(list) {
			obj.Spec.ReserveOrdinals = append(obj.Spec.ReserveOrdinals, intstr.Parse(entry))
		}
		_, problems, _ := resolve(obj, nil)
		usable := len(problems) == 0
		for _, fromStart := range []bool{false, true} {
			set, err := api.Ordinals(obj, fromStart)
			if usable && (err != nil || set.Len() != int(count)) {
				t.Errorf("usable, and Ordinals(%t) = %d of %d, %v", fromStart, set.Len(), count, err)
			}
			if !usable && fromStart && err == nil {
				t.Errorf("unusable without a problem: %v", problems.Reasons())
			}
		}
	})
}
