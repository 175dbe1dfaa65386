package apps_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

func TestDaemonSetWireFormat(t *testing.T) {
	want := map[string]string{
		apps.LabelTemplateGeneration:      "pod-template-generation",
		apps.AnnotationTemplateGeneration: "deprecated.daemonset.template.generation",
		apps.AnnotationProgressiveCreate:  "daemonset.kruise.io/progressive-create-pod",
	}
	for got, want := range want {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	reserved := []string{"controller-revision-hash", "pod-template-generation", "lifecycle.apps.kruise.io/state"}
	if diff := cmp.Diff(reserved, apps.ReservedDaemonSetLabels()); diff != "" {
		t.Errorf("reserved labels (-want +got):\n%s", diff)
	}
}
