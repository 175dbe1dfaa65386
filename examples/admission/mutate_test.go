package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// TestMutateKeepsWhatItDoesNotKnow: the patch changes neither fields of a newer Kubernetes, nor values that Go types
// would write differently, nor absent values that Go types would write as zero values.
func TestMutateKeepsWhatItDoesNotKnow(t *testing.T) {
	const strange = `
  volumeClaimTemplates:
  - metadata: {name: data, futureMeta: [1]}
    futureClaim: {a: 1}
    spec: {resources: {requests: {storage: 1024Mi}}, futureSpec: true}
`
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			object := small(t, version, strange)
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
					object = admissiontest.Edit(t, object, path, value)
				}
			}
			object["spec"].(tree)["template"].(tree)["metadata"].(tree)["creationTimestamp"] = nil
			result := handlersOf(admission.Options{}).Defaulted(t, object, nil)
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

// TestMutateRemovesObsoleteNotes: conversion stores fields of v1beta1 in an annotation of a v1alpha1 object. If an
// edit makes stored fields obsolete, the patch removes the fields, because the next conversion would restore their
// values.
func TestMutateRemovesObsoleteNotes(t *testing.T) {
	const note = `{"when":["RollingUpdate","Blue"],"fields":[{"path":["spec","updateStrategy","rollingUpdate","paused"],"kept":true}]}`
	object := admissiontest.Edit(t, small(t, "v1alpha1"), "/metadata/annotations", tree{apps.AnnotationV1beta1Only: note})
	if got := handlersOf(admission.Options{}).Defaulted(t, object, nil)["metadata"].(tree)["annotations"]; got != nil {
		t.Errorf("annotations %v", got)
	}
	object = admissiontest.Edit(t, object, "/metadata/annotations/other", "1")
	if diff := cmp.Diff(tree{"other": "1"}, handlersOf(admission.Options{}).Defaulted(t, object, nil)["metadata"].(tree)["annotations"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMutateAnswersOnlyWrites(t *testing.T) {
	object := small(t, "v1beta1")
	status := admissiontest.Request(t, admissionv1.Update, object, object)
	status.SubResource = "status"
	for name, req := range map[string]*admissionv1.AdmissionRequest{
		"delete": admissiontest.Request(t, admissionv1.Delete, nil, object), "connect": admissiontest.Request(t, admissionv1.Connect, object, nil), "status": status,
	} {
		if response := handlersOf(admission.Options{}).Review(t, mutatePath, req); !response.Allowed || response.Patch != nil {
			t.Errorf("%s: %+v", name, response)
		}
	}
}
