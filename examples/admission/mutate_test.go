package admission_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// podDefaults are the additions to the template of small.
func podDefaults() map[string]any {
	const container = "/spec/template/spec/containers/0/"
	return map[string]any{
		container + "imagePullPolicy":                       "Always",
		container + "terminationMessagePath":                "/dev/termination-log",
		container + "terminationMessagePolicy":              "File",
		"/spec/template/spec/dnsPolicy":                     "ClusterFirst",
		"/spec/template/spec/restartPolicy":                 "Always",
		"/spec/template/spec/schedulerName":                 "default-scheduler",
		"/spec/template/spec/securityContext":               map[string]any{},
		"/spec/template/spec/terminationGracePeriodSeconds": 30.0,
	}
}

func with(fields ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, some := range fields {
		maps.Copy(all, some)
	}
	return all
}

// added returns the additions of a patch, by path.
func added(t *testing.T, patch []step) map[string]any {
	t.Helper()
	values := map[string]any{}
	for _, s := range patch {
		if s.Op != "add" {
			t.Errorf("%s %s: defaults are added", s.Op, s.Path)
		}
		values[s.Path] = s.Value
	}
	return values
}

func TestMutate(t *testing.T) {
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
	alpha, beta := small("v1alpha1"), small("v1beta1")
	newImage := func(text string) tree {
		return edit(t, manifest(t, text), "/spec/template/spec/containers/0/image", "example.test/app:v2")
	}
	hostNetwork := edit(t, manifest(t, beta), "/spec/template/spec/hostNetwork", true)
	hostNetwork = edit(t, hostNetwork, "/spec/template/spec/containers/0/ports", []any{tree{"containerPort": 80.0, "protocol": "TCP"}})
	tests := []struct {
		name        string
		object, old tree
		gates       map[apps.Gate]bool
		want        map[string]any
	}{
		{name: "V-1 v1beta1", object: manifest(t, beta), want: with(betaSpec, podDefaults())},
		{name: "V-5 v1alpha1", object: manifest(t, alpha), want: with(alphaSpec, podDefaults())},
		{
			name: "V-1 OnDelete gets no rolling update", object: manifest(t, small("v1beta1", "  updateStrategy: {type: OnDelete}")),
			want: with(scalar, podDefaults()),
		},
		{
			name:   "what is there stays, null does not count",
			object: manifest(t, small("v1beta1", "  replicas: 0\n  updateStrategy: {rollingUpdate: {partition: 80%, maxSurge: null}}")),
			want: with(podDefaults(), map[string]any{
				"/spec/revisionHistoryLimit": 10.0, "/spec/updateStrategy/type": "RollingUpdate",
				"/spec/updateStrategy/rollingUpdate/maxUnavailable":  "20%",
				"/spec/updateStrategy/rollingUpdate/maxSurge":        0.0,
				"/spec/updateStrategy/rollingUpdate/podUpdatePolicy": "ReCreate",
			}),
		},
		{
			name:   "in-place policies get a strategy",
			object: manifest(t, small("v1beta1", "  updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}")),
			want: with(scalar, podDefaults(), map[string]any{
				"/spec/updateStrategy/rollingUpdate/partition":             0.0,
				"/spec/updateStrategy/rollingUpdate/maxUnavailable":        "20%",
				"/spec/updateStrategy/rollingUpdate/maxSurge":              0.0,
				"/spec/updateStrategy/rollingUpdate/inPlaceUpdateStrategy": map[string]any{},
			}),
		},
		{name: "V-2 an equal template gets no defaults, v1beta1", object: manifest(t, beta), old: manifest(t, beta), want: betaSpec},
		{name: "V-2 an equal template gets no defaults, v1alpha1", object: manifest(t, alpha), old: manifest(t, alpha), want: alphaSpec},
		{name: "V-2 another template does", object: newImage(beta), old: manifest(t, beta), want: with(betaSpec, podDefaults())},
		{
			name: "V-2 TemplateNoDefaults", object: manifest(t, beta), want: betaSpec,
			gates: map[apps.Gate]bool{apps.GateTemplateNoDefaults: true},
		},
		{
			name: "V-3 host ports", gates: map[apps.Gate]bool{apps.GateDefaultHostNetworkHostPorts: true},
			object: hostNetwork, want: with(betaSpec, podDefaults(), map[string]any{"/spec/template/spec/containers/0/ports/0/hostPort": 80.0}),
		},
		{name: "V-3 no host ports without the gate", object: hostNetwork, want: with(betaSpec, podDefaults())},
		{
			name: "a stored object that cannot be decoded counts as none", object: manifest(t, beta),
			old: edit(t, manifest(t, beta), "/spec/replicas", "many"), want: with(betaSpec, podDefaults()),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			options := admission.Options{Gates: tt.gates}
			operation := admissionv1.Create
			if tt.old != nil {
				operation = admissionv1.Update
			}
			patch := steps(t, review(t, options, mutatePath, request(t, operation, tt.object, tt.old)))
			if diff := cmp.Diff(tt.want, added(t, patch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			result := apply(t, tt.object, patch)
			if again := steps(t, review(t, options, mutatePath, request(t, operation, result, tt.old))); len(again) > 0 {
				t.Errorf("defaulted again: %v", again)
			}
		})
	}
}

// TestMutateKeepsWhatItDoesNotKnow: unchanged stay fields of a newer Kubernetes, values with a different spelling in Go
// types, and absent values shown by Go types.
func TestMutateKeepsWhatItDoesNotKnow(t *testing.T) {
	const strange = `
  volumeClaimTemplates:
  - metadata: {name: data, futureMeta: [1]}
    futureClaim: {a: 1}
    spec: {resources: {requests: {storage: 1024Mi}}, futureSpec: true}
`
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			object := manifest(t, small(version, strange))
			for path, value := range map[string]any{
				"/spec/template/futureTemplate":                tree{"b": []any{1.0, tree{"c": nil}}},
				"/spec/template/spec/future~1Pod":              9007199254740993.0,
				"/spec/template/spec/Containers":               "not the field of that name",
				"/spec/template/spec/containers/0/future":      tree{"deep": tree{"er": []any{}}},
				"/spec/template/spec/containers/0/resources":   tree{"limits": tree{"cpu": "1000m", "memory": "1.50Gi"}},
				"/spec/template/spec/initContainers":           []any{tree{"name": "init", "image": "i", "future": 1.0}},
				"/spec/template/metadata/creationTimestamp":    nil,
				"/metadata/annotations":                        tree{"a/b~c": "1"},
				"/spec/template/spec/containers/0/ports":       []any{tree{"containerPort": 80.0, "future": "x"}},
				"/spec/template/spec/ephemeralContainerPolicy": "Future",
			} {
				if value != nil {
					object = edit(t, object, path, value)
				}
			}
			object["spec"].(tree)["template"].(tree)["metadata"].(tree)["creationTimestamp"] = nil
			result := mutated(t, admission.Options{}, object, nil)
			got := leaves("", result, map[string]any{})
			for path, value := range leaves("", object, map[string]any{}) {
				if diff := cmp.Diff(value, got[path]); diff != "" {
					t.Errorf("%s (-sent +got):\n%s", path, diff)
				}
			}
			port := result["spec"].(tree)["template"].(tree)["spec"].(tree)["containers"].([]any)[0].(tree)["ports"].([]any)[0].(tree)
			if diff := cmp.Diff(tree{"containerPort": 80.0, "future": "x", "protocol": "TCP"}, port); diff != "" {
				t.Errorf("port (-want +got):\n%s", diff)
			}
			claim := result["spec"].(tree)["volumeClaimTemplates"].([]any)[0].(tree)
			if diff := cmp.Diff(tree{"phase": "Pending"}, claim["status"]); diff != "" {
				t.Errorf("status of the claim (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMutateV1alpha1KeepsWhatOnlyItCanSay: values known only to v1alpha1 have no effect in v1beta1 and are kept in a
// note. A default must not lose the note.
func TestMutateV1alpha1KeepsWhatOnlyItCanSay(t *testing.T) {
	object := manifest(t, small("v1alpha1", `
  updateStrategy:
    inPlaceUpdateStrategy: {imagePreDownloadParallelism: 30%, imagePreDownloadTimeoutSeconds: 7}`))
	result := mutated(t, admission.Options{}, object, nil)
	want := tree{
		"type": "ReCreate", "partition": 0.0, "maxUnavailable": "20%", "maxSurge": 0.0,
		"inPlaceUpdateStrategy": tree{"imagePreDownloadParallelism": "30%", "imagePreDownloadTimeoutSeconds": 7.0},
	}
	if diff := cmp.Diff(want, result["spec"].(tree)["updateStrategy"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	empty := manifest(t, small("v1alpha1", "  updateStrategy: {inPlaceUpdateStrategy: {}}"))
	strategy := mutated(t, admission.Options{}, empty, nil)["spec"].(tree)["updateStrategy"].(tree)
	if _, ok := strategy["inPlaceUpdateStrategy"]; !ok {
		t.Errorf("an empty object is gone: %v", strategy)
	}
}

// TestMutateRemovesObsoleteNotes: a note in a v1alpha1 object made obsolete by an edit goes, or the next conversion
// would revive the note.
func TestMutateRemovesObsoleteNotes(t *testing.T) {
	const note = `{"when":["RollingUpdate","Blue"],"fields":[{"path":["spec","updateStrategy","rollingUpdate","paused"],"kept":true}]}`
	object := edit(t, manifest(t, small("v1alpha1")), "/metadata/annotations", tree{apps.AnnotationV1beta1Only: note})
	if got := mutated(t, admission.Options{}, object, nil)["metadata"].(tree)["annotations"]; got != nil {
		t.Errorf("annotations %v", got)
	}
	object = edit(t, object, "/metadata/annotations/other", "1")
	if diff := cmp.Diff(tree{"other": "1"}, mutated(t, admission.Options{}, object, nil)["metadata"].(tree)["annotations"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMutateAnswersOnlyWrites(t *testing.T) {
	object := manifest(t, small("v1beta1"))
	status := request(t, admissionv1.Update, object, object)
	status.SubResource = "status"
	for name, req := range map[string]*admissionv1.AdmissionRequest{
		"delete": request(t, admissionv1.Delete, nil, object), "connect": request(t, admissionv1.Connect, object, nil), "status": status,
	} {
		if patch := steps(t, review(t, admission.Options{}, mutatePath, req)); len(patch) > 0 {
			t.Errorf("%s: %v", name, patch)
		}
	}
}
