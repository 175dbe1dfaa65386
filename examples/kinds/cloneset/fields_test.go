package cloneset

import "testing"

func TestV1alpha1Field(t *testing.T) {
	const rolling = "spec.updateStrategy.rollingUpdate"
	for field, want := range map[string]string{
		"spec.replicas":                     "spec.replicas",
		"spec.updateStrategy.type":          "spec.updateStrategy.type",
		rolling:                             "spec.updateStrategy",
		rolling + ".podUpdatePolicy":        "spec.updateStrategy.type",
		rolling + ".maxSurge":               "spec.updateStrategy.maxSurge",
		rolling + ".scatterStrategy[1].key": "spec.updateStrategy.scatterStrategy[1].key",
		rolling + ".inPlaceUpdateStrategy.gracePeriodSeconds":                  "spec.updateStrategy.inPlaceUpdateStrategy.gracePeriodSeconds",
		rolling + ".inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds":      "metadata.annotations[apps.kruise.io/image-predownload-timeout-seconds]",
		rolling + ".inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods": "metadata.annotations[apps.kruise.io/image-predownload-min-updated-ready-pods]",
	} {
		if got := v1alpha1Field(field); got != want {
			t.Errorf("%s: got %s, want %s", field, got, want)
		}
	}
}
