package statefulset

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func template(edit func(*corev1.PodTemplateSpec)) change {
	return func(obj *v1beta1.StatefulSet) { edit(&obj.Spec.Template) }
}

func inPlaceOnly(obj *v1beta1.StatefulSet) {
	obj.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceOnly
}

func TestValidateUpdate(t *testing.T) {
	image := template(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.Containers[0].Image = "app:v2" })
	pullPolicy := template(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.Containers[0].ImagePullPolicy = corev1.PullNever })
	cpu := func(amount string) change {
		return template(func(tmpl *corev1.PodTemplateSpec) {
			tmpl.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse(amount)}
		})
	}
	tests := []struct {
		name     string
		old, new []change
		opts     validateOptions
		want     []string
	}{
		{
			name: "V-10 what may change",
			new: []change{image, pullPolicy, limited(intstr.FromString("30%")), reserved("3-5"), start(2), retention("Delete", "Delete"), replicas(3), func(obj *v1beta1.StatefulSet) {
				obj.Spec.RevisionHistoryLimit, obj.Spec.Lifecycle = ptr.To[int32](3), &pub.Lifecycle{}
				obj.Spec.ScaleStrategy = &v1beta1.StatefulSetScaleStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(2))}
				obj.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "d"}}}
				obj.Spec.VolumeClaimUpdateStrategy.Type = "OnPodRollingUpdate"
			}},
		},
		{
			name: "V-10 selector", new: []change{func(obj *v1beta1.StatefulSet) {
				obj.Spec.Selector.MatchLabels["tier"], obj.Spec.Template.Labels["tier"] = "a", "a"
			}},
			want: []string{"spec: Forbidden: selector cannot"},
		},
		{
			name: "V-10 serviceName", new: []change{func(obj *v1beta1.StatefulSet) { obj.Spec.ServiceName = "other" }},
			want: []string{"spec: Forbidden: serviceName cannot"},
		},
		{
			name: "V-10 podManagementPolicy", new: []change{management("OrderedReady")},
			want: []string{"spec: Forbidden: podManagementPolicy cannot"},
		},
		{name: "V-10 podManagementPolicy that was not defaulted", old: []change{management("")}, new: []change{management("OrderedReady")}},
		{name: "V-11 InPlaceOnly, image and metadata", new: []change{
			inPlaceOnly, image, template(func(tmpl *corev1.PodTemplateSpec) { tmpl.Annotations = map[string]string{"a": "b"} }),
		}},
		{
			name: "V-11 InPlaceOnly, imagePullPolicy is no image", new: []change{inPlaceOnly, pullPolicy},
			want: []string{"spec.template: Forbidden: InPlaceOnly cannot"},
		},
		{
			name: "V-11 InPlaceOnly, image of an init container", new: []change{inPlaceOnly, template(func(tmpl *corev1.PodTemplateSpec) {
				tmpl.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i:v2"}}
			})},
			want: []string{"spec.template: Forbidden: InPlaceOnly cannot"},
		},
		{
			name: "V-11 InPlaceOnly, one more container", new: []change{inPlaceOnly, template(func(tmpl *corev1.PodTemplateSpec) {
				tmpl.Spec.Containers = append(tmpl.Spec.Containers, corev1.Container{Name: "b", Image: "b"})
			})},
			want: []string{"spec.template: Forbidden: InPlaceOnly cannot"},
		},
		{
			name: "V-11 InPlaceOnly, cpu", old: []change{cpu("1")}, new: []change{inPlaceOnly, cpu("2")},
			want: []string{"spec.template: Forbidden: InPlaceOnly cannot"},
		},
		{
			name: "V-11 InPlaceOnly, cpu with the gate", old: []change{cpu("1")}, new: []change{inPlaceOnly, cpu("2")},
			opts: validateOptions{inPlaceResources: true},
		},
		{name: "V-11 InPlaceIfPossible, anything", new: []change{pullPolicy, rollingWith(func(ru *v1beta1.RollingUpdateStatefulSet) {
			ru.PodUpdatePolicy = v1beta1.InPlaceIfPossible
		})}},
		{name: "V-11 InPlaceOnly that goes with this update", old: []change{inPlaceOnly}, new: []change{pullPolicy}},
		{name: "a problem the stored object has stays editable", old: []change{reserved("7-3")}, new: []change{reserved("7-3"), image}},
		{
			name: "S-6 a new value of a bad field is refused", old: []change{reserved("7-3")}, new: []change{reserved("8-3")},
			want: []string{"spec.reserveOrdinals[0]: Invalid value: \"8-3\""},
		},
		{name: "V-12 a name that is stored", old: []change{func(obj *v1beta1.StatefulSet) { obj.Name = "a.b" }}, new: []change{func(obj *v1beta1.StatefulSet) { obj.Name = "a.b" }, image}},
		{name: "nothing"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			errs, err := validateUpdate(valid(tc.new...), valid(tc.old...), tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, err := range errs {
				got = append(got, err.Error())
				if i < len(tc.want) && strings.HasPrefix(got[i], tc.want[i]) {
					got[i] = tc.want[i]
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// classes are storage classes by name; the class named default is the default class.
type classes map[string]*bool

func (c classes) Named(name string) (*storagev1.StorageClass, error) {
	expand, ok := c[name]
	switch {
	case name == "broken":
		return nil, errBroken
	case !ok:
		return nil, nil
	}
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, AllowVolumeExpansion: expand}, nil
}

func (c classes) Default() (*storagev1.StorageClass, error) {
	if _, broken := c["broken"]; broken {
		return nil, errBroken
	}
	return c.Named("default")
}

var errBroken = errors.New("the API server is away")

// claim returns a claim template with a name and a size, after edits of its spec.
func claim(name, size string, edits ...func(*corev1.PersistentVolumeClaimSpec)) corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}
	c.Spec.Resources.Requests = corev1.ResourceList{"storage": resource.MustParse(size)}
	for _, edit := range edits {
		edit(&c.Spec)
	}
	return c
}

func class(name string) func(*corev1.PersistentVolumeClaimSpec) {
	return func(spec *corev1.PersistentVolumeClaimSpec) { spec.StorageClassName = &name }
}

func TestValidateClaimUpdate(t *testing.T) {
	type claims = []corev1.PersistentVolumeClaim
	const (
		following = v1beta1.ClaimsOnPodRollingUpdate
		data      = "spec.volumeClaimTemplates[0]"
		storage   = data + ".spec.resources.requests[storage]: Invalid value: \"2Gi\": claims cannot grow: "
		unsaid    = "does not have allowVolumeExpansion true"
	)
	known := classes{"grows": ptr.To(true), "stays": ptr.To(false), "silent": nil, "default": ptr.To(true)}
	limit := func(spec *corev1.PersistentVolumeClaimSpec) {
		spec.Resources.Limits = corev1.ResourceList{"storage": resource.MustParse("9Gi")}
	}
	modes := func(modes ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolumeClaimSpec) {
		return func(spec *corev1.PersistentVolumeClaimSpec) { spec.AccessModes = modes }
	}
	selects := func(spec *corev1.PersistentVolumeClaimSpec) { spec.Selector = &metav1.LabelSelector{} }
	tests := []struct {
		name        string
		gateOff     bool
		was, is     v1beta1.VolumeClaimUpdateStrategyType
		old, new    claims
		classes     storageClasses
		want        []string // the beginnings of the errors
		wantFailure bool
	}{
		{name: "V-22 grow, in a class that lets them", is: following, old: claims{claim("data", "1Gi", class("grows"))}, new: claims{claim("data", "2Gi", class("grows"))}},
		{name: "V-22 grow, limits too", is: following, old: claims{claim("data", "1Gi", class("grows"))}, new: claims{claim("data", "2Gi", class("grows"), limit)}},
		{
			name: "V-22 grow, in a class that does not let them", is: following,
			old: claims{claim("data", "1Gi", class("stays"))}, new: claims{claim("data", "2Gi", class("stays"))},
			want: []string{storage + "storage class stays " + unsaid},
		},
		{
			name: "S-37 grow, in a class that says nothing", is: following,
			old: claims{claim("data", "1Gi", class("silent"))}, new: claims{claim("data", "2Gi", class("silent"))},
			want: []string{storage + "storage class silent " + unsaid},
		},
		{
			name: "V-22 grow, in a class that there is not", is: following,
			old: claims{claim("data", "1Gi", class("gone"))}, new: claims{claim("data", "2Gi", class("gone"))},
			want: []string{storage + `there is no storage class "gone"`},
		},
		{
			name: "V-22 grow, in no class", is: following, old: claims{claim("data", "1Gi", class(""))}, new: claims{claim("data", "2Gi", class(""))},
			want: []string{storage + `there is no storage class ""`},
		},
		{name: "V-22 grow, in the default class", is: following, old: claims{claim("data", "1Gi")}, new: claims{claim("data", "2Gi")}},
		{
			name: "S-37 grow, in a default class that says nothing", is: following, old: claims{claim("data", "1Gi")}, new: claims{claim("data", "2Gi")},
			classes: classes{"default": nil}, want: []string{storage + "the default storage class default " + unsaid},
		},
		{name: "V-22 grow, without a default class", is: following, old: claims{claim("data", "1Gi")}, new: claims{claim("data", "2Gi")}, classes: classes{}},
		{name: "V-22 grow, and the class is said now", is: following, old: claims{claim("data", "1Gi")}, new: claims{claim("data", "2Gi", class("grows"))}},
		{
			name: "V-22 grow, and the class cannot be looked up", is: following, wantFailure: true,
			old: claims{claim("data", "1Gi", class("broken"))}, new: claims{claim("data", "2Gi", class("broken"))},
		},
		{
			name: "V-22 grow, and the default class cannot be looked up", is: following, wantFailure: true,
			old: claims{claim("data", "1Gi")}, new: claims{claim("data", "2Gi")}, classes: classes{"broken": nil},
		},
		{name: "V-22 shrink, in a class that does not let claims grow", is: following, old: claims{claim("data", "2Gi", class("stays"))}, new: claims{claim("data", "1Gi", class("stays"))}},
		{name: "V-22 the same amount, written otherwise", is: following, old: claims{claim("data", "1Gi", class("stays"))}, new: claims{claim("data", "1024Mi", class("stays"))}},
		{
			name: "V-22 another class", is: following, old: claims{claim("data", "1Gi", class("stays"))}, new: claims{claim("data", "1Gi", class("grows"))},
			want: []string{data + ".spec.storageClassName: Forbidden: cannot change from \"stays\" to \"grows\""},
		},
		{
			name: "V-22 other access modes", is: following, old: claims{claim("data", "1Gi")}, new: claims{claim("data", "1Gi", modes("ReadWriteOnce", "ReadOnlyMany"))},
			want: []string{data + ".spec.accessModes: Forbidden: cannot change from [ReadWriteOnce] to [ReadWriteOnce ReadOnlyMany]"},
		},
		{
			name: "V-22 access modes in another order", is: following,
			old: claims{claim("data", "1Gi", modes("ReadWriteOnce", "ReadOnlyMany"))}, new: claims{claim("data", "1Gi", modes("ReadOnlyMany", "ReadWriteOnce"))},
		},
		{
			name: "V-22 another field", is: following, old: claims{claim("data", "1Gi")}, new: claims{claim("data", "1Gi", selects)},
			want: []string{data + ".spec: Forbidden: only the storage"},
		},
		{
			name: "V-22 come, go and renamed", is: following,
			old: claims{claim("data", "1Gi"), claim("logs", "1Gi"), claim("tmp", "1Gi")}, new: claims{claim("data", "1Gi"), claim("new", "1Gi")},
			want: []string{
				`spec.volumeClaimTemplates[1]: Forbidden: "new" is new`, `spec.volumeClaimTemplates: Forbidden: "logs" is gone`,
				`spec.volumeClaimTemplates: Forbidden: "tmp" is gone`,
			},
		},
		{name: "V-22 in another order", is: following, old: claims{claim("data", "1Gi"), claim("logs", "2Gi")}, new: claims{claim("logs", "2Gi"), claim("data", "1Gi")}},
		{name: "V-22 names that are stored badly", is: following, old: claims{claim("data", "1Gi"), claim("data", "1Gi"), claim("", "1Gi")}, new: claims{claim("data", "1Gi"), claim("data", "1Gi"), claim("", "1Gi")}},
		{name: "V-22 another strategy", is: v1beta1.ClaimsOnDelete, old: claims{claim("data", "1Gi", class("stays"))}, new: claims{claim("logs", "2Gi", class("grows"))}},
		{name: "V-22 gate off", is: following, gateOff: true, old: claims{claim("data", "1Gi", class("stays"))}, new: claims{claim("logs", "2Gi", class("grows"))}},
		{
			name: "V-23 claims follow from this update on", was: v1beta1.ClaimsOnDelete, is: following,
			old: claims{claim("data", "1Gi")}, new: claims{claim("logs", "1Gi")},
			want: []string{`spec.volumeClaimTemplates[0]: Forbidden: "logs" is new`, `spec.volumeClaimTemplates: Forbidden: "data" is gone`},
		},
		{name: "V-23 claims follow no more from this update on", was: following, is: v1beta1.ClaimsOnDelete, old: claims{claim("data", "1Gi")}, new: claims{claim("logs", "2Gi", class("stays"))}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if tc.was == "" {
				tc.was = tc.is
			}
			if tc.classes == nil {
				tc.classes = known
			}
			of := func(strategy v1beta1.VolumeClaimUpdateStrategyType, list claims) *v1beta1.StatefulSet {
				return valid(func(obj *v1beta1.StatefulSet) {
					obj.Spec.VolumeClaimTemplates, obj.Spec.VolumeClaimUpdateStrategy.Type = list, strategy
				})
			}
			obj, old := of(tc.is, tc.new), of(tc.was, tc.old)
			before, oldBefore := obj.DeepCopy(), old.DeepCopy()
			errs, err := validateUpdate(obj, old, validateOptions{storageClasses: tc.classes, autoResizePVC: !tc.gateOff})
			if failed := errors.Is(err, errBroken); failed != tc.wantFailure || !failed && err != nil {
				t.Fatalf("ValidateUpdate() fails with %v, want failure: %t", err, tc.wantFailure)
			}
			if len(errs) != len(tc.want) {
				t.Fatalf("got %v, want %q", errs, tc.want)
			}
			for i, want := range tc.want {
				if got := errs[i].Error(); !strings.HasPrefix(got, want) {
					t.Errorf("got %q, want it to begin with %q", got, want)
				}
			}
			if diff := cmp.Diff(before, obj) + cmp.Diff(oldBefore, old); diff != "" {
				t.Errorf("an argument was changed:\n%s", diff)
			}
		})
	}
	t.Run("V-22 without a cluster", func(t *testing.T) {
		of := func(size string) *v1beta1.StatefulSet {
			return valid(func(obj *v1beta1.StatefulSet) {
				obj.Spec.VolumeClaimTemplates, obj.Spec.VolumeClaimUpdateStrategy.Type = claims{claim("data", size, class("gone"))}, following
			})
		}
		if errs, err := validateUpdate(of("2Gi"), of("1Gi"), validateOptions{autoResizePVC: true}); len(errs) > 0 || err != nil {
			t.Errorf("refused: %v, %v", errs, err)
		}
	})
}

