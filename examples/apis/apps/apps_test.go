package apps_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

func Example() {
	gates := apps.ResolveGates(map[apps.Gate]bool{apps.GateKruiseDaemon: false})
	fmt.Println(gates[apps.GateInPlaceUpdateEnvFromMetadata], gates[apps.GatePodUnavailableBudgetDelete])
	// Output: false true
}

func TestResolveGates(t *testing.T) {
	want := apps.DefaultGates()
	if diff := cmp.Diff(want, apps.ResolveGates(nil)); diff != "" {
		t.Errorf("without settings (-want +got):\n%s", diff)
	}
	want[apps.GateCloneSetShortHash], want["Other"] = true, true
	got := apps.ResolveGates(map[apps.Gate]bool{apps.GateCloneSetShortHash: true, "Other": true})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with settings (-want +got):\n%s", diff)
	}
	if apps.DefaultGates()[apps.GateCloneSetShortHash] {
		t.Error("settings leak into the defaults")
	}
}

func TestGateDependencies(t *testing.T) {
	type gates = map[apps.Gate]bool
	for _, tc := range []struct {
		name string
		set  gates
		want gates
	}{
		{"FG-1 without Pod webhooks", gates{apps.GatePodWebhook: false, apps.GateKruisePodReadiness: true, apps.GateEnhancedLivenessProbe: true}, gates{
			apps.GatePodWebhook: false, apps.GateWorkloadSpread: false, apps.GatePodUnavailableBudgetDelete: false,
		}},
		{"FG-2 without the daemon", gates{apps.GateKruiseDaemon: false, apps.GateImagePullJob: true, apps.GateSidecarTerminator: true}, gates{
			apps.GateKruiseDaemon: false, apps.GateDaemonWatchingPod: false, apps.GateInPlaceUpdateEnvFromMetadata: false, apps.GatePodProbeMarker: false,
		}},
		{"FG-3 downloads need image jobs", gates{apps.GatePreDownloadImageForDaemonSetUpdate: true}, gates{
			apps.GatePreDownloadImageForDaemonSetUpdate: true, apps.GateImagePullJob: true,
		}},
		{"FG-2 before FG-3", gates{apps.GateKruiseDaemon: false, apps.GatePreDownloadImageForInPlaceUpdate: true}, gates{
			apps.GateKruiseDaemon: false, apps.GateDaemonWatchingPod: false, apps.GateInPlaceUpdateEnvFromMetadata: false, apps.GatePodProbeMarker: false,
		}},
		{"FG-4 no cascading protection without protection", gates{apps.GateDeletionProtectionForCRDCascading: true}, gates{}},
		{"FG-4 with protection", gates{apps.GateDeletionProtectionForCRDCascading: true, apps.GateResourcesDeletionProtection: true}, gates{
			apps.GateDeletionProtectionForCRDCascading: true, apps.GateResourcesDeletionProtection: true,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := apps.DefaultGates()
			maps.Copy(want, tc.want)
			if diff := cmp.Diff(want, apps.ResolveGates(tc.set)); diff != "" {
				t.Errorf("gates (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWireFormat compares every string that other programs read with a literal, because a changed string would break
// these programs.
func TestWireFormat(t *testing.T) {
	want := map[string]string{
		apps.LabelRevision:                                 "controller-revision-hash",
		apps.AnnotationMatchedWorkloadSpread:               "apps.kruise.io/matched-workloadspread",
		apps.AnnotationIgnoreExistingPodsMetadata:          "workloadspread.kruise.io/ignore-patch-existing-pods-metadata",
		apps.SubsetVersionIgnored:                          "versionIgnored",
		apps.SubsetPodUnschedulable:                        "PodUnschedulable",
		apps.SubsetSufficient:                              "Sufficient",
		apps.ConfigurationSpreadTargets:                    "WorkloadSpread_Watch_Custom_Workload_WhiteList",
		apps.LabelPodTemplateHash:                          "pod-template-hash",
		apps.LabelInstanceID:                               "apps.kruise.io/cloneset-instance-id",
		apps.LabelPodName:                                  "statefulset.kubernetes.io/pod-name",
		apps.LabelPodIndex:                                 "apps.kubernetes.io/pod-index",
		apps.LabelSpecifiedDelete:                          "apps.kruise.io/specified-delete",
		apps.LabelLifecycleState:                           "lifecycle.apps.kruise.io/state",
		apps.AnnotationLifecycleTimestamp:                  "lifecycle.apps.kruise.io/timestamp",
		apps.AnnotationInPlaceUpdateState:                  "apps.kruise.io/inplace-update-state",
		apps.AnnotationInPlaceUpdateGrace:                  "apps.kruise.io/inplace-update-grace",
		apps.AnnotationInPlaceUpdateStateLegacy:            "inplace-update-state",
		apps.AnnotationInPlaceUpdateGraceLegacy:            "inplace-update-grace",
		apps.AnnotationRuntimeContainersMeta:               "apps.kruise.io/runtime-containers-meta",
		apps.AnnotationPodDeletionCost:                     "controller.kubernetes.io/pod-deletion-cost",
		apps.LabelRevisionHash:                             "controller.kubernetes.io/hash",
		apps.LabelPreDownloadCreated:                       "apps.kruise.io/pre-predownload-created",
		apps.LabelPreDownloadIgnored:                       "apps.kruise.io/image-predownload-ignored",
		apps.AnnotationClaimTemplateHash:                   "kruise.io/cloneset-volumeclaimtemplate-hash",
		apps.AnnotationImagePreDownloadParallelism:         "apps.kruise.io/image-predownload-parallelism",
		apps.AnnotationImagePreDownloadTimeoutSeconds:      "apps.kruise.io/image-predownload-timeout-seconds",
		apps.AnnotationImagePreDownloadMinUpdatedReadyPods: "apps.kruise.io/image-predownload-min-updated-ready-pods",
		apps.LabelExcludePreparingDelete:                   "apps.kruise.io/cloneset-scaling-exclude-preparing-delete",
		apps.LabelDeleteProtection:                         "policy.kruise.io/delete-protection",
		apps.LabelUnavailablePrefix:                        "unavailable-pod.kruise.io/",
		apps.ConditionFailedCreatePod:                      "FailedCreatePod",
		apps.ConditionFailedUpdatePod:                      "FailedUpdatePod",
		apps.ConditionInPlaceUpdateReady:                   "InPlaceUpdateReady",
		apps.ConditionKruisePodReady:                       "KruisePodReady",
		apps.EnvContainerPriority:                          "KRUISE_CONTAINER_PRIORITY",
		apps.EnvContainerBarrier:                           "KRUISE_CONTAINER_BARRIER",
		apps.ContainerBarrierKeyPrefix:                     "p_",
		apps.ContainerBarrierNameSuffix:                    "-barrier",
		apps.AnnotationLaunchPriority:                      "apps.kruise.io/container-launch-priority",
		apps.LaunchPriorityOrdered:                         "Ordered",
		apps.AnnotationLaunchPriorityCompleted:             "apps.kruise.io/container-launch-priority-completed",
	}
	for got, want := range want {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
