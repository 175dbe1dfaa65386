package cloneset_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kinds/cloneset"
)

type tree = admissiontest.Tree

// served returns a server with the webhooks for CloneSets.
func served(options admission.Options) admissiontest.Server {
	return admissiontest.Server(admission.Handlers(options, cloneset.Row().Admission(options)))
}

// small returns the smallest valid object, with additional lines of spec.
func small(t testing.TB, version string, more ...string) tree {
	t.Helper()
	return admissiontest.Load(t, "testdata/small.yaml", version, more...)
}

func TestMutateCloneSet(t *testing.T) {
	alphaSpec := map[string]any{
		"/spec/replicas": 1.0, "/spec/revisionHistoryLimit": 10.0,
		"/spec/updateStrategy": map[string]any{"type": "ReCreate", "partition": 0.0, "maxUnavailable": "20%", "maxSurge": 0.0},
	}
	betaSpec := map[string]any{
		"/spec/replicas": 1.0, "/spec/revisionHistoryLimit": 10.0,
		"/spec/updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
			"podUpdatePolicy": "ReCreate", "partition": 0.0, "maxUnavailable": "20%", "maxSurge": 0.0,
		}},
	}
	scalar := map[string]any{"/spec/replicas": 1.0, "/spec/revisionHistoryLimit": 10.0}
	alpha, beta := small(t, "v1alpha1"), small(t, "v1beta1")
	newImage := func(object tree) tree {
		return admissiontest.Edit(t, object, "/spec/template/spec/containers/0/image", "example.test/app:v2")
	}
	hostNetwork := admissiontest.Edit(t, beta, "/spec/template/spec/hostNetwork", true)
	hostNetwork = admissiontest.Edit(t, hostNetwork, "/spec/template/spec/containers/0/ports", []any{tree{"containerPort": 80.0, "protocol": "TCP"}})
	tests := []struct {
		name        string
		object, old tree
		gates       map[apps.Gate]bool
		want        map[string]any
	}{
		{name: "V-1 v1beta1", object: beta, want: admissiontest.PodDefaults(betaSpec)},
		{name: "V-5 v1alpha1", object: alpha, want: admissiontest.PodDefaults(alphaSpec)},
		{
			name: "V-1 OnDelete gets no rolling update", object: small(t, "v1beta1", "  updateStrategy: {type: OnDelete}"),
			want: admissiontest.PodDefaults(scalar),
		},
		{
			name:   "what is there stays, null does not count",
			object: small(t, "v1beta1", "  replicas: 0\n  updateStrategy: {rollingUpdate: {partition: 80%, maxSurge: null}}"),
			want: admissiontest.PodDefaults(map[string]any{
				"/spec/revisionHistoryLimit": 10.0, "/spec/updateStrategy/type": "RollingUpdate",
				"/spec/updateStrategy/rollingUpdate/maxUnavailable":  "20%",
				"/spec/updateStrategy/rollingUpdate/maxSurge":        0.0,
				"/spec/updateStrategy/rollingUpdate/podUpdatePolicy": "ReCreate",
			}),
		},
		{
			name:   "in-place policies get a strategy",
			object: small(t, "v1beta1", "  updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}"),
			want: admissiontest.PodDefaults(scalar, map[string]any{
				"/spec/updateStrategy/rollingUpdate/partition":             0.0,
				"/spec/updateStrategy/rollingUpdate/maxUnavailable":        "20%",
				"/spec/updateStrategy/rollingUpdate/maxSurge":              0.0,
				"/spec/updateStrategy/rollingUpdate/inPlaceUpdateStrategy": map[string]any{},
			}),
		},
		{name: "V-2 an equal template gets no defaults, v1beta1", object: beta, old: beta, want: betaSpec},
		{name: "V-2 an equal template gets no defaults, v1alpha1", object: alpha, old: alpha, want: alphaSpec},
		{name: "V-2 another template does", object: newImage(beta), old: beta, want: admissiontest.PodDefaults(betaSpec)},
		{
			name: "V-2 TemplateNoDefaults", object: beta, want: betaSpec,
			gates: map[apps.Gate]bool{apps.GateTemplateNoDefaults: true},
		},
		{
			name: "V-3 host ports", gates: map[apps.Gate]bool{apps.GateDefaultHostNetworkHostPorts: true},
			object: hostNetwork, want: admissiontest.PodDefaults(betaSpec, map[string]any{"/spec/template/spec/containers/0/ports/0/hostPort": 80.0}),
		},
		{name: "V-3 no host ports without the gate", object: hostNetwork, want: admissiontest.PodDefaults(betaSpec)},
		{
			name: "a stored object that cannot be decoded counts as none", object: beta,
			old: admissiontest.Edit(t, beta, "/spec/replicas", "many"), want: admissiontest.PodDefaults(betaSpec),
		},
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

// TestMutateV1alpha1KeepsWhatOnlyItCanSay: values of fields that only v1alpha1 has are stored in an annotation of the
// v1beta1 object, and have no effect in v1beta1. Setting defaults must not remove the annotation.
func TestMutateV1alpha1KeepsWhatOnlyItCanSay(t *testing.T) {
	object := small(t, "v1alpha1", `
  updateStrategy:
    inPlaceUpdateStrategy: {imagePreDownloadParallelism: 30%, imagePreDownloadTimeoutSeconds: 7}`)
	server := served(admission.Options{})
	result, _ := admissiontest.Patch(t, object, server.Mutate(t, object, nil)) // a second mutation would remove the annotation
	want := tree{
		"type": "ReCreate", "partition": 0.0, "maxUnavailable": "20%", "maxSurge": 0.0,
		"inPlaceUpdateStrategy": tree{"imagePreDownloadParallelism": "30%", "imagePreDownloadTimeoutSeconds": 7.0},
	}
	if diff := cmp.Diff(want, result["spec"].(tree)["updateStrategy"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	empty := small(t, "v1alpha1", "  updateStrategy: {inPlaceUpdateStrategy: {}}")
	result, _ = admissiontest.Patch(t, empty, server.Mutate(t, empty, nil))
	strategy := result["spec"].(tree)["updateStrategy"].(tree)
	if _, ok := strategy["inPlaceUpdateStrategy"]; !ok {
		t.Errorf("an empty object is gone: %v", strategy)
	}
}

func TestValidateCloneSet(t *testing.T) {
	wrong := `
  replicas: -1
  updateStrategy:
    rollingUpdate: {podUpdatePolicy: Blue, partition: some, maxUnavailable: 20%, maxSurge: 0, inPlaceUpdateStrategy: {imagePreDownloadParallelism: 5%}}
    type: RollingUpdate`
	wrongAlpha := `
  replicas: -1
  updateStrategy: {partition: some, type: Blue}`
	inPlaceOnly := func(cpu string) tree {
		object := small(t, "v1beta1", "  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}")
		object = admissiontest.Edit(t, object, "/spec/template/spec/containers/0/resources", tree{"requests": tree{"cpu": cpu}})
		return served(admission.Options{}).Defaulted(t, object, nil)
	}
	tests := []struct {
		name        string
		object, old tree
		raw         bool // without defaults
		gates       map[apps.Gate]bool
		want        admissiontest.Answer
	}{
		{
			name: "V-11 InPlaceOnly", object: inPlaceOnly("2"), old: inPlaceOnly("1"),
			want: admissiontest.Invalid("spec.template: FieldValueForbidden: Forbidden: InPlaceOnly cannot change this: container app: something other than its image"),
		},
		{
			name: "V-11 with InPlaceWorkloadVerticalScaling", object: inPlaceOnly("2"), old: inPlaceOnly("1"),
			gates: map[apps.Gate]bool{apps.GateInPlaceWorkloadVerticalScaling: true},
		},
		{name: "v1beta1", object: small(t, "v1beta1")},
		{name: "v1alpha1", object: small(t, "v1alpha1")},
		{
			name: "V-20 every problem with its path, value and what is allowed, v1beta1", object: small(t, "v1beta1", wrong),
			want: admissiontest.Invalid(
				`spec.replicas: FieldValueInvalid: Invalid value: -1: must be at least 0`,
				`spec.updateStrategy.rollingUpdate.podUpdatePolicy: FieldValueNotSupported: `+
					`Unsupported value: "Blue": supported values: "ReCreate", "InPlaceIfPossible", "InPlaceOnly"`,
				`spec.updateStrategy.rollingUpdate.partition: FieldValueInvalid: Invalid value: "some": `+
					`no % sign; use an integer from 0 to 2147483647, or a percentage such as "12.5%"`,
				`spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism: FieldValueInvalid: `+
					`Invalid value: "5%": must be an integer of at least 0; percentages are not allowed`,
			),
		},
		{
			name: "V-20 in the terms of v1alpha1",
			object: admissiontest.Edit(t, small(t, "v1alpha1", wrongAlpha), "/metadata/annotations",
				tree{apps.AnnotationImagePreDownloadParallelism: "5%"}),
			want: admissiontest.Invalid(
				`spec.updateStrategy.type: FieldValueNotSupported: `+
					`Unsupported value: "Blue": supported values: "ReCreate", "InPlaceIfPossible", "InPlaceOnly"`,
				`spec.replicas: FieldValueInvalid: Invalid value: -1: must be at least 0`,
				`spec.updateStrategy.partition: FieldValueInvalid: Invalid value: "some": no % sign; use an integer from 0 to 2147483647, or a percentage such as "12.5%"`,
				`metadata.annotations[apps.kruise.io/image-predownload-parallelism]: FieldValueInvalid: `+
					`Invalid value: "5%": must be an integer of at least 0; percentages are not allowed`,
			),
		},
		{
			name: "V-10 the selector cannot change", object: admissiontest.Edit(t, small(t, "v1beta1"), "/spec/selector/matchLabels/app", "other"),
			old: small(t, "v1beta1"),
			want: admissiontest.Invalid(
				`spec.template.metadata.labels: FieldValueInvalid: Invalid value: {"app":"web"}: must match spec.selector (app=other)`,
				`spec: FieldValueForbidden: Forbidden: selector cannot change; updates may change only replicas, template, scaleStrategy, `+
					`updateStrategy, minReadySeconds, lifecycle, revisionHistoryLimit, volumeClaimTemplates and progressDeadlineSeconds`,
			),
		},
		{
			name: "a problem the stored object has already does not stop an update", object: small(t, "v1beta1", wrong, "  minReadySeconds: 1"),
			old: small(t, "v1beta1", wrong),
		},
		{
			name: "an object of type OnDelete can be edited through v1alpha1", raw: true,
			object: admissiontest.Edit(t, mutatedTo(t, "OnDelete"), "/spec/minReadySeconds", 1.0), old: mutatedTo(t, "OnDelete"),
		},
		{
			name: "which cannot be created there", object: small(t, "v1alpha1", "  updateStrategy: {type: OnDelete}"),
			want: admissiontest.Invalid(`spec.updateStrategy.type: FieldValueNotSupported: ` +
				`Unsupported value: "OnDelete": supported values: "ReCreate", "InPlaceIfPossible", "InPlaceOnly"`),
		},
		{
			name: "an update of an object that cannot be decoded is judged like a creation", object: small(t, "v1beta1"),
			old: admissiontest.Edit(t, small(t, "v1beta1"), "/spec/replicas", "many"),
		},
		{
			name: "a value of the wrong type", raw: true,
			object: admissiontest.Edit(t, small(t, "v1beta1"), "/spec/template/spec/containers/0/ports", []any{tree{"containerPort": "http"}}),
			want: admissiontest.Invalid(`spec.template.spec.containers[0].ports[0].containerPort: FieldValueTypeInvalid: ` +
				`Invalid value: is text, must be an integer of at most 32 bits`),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			object := tt.object
			if !tt.raw {
				object = served(admission.Options{}).Defaulted(t, object, nil)
			}
			response := served(admission.Options{Gates: tt.gates}).Validate(t, object, tt.old)
			if diff := cmp.Diff(tt.want, admissiontest.Answered(response)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !response.Allowed && (response.Result.Status != metav1.StatusFailure || !strings.Contains(response.Result.Message, `"web" is invalid`)) {
				t.Errorf("status %+v", response.Result)
			}
		})
	}
}

// mutatedTo returns a valid v1alpha1 object with the given type of update strategy, as converted from v1beta1.
func mutatedTo(t *testing.T, kind string) tree {
	t.Helper()
	object := served(admission.Options{}).Defaulted(t, small(t, "v1alpha1"), nil)
	return admissiontest.Edit(t, object, "/spec/updateStrategy", tree{"type": kind})
}

func TestDeleteCloneSet(t *testing.T) {
	on := map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true}
	protected := func(version, value string, replicas float64) tree {
		object := admissiontest.Edit(t, small(t, version), "/spec/replicas", replicas)
		return admissiontest.Edit(t, object, "/metadata/labels", tree{apps.LabelDeleteProtection: value})
	}
	forbidden := func(text string) admissiontest.Answer {
		return admissiontest.Answer{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Causes: []string{
			"metadata.labels[policy.kruise.io/delete-protection]: FieldValueForbidden: Forbidden: " + text,
		}}
	}
	broken := admissiontest.Edit(t, protected("v1beta1", apps.DeleteProtectionAlways, 1), "/spec/replicas", "many")
	tests := []struct {
		name  string
		old   tree
		gates map[apps.Gate]bool
		want  admissiontest.Answer
	}{
		{name: "V-30 always", old: protected("v1beta1", "Always", 0), gates: on, want: forbidden("Always: remove the label before deleting the CloneSet")},
		{name: "V-30 v1alpha1", old: protected("v1alpha1", "Always", 0), gates: on, want: forbidden("Always: remove the label before deleting the CloneSet")},
		{name: "V-30 cascading", old: protected("v1beta1", "Cascading", 1), gates: on, want: forbidden("Cascading: scale to 0 or remove the label before deleting")},
		{name: "V-30 cascading, no Pods", old: protected("v1beta1", "Cascading", 0), gates: on},
		{name: "V-30 no label", old: small(t, "v1beta1"), gates: on},
		{name: "V-30 gate off", old: protected("v1beta1", "Always", 1)},
		{name: "with the gate off nothing is decoded", old: broken},
		{
			name: "with the gate on what can be decoded decides", old: broken, gates: on,
			want: forbidden("Always: remove the label before deleting the CloneSet"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := served(admission.Options{Gates: tt.gates}).Validate(t, nil, tt.old)
			if diff := cmp.Diff(tt.want, admissiontest.Answered(response)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// pods is a reader that reads only Pods.
type pods struct {
	client.Reader

	items map[string]*corev1.Pod
	err   error
	asked []string
}

func (p *pods) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	p.asked = append(p.asked, key.String())
	if p.err != nil {
		return p.err
	}
	pod, ok := p.items[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
	}
	pod.ObjectMeta.DeepCopyInto(&obj.(*metav1.PartialObjectMetadata).ObjectMeta)
	return nil
}

func (p *pods) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	p.asked = append(p.asked, o.Namespace+"?"+o.LabelSelector.String()+"&"+o.Continue)
	pods := list.(*metav1.PartialObjectMetadataList)
	names := slices.Sorted(maps.Keys(p.items))
	begin := slices.Index(names, o.Continue) + 1
	for _, name := range names[begin:] {
		if pods.Continue = ""; len(pods.Items) == 2 { // a page
			pods.Continue = pods.Items[1].Name
			break
		}
		pods.Items = append(pods.Items, metav1.PartialObjectMetadata{ObjectMeta: p.items[name].ObjectMeta})
	}
	return p.err
}

func TestPodsToDeleteAreLookedUp(t *testing.T) {
	pod := func(name, owner string, terminating bool) *corev1.Pod {
		controller := true
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: []metav1.OwnerReference{
			{UID: "other"}, {Controller: &controller},
		}}}
		pod.OwnerReferences[1].UID = "the-owner"
		if owner != "" {
			pod.OwnerReferences[1].UID = "someone"
		}
		if terminating {
			pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return pod
	}
	items := map[string]*corev1.Pod{
		"web-a": pod("web-a", "", false), "web-gone": pod("web-gone", "", true), "other": pod("other", "someone", false),
	}
	object := func(version, names string) tree {
		o := small(t, version, "  scaleStrategy: {podsToDelete: ["+names+"]}")
		return admissiontest.Edit(t, served(admission.Options{}).Defaulted(t, o, nil), "/metadata/uid", "the-owner")
	}
	const field = "spec.scaleStrategy.podsToDelete"
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		tests := []struct {
			name, old, names string
			reader           *pods
			want             admissiontest.Answer
			asked            []string
		}{
			{name: "V-14 a Pod of this CloneSet", names: "web-a", reader: &pods{items: items}, asked: []string{"default/web-a"}},
			{
				name: "V-14 all problems", names: "web-a, nope, web-gone, other, Not/A.Name", reader: &pods{items: items},
				want: admissiontest.Invalid(
					field+`[1]: FieldValueInvalid: Invalid value: "nope": must name an existing Pod`,
					field+`[2]: FieldValueInvalid: Invalid value: "web-gone": must name a Pod that is not terminating`,
					field+`[3]: FieldValueInvalid: Invalid value: "other": must name a Pod of this CloneSet`,
					field+`[4]: FieldValueInvalid: Invalid value: "Not/A.Name": must name an existing Pod`,
				),
				asked: []string{"default/nope", "default/other", "default/web-a", "default/web-gone"},
			},
			{
				name: "V-14 no Pod at all", names: "nope", reader: &pods{}, asked: []string{"default/nope"},
				want: admissiontest.Invalid(field + `[0]: FieldValueInvalid: Invalid value: "nope": must name an existing Pod`),
			},
			{name: "names that were there are not looked up", old: "nope", names: "nope", reader: &pods{items: items}},
			{
				name: "many are looked up in one list, by pages", names: "web-a, nope, other, web-gone, n1, n2, n3, n4, n5, n6", reader: &pods{items: items},
				want: admissiontest.Invalid(
					field+`[1]: FieldValueInvalid: Invalid value: "nope": must name an existing Pod`,
					field+`[2]: FieldValueInvalid: Invalid value: "other": must name a Pod of this CloneSet`,
					field+`[3]: FieldValueInvalid: Invalid value: "web-gone": must name a Pod that is not terminating`,
					field+`[4]: FieldValueInvalid: Invalid value: "n1": must name an existing Pod`,
					field+`[5]: FieldValueInvalid: Invalid value: "n2": must name an existing Pod`,
					field+`[6]: FieldValueInvalid: Invalid value: "n3": must name an existing Pod`,
					field+`[7]: FieldValueInvalid: Invalid value: "n4": must name an existing Pod`,
					field+`[8]: FieldValueInvalid: Invalid value: "n5": must name an existing Pod`,
					field+`[9]: FieldValueInvalid: Invalid value: "n6": must name an existing Pod`,
				),
				asked: []string{"default?app=web&", "default?app=web&web-a"},
			},
			{
				name: "no answer", names: "web-a", reader: &pods{err: errors.New("timeout")}, asked: []string{"default/web-a"},
				want: admissiontest.Answer{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Causes: []string{
					": : looking up the Pods of podsToDelete: timeout",
				}},
			},
		}
		for _, tt := range tests {
			t.Run(version+" "+tt.name, func(t *testing.T) {
				response := served(admission.Options{Reader: tt.reader}).Validate(t, object(version, tt.names), object(version, tt.old))
				if diff := cmp.Diff(tt.want, admissiontest.Answered(response)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.asked, tt.reader.asked); diff != "" {
					t.Errorf("Pods asked for (-want +got):\n%s", diff)
				}
			})
		}
	}
}
