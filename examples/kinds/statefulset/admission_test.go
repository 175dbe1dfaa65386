package statefulset_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kinds/statefulset"
)

type tree = admissiontest.Tree

// served returns a server with the webhooks for StatefulSets.
func served(options admission.Options) admissiontest.Server {
	return admissiontest.Server(admission.Handlers(options, statefulset.Row().Admission(options)))
}

// small returns the smallest valid object, with additional lines of spec.
func small(t testing.TB, version string, more ...string) tree {
	t.Helper()
	return admissiontest.Load(t, "testdata/small.yaml", version, more...)
}

func TestMutateStatefulSet(t *testing.T) {
	both := map[string]any{
		"/spec/replicas": 1.0, "/spec/revisionHistoryLimit": 10.0, "/spec/podManagementPolicy": "OrderedReady",
		"/spec/updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
			"podUpdatePolicy": "ReCreate", "partition": 0.0, "maxUnavailable": 1.0, "minReadySeconds": 0.0,
		}},
	}
	retain := map[string]any{"/spec/persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": "Retain", "whenScaled": "Retain"}}
	plain := maps.Clone(both)
	maps.Copy(plain, retain)
	kept := map[string]any{"/metadata/annotations": map[string]any{
		apps.AnnotationV1beta1Only: `{"fields":[{"path":["spec","persistentVolumeClaimRetentionPolicy"],"kept":{"whenDeleted":"Retain","whenScaled":"Retain"}}]}`,
	}}
	alpha, beta := small(t, "v1alpha1"), small(t, "v1beta1")
	tests := []struct {
		name        string
		object, old tree
		gates       map[apps.Gate]bool
		want        map[string]any
	}{
		{name: "V-1 v1beta1", object: beta, want: admissiontest.PodDefaults(both, retain)},
		{name: "V-5 v1alpha1", object: alpha, want: admissiontest.PodDefaults(both, kept)},
		{name: "V-2 an equal template gets no defaults", object: beta, old: beta, want: plain},
		{
			name: "V-2 TemplateNoDefaults", object: beta, want: plain,
			gates: map[apps.Gate]bool{apps.GateTemplateNoDefaults: true},
		},
		{
			name: "3.1 gates of claims", object: beta,
			gates: map[apps.Gate]bool{apps.GateStatefulSetAutoDeletePVC: false, apps.GateStatefulSetAutoResizePVC: true},
			want:  admissiontest.PodDefaults(both, map[string]any{"/spec/volumeClaimUpdateStrategy": map[string]any{"type": "OnDelete"}}),
		},
		{name: "nothing is missing", object: served(admission.Options{}).Defaulted(t, admissiontest.Load(t, "testdata/everything.yaml", "v1beta1"), nil), want: map[string]any{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := served(admission.Options{Gates: tt.gates})
			_, got := admissiontest.Patch(t, tt.object, server.Mutate(t, tt.object, tt.old))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			server.Defaulted(t, tt.object, tt.old)
		})
	}
}

