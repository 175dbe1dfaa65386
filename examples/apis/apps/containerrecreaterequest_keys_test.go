package apps_test

import (
	"testing"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

func TestContainerRecreateRequestWireFormat(t *testing.T) {
	for got, want := range map[string]string{
		apps.LabelRequestPodUID:                     "crr.apps.kruise.io/pod-uid",
		apps.LabelRequestNodeName:                   "crr.apps.kruise.io/node-name",
		apps.LabelRequestActive:                     "crr.apps.kruise.io/active",
		apps.AnnotationRequestSyncContainerStatuses: "crr.apps.kruise.io/sync-container-statuses",
		apps.AnnotationRequestUnreadyAcquired:       "crr.apps.kruise.io/unready-acquired",
		apps.ConditionPreRecreateGrace:              "PreRecreateGrace",
		apps.NotReadyUserAgentRequest:               "ContainerRecreateRequest",
		apps.RequestPodGone:                         "pod has gone",
		apps.RequestAgentSilent:                     "daemon has not responded for a long time",
		apps.RequestDeadlineExceeded:                "recreating has exceeded the activeDeadlineSeconds",
		apps.LabelNodeType:                          "type",
		apps.NodeTypeVirtualKubelet:                 "virtual-kubelet",
		apps.EnvTerminateSidecar:                    "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT",
		apps.EnvTerminateSidecarImage:               "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE",
		apps.EnvIgnoreExitCode:                      "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE",
		apps.ConditionSidecarTerminated:             "SidecarTerminated",
		apps.EventSidecarTerminator:                 "SidecarTerminator",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if apps.FinalizerRequestUnreadyAcquired != "crr.apps.kruise.io/unready-acquired" {
		t.Errorf("finalizer %q", apps.FinalizerRequestUnreadyAcquired)
	}
}