func TestDefaultClass(t *testing.T) {
	of := func(name, isDefault string, hour int) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)),
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": isDefault},
		}}
	}
	tests := []struct {
		name    string
		classes []storagev1.StorageClass
		want    string
	}{
		{"V-22 none", nil, ""},
		{"V-22 none is marked", []storagev1.StorageClass{of("a", "false", 1), of("b", "", 2)}, ""},
		{"V-22 the newest", []storagev1.StorageClass{of("a", "true", 1), of("b", "true", 3), of("c", "true", 2), of("d", "false", 4)}, "b"},
		{"V-22 as new as another", []storagev1.StorageClass{of("b", "true", 1), of("a", "true", 1)}, "a"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if class := defaultClass(tc.classes); class != nil {
				got = class.Name
			}
			if got != tc.want {
				t.Errorf("DefaultClass() = %q, want %q", got, tc.want)
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
			obj := valid(replicas(tc.replicas))
			if tc.label != "" {
				obj.Labels = map[string]string{apps.LabelDeleteProtection: tc.label}
			}
			kind := endpoint(admission.Options{Gates: map[apps.Gate]bool{apps.GateResourcesDeletionProtection: !tc.gateOff}})
			if refused := kind.ValidateDelete != nil && len(kind.ValidateDelete(obj)) > 0; refused != tc.refused {
				t.Errorf("the deletion is refused: %t, want %t", refused, tc.refused)
			}
		})
	}
	unset := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{apps.LabelDeleteProtection: "Cascading"}}}
	if errs := validateDelete(unset); len(errs) == 0 {
		t.Error("V-30 replicas unset: not refused, and there is one Pod")
	}
}

// TestSupportedManagement: both values of the API are accepted.
func TestSupportedManagement(t *testing.T) {
	for _, policy := range []appsv1.PodManagementPolicyType{"", "OrderedReady", "Parallel"} {
		if errs := validateCreate(valid(management(policy))); len(errs) > 0 {
			t.Errorf("%q is refused: %v", policy, errs)
		}
	}
}

// TestStoredObjectIsValid: admission accepts an update of an object that OpenKruise has stored.
func TestStoredObjectIsValid(t *testing.T) {
	raw, err := os.ReadFile("../../apis/apps/statefulset/testdata/db.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stored := &v1beta1.StatefulSet{}
	if err := yaml.UnmarshalStrict(raw, stored); err != nil {
		t.Fatal(err)
	}
	if errs := validateCreate(stored); len(errs) > 0 {
		t.Errorf("refused: %v", errs)
	}
}
