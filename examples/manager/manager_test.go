package manager_test

import (
	"strings"
	"testing"

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
		{name: "one", in: "CloneSetShortHash=true", want: with(map[apps.Gate]bool{apps.GateCloneSetShortHash: true})},
		{
			name: "blanks and an empty item", in: " CloneSetShortHash=true, ,CloneSetPartitionRollback=true",
			want: with(map[apps.Gate]bool{apps.GateCloneSetShortHash: true, apps.GateCloneSetPartitionRollback: true}),
		},
		{
			name: "no daemon, no env from metadata", in: "KruiseDaemon=false",
			want: with(map[apps.Gate]bool{apps.GateKruiseDaemon: false, apps.GateInPlaceUpdateEnvFromMetadata: false}),
		},
		{name: "unknown", in: "CloneSetShortHahs=true", fails: `unknown feature gate "CloneSetShortHahs"`},
		{name: "no value", in: "CloneSetShortHash", fails: "neither true nor false"},
		{name: "other value", in: "CloneSetShortHash=yes", fails: `"yes"`},
		{name: "not built yet", in: "PreDownloadImageForInPlaceUpdate=true", fails: "not built yet"},
		{name: "not built yet, and off", in: "PreDownloadImageForInPlaceUpdate=false", want: with(nil)},
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
