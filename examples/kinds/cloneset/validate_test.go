package cloneset

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/cloneset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// valid returns a defaulted object that validation accepts, after edits.
func valid(edits ...func(*v1beta1.CloneSet)) *v1beta1.CloneSet {
	obj := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1"}}
	obj.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	obj.Spec.Template.Labels = map[string]string{"app": "web"}
	obj.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1"}}
	api.Default(obj, nil, api.DefaultOptions{})
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func rolling(edit func(*v1beta1.RollingUpdateCloneSet)) func(*v1beta1.CloneSet) {
	return func(obj *v1beta1.CloneSet) { edit(obj.Spec.UpdateStrategy.RollingUpdate) }
}

func budget(unavailable, surge intstr.IntOrString) func(*v1beta1.CloneSet) {
	return rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.MaxUnavailable, ru.MaxSurge = &unavailable, &surge })
}

func inPlaceOnly(obj *v1beta1.CloneSet) {
	obj.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceOnly
}

// summary returns "path: type" for each error.
func summary(errs field.ErrorList) []string {
	var lines []string
	for _, err := range errs {
		lines = append(lines, err.Field+": "+err.Type.String())
	}
	return lines
}

const ru = "spec.updateStrategy.rollingUpdate."

func TestValidateCreate(t *testing.T) {
	number, text := intstr.FromInt32, intstr.FromString
	tests := []struct {
		name string
		edit func(*v1beta1.CloneSet)
		want []string
	}{
		{name: "defaults", edit: func(*v1beta1.CloneSet) {}},
		{
			name: "V-12 name", edit: func(obj *v1beta1.CloneSet) { obj.Name = "Web_1" },
			want: []string{"metadata.name: Invalid value"},
		},
		{name: "V-12 generated name", edit: func(obj *v1beta1.CloneSet) { obj.Name, obj.GenerateName = "", "web-" }},
		{
			name: "V-12 no name", edit: func(obj *v1beta1.CloneSet) { obj.Name = "" },
			want: []string{"metadata.name: Required value"},
		},
		{
			name: "V-12 a claim template is a volume", edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
				obj.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/d"}}
			},
		},
		{
			name: "V-12 claim templates without a name and twice the same", edit: func(obj *v1beta1.CloneSet) {
				claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
				obj.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim, claim, {}}
			},
			want: []string{
				"spec.volumeClaimTemplates[1].metadata.name: Duplicate value",
				"spec.volumeClaimTemplates[2].metadata.name: Required value",
			},
		},
		{name: "V-13 maxUnavailable 0 with maxSurge 1", edit: budget(number(0), number(1))},
		{name: "V-13 maxUnavailable 0% with maxSurge 0.1%", edit: budget(text("0%"), text("0.1%"))},
		{
			name: "V-13 both 0", edit: budget(number(0), text("0%")),
			want: []string{ru + "maxUnavailable: Invalid value"},
		},
		{
			name: "V-13 both 0 without replicas", edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.Replicas = ptr.To[int32](0)
				budget(number(0), number(0))(obj)
			},
			want: []string{ru + "maxUnavailable: Invalid value"}, // a later scale-up is not validated here
		},
		{
			name: "V-14 progress deadline within minReadySeconds", edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.MinReadySeconds, obj.Spec.ProgressDeadlineSeconds = 5, ptr.To[int32](5)
			},
			want: []string{"spec.progressDeadlineSeconds: Invalid value"},
		},
		{
			name: "V-14 negative progress deadline", edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.ProgressDeadlineSeconds = ptr.To[int32](-1)
			},
			want: []string{"spec.progressDeadlineSeconds: Invalid value"},
		},
		{
			name: "V-14 progress deadline off", edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.MinReadySeconds, obj.Spec.ProgressDeadlineSeconds = math.MaxInt32, ptr.To[int32](math.MaxInt32)
			},
		},
		{
			name: "V-15 OnDelete with an incomplete rollingUpdate", edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{
					Type: v1beta1.OnDelete, RollingUpdate: &v1beta1.RollingUpdateCloneSet{Paused: true},
				}
			},
		},
		{
			name: "V-16 numbers without percent, and the scale budget", edit: func(obj *v1beta1.CloneSet) {
				budget(text("5"), text(""))(obj)
				obj.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(number(-1))
				obj.Spec.ScaleStrategy.MaxUnavailable = ptr.To(text("NaN%"))
			},
			want: []string{
				"spec.scaleStrategy.maxUnavailable: Invalid value", ru + "partition: Invalid value",
				ru + "maxUnavailable: Invalid value", ru + "maxSurge: Invalid value",
			},
		},
		{name: "P-5 decimals", edit: budget(text("12.5%"), text("12.5%"))},
		{
			name: "V-18 both priorities, bad terms", edit: rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
				ru.PriorityStrategy = &pub.PriorityStrategy{
					OrderPriority:  []pub.OrderPriorityTerm{{}},
					WeightPriority: []pub.WeightPriorityTerm{{Weight: 101}},
				}
			}),
			want: []string{
				ru + "priorityStrategy: Forbidden",
				ru + "priorityStrategy.orderPriority[0].orderedKey: Required value",
				ru + "priorityStrategy.weightPriority[0].weight: Invalid value",
				ru + "priorityStrategy.weightPriority[0].matchSelector: Required value",
			},
		},
		{
			name: "V-18 weight 0", edit: rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
				ru.PriorityStrategy = &pub.PriorityStrategy{WeightPriority: []pub.WeightPriorityTerm{{
					MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				}}}
			}),
		},
		{
			name: "V-18 selector with an unknown operator", edit: rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
				ru.PriorityStrategy = &pub.PriorityStrategy{WeightPriority: []pub.WeightPriorityTerm{{
					MatchSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
						Key: "a", Operator: "Near",
					}}},
				}}}
			}),
			want: []string{ru + "priorityStrategy.weightPriority[0].matchSelector.matchExpressions[0].operator: Invalid value"},
		},
		{name: "the longest name", edit: func(cs *v1beta1.CloneSet) { cs.Name = strings.Repeat("a", 52) }},
		{name: "a name that no Pod's label can hold", edit: func(cs *v1beta1.CloneSet) { cs.Name = strings.Repeat("a", 53) }, want: []string{"metadata.name: Too long"}},
		{name: "the longest prefix", edit: func(cs *v1beta1.CloneSet) { cs.Name, cs.GenerateName = "", strings.Repeat("a", 47) }},
		{
			name: "a prefix that no Pod's label can hold", edit: func(cs *v1beta1.CloneSet) { cs.Name, cs.GenerateName = "", strings.Repeat("a", 48) },
			want: []string{"metadata.generateName: Too long"},
		},
		{
			name: "more terms than anybody reads", edit: rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
				ru.PriorityStrategy = &pub.PriorityStrategy{
					OrderPriority: make([]pub.OrderPriorityTerm, 1001), WeightPriority: make([]pub.WeightPriorityTerm, 1001),
				}
				ru.ScatterStrategy = make([]pub.ScatterTerm, 1001)
			}),
			want: []string{
				ru + "priorityStrategy.orderPriority: Too many", ru + "priorityStrategy.weightPriority: Too many", ru + "scatterStrategy: Too many",
			},
		},
		{
			name: "more values than anybody reads", edit: func(cs *v1beta1.CloneSet) {
				values := make([]string, 1000)
				many := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "NotIn", Values: values}}}
				cs.Spec.Selector = &many
				cs.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSet{
					PriorityStrategy: &pub.PriorityStrategy{WeightPriority: []pub.WeightPriorityTerm{{MatchSelector: many}}},
				}
			},
			want: []string{"spec.selector: Too many", ru + "priorityStrategy.weightPriority: Too many"},
		},
		{
			name: "O-4 scatter terms", edit: rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
				ru.ScatterStrategy = []pub.ScatterTerm{{Key: "a", Value: "b"}, {Key: "a", Value: "c"}, {Key: "a", Value: "b"}, {}}
			}),
			want: []string{ru + "scatterStrategy[2]: Duplicate value", ru + "scatterStrategy[3].key: Required value"},
		},
		{
			name: "V-21 percent and negatives", edit: rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
				ru.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{
					GracePeriodSeconds: -1, ImagePreDownloadParallelism: ptr.To(text("10%")),
					ImagePreDownloadTimeoutSeconds: ptr.To[int32](-1), ImagePreDownloadMinUpdatedReadyPods: ptr.To[int32](-1),
				}
			}),
			want: []string{
				ru + "inPlaceUpdateStrategy.gracePeriodSeconds: Invalid value",
				ru + "inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds: Invalid value",
				ru + "inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods: Invalid value",
				ru + "inPlaceUpdateStrategy.imagePreDownloadParallelism: Invalid value",
			},
		},
		{
			name: "V-21 integer in quotes", edit: rolling(func(ru *v1beta1.RollingUpdateCloneSet) {
				ru.InPlaceUpdateStrategy = &pub.InPlaceUpdateStrategy{ImagePreDownloadParallelism: ptr.To(text("3"))}
			}),
		},
		{
			name: "2.1 maxSurge with InPlaceOnly", edit: func(obj *v1beta1.CloneSet) {
				inPlaceOnly(obj)
				budget(number(1), text("0.5%"))(obj)
			},
			want: []string{ru + "maxSurge: Invalid value"},
		},
		{
			name: "2.1 unknown type", edit: func(obj *v1beta1.CloneSet) { obj.Spec.UpdateStrategy.Type = "Blue" },
			want: []string{"spec.updateStrategy.type: Unsupported value"},
		},
		{
			name: "2.1 unknown policy", edit: rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.PodUpdatePolicy = "Blue" }),
			want: []string{ru + "podUpdatePolicy: Unsupported value"},
		},
		{
			name: "2.1 negative numbers, empty selector, several at once", edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.Replicas, obj.Spec.RevisionHistoryLimit, obj.Spec.MinReadySeconds = ptr.To[int32](-1), ptr.To[int32](-1), -1
				obj.Spec.Selector = &metav1.LabelSelector{}
				obj.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
				obj.Spec.ScaleStrategy.PodsToDelete = []string{"a", "a"}
			},
			want: []string{
				"spec.replicas: Invalid value", "spec.selector: Required value",
				"spec.revisionHistoryLimit: Invalid value", "spec.minReadySeconds: Invalid value", "spec.template.spec.restartPolicy: Unsupported value",
				"spec.scaleStrategy.podsToDelete[1]: Duplicate value",
			},
		},
		{
			name: "2.1 selector that does not match", edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.Template.Labels = map[string]string{"app": "other"}
			},
			want: []string{"spec.template.metadata.labels: Invalid value"},
		},
		{
			name: "selector of keys that the controller writes", edit: func(obj *v1beta1.CloneSet) {
				obj.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: apps.LabelInstanceID, Operator: metav1.LabelSelectorOpDoesNotExist}}
			},
			want: []string{"spec.selector: Invalid value"},
		},
		{
			name: "keys that the controller writes", edit: func(obj *v1beta1.CloneSet) {
				for _, key := range apps.ReservedPodLabels() {
					obj.Spec.Template.Labels[key] = "mine"
				}
				obj.Spec.Template.Annotations = map[string]string{apps.AnnotationInPlaceUpdateState: "{}", "other": "fine"}
			},
			want: []string{
				"spec.template.metadata.labels[controller-revision-hash]: Invalid value",
				"spec.template.metadata.labels[pod-template-hash]: Invalid value",
				"spec.template.metadata.labels[apps.kruise.io/cloneset-instance-id]: Invalid value",
				"spec.template.metadata.labels[apps.kruise.io/specified-delete]: Invalid value",
				"spec.template.metadata.labels[lifecycle.apps.kruise.io/state]: Invalid value",
				"spec.template.metadata.annotations[apps.kruise.io/inplace-update-state]: Invalid value",
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := summary(validateCreate(valid(tc.edit), validateOptions{}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	template := func(edit func(*corev1.PodTemplateSpec)) func(*v1beta1.CloneSet) {
		return func(obj *v1beta1.CloneSet) { edit(&obj.Spec.Template) }
	}
	image := template(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.Containers[0].Image = "app:v2" })
	env := template(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A"}} })
	cpu := func(amount string) func(*v1beta1.CloneSet) {
		return template(func(tmpl *corev1.PodTemplateSpec) {
			tmpl.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse(amount)}
		})
	}
	memory := template(func(tmpl *corev1.PodTemplateSpec) {
		tmpl.Spec.Containers[0].Resources.Limits["memory"] = resource.MustParse("1Gi")
	})
	noEdit := func(*v1beta1.CloneSet) {}
	tests := []struct {
		name     string
		old, new []func(*v1beta1.CloneSet)
		opts     validateOptions
		want     []string
	}{
		{
			name: "V-10 everything but the selector may change",
			new: []func(*v1beta1.CloneSet){image, env, budget(intstr.FromInt32(1), intstr.FromInt32(1)), func(obj *v1beta1.CloneSet) {
				obj.Spec.Replicas, obj.Spec.RevisionHistoryLimit, obj.Spec.MinReadySeconds = ptr.To[int32](3), ptr.To[int32](3), 3
				obj.Spec.ProgressDeadlineSeconds, obj.Spec.Lifecycle = ptr.To[int32](9), &pub.Lifecycle{}
				obj.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "d"}}}
				obj.Spec.ScaleStrategy.EnablePVCReuse = true
			}},
		},
		{
			name: "V-10 selector", new: []func(*v1beta1.CloneSet){func(obj *v1beta1.CloneSet) {
				obj.Spec.Selector.MatchLabels["tier"], obj.Spec.Template.Labels["tier"] = "a", "a"
			}},
			want: []string{"spec: Forbidden"},
		},
		{name: "V-11 InPlaceOnly, image and metadata", new: []func(*v1beta1.CloneSet){
			inPlaceOnly, image, template(func(tmpl *corev1.PodTemplateSpec) { tmpl.Annotations = map[string]string{"a": "b"} }),
		}},
		{
			name: "V-11 InPlaceOnly, environment", new: []func(*v1beta1.CloneSet){inPlaceOnly, env},
			want: []string{"spec.template: Forbidden"},
		},
		{
			name: "V-11 InPlaceOnly, imagePullPolicy is no image",
			new: []func(*v1beta1.CloneSet){inPlaceOnly, template(func(tmpl *corev1.PodTemplateSpec) {
				tmpl.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
			})},
			want: []string{"spec.template: Forbidden"},
		},
		{
			name: "V-11 InPlaceOnly, another container and another field",
			new: []func(*v1beta1.CloneSet){inPlaceOnly, template(func(tmpl *corev1.PodTemplateSpec) {
				tmpl.Spec.NodeSelector = map[string]string{"a": "b"}
			})},
			want: []string{"spec.template: Forbidden"},
		},
		{
			name: "V-11 InPlaceOnly, cpu", old: []func(*v1beta1.CloneSet){cpu("1")},
			new: []func(*v1beta1.CloneSet){inPlaceOnly, cpu("2")}, want: []string{"spec.template: Forbidden"},
		},
		{
			name: "V-11 InPlaceOnly, cpu with the gate", old: []func(*v1beta1.CloneSet){cpu("1")},
			new: []func(*v1beta1.CloneSet){inPlaceOnly, cpu("2")}, opts: validateOptions{inPlaceResources: true},
		},
		{
			name: "V-11 U-5 InPlaceOnly, a new limit with the gate", new: []func(*v1beta1.CloneSet){inPlaceOnly, cpu("2")},
			opts: validateOptions{inPlaceResources: true}, want: []string{"spec.template: Forbidden"},
		},
		{
			name: "V-11 U-5 InPlaceOnly, a removed limit with the gate", old: []func(*v1beta1.CloneSet){cpu("1"), memory},
			new: []func(*v1beta1.CloneSet){inPlaceOnly, cpu("1")}, opts: validateOptions{inPlaceResources: true},
			want: []string{"spec.template: Forbidden"},
		},
		{
			name: "V-11 InPlaceOnly, one more container", new: []func(*v1beta1.CloneSet){
				inPlaceOnly, template(func(tmpl *corev1.PodTemplateSpec) {
					tmpl.Spec.Containers = append(tmpl.Spec.Containers, corev1.Container{Name: "b", Image: "b"})
				}),
			},
			want: []string{"spec.template: Forbidden"},
		},
		{
			name: "a problem the stored object has stays editable",
			old:  []func(*v1beta1.CloneSet){budget(intstr.FromString("5"), intstr.FromInt32(0))},
			new:  []func(*v1beta1.CloneSet){budget(intstr.FromString("5"), intstr.FromInt32(0)), image},
		},
		{
			name: "a new value of a bad field is refused",
			old:  []func(*v1beta1.CloneSet){budget(intstr.FromString("5"), intstr.FromInt32(0))},
			new:  []func(*v1beta1.CloneSet){budget(intstr.FromString("6"), intstr.FromInt32(0))},
			want: []string{ru + "maxUnavailable: Invalid value"},
		},
		{name: "nothing", new: []func(*v1beta1.CloneSet){noEdit}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := summary(validateUpdate(valid(tc.new...), valid(tc.old...), tc.opts))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidatePodsToDelete(t *testing.T) {
	pod := func(name string, uid types.UID) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		if uid != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{UID: uid, Controller: ptr.To(true)}}
		}
		return pod
	}
	ending := pod("ending", "1")
	ending.DeletionTimestamp = &metav1.Time{}
	pods := map[string]metav1.Object{"mine": pod("mine", "1"), "other": pod("other", "2"), "orphan": pod("orphan", ""), "ending": ending}
	names := func(names ...string) *v1beta1.CloneSet {
		return valid(func(obj *v1beta1.CloneSet) { obj.Spec.ScaleStrategy.PodsToDelete = names })
	}
	const path = "spec.scaleStrategy.podsToDelete"
	tests := []struct {
		name     string
		old, new []string
		pods     map[string]metav1.Object
		want     []string
	}{
		{name: "V-14 a Pod of its own", new: []string{"mine"}, pods: pods},
		{
			name: "V-14 all the others", new: []string{"mine", "none", "other", "orphan", "ending"}, pods: pods,
			want: []string{
				path + "[1]: Invalid value", path + "[2]: Invalid value", path + "[3]: Invalid value", path + "[4]: Invalid value",
			},
		},
		{name: "V-14 Pods not given", new: []string{"none"}},
		{name: "V-14 no Pods", new: []string{"mine"}, pods: map[string]metav1.Object{}, want: []string{path + "[0]: Invalid value"}},
		{name: "V-14 only new names count", old: []string{"none"}, new: []string{"none", "mine"}, pods: pods},
		{name: "duplicate", new: []string{"a", "a"}, want: []string{path + "[1]: Duplicate value"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			opts := validateOptions{pods: tc.pods}
			got := summary(validateUpdate(names(tc.new...), names(tc.old...), opts))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateDelete(t *testing.T) {
	tests := []struct {
		name     string
		label    string
		replicas int32
		gateOff  bool
		refused  bool
	}{
		{name: "V-30 Always", label: "Always", refused: true},
		{name: "V-30 Cascading with replicas", label: "Cascading", replicas: 1, refused: true},
		{name: "V-30 Cascading at 0", label: "Cascading"},
		{name: "V-30 another value", label: "Never", replicas: 1},
		{name: "V-30 no label", replicas: 1},
		{name: "V-30 gate off", label: "Always", gateOff: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := valid(func(obj *v1beta1.CloneSet) { obj.Spec.Replicas = &tc.replicas })
			if tc.label != "" {
				obj.Labels = map[string]string{apps.LabelDeleteProtection: tc.label}
			}
			kind := endpoint(admission.Options{Gates: map[apps.Gate]bool{apps.GateResourcesDeletionProtection: !tc.gateOff}})
			if refused := kind.ValidateDelete != nil && len(kind.ValidateDelete(obj)) > 0; refused != tc.refused {
				t.Errorf("the deletion is refused: %t, want %t", refused, tc.refused)
			}
		})
	}
}

func TestValidateV1alpha1(t *testing.T) {
	of := func(kind v1alpha1.CloneSetUpdateStrategyType) *v1alpha1.CloneSet {
		obj := &v1alpha1.CloneSet{}
		obj.Spec.UpdateStrategy.Type = kind
		return obj
	}
	tests := []struct {
		name     string
		obj, old *v1alpha1.CloneSet
		refused  bool
	}{
		{name: "2.1 unset", obj: of("")},
		{name: "2.1 InPlaceOnly", obj: of(v1alpha1.InPlaceOnly)},
		{name: "2.1 OnDelete", obj: of(v1alpha1.OnDelete), refused: true},
		{name: "2.1 OnDelete, new on update", obj: of(v1alpha1.OnDelete), old: of(""), refused: true},
		{name: "2.1 OnDelete that came from v1beta1", obj: of(v1alpha1.OnDelete), old: of(v1alpha1.OnDelete)},
		{name: "2.1 unknown", obj: of("Blue"), refused: true},
		{name: "2.1 unknown, and stored so", obj: of("Blue"), old: of("Blue")},
		{name: "of v1beta1, as read from a CRD that does not convert", obj: of("RollingUpdate"), old: of("RollingUpdate"), refused: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if errs := validateV1alpha1(tc.obj, tc.old); (len(errs) > 0) != tc.refused {
				t.Errorf("validateV1alpha1() = %v, want refused: %t", errs, tc.refused)
			}
		})
	}
}

// TestStoredObjectsAreValid: admission accepts updates of objects that OpenKruise has stored.
func TestStoredObjectsAreValid(t *testing.T) {
	for _, name := range []string{"web", "old-api"} {
		raw, err := os.ReadFile(filepath.Join("../../apis/apps/cloneset/testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		stored := &v1beta1.CloneSet{}
		if err := yaml.UnmarshalStrict(raw, stored); err != nil {
			t.Fatal(err)
		}
		if errs := validateCreate(stored, validateOptions{}); len(errs) > 0 {
			t.Errorf("%s is refused: %v", name, errs)
		}
	}
}
