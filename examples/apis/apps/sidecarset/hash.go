package sidecarset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/podstate"
)

// Hashes returns two hashes of the sidecars of a SidecarSet, with and without images. Volumes, strategies and ordinary
// init containers are not hashed, because such changes do not make Pods outdated. If there is a native sidecar, all
// init containers are hashed. An error is returned if the containers cannot be encoded.
func Hashes(containers, initContainers []pub.SidecarContainer) (hash, withoutImages string, err error) {
	if !slices.ContainsFunc(initContainers, func(c pub.SidecarContainer) bool { return podstate.IsNativeSidecar(&c.Container) }) {
		initContainers = nil
	}
	if hash, err = hashOf(containers, initContainers); err != nil {
		return "", "", err
	}
	withoutImages, err = hashOf(blank(containers), blank(initContainers))
	return hash, withoutImages, err
}

func hashOf(containers, initContainers []pub.SidecarContainer) (string, error) {
	raw, err := json.Marshal(struct {
		Containers     []pub.SidecarContainer `json:"containers"`
		InitContainers []pub.SidecarContainer `json:"initContainers,omitempty"`
	}{containers, initContainers})
	if err != nil {
		return "", fmt.Errorf("hashing sidecars: %w", err)
	}
	sum := sha256.Sum256(raw)
	return rand.SafeEncodeString(hex.EncodeToString(sum[:])), nil
}

func blank(list []pub.SidecarContainer) []pub.SidecarContainer {
	out := slices.Clone(list)
	for i := range out {
		out[i].Image = ""
	}
	return out
}
