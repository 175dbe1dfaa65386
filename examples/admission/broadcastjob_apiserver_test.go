package admission_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
)

// everywhere returns a BroadcastJob for all Nodes, in a version.
func everywhere(version string) string {
	return `apiVersion: apps.kruise.io/` + version + `
kind: BroadcastJob
metadata: {name: everywhere, namespace: default}
spec:
  template:
    spec:
      containers: [{name: pi, image: perl, command: [perl, -wle, "print 3"]}]
      restartPolicy: Never
  completionPolicy: {type: Always, ttlSecondsAfterFinished: 30}
status: {active: 7, phase: completed}
`
}

// TestBroadcastJobsOnTheAPIServer writes and reads BroadcastJobs in both versions.
func TestBroadcastJobsOnTheAPIServer(t *testing.T) {
	c := bare(t)
	options := admission.Options{Client: c, Reader: c, Namespace: "default"}
	c.serveAlone(t, "broadcastjob", options, endpointOf("BroadcastJob", options))
	send := func(t *testing.T, object tree) (*unstructured.Unstructured, error) {
		sent := &unstructured.Unstructured{Object: object}
		err := c.Create(t.Context(), sent)
		if err == nil {
			t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), sent) })
		}
		return sent, err
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run("E-9 "+version, func(t *testing.T) {
			sent, err := send(t, admissiontest.Manifest(t, everywhere(version)))
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range []string{"v1alpha1", "v1beta1"} {
				shown := &unstructured.Unstructured{Object: tree{"apiVersion": "apps.kruise.io/" + other, "kind": "BroadcastJob"}}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(sent), shown); err != nil {
					t.Fatal(err)
				}
				spec := shown.Object["spec"].(tree)
				delete(spec, "template")
				want := tree{
					"parallelism": int64(2147483647), "completionPolicy": tree{"type": "Always", "ttlSecondsAfterFinished": int64(30)}, "failurePolicy": tree{"type": "FailFast"},
				}
				if diff := cmp.Diff(want, spec); diff != "" {
					t.Errorf("BJ-1 %s (-want +got):\n%s", other, diff)
				}
				if shown.Object["status"] != nil {
					t.Errorf("BJ-1 a status was stored: %v", shown.Object["status"])
				}
			}
		})
	}
	for _, r := range []struct {
		name, path string
		value      any
		want       []string
	}{
		{"BJ-2 no restartPolicy", "/spec/template/spec/restartPolicy", "", []string{"spec.template.spec.restartPolicy"}},
		{"1.1 restartPolicy Always", "/spec/template/spec/restartPolicy", "Always", []string{"spec.template.spec.restartPolicy"}},
		{"1.1 a name with a dot", "/metadata/name", "a.b", []string{"metadata.name"}},
		{"1.1 parallelism", "/spec/parallelism", "many", []string{"spec.parallelism"}},
		{"1.1 our labels", "/spec/template/metadata", tree{"labels": tree{"broadcastjob-name": "x"}}, []string{"spec.template.metadata.labels[broadcastjob-name]"}},
		{"1.1 an unknown policy", "/spec/failurePolicy", tree{"type": "Retry"}, []string{"spec.failurePolicy.type"}},
		{"1.1 Never with a TTL", "/spec/completionPolicy/type", "Never", []string{"spec.completionPolicy.ttlSecondsAfterFinished"}},
		{"1.1 what no Pod may have", "/spec/template/spec/containers/0/name", "Not A Name", []string{"spec.template.spec.containers[0].name"}},
		{"what cannot be decoded", "/spec/template/spec/containers", int64(7), []string{"spec.template.spec.containers"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			for _, version := range []string{"v1alpha1", "v1beta1"} {
				_, err := send(t, admissiontest.Edit(t, admissiontest.Manifest(t, everywhere(version)), r.path, r.value))
				if !apierrors.IsInvalid(err) || !cmp.Equal(causes(err), r.want) {
					t.Errorf("%s: causes %v: %v", version, causes(err), err)
				}
			}
		})
	}
}
