package cloneset

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// These are suffixes of image names with special properties. For the tag v2, Nodes report the tag a-v2 or its digest.
// For indexed, Nodes report byIndex, the digest of the image index. For index, Nodes report ofIndex, the digest of a
// manifest in the image index.
const (
	sharedDigest = "sha256:2222"
	indexed      = "@sha256:d001" // by index
	index        = "@sha256:d002" // by ofIndex
	byIndex      = "@sha256:c001"
	ofIndex      = "@sha256:b002"
	otherTag     = ":a-v2"
	brokenTag    = ":broken"
	brokenDigest = "@sha256:bad0"
	sickTag      = ":sick"
)

// goodImages returns the images with which a container becomes ready.
func goodImages(container string) []string {
	name := "example.test/" + container
	return []string{
		name + ":v1", name + ":v2", name + ":v3", name + ":v4", name + otherTag,
		name + indexed, name + index, name + byIndex, name + "@" + sharedDigest,
	}
}

// publishImages adds all images to the simulated registry.
func (w *story) publishImages() {
	for _, container := range []string{"app", "log"} {
		name, images := "example.test/"+container, w.Nodes.Images
		images.Publish(name+":v2", sharedDigest)
		images.Publish(name+otherTag, sharedDigest)
		images.PublishIndex(strings.TrimPrefix(byIndex, "@"), strings.TrimPrefix(indexed, "@"))
		images.PublishIndex(strings.TrimPrefix(index, "@"), strings.TrimPrefix(ofIndex, "@"))
		if w.setup.images {
			images.Pull(name + otherTag)
			images.Pull(name + byIndex)
			images.Pull(name + ofIndex)
		}
		images.SetBroken(name+brokenTag, true)
		images.SetBroken(name+brokenDigest, true)
		images.SetSick(name+sickTag, true)
	}
}

// image returns a random image for a user's edit.
func (w *story) image(container string) string {
	r, name := w.Rand(), "example.test/"+container
	n := r.IntN(100)
	switch {
	case !w.setup.images:
		return fmt.Sprintf("%s:v%d", name, 1+n%4)
	case n < 70 || !w.setup.badImages:
		return w.goodImage(container)
	default:
		bad := []string{brokenTag, brokenDigest, sickTag}
		return name + bad[n%len(bad)]
	}
}

func (w *story) goodImage(container string) string {
	good := goodImages(container)
	if w.Chance(30) { // names of the same image, or digests that Nodes report as other digests
		good = [][]string{{good[1], good[4], good[8]}, {good[5], good[7]}, {good[5], good[6]}}[w.Rand().IntN(3)]
	}
	return good[w.Rand().IntN(len(good))]
}

// isBad reports whether a container never becomes ready with its image.
func isBad(c *corev1.Container) bool {
	return !slices.Contains(goodImages(c.Name), c.Image)
}

// mendImages replaces the bad images in a template. In a schedule with bad images, the partition is removed, so that
// no Pod stays at a revision with a bad image.
func (w *story) mendImages(cs *v1beta1.CloneSet) {
	for i := range cs.Spec.Template.Spec.Containers {
		if c := &cs.Spec.Template.Spec.Containers[i]; isBad(c) {
			c.Image = w.goodImage(c.Name)
		}
	}
	if w.setup.badImages {
		cs.Spec.UpdateStrategy.RollingUpdate.Partition = nil
	}
}

// checkImages checks the final state: the containers run the images in their specs.
func (w *story) checkImages() {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if !podstate.IsScheduled(pod) {
			continue // a user's Pod may lack a claim; the Pods of a CloneSet must be available
		}
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			runs := w.Nodes.Image(pod.UID, c.Name)
			if runs != c.Image && !strings.HasSuffix(c.Image, brokenTag) && !strings.HasSuffix(c.Image, brokenDigest) && pod.Status.Phase != corev1.PodFailed {
				w.Failf("story", "container %s of Pod %s runs %q at rest, not %s", c.Name, pod.Name, runs, c.Image)
			}
		}
	}
}
