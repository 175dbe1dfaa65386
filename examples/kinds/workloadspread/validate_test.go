package workloadspread

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/workloadspread"
)

type object = v1beta1.WorkloadSpread

// spread returns a WorkloadSpread for the CloneSet web with the subsets a and b. Subset a has a maximum of 2 Pods.
func spread(edits ...func(*object)) *object {
	obj := &object{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "zones", Generation: 4}}
	obj.Spec.TargetReference = v1beta1.WorkloadSpreadTarget{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web"}
	obj.Spec.Subsets = []v1beta1.WorkloadSpreadSubset{{Name: "a", MaxReplicas: number(2)}, {Name: "b"}}
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func number(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) }

func of(apiVersion, kind, name string) func(*object) {
	return func(obj *object) {
		obj.Spec.TargetReference = v1beta1.WorkloadSpreadTarget{APIVersion: apiVersion, Kind: kind, Name: name}
	}
}

// maximums sets the subsets a, b, c and so on; nil means no maximum, and a text is a percentage.
func maximums(values ...any) func(*object) {
	return func(obj *object) {
		obj.Spec.Subsets = nil
		for i, value := range values {
			subset := v1beta1.WorkloadSpreadSubset{Name: string(rune('a' + i))}
			switch value := value.(type) {
			case int:
				subset.MaxReplicas = number(int32(value)) //nolint:gosec // small
			case string:
				subset.MaxReplicas = new(intstr.FromString(value))
			}
			obj.Spec.Subsets = append(obj.Spec.Subsets, subset)
		}
	}
}

func adaptive(seconds int32) func(*object) {
	return func(obj *object) {
		obj.Spec.ScheduleStrategy = v1beta1.WorkloadSpreadScheduleStrategy{
			Type: v1beta1.WorkloadSpreadAdaptive, Adaptive: &v1beta1.WorkloadSpreadAdaptiveStrategy{RescheduleCriticalSeconds: &seconds},
		}
	}
}

func strategy(name v1beta1.WorkloadSpreadScheduleStrategyType) func(*object) {
	return func(obj *object) { obj.Spec.ScheduleStrategy.Type = name }
}

func selecting(labels map[string]string) func(*object) {
	return func(obj *object) {
		obj.Spec.TargetFilter = &v1beta1.WorkloadSpreadTargetFilter{Selector: &metav1.LabelSelector{MatchLabels: labels}}
	}
}

func replicasAt(paths ...string) func(*object) {
	return func(obj *object) {
		obj.Spec.TargetFilter = &v1beta1.WorkloadSpreadTargetFilter{ReplicasPathList: paths}
	}
}

// subsetA edits the first subset.
func subsetA(edit func(*v1beta1.WorkloadSpreadSubset)) func(*object) {
	return func(obj *object) { edit(&obj.Spec.Subsets[0]) }
}

func patching(text string) func(*object) {
	return subsetA(func(s *v1beta1.WorkloadSpreadSubset) { s.Patch = &runtime.RawExtension{Raw: []byte(text)} })
}

func named(name string) func(*object) { return func(obj *object) { obj.Name = name } }

func ending(obj *object) { obj.DeletionTimestamp = &metav1.Time{} }

// said lists problems by path, each with its type.
func said(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, fmt.Sprintf("%s: %s", err.Field, err.Type))
	}
	return out
}

const (
	invalid   = ": Invalid value"
	needed    = ": Required value"
	forbidden = ": Forbidden"
	ref       = "spec.targetRef"
	maxOf     = "spec.subsets[%d].maxReplicas: Invalid value"
	seconds   = "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds: Invalid value"
)

