package sidecarset_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/sidecarset"
)

type tree = admissiontest.Tree

// served returns a server with the webhooks for SidecarSets.
func served(options admission.Options) admissiontest.Server {
	return admissiontest.Server(admission.Handlers(options, sidecarset.Row().Admission(options)))
}

// small returns the smallest valid object, with additional lines of spec.
func small(t testing.TB, version string, more ...string) tree {
	t.Helper()
	return admissiontest.Load(t, "testdata/small.yaml", version, more...)
}

// defaulted returns a small object with additional lines of spec, and with the defaults.
func defaulted(t *testing.T, version string, more ...string) tree {
	t.Helper()
	return served(admission.Options{}).Defaulted(t, small(t, version, more...), nil)
}

func TestMutateSidecarSet(t *testing.T) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run("SC-1 SC-2 SC-7 "+version, func(t *testing.T) {
			more := []string{}
			if version == "v1alpha1" {
				more = append(more, "  namespace: team-a")
			}
			got := defaulted(t, version, more...)
			annotations := got["metadata"].(tree)["annotations"].(tree)
			delete(got["metadata"].(tree), "annotations")
			if len(annotations) != 2 || annotations[apps.AnnotationSidecarSetHash] == "" || annotations[apps.AnnotationSidecarSetHashWithoutImage] == "" {
				t.Errorf("annotations %v", annotations)
			}
			want := small(t, version, append(more,
				"  updateStrategy: {type: RollingUpdate, partition: 0, maxUnavailable: 1}", "  revisionHistoryLimit: 10")...)
			for key, value := range map[string]any{
				"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
				"podInjectPolicy": "BeforeAppContainer", "upgradeStrategy": tree{"upgradeType": "ColdUpgrade"}, "shareVolumePolicy": tree{"type": "disabled"},
			} {
				want = admissiontest.Edit(t, want, "/spec/containers/0/"+key, value)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			forged := admissiontest.Edit(t, admissiontest.Edit(t, got, "/metadata/annotations", annotations), "/metadata/annotations/kruise.io~1sidecarset-hash", "forged")
			_, changes := admissiontest.Patch(t, forged, served(admission.Options{}).Mutate(t, forged, got))
			restored := map[string]any{"/metadata/annotations/kruise.io~1sidecarset-hash": annotations[apps.AnnotationSidecarSetHash]}
			if diff := cmp.Diff(restored, changes); diff != "" {
				t.Errorf("SC-2 a forged hash (-want +got):\n%s", diff)
			}
		})
	}
}

