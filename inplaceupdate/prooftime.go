package inplaceupdate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/podpatch"
)

// patience is how much longer than a termination may take a kubelet is given to end a container that it has to restart.
const patience = 10 * time.Second

// proofTime is how long a kubelet may take to end all containers that have to be restarted, one after the other.
func (v *view) proofTime() time.Duration {
	grace := time.Duration(ptr.Deref(v.pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
	return (grace + patience) * time.Duration(max(1, len(v.state.LastContainerStatuses)))
}

// provenByTime reports whether the instance that is reported must be one of the asked image, whatever it is called: its
// kubelet, which has seen the spec, has left it running for longer than the proof time.
func (c *container) provenByTime() bool {
	proven, _, _ := c.timeToProof()
	return proven
}

// timeToProof says in addition how much of the proof time is left, zero if time proves nothing. begins is set if the proof time
// has to begin now: a kubelet reports that it has seen a spec before it ends anything, so only what is noted in the state counts.
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

// onlyTimeTells reports whether nothing disproves that the instance that is reported runs the image of the spec: it runs, its
// kubelet has seen the spec, and neither the instance nor its digest is known to be of another image.
func (c *container) onlyTimeTells() bool {
	if c.spec == nil || c.status == nil || c.status.State.Running == nil || c.status.ContainerID == "" || !c.view.nodeIsCurrent() {
		return false
	}
	digest := c.knownDigest(c.spec.Image)
	return c.instance() == nil && (digest == "" || digest == digestOf(c.status.ImageID))
}

// beginProof writes down since when the kubelet has left those instances running of which only time can tell, and which images it
// has started that may be superseded ones.
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