func TestValidateSpec(t *testing.T) {
	for _, c := range []struct {
		name string
		obj  *object
		want []string
	}{
		{"WS 1.1 a plain one", spread(), nil},
		{"WS 1.1 nothing of the target", spread(of("", "", "")), []string{ref + ".apiVersion" + needed, ref + ".kind" + needed, ref + ".name" + needed}},
		{"WS 1.1 no group and version", spread(of("a/b/c", "CloneSet", "web")), []string{ref + ".apiVersion" + invalid}},
		{"WS 1.1 no name", spread(of("apps/v1", "Deployment", "W_B")), []string{ref + ".name" + invalid}},
		{"WS 1.1 no subset", spread(maximums()), []string{"spec.subsets" + needed}},
		{"WS 1.1 a name twice", spread(func(obj *object) { obj.Spec.Subsets[1].Name = "a" }), []string{"spec.subsets[a].name" + invalid}},
		{"WS 1.1 no name of a subset", spread(func(obj *object) { obj.Spec.Subsets[1].Name = "" }), []string{"spec.subsets[1].name" + invalid}},
		{"WS 1.1 a selector that is none", spread(selecting(map[string]string{"a b": "c"})), []string{"spec.targetFilter.selector.matchLabels" + invalid}},
		{"WS 1.1 paths", spread(replicasAt("spec.groups.1.replicas", "spec.n")), nil},
		{"WS 1.1 a path that is none", spread(replicasAt("spec..n")), []string{"spec.targetFilter.replicasPathList[0]" + invalid}},
		{"WS 1.1 a node selector that is none", spread(subsetA(func(s *v1beta1.WorkloadSpreadSubset) {
			s.RequiredNodeSelector = term("zone", "Near", "a")
		})), []string{"spec.subsets[0].requiredNodeSelector" + invalid}},
		{"WS 1.1 a preference of weight 0", spread(subsetA(func(s *v1beta1.WorkloadSpreadSubset) {
			s.PreferredNodeSelector = []corev1.PreferredSchedulingTerm{{Preference: *term("zone", "In", "a")}}
		})), []string{"spec.subsets[0].preferredNodeSelector[0].weight" + invalid}},
		{"WS 1.1 a toleration that tolerates nothing", spread(subsetA(func(s *v1beta1.WorkloadSpreadSubset) {
			s.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Near"}}
		})), []string{"spec.subsets[0].tolerations" + invalid}},
		{"WS 1.1 a patch", spread(patching(`{"metadata":{"labels":{"zone":"a"}},"spec":{"containers":[{"name":"main","env":[{"name":"ZONE","value":"a"}]}]}}`)), nil},
		{"WS 1.1 a patch that is no object", spread(patching(`[1]`)), []string{"spec.subsets[0].patch" + invalid}},
		{"WS 1.1 a patch that is none of a Pod", spread(patching(`{"spec":{"containers":"main"}}`)), []string{"spec.subsets[0].patch" + invalid}},
		{"WS 1.1 a patch of the owner", spread(patching(`{"metadata":{"name":"x","ownerReferences":[]}}`)), []string{"spec.subsets[0].patch.metadata.name" + forbidden, "spec.subsets[0].patch.metadata.ownerReferences" + forbidden}},
		{"WS-6 numbers and percentages", spread(maximums(3, "30%", nil)), []string{fmt.Sprintf(maxOf, 1)}},
		{"WS-6 percentages", spread(maximums("30%", "70%")), nil},
		{"WS-6 a number", spread(maximums(3, nil)), nil},
		{"WS-6 below 0", spread(maximums(-1, nil)), []string{"spec.subsets[a].maxReplicas" + invalid}},
		{"WS-6 a number in quotes", spread(maximums("3", nil)), []string{"spec.subsets[a].maxReplicas" + invalid}},
		{"WS-7 more than 100%", spread(maximums("60%", "50%")), []string{fmt.Sprintf(maxOf, 1)}},
		{"WS-7 less than 100%", spread(maximums("30%", "40%")), []string{fmt.Sprintf(maxOf, 1)}},
		{"WS-7 less than 100%, and the rest", spread(maximums("30%", "40%", nil)), nil},
		{"WS-7 exactly 100%", spread(maximums("33.3%", "66.7%")), nil},
		{"WS-7 numbers for a part", spread(maximums(2, 3)), nil},
		{"WS-8 percentages of numbered Pods", spread(of("apps/v1", "StatefulSet", "db"), maximums("30%", nil)), []string{fmt.Sprintf(maxOf, 0)}},
		{"WS-8 also of this group", spread(of("apps.kruise.io/v1beta1", "StatefulSet", "db"), maximums("30%", nil)), []string{fmt.Sprintf(maxOf, 0)}},
		{"WS-8 numbers", spread(of("apps/v1", "StatefulSet", "db"), maximums(5, 5, nil)), nil},
		{"WS-9 Adaptive", spread(adaptive(30)), nil},
		{"WS-9 no time", spread(strategy("Adaptive")), nil},
		{"WS-9 the wrong type", spread(adaptive(30), strategy("Fixed")), []string{"spec.scheduleStrategy.adaptive" + forbidden}},
		{"WS-9 no type", spread(adaptive(30), strategy("")), []string{"spec.scheduleStrategy.adaptive" + forbidden}},
		{"WS-9 an unknown type", spread(strategy("Random")), []string{"spec.scheduleStrategy.type: Unsupported value"}},
		{"WS-9 the last is limited", spread(maximums(3, 3), adaptive(30)), []string{fmt.Sprintf(maxOf, 1)}},
		{"WS-9 a single subset may be limited", spread(maximums(3), adaptive(30)), nil},
		{"WS-9 two subsets, 295 s", spread(adaptive(295)), nil},
		{"WS-9 two subsets, 296 s", spread(adaptive(296)), []string{seconds}},
		{"WS-9 three subsets, 147 s", spread(maximums(1, 1, nil), adaptive(147)), nil},
		{"WS-9 three subsets, 148 s", spread(maximums(1, 1, nil), adaptive(148)), []string{seconds}},
		{"WS-9 four subsets, 98 s", spread(maximums(1, 1, 1, nil), adaptive(98)), nil},
		{"WS-9 four subsets, 99 s", spread(maximums(1, 1, 1, nil), adaptive(99)), []string{seconds}},
		{"WS-9 one subset, any time", spread(maximums(nil), adaptive(1<<31-1)), nil},
		{"WS-9 below 0", spread(adaptive(-1)), []string{seconds}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs := validateSpec(&c.obj.Spec)
			if diff := cmp.Diff(c.want, said(errs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	listed := []api.Target{{GroupVersionKind: schema.GroupVersionKind{Group: "a.io", Version: "v1", Kind: "TrainJob"}}}
	red, blue := selecting(map[string]string{"role": "red"}), selecting(map[string]string{"role": "blue"})
	for _, c := range []struct {
		name   string
		obj    *object
		others []*object
		want   []string
	}{
		{"WS-2 a CloneSet", spread(), nil, nil},
		{"WS-2 a Deployment", spread(of("apps/v1", "Deployment", "web")), nil, nil},
		{"WS-2 a ReplicaSet", spread(of("apps/v1", "ReplicaSet", "web")), nil, nil},
		{"WS-2 a Job", spread(of("batch/v1", "Job", "web")), nil, nil},
		{"WS-2 a StatefulSet", spread(of("apps/v1", "StatefulSet", "web")), nil, nil},
		{"WS-2 a StatefulSet of this group", spread(of("apps.kruise.io/v1beta1", "StatefulSet", "web")), nil, nil},
		{"WS-2 a listed kind, in any version", spread(of("a.io/v7", "TrainJob", "web")), nil, nil},
		{"WS-2 a kind not listed", spread(of("a.io/v1", "OtherJob", "web")), nil, []string{ref + invalid}},
		{"WS-2 a DaemonSet", spread(of("apps/v1", "DaemonSet", "web")), nil, []string{ref + invalid}},
		{"WS-2 a CloneSet of another group", spread(of("apps/v1", "CloneSet", "web")), nil, []string{ref + invalid}},
		{"WS-3 another of the target, in another version", spread(), []*object{spread(named("other"), of("apps.kruise.io/v1beta1", "CloneSet", "web"))}, []string{ref + invalid}},
		{"WS-3 itself", spread(), []*object{spread()}, nil},
		{"WS-3 another target", spread(), []*object{spread(named("other"), of("apps.kruise.io/v1alpha1", "CloneSet", "api"))}, nil},
		{"WS-3 another kind", spread(), []*object{spread(named("other"), of("apps/v1", "Deployment", "web"))}, nil},
		{"WS-3 another namespace", spread(), []*object{spread(named("other"), func(obj *object) { obj.Namespace = "else" })}, nil},
		{"WS-13 one that is being deleted", spread(), []*object{spread(named("other"), ending)}, nil},
		{"WS 1.4 filters that no Pod can match both", spread(red), []*object{spread(named("other"), blue)}, nil},
		{"WS 1.4 a filter of all", spread(red), []*object{spread(named("other"))}, []string{ref + invalid}},
		{"WS 1.4 filters by two labels", spread(red), []*object{spread(named("other"), selecting(map[string]string{"tier": "x"}))}, []string{ref + invalid}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, errs := validateSpec(&c.obj.Spec)
			var others []object
			for _, other := range c.others {
				others = append(others, *other)
			}
			errs = append(errs, append(unlisted(c.obj, s, listed), rivals(c.obj, s, others)...)...)
			if diff := cmp.Diff(c.want, said(errs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	for _, c := range []struct {
		name        string
		obj, stored *object
		want        []string
	}{
		{"WS-4 another name", spread(of("apps.kruise.io/v1alpha1", "CloneSet", "api")), spread(), []string{ref + invalid}},
		{"WS-4 another kind", spread(of("apps/v1", "Deployment", "web")), spread(), []string{ref + invalid}},
		{"WS-4 another group", spread(of("apps/v1", "StatefulSet", "web")), spread(of("apps.kruise.io/v1beta1", "StatefulSet", "web")), []string{ref + invalid}},
		{"WS-4 another version", spread(of("apps.kruise.io/v1beta1", "CloneSet", "web")), spread(), nil},
		{"WS-7 other maximums", spread(maximums("30%", nil)), spread(), nil},
		{"WS-7 other and wrong ones", spread(maximums("30%", "40%")), spread(), []string{fmt.Sprintf(maxOf, 1)}},
		{"what stays is not judged", spread(maximums("30%", "40%"), strategy("Adaptive")), spread(maximums("30%", "40%")), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, errs := validateUpdate(c.obj, c.stored); cmp.Diff(c.want, said(errs)) != "" {
				t.Errorf("(-want +got):\n%s", cmp.Diff(c.want, said(errs)))
			}
		})
	}
}

// TestGate: while the feature gate is off, no WorkloadSpread can be created, because no webhook would assign Pods to
// subsets.
func TestGate(t *testing.T) {
	for _, c := range []struct {
		name   string
		gates  map[apps.Gate]bool
		closed bool
	}{
		{"WS-1 on by default", nil, false},
		{"WS-1 off", map[apps.Gate]bool{apps.GateWorkloadSpread: false}, true},
		{"WS-1 off without the webhooks of Pods", map[apps.Gate]bool{apps.GatePodWebhook: false}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := endpoint(admission.Options{Gates: c.gates}).Closed(); (err != nil) != c.closed {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestOldField: in v1alpha1, two fields of a subset have other names.
func TestOldField(t *testing.T) {
	got := map[string]string{}
	for _, path := range []string{
		"spec.subsets[0].requiredNodeSelector", "spec.subsets[0].preferredNodeSelector[1].weight", "spec.subsets[a].maxReplicas", "spec.targetRef",
	} {
		got[path] = oldField(path)
	}
	want := map[string]string{
		"spec.subsets[0].requiredNodeSelector": "spec.subsets[0].requiredNodeSelectorTerm", "spec.subsets[0].preferredNodeSelector[1].weight": "spec.subsets[0].preferredNodeSelectorTerms[1].weight",
		"spec.subsets[a].maxReplicas": "spec.subsets[a].maxReplicas", "spec.targetRef": "spec.targetRef",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func term(key, operator string, values ...string) *corev1.NodeSelectorTerm {
	return &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOperator(operator), Values: values}}}
}
