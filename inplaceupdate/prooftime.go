package inplaceupdate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/podpatch"
)

// patience is the time granted to a kubelet, beyond a termination, to end a container with a wrong image.
const patience = 10 * time.Second

// proofTime is the time for a kubelet to end all containers due for a restart, in sequence.
func (v *view) proofTime() time.Duration {
	grace := time.Duration(ptr.Deref(v.pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
	return (grace + patience) * time.Duration(max(1, len(v.state.LastContainerStatuses)))
}

// provenByTime reports whether the reported instance must run the asked image, whatever the reported name: the kubelet
// has seen the spec and has left the instance running for longer than the proof time.
func (c *container) provenByTime() bool {
	proven, _, _ := c.timeToProof()
	return proven
}

// timeToProof also returns the remaining proof time, zero if time proves nothing. begins is set if the proof time must
// begin now: a kubelet reports the seen spec before ending anything, so only sightings noted in the state count.
func (c *container) timeToProof() (proven, begins bool, left time.Duration) {
	if !c.onlyTimeTells() {
		return false, false, 0
	}
	seen := c.view.state.Seen[c.name]
	if seen.ContainerID != c.status.ContainerID {
		return false, true, c.view.proofTime()
	}
	left = seen.At.Add(c.view.proofTime()).Sub(c.view.now)
	return left <= 0, false, max(left, 0)
}

// onlyTimeTells reports whether nothing disproves the spec's image for the reported instance: the instance runs, the
// kubelet has seen the spec, and neither the instance nor its digest is known to belong to another image.
func (c *container) onlyTimeTells() bool {
	if c.spec == nil || c.status == nil || c.status.State.Running == nil || c.status.ContainerID == "" || !c.view.nodeIsCurrent() {
		return false
	}
	digest := c.knownDigest(c.spec.Image)
	return c.instance() == nil && (digest == "" || digest == digestOf(c.status.ImageID))
}

// beginProof notes two facts in the state: since when the kubelet has left an instance running if only time can tell
// its image, and the started images that may be superseded images.
func (v *view) beginProof() (podpatch.Change, error) {
	saved, err := v.whole()
	if err != nil {
		return podpatch.Change{}, err
	}
	for i := range v.containers {
		c := &v.containers[i]
		if _, recorded := c.record(); !recorded || c.runs() {
			continue
		}
		if _, begins, _ := c.timeToProof(); begins {
			put(&saved.Seen, c.name, sighting{ContainerID: c.status.ContainerID, At: metav1.NewTime(v.now)})
		}
		if seen, ok := c.passing(); ok {
			put(&saved.SeenDigests, c.name, append(slices.Clone(saved.SeenDigests[c.name]), seen))
		}
	}
	change := v.change(true)
	return change, v.putState(&change, saved)
}
