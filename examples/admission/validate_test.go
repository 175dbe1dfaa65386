package admission_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// answer is the visible part of a response.
type answer struct {
	Code   int32
	Reason metav1.StatusReason
	Causes []string // "field: type: message"
}

func answered(response *admissionv1.AdmissionResponse) answer {
	if response.Allowed {
		return answer{}
	}
	a := answer{Code: response.Result.Code, Reason: response.Result.Reason}
	if response.Result.Details != nil {
		for _, cause := range response.Result.Details.Causes {
			a.Causes = append(a.Causes, cause.Field+": "+string(cause.Type)+": "+cause.Message)
		}
	}
	return a
}

func invalid(causes ...string) answer {
	return answer{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Causes: causes}
}

func TestValidate(t *testing.T) {
	wrong := `
  replicas: -1
  updateStrategy:
    rollingUpdate: {podUpdatePolicy: Blue, partition: some, maxUnavailable: 20%, maxSurge: 0, inPlaceUpdateStrategy: {imagePreDownloadParallelism: 5%}}
    type: RollingUpdate`
	wrongAlpha := `
  replicas: -1
  updateStrategy: {partition: some, type: Blue}`
	inPlaceOnly := func(cpu string) tree {
		object := manifest(t, small("v1beta1", "  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}"))
		object = edit(t, object, "/spec/template/spec/containers/0/resources", tree{"requests": tree{"cpu": cpu}})
		return mutated(t, admission.Options{}, object, nil)
	}
	tests := []struct {
		name        string
		object, old tree
		raw         bool // not defaulted
		gates       map[apps.Gate]bool
		want        answer
	}{
		{
			name: "V-11 InPlaceOnly", object: inPlaceOnly("2"), old: inPlaceOnly("1"),
			want: invalid("spec.template: FieldValueForbidden: Forbidden: InPlaceOnly cannot change this: container app: something other than its image"),
		},
		{
			name: "V-11 with InPlaceWorkloadVerticalScaling", object: inPlaceOnly("2"), old: inPlaceOnly("1"),
			gates: map[apps.Gate]bool{apps.GateInPlaceWorkloadVerticalScaling: true},
		},
		{name: "v1beta1", object: manifest(t, small("v1beta1"))},
		{name: "v1alpha1", object: manifest(t, small("v1alpha1"))},
		{
			name: "V-20 every problem with its path, value and what is allowed, v1beta1", object: manifest(t, small("v1beta1", wrong)),
			want: invalid(
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
			object: edit(t, manifest(t, small("v1alpha1", wrongAlpha)), "/metadata/annotations",
				tree{apps.AnnotationImagePreDownloadParallelism: "5%"}),
			want: invalid(
				`spec.updateStrategy.type: FieldValueNotSupported: `+
					`Unsupported value: "Blue": supported values: "ReCreate", "InPlaceIfPossible", "InPlaceOnly"`,
				`spec.replicas: FieldValueInvalid: Invalid value: -1: must be at least 0`,
				`spec.updateStrategy.partition: FieldValueInvalid: Invalid value: "some": no % sign; use an integer from 0 to 2147483647, or a percentage such as "12.5%"`,
				`metadata.annotations[apps.kruise.io/image-predownload-parallelism]: FieldValueInvalid: `+
					`Invalid value: "5%": must be an integer of at least 0; percentages are not allowed`,
			),
		},
		{
			name: "V-10 the selector cannot change", object: edit(t, manifest(t, small("v1beta1")), "/spec/selector/matchLabels/app", "other"),
			old: manifest(t, small("v1beta1")),
			want: invalid(
				`spec.template.metadata.labels: FieldValueInvalid: Invalid value: {"app":"web"}: must match spec.selector (app=other)`,
				`spec: FieldValueForbidden: Forbidden: selector cannot change; updates may change only replicas, template, scaleStrategy, `+
					`updateStrategy, minReadySeconds, lifecycle, revisionHistoryLimit, volumeClaimTemplates and progressDeadlineSeconds`,
			),
		},
		{
			name: "a problem the stored object has already does not stop an update", object: manifest(t, small("v1beta1", wrong, "  minReadySeconds: 1")),
			old: manifest(t, small("v1beta1", wrong)),
		},
		{
			name: "an object of type OnDelete can be edited through v1alpha1", raw: true,
			object: edit(t, mutatedTo(t, "OnDelete"), "/spec/minReadySeconds", 1.0), old: mutatedTo(t, "OnDelete"),
		},
		{
			name: "which cannot be created there", object: manifest(t, small("v1alpha1", "  updateStrategy: {type: OnDelete}")),
			want: invalid(`spec.updateStrategy.type: FieldValueNotSupported: ` +
				`Unsupported value: "OnDelete": supported values: "ReCreate", "InPlaceIfPossible", "InPlaceOnly"`),
		},
		{
			name: "an update of an object that cannot be decoded is judged like a creation", object: manifest(t, small("v1beta1")),
			old: edit(t, manifest(t, small("v1beta1")), "/spec/replicas", "many"),
		},
		{
			name: "a value of the wrong type", raw: true,
			object: edit(t, manifest(t, small("v1beta1")), "/spec/template/spec/containers/0/ports", []any{tree{"containerPort": "http"}}),
			want: invalid(`spec.template.spec.containers[0].ports[0].containerPort: FieldValueTypeInvalid: ` +
				`Invalid value: is text, must be an integer of at most 32 bits`),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			object, operation := tt.object, admissionv1.Create
			if !tt.raw {
				object = mutated(t, admission.Options{}, object, nil)
			}
			if tt.old != nil {
				operation = admissionv1.Update
			}
			response := review(t, admission.Options{Gates: tt.gates}, validatePath, request(t, operation, object, tt.old))
			if diff := cmp.Diff(tt.want, answered(response)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !response.Allowed && (response.Result.Status != metav1.StatusFailure || !strings.Contains(response.Result.Message, `"web" is invalid`)) {
				t.Errorf("status %+v", response.Result)
			}
		})
	}
}

// mutatedTo is a valid v1alpha1 object with the given type of update strategy, as converted from v1beta1.
func mutatedTo(t *testing.T, kind string) tree {
	t.Helper()
	object := mutated(t, admission.Options{}, manifest(t, small("v1alpha1")), nil)
	return edit(t, object, "/spec/updateStrategy", tree{"type": kind})
}

func TestValidateDelete(t *testing.T) {
	on := map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true}
	protected := func(version, value string, replicas float64) tree {
		object := edit(t, manifest(t, small(version)), "/spec/replicas", replicas)
		return edit(t, object, "/metadata/labels", tree{apps.LabelDeleteProtection: value})
	}
	forbidden := func(text string) answer {
		return answer{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Causes: []string{
			"metadata.labels[policy.kruise.io/delete-protection]: FieldValueForbidden: Forbidden: " + text,
		}}
	}
	broken := edit(t, protected("v1beta1", apps.DeleteProtectionAlways, 1), "/spec/replicas", "many")
	tests := []struct {
		name  string
		old   tree
		gates map[apps.Gate]bool
		want  answer
	}{
		{name: "V-30 always", old: protected("v1beta1", "Always", 0), gates: on, want: forbidden("Always: remove the label before deleting the CloneSet")},
		{name: "V-30 v1alpha1", old: protected("v1alpha1", "Always", 0), gates: on, want: forbidden("Always: remove the label before deleting the CloneSet")},
		{name: "V-30 cascading", old: protected("v1beta1", "Cascading", 1), gates: on, want: forbidden("Cascading: scale to 0 or remove the label before deleting")},
		{name: "V-30 cascading, no Pods", old: protected("v1beta1", "Cascading", 0), gates: on},
		{name: "V-30 no label", old: manifest(t, small("v1beta1")), gates: on},
		{name: "V-30 gate off", old: protected("v1beta1", "Always", 1)},
		{name: "with the gate off nothing is decoded", old: broken},
		{
			name: "with the gate on what can be decoded decides", old: broken, gates: on,
			want: forbidden("Always: remove the label before deleting the CloneSet"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := review(t, admission.Options{Gates: tt.gates}, validatePath, request(t, admissionv1.Delete, nil, tt.old))
			if diff := cmp.Diff(tt.want, answered(response)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// pods is a reader of Pods, and of nothing else.
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

func TestValidatePodsToDelete(t *testing.T) {
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
		o := manifest(t, small(version, "  scaleStrategy: {podsToDelete: ["+names+"]}"))
		return edit(t, mutated(t, admission.Options{}, o, nil), "/metadata/uid", "the-owner")
	}
	const field = "spec.scaleStrategy.podsToDelete"
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		tests := []struct {
			name, old, names string
			reader           *pods
			want             answer
			asked            []string
		}{
			{name: "V-14 a Pod of this CloneSet", names: "web-a", reader: &pods{items: items}, asked: []string{"default/web-a"}},
			{
				name: "V-14 all problems", names: "web-a, nope, web-gone, other, Not/A.Name", reader: &pods{items: items},
				want: invalid(
					field+`[1]: FieldValueInvalid: Invalid value: "nope": must name an existing Pod`,
					field+`[2]: FieldValueInvalid: Invalid value: "web-gone": must name a Pod that is not terminating`,
					field+`[3]: FieldValueInvalid: Invalid value: "other": must name a Pod of this CloneSet`,
					field+`[4]: FieldValueInvalid: Invalid value: "Not/A.Name": must name an existing Pod`,
				),
				asked: []string{"default/nope", "default/other", "default/web-a", "default/web-gone"},
			},
			{
				name: "V-14 no Pod at all", names: "nope", reader: &pods{}, asked: []string{"default/nope"},
				want: invalid(field + `[0]: FieldValueInvalid: Invalid value: "nope": must name an existing Pod`),
			},
			{name: "names that were there are not looked up", old: "nope", names: "nope", reader: &pods{items: items}},
			{
				name: "many are looked up in one list, by pages", names: "web-a, nope, other, web-gone, n1, n2, n3, n4, n5, n6", reader: &pods{items: items},
				want: invalid(
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
				want: answer{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Causes: []string{
					": : looking up the Pods of podsToDelete: timeout",
				}},
			},
		}
		for _, tt := range tests {
			t.Run(version+" "+tt.name, func(t *testing.T) {
				req := request(t, admissionv1.Update, object(version, tt.names), object(version, tt.old))
				response := review(t, admission.Options{Reader: tt.reader}, validatePath, req)
				if diff := cmp.Diff(tt.want, answered(response)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.asked, tt.reader.asked); diff != "" {
					t.Errorf("Pods asked for (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestBadRequests(t *testing.T) {
	object := manifest(t, small("v1beta1"))
	change := func(f func(*admissionv1.AdmissionRequest)) []byte {
		req := request(t, admissionv1.Create, object, nil)
		f(req)
		return encode(t, tree{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": req})
	}
	tests := []struct {
		name string
		body []byte
		code int32
		want string
	}{
		{"nothing", nil, 400, "served here is"},
		{"no JSON", []byte("{"), 400, "unexpected end of JSON input"},
		{"another kind", []byte(`{"apiVersion":"v1","kind":"Pod"}`), 400, `served here is`},
		{"no request", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), 400, "served here is CloneSet.apps.kruise.io in v1beta1 and v1alpha1"},
		{"request null", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`), 400, "served here is"},
		{"about another kind", change(func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "DaemonSet" }), 400, `"apps.kruise.io/v1beta1, Kind=DaemonSet"`},
		{"about another version", change(func(r *admissionv1.AdmissionRequest) { r.Kind.Version = "v1" }), 400, `served here is`},
		{"no object", change(func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil }), 400, "the request has no object"},
		{"an object that is none", change(func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`[1]`) }), 400, "decoding CloneSet.apps.kruise.io"},
		{
			"a field of the wrong type", change(func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`{"spec":{"replicas":"5"}}`) }), 422,
			`CloneSet.apps.kruise.io "web" is invalid: spec.replicas: Invalid value: is text, must be an integer of at most 32 bits`,
		},
		{
			"a quantity that is none", change(func(r *admissionv1.AdmissionRequest) {
				r.Object.Raw = []byte(`{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"much"}}}]}}}}`)
			}), 422, `spec.template.spec.containers[0].resources.limits.cpu: Invalid value: "much" is no quantity, such as`,
		},
	}
	for _, path := range []string{mutatePath, validatePath} {
		for _, tt := range tests {
			t.Run(path+" "+tt.name, func(t *testing.T) {
				code, body := ask(t, handlersOf(admission.Options{})[path], tt.body)
				var got admissionv1.AdmissionReview
				if err := json.Unmarshal(body, &got); err != nil || code != http.StatusOK || got.Response == nil || got.Response.Result == nil {
					t.Fatalf("%d %s: %v", code, body, err)
				}
				if got.Response.Allowed || got.Response.Result.Code != tt.code || !strings.Contains(got.Response.Result.Message, tt.want) {
					t.Errorf("got %+v", got.Response.Result)
				}
			})
		}
	}
}

func TestReviewsOfV1beta1(t *testing.T) {
	for _, path := range []string{mutatePath, validatePath} {
		req := request(t, admissionv1.Create, mutated(t, admission.Options{}, manifest(t, small("v1alpha1")), nil), nil)
		body := encode(t, tree{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": req})
		_, answer := ask(t, handlersOf(admission.Options{})[path], body)
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(answer, &got); err != nil {
			t.Fatal(err)
		}
		if got.APIVersion != "admission.k8s.io/v1beta1" || got.Response == nil || !got.Response.Allowed || got.Response.UID != "the-uid" {
			t.Errorf("%s: %s", path, answer)
		}
	}
}

// TestUndecodableObjectsLeave: stored invalid objects can be released: finalizers and labels are not about the spec.
func TestUndecodableObjectsLeave(t *testing.T) {
	undecodable := func(more tree) tree {
		object := withTemplate(t, func(p, _ tree) { p["spec"].(tree)["overhead"] = tree{"cpu": "oops"} })
		maps.Copy(object["metadata"].(tree), more)
		return object
	}
	held := undecodable(tree{"finalizers": []any{"foregroundDeletion"}, "deletionTimestamp": "2026-01-01T00:00:00Z"})
	for _, tc := range []struct {
		name     string
		old, new tree
		allowed  bool
	}{
		{"a finalizer goes", held, undecodable(tree{"deletionTimestamp": "2026-01-01T00:00:00Z"}), true},
		{"a label comes", undecodable(nil), undecodable(tree{"labels": tree{"a": "b"}}), true},
		{"the spec changes", undecodable(nil), edit(t, undecodable(nil), "/spec/replicas", 5), false},
		{"it is mended", undecodable(nil), withTemplate(t, func(tree, tree) {}), true},
		{"a good one is spoilt", withTemplate(t, func(tree, tree) {}), undecodable(nil), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, path := range []string{mutatePath, validatePath} {
				if got := review(t, admission.Options{}, path, request(t, admissionv1.Update, tc.new, tc.old)); got.Allowed != tc.allowed {
					t.Errorf("%s: allowed %v: %v", path, got.Allowed, got.Result)
				}
			}
		})
	}
	protected := map[apps.Gate]bool{apps.GateResourcesDeletionProtection: true}
	for _, object := range []tree{undecodable(nil), undecodable(tree{"labels": tree{apps.LabelDeleteProtection: "Always"}})} {
		_, isProtected := object["metadata"].(tree)["labels"]
		got := review(t, admission.Options{Gates: protected}, validatePath, request(t, admissionv1.Delete, nil, object))
		if got.Allowed == isProtected {
			t.Errorf("deletion of %v: allowed %v: %v", object["metadata"], got.Allowed, got.Result)
		}
	}
}

// TestUnknownFields: an unknown field is no reason to refuse an object, but a reason for a warning.
func TestUnknownFields(t *testing.T) {
	object := func(change func(p, c tree)) tree { return withTemplate(t, change) }
	typo := func(_, c tree) { c["readinesProbe"] = tree{} }
	claims := edit(t, object(func(tree, tree) {}), "/spec/volumeClaimTemplates", []any{tree{"metadata": tree{"name": "a"}, "spec": tree{"accessMode": "x"}}})
	for _, tc := range []struct {
		name     string
		old, new tree
		want     string
	}{
		{"none", nil, object(func(tree, tree) {}), ""},
		{"in a container", nil, object(typo), "unknown fields: spec.template.spec.containers[0].readinesProbe"},
		{"as it is stored", object(typo), edit(t, object(typo), "/spec/replicas", 3), ""},
		{"new on update", object(func(tree, tree) {}), object(typo), "spec.template.spec.containers[0].readinesProbe"},
		{"in another case", nil, object(func(p, _ tree) { p["spec"].(tree)["RestartPolicy"] = "Always" }), "spec.template.spec.RestartPolicy"},
		{"in a claim", nil, claims, "spec.volumeClaimTemplates[0].spec.accessMode"},
		{"many", nil, object(func(p, _ tree) {
			for i := range 20 {
				p[fmt.Sprintf("f%02d", i)] = i
			}
		}), "spec.template.f00, spec.template.f01, spec.template.f02, spec.template.f03, spec.template.f04 and 15 more"},
		{"one that would break a header", nil, object(func(p, _ tree) { p["a\nb"] = 1 }), "spec.template.a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operation := admissionv1.Create
			if tc.old != nil {
				operation = admissionv1.Update
			}
			got := review(t, admission.Options{}, validatePath, request(t, operation, tc.new, tc.old))
			warnings := strings.Join(got.Warnings, "; ")
			if !got.Allowed || (warnings == "") != (tc.want == "") || !strings.Contains(warnings, tc.want) || strings.Contains(warnings, "\n") {
				t.Errorf("allowed %v, warnings %q, want %q: %v", got.Allowed, warnings, tc.want, got.Result)
			}
		})
	}
}

// TestUnknownFieldsOfEachKind: for every kind of template, a plain template causes no warning, and a warning names an
// unknown field.
func TestUnknownFieldsOfEachKind(t *testing.T) {
	options := admission.Options{Gates: map[apps.Gate]bool{apps.GateResourceDistribution: true}}
	for _, tc := range []struct{ kind, text, typo, want string }{
		{
			"AdvancedCronJob", smallCronJob("%s", cronJobs), "/spec/template/jobTemplate/spec/backofLimit",
			"spec.template.jobTemplate.spec.backofLimit",
		},
		{
			"AdvancedCronJob", smallCronJob("%s", cronJobs), "/spec/template/jobTemplate/spec/template/spec/containers/0/readinesProbe",
			"spec.template.jobTemplate.spec.template.spec.containers[0].readinesProbe",
		},
		{"AdvancedCronJob", smallCronJob("%s", cronJobs), "/spec/template/jobTemplate/metadata/label", "spec.template.jobTemplate.metadata.label"},
		{
			"AdvancedCronJob", smallCronJob("%s", cronBroadcastJobs), "/spec/template/broadcastJobTemplate/spec/template/spec/failurePolicy",
			"spec.template.broadcastJobTemplate.spec.template.spec.failurePolicy",
		},
		{
			"AdvancedCronJob", smallCronJob("%s", cronBroadcastJobs), "/spec/template/broadcastJobTemplate/metadata/label",
			"spec.template.broadcastJobTemplate.metadata.label",
		},
		{"ResourceDistribution", smallDistribution("%s"), "/spec/resource/dat", "spec.resource.dat"},
		{
			"ResourceDistribution", strings.Replace(smallDistribution("%s"), "kind: ConfigMap, metadata: {name: game-demo}, data", "kind: Secret, type: Opaque, metadata: {name: game-demo}, stringData", 1),
			"/spec/resource/stringDat", "spec.resource.stringDat",
		},
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			t.Run(tc.want+" of "+version, func(t *testing.T) {
				path := "/validate-apps-kruise-io-" + strings.ToLower(tc.kind)
				object := manifest(t, fmt.Sprintf(tc.text, version))
				for _, typo := range []bool{false, true} {
					want := []string(nil)
					if typo {
						object, want = edit(t, object, tc.typo, "x"), []string{"what is made from the templates will not have unknown fields: " + tc.want}
					}
					got := review(t, options, path, request(t, admissionv1.Create, object, nil))
					if diff := cmp.Diff(want, got.Warnings); diff != "" || !got.Allowed {
						t.Errorf("with a typo %t: allowed %t, %v, warnings (-want +got):\n%s", typo, got.Allowed, got.Result, diff)
					}
				}
			})
		}
	}
}