func TestValidateStatefulSet(t *testing.T) {
	const entry = `use an integer from 0 to 2147483647, or a range of two such as "3-7"`
	of := func(version string, more ...string) tree {
		return served(admission.Options{}).Defaulted(t, small(t, version, more...), nil)
	}
	noted := func(fields string) tree {
		return admissiontest.Edit(t, small(t, "v1alpha1"), "/metadata/annotations", tree{apps.AnnotationV1beta1Only: `{"fields":[` + fields + `]}`})
	}
	const huge = `{"path":["spec","reserveOrdinals"],"kept":[1,3000000000]}`
	protected := func(value string) tree {
		return admissiontest.Edit(t, of("v1beta1"), "/metadata/labels", tree{apps.LabelDeleteProtection: value})
	}
	forbidden := func(cause string) admissiontest.Answer {
		return admissiontest.Answer{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Causes: []string{
			"metadata.labels[policy.kruise.io/delete-protection]: FieldValueForbidden: Forbidden: " + cause,
		}}
	}
	on := map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true}
	tests := []struct {
		name        string
		object, old tree
		gates       map[apps.Gate]bool
		want        admissiontest.Answer
	}{
		{name: "v1beta1", object: of("v1beta1")},
		{name: "v1alpha1", object: of("v1alpha1")},
		{name: "every field", object: served(admission.Options{}).Defaulted(t, admissiontest.Load(t, "testdata/everything.yaml", "v1beta1"), nil)},
		{
			name: "S-6 V-17 in the terms of v1beta1", object: of("v1beta1", `  reserveOrdinals: [1, "7-3", x]`, `  updateStrategy: {rollingUpdate: {maxUnavailable: "5"}}`),
			want: admissiontest.Invalid(
				`spec.reserveOrdinals[1]: FieldValueInvalid: Invalid value: "7-3": the range runs backwards; `+entry,
				`spec.reserveOrdinals[2]: FieldValueInvalid: Invalid value: "x": not an ordinal or range; `+entry,
				`spec.updateStrategy.rollingUpdate.maxUnavailable: FieldValueInvalid: Invalid value: "5": no % sign; `+
					`use an integer from 0 to 2147483647, or a percentage such as "12.5%"`,
			),
		},
		{
			name:   "S-6 V-43 in the terms of v1alpha1",
			object: served(admission.Options{}).Defaulted(t, noted(`{"path":["spec","reserveOrdinals"],"kept":["7-3"]},{"path":["spec","ordinals"],"kept":{"start":-1}}`), nil),
			want: admissiontest.Invalid(
				`metadata.annotations[workloadkit.io/v1beta1-only].reserveOrdinals[0]: FieldValueInvalid: Invalid value: "7-3": the range runs backwards; `+entry,
				`metadata.annotations[workloadkit.io/v1beta1-only].ordinals.start: FieldValueInvalid: Invalid value: -1: no ordinal to start from; use 0 to 2147483647`,
			),
		},
		{
			name: "S-6 a number that no Go type holds", object: small(t, "v1beta1", `  reserveOrdinals: [1, 3000000000]`),
			want: admissiontest.Invalid(`spec.reserveOrdinals[1]: FieldValueTypeInvalid: Invalid value: is 3000000000, must be an integer of at most 32 bits, or text such as "5%"`),
		},
		{
			name: "S-6 a number that no Go type holds, kept in v1alpha1", object: noted(huge), old: small(t, "v1alpha1"),
			want: admissiontest.Invalid(`metadata.annotations[workloadkit.io/v1beta1-only].reserveOrdinals[1]: FieldValueTypeInvalid: Invalid value: is 3000000000, must be an integer of at most 32 bits, or text such as "5%"`),
		},
		{name: "a finalizer may go from what cannot be decoded", object: noted(huge), old: admissiontest.Edit(t, noted(huge), "/metadata/finalizers", []any{"a/b"})},
		{
			name: "V-10 serviceName", object: of("v1beta1", "  serviceName: a"), old: of("v1beta1", "  serviceName: b"),
			want: admissiontest.Invalid("spec: FieldValueForbidden: Forbidden: serviceName cannot change; updates may change only replicas, template, " +
				"updateStrategy, scaleStrategy, persistentVolumeClaimRetentionPolicy, volumeClaimTemplates, volumeClaimUpdateStrategy, " +
				"reserveOrdinals, ordinals, lifecycle and revisionHistoryLimit"),
		},
		{name: "V-30 always", old: protected("Always"), gates: on, want: forbidden("Always: remove the label before deleting the StatefulSet")},
		{name: "V-30 cascading", old: protected("Cascading"), gates: on, want: forbidden("Cascading: scale to 0 or remove the label before deleting")},
		{name: "V-30 gate off", old: protected("Always")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := admissiontest.Answered(served(admission.Options{Gates: tt.gates}).Validate(t, tt.object, tt.old))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// storage is a reader that finds only the given storage classes. The requests of a nil reader fail.
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

// TestStorageClasses checks changes of claim templates with the storage classes of a cluster.
func TestStorageClasses(t *testing.T) {
	of := func(size, class string) tree {
		claims := `  volumeClaimTemplates: [{metadata: {name: data}, spec: {` + class + `resources: {requests: {storage: ` + size + `}}}}]`
		return served(admission.Options{}).Defaulted(t, small(t, "v1beta1", claims, "  volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}"), nil)
	}
	yes := true
	classes := storage{
		{ObjectMeta: metav1.ObjectMeta{Name: "grows", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}, AllowVolumeExpansion: &yes},
		{ObjectMeta: metav1.ObjectMeta{Name: "silent"}},
	}
	cannot := func(why string) admissiontest.Answer {
		return admissiontest.Invalid(`spec.volumeClaimTemplates[0].spec.resources.requests[storage]: FieldValueInvalid: Invalid value: "2Gi": claims cannot grow: ` + why)
	}
	tests := []struct {
		name    string
		class   string
		gateOff bool
		reader  client.Reader
		want    admissiontest.Answer
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
			want: admissiontest.Answer{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Causes: []string{
				`: : looking up storage class "grows" of claims "data": away`,
			}},
		},
		{
			name: "V-22 the API server is away, default class", reader: storage(nil),
			want: admissiontest.Answer{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Causes: []string{
				`: : looking up the default storage class of claims "data": listing storage classes: away`,
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			object, old := of("2Gi", tt.class), of("1Gi", tt.class)
			options := admission.Options{Reader: tt.reader, Gates: map[apps.Gate]bool{apps.GateStatefulSetAutoResizePVC: !tt.gateOff}}
			got := admissiontest.Answered(served(options).Validate(t, object, old))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
