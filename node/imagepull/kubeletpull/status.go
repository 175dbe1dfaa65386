package kubeletpull

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/reason"
)

// standing is the progress of a Pod.
type standing struct {
	// held means that the image was pulled and mounted.
	held bool
	// err is the reason why the Pod has failed; nil if the Pod has not failed.
	err error
	// awaits explains why the image is not mounted yet.
	awaits string
}

// look reads the status of a Pod. A Pod counts as failed if a webhook has changed the Pod so that the Pod cannot pull
// the image.
func (p *Puller) look(pod *corev1.Pod) standing {
	if err := p.changed(pod); err != nil {
		return standing{err: err}
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return standing{err: reason.Reason{Code: PodFailed, Detail: joined(cmp.Or(pod.Status.Reason, "the Pod has ended"), pod.Status.Message)}}
	}
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == holder {
			return lookAt(pod, c)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return standing{awaits: joined(c.Reason, c.Message)}
		}
	}
	return standing{}
}

// lookAt reads the status of the pause container. A container that has ended must have started before, so the image
// was mounted.
func lookAt(pod *corev1.Pod, c *corev1.ContainerStatus) standing {
	// The kubelet invents a last state without a start for a container that is lost, for example with the disk of the Node.
	last := c.LastTerminationState.Terminated
	if c.State.Running != nil || c.State.Terminated != nil || last != nil && !last.StartedAt.IsZero() {
		return standing{held: true}
	}
	waiting := c.State.Waiting
	if waiting == nil {
		return standing{}
	}
	detail := joined(waiting.Reason, waiting.Message)
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "InvalidImageName",
		"RegistryUnavailable", "SignatureValidationFailed":
		if isPauseImage(pod, waiting.Message) {
			return standing{err: reason.Reason{Code: PauseImageFailed, Detail: "the pause image: " + detail, Remedy: "use a pause image that the Node can pull"}}
		}
		return standing{err: reason.Reason{Code: imagepull.PullFailed, Detail: detail}}
	case "CreateContainerConfigError", "CreateContainerError", "PreCreateHookError", "PreStartHookError", "RunContainerError":
		return standing{err: reason.Reason{Code: PodFailed, Detail: detail}}
	}
	if waiting.Message == "" {
		return standing{} // ContainerCreating alone explains nothing
	}
	return standing{awaits: detail}
}

// isPauseImage reports whether a message is about the pause image and not about the image volume. The kubelet reports
// failures of both images in the status of the same container, with the same reasons.
func isPauseImage(pod *corev1.Pod, message string) bool {
	image, _ := imageOf(pod)
	return len(pod.Spec.Containers) > 0 && mentions(message, pod.Spec.Containers[0].Image) && !mentions(message, image.Normal())
}

// mentions reports whether a message contains the name of an image, in any form of the name.
func mentions(message, name string) bool {
	image, err := imagepull.Parse(name)
	return err == nil && (strings.Contains(message, name) || strings.Contains(message, image.Normal()) || strings.Contains(message, image.String()))
}

func joined(code, message string) string {
	if message == "" {
		return code
	}
	return code + ": " + message
}

// idOf returns the digest of the mounted image; empty if the kubelet does not report the digest (KEP-5365).
func idOf(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		for _, m := range c.VolumeMounts {
			if m.Name == volume && m.VolumeStatus != nil && m.VolumeStatus.Image != nil {
				return m.VolumeStatus.Image.ImageRef
			}
		}
	}
	return ""
}

// bytesOf returns the size of an image from the Node's status; 0 if unknown. A Node's status lists only some of its
// images.
func bytesOf(node *corev1.Node, image imagepull.Reference) uint64 {
	for _, stored := range node.Status.Images {
		for _, name := range stored.Names {
			if parsed, err := imagepull.Parse(name); err == nil && parsed == image {
				return uint64(max(stored.SizeBytes, 0))
			}
		}
	}
	return 0
}

// warning returns the newest warning about a Pod; empty if there is none.
func warning(events []corev1.Event, pod *corev1.Pod) (out string) {
	var newest time.Time
	for i := range events {
		e := &events[i]
		at := e.LastTimestamp.Time
		if e.EventTime.After(at) {
			at = e.EventTime.Time
		}
		if e.InvolvedObject.UID == pod.UID && pod.UID != "" && e.Type == corev1.EventTypeWarning && (out == "" || at.After(newest)) {
			newest, out = at, joined(e.Reason, e.Message)
		}
	}
	return out
}
