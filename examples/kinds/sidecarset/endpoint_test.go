package sidecarset

import (
	"testing"

	"github.com/workloadkit/workloadkit/examples/admission"
)

func TestOldField(t *testing.T) {
	const want = "metadata.labels[apps.kruise.io/sidecarset-custom-version]"
	if got := endpoint(admission.Options{}).OldField("spec.customVersion"); got != want {
		t.Errorf("spec.customVersion stands in %s in v1alpha1, want %s", got, want)
	}
}
