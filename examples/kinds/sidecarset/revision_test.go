package sidecarset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// revisions returns the images of a SidecarSet's revisions, the oldest first, each with the user's version name.
func (c *cluster) revisions(ctx context.Context, set *v1beta1.SidecarSet) ([]string, error) {
	var list appsv1.ControllerRevisionList
	if err := c.List(ctx, &list, client.InNamespace(c.namespace), client.MatchingLabels{apps.LabelSidecarSetName: set.Name}); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	var out []string
	for i := range list.Items {
		_, rest, _ := strings.Cut(string(list.Items[i].Data.Raw), `"image":"`)
		image, _, _ := strings.Cut(rest, `"`)
		out = append(out, strings.TrimSpace(image+" "+list.Items[i].Labels[apps.LabelSidecarSetCustomVersion]))
	}
	return out, nil
}

func (c *cluster) untilRevisions(set *v1beta1.SidecarSet, want ...string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		got, err := c.revisions(ctx, set)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("revisions (-want +got):\n%s", cmp.Diff(want, got))
		}
		return err
	})
}

// TestCustomVersion: the revision has the user's version name as a label. The label stays when the name is removed
// from the spec.
func TestCustomVersion(t *testing.T) {
	c := start(t)
	set := c.create(c.set("mesh", container("mesh", "mesh:v1"), func(s *v1beta1.SidecarSetSpec) { s.CustomVersion = "one" }))
	c.untilRevisions(set, "mesh:v1 one")
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.CustomVersion = "uno" })
	c.untilRevisions(set, "mesh:v1 uno")
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.CustomVersion = "" })
	c.change(set, func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Image = "mesh:v2" })
	c.untilRevisions(set, "mesh:v1 uno", "mesh:v2")
}

// TestHistoryLimit: the oldest revisions are deleted, except revisions of existing Pods and the pinned revision.
func TestHistoryLimit(t *testing.T) {
	c := start(t)
	set := c.create(c.set("mesh", container("mesh", "mesh:v1"), func(s *v1beta1.SidecarSetSpec) {
		s.RevisionHistoryLimit, s.UpdateStrategy.Type = new(int32(2)), "NotUpdate"
	}))
	c.pods(1, set) // stays at v1
	for i := 2; i <= 5; i++ {
		c.change(set, func(s *v1beta1.SidecarSetSpec) {
			s.Containers[0].Image = fmt.Sprintf("mesh:v%d", i)
			s.CustomVersion = fmt.Sprintf("version-%d", i)
		})
		c.until(set, func(s *v1beta1.SidecarSetStatus) bool { return s.LatestRevision != "" })
	}
	c.untilRevisions(set, "mesh:v1", "mesh:v5 version-5")
}
