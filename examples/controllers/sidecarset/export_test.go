package sidecarset

import (
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// Compile is compile without revisions.
func Compile(set *v1beta1.SidecarSet, revision string) (*sidecarcontrol.Set, error) {
	return compile(set, revision, nil)
}
