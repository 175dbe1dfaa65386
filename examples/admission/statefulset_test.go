package admission_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// smallSet is the smallest valid StatefulSet in a version, with more lines of spec.
func smallSet(version string, more ...string) string {
	return strings.Replace(small(version, more...), "kind: CloneSet", "kind: StatefulSet", 1)
}

func TestMutateStatefulSet(t *testing.T) {
	both := map[string]any{
		"/spec/replicas": 1.0, "/spec/revisionHistoryLimit": 10.0, "/spec/podManagementPolicy": "OrderedReady",
		"/spec/updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
			"podUpdatePolicy": "ReCreate", "partition": 0.0, "maxUnavailable": 1.0, "minReadySeconds": 0.0,
		}},
	}
	retain := map[string]any{"/spec/persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": "Retain", "whenScaled": "Retain"}}
	kept := map[string]any{"/metadata/annotations": map[string]any{
		apps.AnnotationV1beta1Only: `{"fields":[{"path":["spec","persistentVolumeClaimRetentionPolicy"],"kept":{"whenDeleted":"Retain","whenScaled":"Retain"}}]}`,
	}}
	alpha, beta := smallSet("v1alpha1"), smallSet("v1beta1")
	tests := []struct {
		name        string
		object, old tree
		gates       map[apps.Gate]bool
		want        map[string]any
	}{
		{name: "V-1 v1beta1", object: manifest(t, beta), want: with(both, retain, podDefaults())},
		{name: "V-5 v1alpha1", object: manifest(t, alpha), want: with(both, kept, podDefaults())},
		{name: "V-2 an equal template gets no defaults", object: manifest(t, beta), old: manifest(t, beta), want: with(both, retain)},
		{
			name: "V-2 TemplateNoDefaults", object: manifest(t, beta), want: with(both, retain),
			gates: map[apps.Gate]bool{apps.GateTemplateNoDefaults: true},
		},
		{
			name: "3.1 gates of claims", object: manifest(t, beta),
			gates: map[apps.Gate]bool{apps.GateStatefulSetAutoDeletePVC: false, apps.GateStatefulSetAutoResizePVC: true},
			want:  with(both, podDefaults(), map[string]any{"/spec/volumeClaimUpdateStrategy": map[string]any{"type": "OnDelete"}}),
		},
		{name: "nothing is missing", object: mutated(t, admission.Options{}, testdata(t, "everything-statefulset.yaml"), nil), want: map[string]any{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			operation := admissionv1.Create
			if tt.old != nil {
				operation = admissionv1.Update
			}
			options := admission.Options{Gates: tt.gates}
			patch := steps(t, review(t, options, pathOf("mutate", tt.object), request(t, operation, tt.object, tt.old)))
			if diff := cmp.Diff(tt.want, added(t, patch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			result := apply(t, tt.object, patch)
			if again := steps(t, review(t, options, pathOf("mutate", result), request(t, operation, result, tt.old))); len(again) > 0 {
				t.Errorf("defaulted again: %v", again)
			}
		})
	}
}

func TestValidateStatefulSet(t *testing.T) {
	const entry = `use an integer from 0 to 2147483647, or a range of two such as "3-7"`
	of := func(version string, more ...string) tree {
		return mutated(t, admission.Options{}, manifest(t, smallSet(version, more...)), nil)
	}
	noted := func(fields string) tree {
		return edit(t, manifest(t, smallSet("v1alpha1")), "/metadata/annotations", tree{apps.AnnotationV1beta1Only: `{"fields":[` + fields + `]}`})
	}
	const huge = `{"path":["spec","reserveOrdinals"],"kept":[1,3000000000]}`
	protected := func(value string) tree {
		return edit(t, of("v1beta1"), "/metadata/labels", tree{apps.LabelDeleteProtection: value})
	}
	forbidden := func(cause string) answer {
		return answer{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Causes: []string{
			"metadata.labels[policy.kruise.io/delete-protection]: FieldValueForbidden: Forbidden: " + cause,
		}}
	}
	on := map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true}
	tests := []struct {
		name        string
		object, old tree
		gates       map[apps.Gate]bool
		want        answer
	}{
		{name: "v1beta1", object: of("v1beta1")},
		{name: "v1alpha1", object: of("v1alpha1")},
		{name: "every field", object: mutated(t, admission.Options{}, testdata(t, "everything-statefulset.yaml"), nil)},
		{
			name: "S-6 V-17 in the terms of v1beta1", object: of("v1beta1", `  reserveOrdinals: [1, "7-3", x]`, `  updateStrategy: {rollingUpdate: {maxUnavailable: "5"}}`),
			want: invalid(
				`spec.reserveOrdinals[1]: FieldValueInvalid: Invalid value: "7-3": the range runs backwards; `+entry,
				`spec.reserveOrdinals[2]: FieldValueInvalid: Invalid value: "x": not an ordinal or range; `+entry,
				`spec.updateStrategy.rollingUpdate.maxUnavailable: FieldValueInvalid: Invalid value: "5": no % sign; `+
					`use an integer from 0 to 2147483647, or a percentage such as "12.5%"`,
			),
		},
		{
			name:   "S-6 V-43 in the terms of v1alpha1",
			object: mutated(t, admission.Options{}, noted(`{"path":["spec","reserveOrdinals"],"kept":["7-3"]},{"path":["spec","ordinals"],"kept":{"start":-1}}`), nil),
			want: invalid(
				`metadata.annotations[workloadkit.io/v1beta1-only].reserveOrdinals[0]: FieldValueInvalid: Invalid value: "7-3": the range runs backwards; `+entry,
				`metadata.annotations[workloadkit.io/v1beta1-only].ordinals.start: FieldValueInvalid: Invalid value: -1: no ordinal to start from; use 0 to 2147483647`,
			),
		},
		{
			name: "S-6 a number that no Go type holds", object: manifest(t, smallSet("v1beta1", `  reserveOrdinals: [1, 3000000000]`)),
			want: invalid(`spec.reserveOrdinals[1]: FieldValueTypeInvalid: Invalid value: is 3000000000, must be an integer of at most 32 bits, or text such as "5%"`),
		},
		{
			name: "S-6 a number that no Go type holds, kept in v1alpha1", object: noted(huge), old: manifest(t, smallSet("v1alpha1")),
			want: invalid(`metadata.annotations[workloadkit.io/v1beta1-only].reserveOrdinals[1]: FieldValueTypeInvalid: Invalid value: is 3000000000, must be an integer of at most 32 bits, or text such as "5%"`),
		},
		{name: "a finalizer may go from what cannot be decoded", object: noted(huge), old: edit(t, noted(huge), "/metadata/finalizers", []any{"a/b"})},
		{
			name: "V-10 serviceName", object: of("v1beta1", "  serviceName: a"), old: of("v1beta1", "  serviceName: b"),
			want: invalid("spec: FieldValueForbidden: Forbidden: serviceName cannot change; updates may change only replicas, template, " +
				"updateStrategy, scaleStrategy, persistentVolumeClaimRetentionPolicy, volumeClaimTemplates, volumeClaimUpdateStrategy, " +
				"reserveOrdinals, ordinals, lifecycle and revisionHistoryLimit"),
		},
		{name: "V-30 always", old: protected("Always"), gates: on, want: forbidden("Always: remove the label before deleting the StatefulSet")},
		{name: "V-30 cascading", old: protected("Cascading"), gates: on, want: forbidden("Cascading: scale to 0 or remove the label before deleting")},
		{name: "V-30 gate off", old: protected("Always")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			operation, about := admissionv1.Create, tt.object
			switch {
			case tt.object == nil:
				operation, about = admissionv1.Delete, tt.old
			case tt.old != nil:
				operation = admissionv1.Update
			}
			got := answered(review(t, admission.Options{Gates: tt.gates}, pathOf("validate", about), request(t, operation, tt.object, tt.old)))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// storage has storage classes and nothing else. Without classes, storage is unreachable.
type storage []storagev1.StorageClass

func (s storage) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if s == nil {
		return errors.New("away")
	}
	for i := range s {
		if class, ok := object.(*storagev1.StorageClass); ok && s[i].Name == key.Name {
			*class = s[i]
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "storageclasses"}, key.Name)
}

func (s storage) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if s == nil {
		return errors.New("away")
	}
	list.(*storagev1.StorageClassList).Items = s
	return nil
}

// TestStorageClasses: V-22, V-23 and S-37 with classes of a cluster.
func TestStorageClasses(t *testing.T) {
	of := func(size, class string) tree {
		claims := `  volumeClaimTemplates: [{metadata: {name: data}, spec: {` + class + `resources: {requests: {storage: ` + size + `}}}}]`
		return mutated(t, admission.Options{}, manifest(t, smallSet("v1beta1", claims, "  volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}")), nil)
	}
	yes := true
	classes := storage{
		{ObjectMeta: metav1.ObjectMeta{Name: "grows", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}, AllowVolumeExpansion: &yes},
		{ObjectMeta: metav1.ObjectMeta{Name: "silent"}},
	}
	cannot := func(why string) answer {
		return invalid(`spec.volumeClaimTemplates[0].spec.resources.requests[storage]: FieldValueInvalid: Invalid value: "2Gi": claims cannot grow: ` + why)
	}
	tests := []struct {
		name    string
		class   string
		gateOff bool
		reader  client.Reader
		want    answer
	}{
		{name: "V-22 a class that lets claims grow", class: "storageClassName: grows, ", reader: classes},
		{name: "V-22 the default class", reader: classes},
		{
			name: "S-37 a class that says nothing", class: "storageClassName: silent, ", reader: classes,
			want: cannot("storage class silent does not have allowVolumeExpansion true"),
		},
		{name: "V-22 no such class", class: "storageClassName: gone, ", reader: classes, want: cannot(`there is no storage class "gone"`)},
		{name: "V-22 gate off", class: "storageClassName: gone, ", reader: classes, gateOff: true},
		{name: "V-22 nobody to ask", class: "storageClassName: gone, "},
		{
			name: "V-22 the API server is away", class: "storageClassName: grows, ", reader: storage(nil),
			want: answer{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Causes: []string{
				`: : looking up storage class "grows" of claims "data": away`,
			}},
		},
		{
			name: "V-22 the API server is away, default class", reader: storage(nil),
			want: answer{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Causes: []string{
				`: : looking up the default storage class of claims "data": listing storage classes: away`,
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			object, old := of("2Gi", tt.class), of("1Gi", tt.class)
			options := admission.Options{Reader: tt.reader, Gates: map[apps.Gate]bool{apps.GateStatefulSetAutoResizePVC: !tt.gateOff}}
			got := answered(review(t, options, pathOf("validate", object), request(t, admissionv1.Update, object, old)))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