func sidecarSetReader(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestValidateSidecarSet(t *testing.T) {
	other := &v1beta1.SidecarSet{}
	if err := json.Unmarshal(admissiontest.Encode(t, defaulted(t, "v1beta1")), other); err != nil {
		t.Fatal(err)
	}
	other.Name = "other"
	rules := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: apps.ConfigurationName}, Data: map[string]string{
		apps.ConfigurationAnnotationRules: `{"rules":[{"allowedAnnotationKeyExprs":["^ok$"]}]}`,
	}}
	broken := rules.DeepCopy()
	broken.Data[apps.ConfigurationAnnotationRules] = "{"
	revision := func(set, version string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: set + "-1", Labels: map[string]string{
			apps.LabelSidecarSetName: set, apps.LabelSidecarSetCustomVersion: version,
		}}}
	}
	const (
		patches = "  patchPodMetadata: [{annotations: {key: v}}]"
		byName  = "  injectionStrategy: {revision: {revisionName: mesh-1}}"
		version = "  injectionStrategy: {revision: {customVersion: v1}}"
	)
	for _, tc := range []struct {
		name, spec string
		objects    []client.Object
		namespace  string
		gate       bool
		want       []string // fields
		code       int32
	}{
		{name: "as it should be", namespace: "system"},
		{name: "SC-63 another one's container", objects: []client.Object{other}, want: []string{"spec.containers[0].name"}, code: 422},
		{name: "SC-51 an annotation that is not allowed", spec: patches, objects: []client.Object{rules}, namespace: "system", want: []string{"spec.patchPodMetadata[0].annotations[key]"}, code: 422},
		{name: "SC-51 an annotation that is", spec: strings.ReplaceAll(patches, "key", "ok"), objects: []client.Object{rules}, namespace: "system"},
		{name: "SC-52 no rules", spec: patches, namespace: "system", want: []string{"spec.patchPodMetadata[0].annotations[key]"}, code: 422},
		{name: "SC-52 no rules, with the gate", spec: patches, namespace: "system", gate: true},
		{name: "SC-52 rules in another namespace", spec: patches, objects: []client.Object{rules}, namespace: "elsewhere", gate: true},
		{name: "SC-50 rules that make no sense", spec: patches, objects: []client.Object{broken}, namespace: "system", code: 500},
		{name: "no namespace to look in", spec: patches + "\n" + byName, objects: []client.Object{rules}},
		{name: "SR-8 no revision", spec: byName, namespace: "system", want: []string{"spec.injectionStrategy.revision.revisionName"}, code: 422},
		{name: "SR-8 another one's revision", spec: strings.ReplaceAll(byName, "mesh-1", "other-1"), objects: []client.Object{revision("other", "v1")}, namespace: "system", want: []string{"spec.injectionStrategy.revision.revisionName"}, code: 422},
		{name: "SR-8 a revision", spec: byName, objects: []client.Object{revision("mesh", "v1")}, namespace: "system"},
		{name: "SR-8 no version", spec: version, objects: []client.Object{revision("mesh", "v2"), revision("other", "v1")}, namespace: "system", want: []string{"spec.injectionStrategy.revision.customVersion"}, code: 422},
		{name: "SR-8 a version", spec: version, objects: []client.Object{revision("mesh", "v1")}, namespace: "system"},
		{name: "RP-12 an expression", spec: "  initContainers: [{name: init, image: init, restartPolicy: Always, resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: a, resourcesExpr: {limits: {cpu: 2/cpu}}}}]", want: []string{"spec.initContainers[0].resourcesPolicy.resourcesExpr.limits.cpu"}, code: 422},
	} {
		t.Run(tc.name, func(t *testing.T) {
			options := admission.Options{
				Reader: sidecarSetReader(t, tc.objects...), Namespace: tc.namespace, Gates: map[apps.Gate]bool{apps.GateSidecarSetPatchPodMetadataDefaults: tc.gate},
			}
			for _, apiVersion := range []string{"v1alpha1", "v1beta1"} {
				object := defaulted(t, apiVersion, tc.spec)
				got := served(options).Validate(t, object, nil)
				var fields []string
				var code int32
				if !got.Allowed {
					code = got.Result.Code
					if got.Result.Details != nil && code == 422 {
						for _, cause := range got.Result.Details.Causes {
							fields = append(fields, cause.Field)
						}
					}
				}
				if diff := cmp.Diff(tc.want, fields); diff != "" || code != tc.code {
					t.Errorf("%s: code %d, want %d; fields (-want +got):\n%s\n%v", apiVersion, code, tc.code, diff, got.Result)
				}
				// An update that does not change the checked fields reads no other objects.
				if got := served(options).Validate(t, object, object); !got.Allowed {
					t.Errorf("%s: the same again: %v", apiVersion, got.Result)
				}
			}
		})
	}
	t.Run("SC-60 an update", func(t *testing.T) {
		stored := defaulted(t, "v1alpha1")
		next := admissiontest.Edit(t, stored, "/spec/containers/0/name", "other")
		got := served(admission.Options{}).Validate(t, next, stored)
		if got.Allowed || len(got.Result.Details.Causes) != 1 || got.Result.Details.Causes[0].Field != "spec.containers[0].name" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("unknown fields of a container", func(t *testing.T) {
		object := admissiontest.Edit(t, defaulted(t, "v1beta1"), "/spec/containers/0/imagePulPolicy", "Always")
		got := served(admission.Options{}).Validate(t, object, nil)
		if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "spec.containers[0].imagePulPolicy") {
			t.Errorf("warnings %q", got.Warnings)
		}
	})
	t.Run("a selector of namespaces that has no effect", func(t *testing.T) {
		const selector = "  namespaceSelector: {matchLabels: {environment: production}}"
		for _, tc := range []struct {
			version string
			spec    []string
			want    []string
		}{
			{"v1alpha1", []string{"  namespace: ns1", selector}, []string{"spec.namespaceSelector has no effect beside spec.namespace: Pods of namespace ns1 alone are meant"}},
			{"v1alpha1", []string{"  namespace: ns1"}, nil},
			{"v1alpha1", []string{selector}, nil},
			{"v1beta1", []string{selector}, nil},
			{
				"v1beta1",
				[]string{"  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}"},
				[]string{"spec.namespaceSelector: Pods of namespace kube-system get no sidecars"},
			},
			{
				"v1alpha1",
				[]string{"  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [a, kube-system]}]}"},
				[]string{"spec.namespaceSelector: Pods of namespace kube-system get no sidecars"},
			},
			{"v1alpha1", []string{"  namespace: kube-system"}, []string{"spec.namespace: Pods of namespace kube-system get no sidecars"}},
			{"v1beta1", []string{"  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}"}, nil},
		} {
			object := defaulted(t, tc.version, tc.spec...)
			got := served(admission.Options{}).Validate(t, object, nil)
			if diff := cmp.Diff(tc.want, got.Warnings); diff != "" || !got.Allowed {
				t.Errorf("%s %v: allowed %t, %v, warnings (-want +got):\n%s", tc.version, tc.spec, got.Allowed, got.Result, diff)
			}
			next := admissiontest.Edit(t, object, "/metadata/labels", tree{"a": "b"})
			if got := served(admission.Options{}).Validate(t, next, object); len(got.Warnings) > 0 {
				t.Errorf("%s %v: a new label is warned about: %q", tc.version, tc.spec, got.Warnings)
			}
		}
	})
	t.Run("more elements than are looked at", func(t *testing.T) {
		object := defaulted(t, "v1beta1")
		args := make([]any, 2001)
		for i := range args {
			args[i] = "x"
		}
		got := served(admission.Options{}).Mutate(t, admissiontest.Edit(t, object, "/spec/containers/0/args", args), nil)
		if got.Allowed || !strings.Contains(got.Result.Message, "initContainers and volumes") {
			t.Errorf("%+v", got)
		}
	})
}
