package manager_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/manager"
)

func TestParseGates(t *testing.T) {
	with := func(changes map[apps.Gate]bool) map[apps.Gate]bool { return apps.ResolveGates(changes) }
	for _, tc := range []struct {
		name, in string
		want     map[apps.Gate]bool
		fails    string
	}{
		{name: "nothing gives the defaults", in: "", want: with(nil)},
		{name: "FG-3 pulls before rollouts are jobs", in: "PreDownloadImageForInPlaceUpdate=true", want: with(map[apps.Gate]bool{
			apps.GatePreDownloadImageForInPlaceUpdate: true, apps.GateImagePullJob: true,
		})},
		{name: "one", in: "CloneSetShortHash=true", want: with(map[apps.Gate]bool{apps.GateCloneSetShortHash: true})},
		{
			name: "blanks and an empty item", in: " CloneSetShortHash=true, ,CloneSetPartitionRollback=true",
			want: with(map[apps.Gate]bool{apps.GateCloneSetShortHash: true, apps.GateCloneSetPartitionRollback: true}),
		},
		{
			name: "no daemon, no env from metadata", in: "KruiseDaemon=false",
			want: with(map[apps.Gate]bool{apps.GateKruiseDaemon: false, apps.GateInPlaceUpdateEnvFromMetadata: false}),
		},
		{name: "FG-6 all of a stage that are built, but no mode", in: "AllAlpha=true", want: with(map[apps.Gate]bool{
			apps.GateCloneSetShortHash: true, apps.GateCloneSetPartitionRollback: true, apps.GatePreparingUpdateAsUpdate: true,
			apps.GateRecreatePodWhenChangeVCT: true, apps.GateInPlaceWorkloadVerticalScaling: true, apps.GateForceDeleteTimeoutExpectation: true,
			apps.GateTemplateNoDefaults: true, apps.GateDefaultHostNetworkHostPorts: true,
			apps.GateStatefulSetStartOrdinal: true, apps.GateStatefulSetAutoResizePVC: true, apps.GateDaemonSetPruneIneligibleNodes: true,
			apps.GateKruisePodReadiness: true, apps.GateSidecarTerminator: true, apps.GateSidecarSetPatchPodMetadataDefaults: true,
			apps.GateSortSidecarContainerByName: true, apps.GateInPlacePodVerticalScaling: true, apps.GatePodUnavailableBudgetUpdate: true, apps.GateEnhancedLivenessProbe: true,
			apps.GateImagePullJob: true, apps.GatePreDownloadImageForInPlaceUpdate: true, apps.GatePreDownloadImageForDaemonSetUpdate: true,
		})},
		{name: "those of StatefulSets", in: "StatefulSetStartOrdinal=true,StatefulSetAutoResizePVCGate=true,StatefulSetAutoDeletePVC=false", want: with(map[apps.Gate]bool{
			apps.GateStatefulSetStartOrdinal: true, apps.GateStatefulSetAutoResizePVC: true, apps.GateStatefulSetAutoDeletePVC: false,
		})},
		{name: "a mode by its own name", in: "EnableExternalCerts=true,AllAlpha=false", want: with(map[apps.Gate]bool{apps.GateExternalCerts: true})},
		{name: "FG-6 none of a stage but one", in: "PodIndexLabel=true,AllBeta=false", want: betaOff(apps.GatePodIndexLabel)},
		{name: "FG-6 a gate's own value wins", in: "CloneSetShortHash=false,AllAlpha=true,EnableExternalCerts=false,TemplateNoDefaults=false", want: with(map[apps.Gate]bool{
			apps.GateCloneSetPartitionRollback: true, apps.GatePreparingUpdateAsUpdate: true, apps.GateDefaultHostNetworkHostPorts: true,
			apps.GateRecreatePodWhenChangeVCT: true, apps.GateInPlaceWorkloadVerticalScaling: true, apps.GateForceDeleteTimeoutExpectation: true,
			apps.GateStatefulSetStartOrdinal: true, apps.GateStatefulSetAutoResizePVC: true, apps.GateDaemonSetPruneIneligibleNodes: true,
			apps.GateKruisePodReadiness: true, apps.GateSidecarTerminator: true, apps.GateSidecarSetPatchPodMetadataDefaults: true,
			apps.GateSortSidecarContainerByName: true, apps.GateInPlacePodVerticalScaling: true, apps.GatePodUnavailableBudgetUpdate: true,
			apps.GateEnhancedLivenessProbe: true, apps.GateImagePullJob: true,
			apps.GatePreDownloadImageForInPlaceUpdate: true, apps.GatePreDownloadImageForDaemonSetUpdate: true,
		})},
		{name: "EL-60 as set for OpenKruise", in: "EnhancedLivenessProbe=true", want: with(map[apps.Gate]bool{apps.GateEnhancedLivenessProbe: true})},
		{name: "unknown", in: "CloneSetShortHahs=true", fails: `unknown feature gate "CloneSetShortHahs"`},
		{name: "no value", in: "CloneSetShortHash", fails: "neither true nor false"},
		{name: "other value", in: "CloneSetShortHash=yes", fails: `"yes"`},
		{name: "not built yet", in: "CloneSetEventHandlerOptimization=true", fails: "not built yet"},
		{name: "not built yet, and off", in: "CloneSetEventHandlerOptimization=false", want: with(nil)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := manager.ParseGates(tc.in)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("error %v, want one with %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("gates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGateGaps(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     map[apps.Gate]string // a text that the gap contains
	}{
		{"defaults", "", nil},
		{"the daemon by name", "KruiseDaemon=true", nil},
		{"no daemon", "KruiseDaemon=false", nil},
		{"protection", "KruiseDaemon=false,ResourcesDeletionProtection=true", nil},
		{"a stage", "KruiseDaemon=false,AllBeta=true", nil},
		{"EL-60 probes", "KruiseDaemon=false,PodProbeMarkerGate=true,EnhancedLivenessProbe=true", nil},
		{"whole", "KruiseDaemon=false,CloneSetShortHash=true", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := manager.GateGaps(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(tc.want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Fatalf("gates (-want +got):\n%s", diff)
			}
			for gate, text := range tc.want {
				if !strings.Contains(got[gate], text) {
					t.Errorf("%s: %q does not name %q", gate, got[gate], text)
				}
			}
		})
	}
	if _, err := manager.GateGaps("NoSuchGate=true"); err == nil {
		t.Error("accepted an unknown gate")
	}
}

// betaOff returns the gates with all gates of stage beta off, except the given gates.
func betaOff(but ...apps.Gate) map[apps.Gate]bool {
	set := map[apps.Gate]bool{}
	for gate, spec := range apps.GateSpecs() {
		if spec.Stage == apps.Beta && !slices.Contains(but, gate) {
			set[gate] = false
		}
	}
	return apps.ResolveGates(set)
}

func TestWebhooksFromEnv(t *testing.T) {
	const day = 24 * time.Hour
	defaults := manager.Webhooks{
		Namespace: "kruise-system", SecretName: "kruise-webhook-certs", ServiceName: "kruise-webhook-service", Port: 9876, RenewBefore: 180 * day,
	}
	with := func(change func(*manager.Webhooks)) manager.Webhooks {
		w := defaults
		change(&w)
		return w
	}
	for _, tc := range []struct {
		name  string
		env   map[string]string
		want  manager.Webhooks
		fails []string // texts that the error contains
	}{
		{"WC-1 nothing set", nil, defaults, nil},
		{"WC-1 everything set", map[string]string{
			"POD_NAMESPACE": "ns", "SECRET_NAME": "s", "SERVICE_NAME": "svc", "WEBHOOK_HOST": "localhost", "WEBHOOK_PORT": "19443",
			"WEBHOOK_CERT_DIR": "certs", "WEBHOOK_CERT_WRITER": "secret", "CERTS_RENEW_BEFORE": "6m",
		}, manager.Webhooks{
			Namespace: "ns", SecretName: "s", ServiceName: "svc", Host: "localhost", Port: 19443, CertDir: "certs", RenewBefore: 180 * day,
		}, nil},
		{"years", map[string]string{"CERTS_RENEW_BEFORE": "2y"}, with(func(w *manager.Webhooks) { w.RenewBefore = 730 * day }), nil},
		{"days", map[string]string{"CERTS_RENEW_BEFORE": "1d"}, with(func(w *manager.Webhooks) { w.RenewBefore = day }), nil},
		{"no unit", map[string]string{"CERTS_RENEW_BEFORE": "30"}, manager.Webhooks{}, []string{"CERTS_RENEW_BEFORE", `"30"`}},
		{"negative age", map[string]string{"CERTS_RENEW_BEFORE": "-1d"}, manager.Webhooks{}, []string{"CERTS_RENEW_BEFORE", `"-1d"`}},
		{"huge age", map[string]string{"CERTS_RENEW_BEFORE": "99999999999999999999y"}, manager.Webhooks{}, []string{"CERTS_RENEW_BEFORE"}},
		{"port in words", map[string]string{"WEBHOOK_PORT": "https"}, manager.Webhooks{}, []string{"WEBHOOK_PORT", `"https"`}},
		{"port out of range", map[string]string{"WEBHOOK_PORT": "65536"}, manager.Webhooks{}, []string{"WEBHOOK_PORT", `"65536"`}},
		{"an IP address", map[string]string{"WEBHOOK_HOST": "::1"}, with(func(w *manager.Webhooks) { w.Host = "::1" }), nil},
		{"host in upper case", map[string]string{"WEBHOOK_HOST": "LocalHost"}, manager.Webhooks{}, []string{"WEBHOOK_HOST", `"LocalHost"`, "lower-case DNS name"}},
		{"host with a port", map[string]string{"WEBHOOK_HOST": "localhost:8443"}, manager.Webhooks{}, []string{"WEBHOOK_HOST", `"localhost:8443"`, "no port"}},
		{"host with a wildcard", map[string]string{"WEBHOOK_HOST": "*"}, manager.Webhooks{}, []string{"WEBHOOK_HOST", `"*"`}},
		{"namespace in capitals", map[string]string{"POD_NAMESPACE": "Bad_NS"}, manager.Webhooks{}, []string{"POD_NAMESPACE", `"Bad_NS"`}},
		{"Secret of another namespace", map[string]string{"SECRET_NAME": "a/b"}, manager.Webhooks{}, []string{"SECRET_NAME", `"a/b"`}},
		{"Service with a dot", map[string]string{"SERVICE_NAME": "a.b"}, manager.Webhooks{}, []string{"SERVICE_NAME", `"a.b"`}},
		{"host with a scheme", map[string]string{"WEBHOOK_HOST": "https://a.test"}, manager.Webhooks{}, []string{"WEBHOOK_HOST", `"https://a.test"`}},
		{"certificates in files alone", map[string]string{"WEBHOOK_CERT_WRITER": "fs"}, manager.Webhooks{}, []string{"WEBHOOK_CERT_WRITER", `"fs"`, "WEBHOOK_CERT_DIR"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := manager.WebhooksFromEnv(func(name string) string { return tc.env[name] })
			if tc.fails != nil {
				for _, text := range tc.fails {
					if err == nil || !strings.Contains(err.Error(), text) {
						t.Errorf("error %v, want it to name %s", err, text)
					}
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("WebhooksFromEnv: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
