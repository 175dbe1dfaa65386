package sidecarset_test

import (
	"encoding/json"
	"testing"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
)

// TestHashes compares the hashes with hashes written by OpenKruise 1.9.
func TestHashes(t *testing.T) {
	for _, tc := range []struct {
		name, containers, init, hash, withoutImages string
	}{
		{
			name: "SC-72 undefaulted", containers: `[{"name":"container1","image":"test-image","resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}]`,
			hash: "w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78",
		},
		{
			name: "SC-72 defaulted",
			containers: `[{"name":"mesh","image":"mesh:1","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",` +
				`"imagePullPolicy":"IfNotPresent","podInjectPolicy":"BeforeAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"disabled"}}]`,
			hash: "8ffw2869z6b447w2w689v7c4zwx4bw894x6c87cwcw9c8bbz72b58fc4464fwx9b", withoutImages: "d99czw954wfcz9wbd9cw69vd5v7d52xz6c2v8xfbxvbvb657xbwxzbcc2xzvc49b",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var containers []pub.SidecarContainer
			if err := json.Unmarshal([]byte(tc.containers), &containers); err != nil {
				t.Fatal(err)
			}
			hash, withoutImages, err := sidecarset.Hashes(containers, nil)
			if err != nil || hash != tc.hash || tc.withoutImages != "" && withoutImages != tc.withoutImages {
				t.Errorf("hashes %s %s (%v), want %s %s", hash, withoutImages, err, tc.hash, tc.withoutImages)
			}
		})
	}
}
