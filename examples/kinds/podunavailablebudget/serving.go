package podunavailablebudget

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// Serving determines which Pods are in service. Serving is safe for concurrent use. Make a Serving with NewServing.
type Serving struct {
	inPlace  *inplaceupdate.Updater
	sidecars *sidecarcontrol.Control
}

// NewServing returns a Serving for the feature gates; nil means the default gates.
func NewServing(gates map[apps.Gate]bool) (*Serving, error) {
	if gates == nil {
		gates = apps.DefaultGates()
	}
	updater, err := kruise.InPlace(gates, nil)
	if err != nil {
		return nil, err
	}
	control, err := kruise.SidecarControl(gates)
	return &Serving{inPlace: updater, sidecars: control}, err
}

// Serves reports whether a Pod is in service: the Pod runs and is ready, no label marks the Pod as unavailable, and
// the containers run what the spec says. If all images in the spec are named by digest and the Node reports digests,
// the digests are compared. Otherwise a Pod is in service only if no in-place update is in progress. If again is
// above zero, the result may change after this time without an event.
func (s *Serving) Serves(pod *corev1.Pod, now time.Time) (serves bool, again time.Duration) {
	if !podstate.IsActive(pod) || pod.Status.Phase != corev1.PodRunning || !podstate.IsReady(pod) || isLabelled(pod) {
		return false, 0
	}
	right, all, _ := digests(pod)
	if !right || all {
		return right, 0
	}
	if len(s.sidecars.Unfinished(pod, now)) > 0 {
		return false, lookAgain
	}
	if pod.Annotations[apps.AnnotationInPlaceUpdateState] == "" && pod.Annotations[apps.AnnotationInPlaceUpdateStateLegacy] == "" {
		return !s.inPlace.InGracePeriod(pod), 0
	}
	step, err := s.inPlace.Next(pod, now)
	if err != nil {
		return true, 0 // nothing shows an update in progress, so the Ready condition is enough
	}
	if !step.Complete || s.inPlace.InGracePeriod(pod) {
		return false, max(step.RequeueAfter, lookAgain)
	}
	return true, 0
}

// lookAgain is the wait before a Pod that is being updated is checked again, because some updates complete without an
// event.
const lookAgain = 5 * time.Second

// isLabelled reports whether a label marks the Pod as unavailable.
func isLabelled(pod *corev1.Pod) bool {
	for key := range pod.Labels {
		if strings.HasPrefix(key, apps.LabelUnavailablePrefix) {
			return true
		}
	}
	return false
}

// isDoubtful reports whether a container may be about to stop: the digest of the running image differs from the
// digest in the spec, although the kubelet has observed the change of the spec (status.observedGeneration). The
// digests also differ, without a change, if the Node reports the digest of the image's index.
func isDoubtful(pod *corev1.Pod) bool {
	_, _, doubtful := digests(pod)
	return doubtful && pod.Generation != 1 && pod.Annotations[apps.AnnotationInPlaceUpdateState] == "" && pod.Annotations[apps.AnnotationInPlaceUpdateStateLegacy] == ""
}

// digests compares the digests of the running images with the digests in the spec: right is false if a container surely
// does not run the digest in the spec, and all is true if each container has a digest in the spec and runs this digest.
// A Node may report a manifest by the digest of its index, or an index by the digest of a manifest. doubtful is true if
// the kubelet has observed the newest spec, but reports a digest that differs from the spec.
func digests(pod *corev1.Pod) (right, all, doubtful bool) {
	all = len(pod.Spec.Containers) > 0
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		_, want, ok := strings.Cut(container.Image, "@")
		if !ok {
			all = false
			continue
		}
		status := podstate.ContainerStatus(pod, container.Name)
		switch {
		case status == nil:
			return false, all, false
		case strings.HasSuffix(status.ImageID, want):
		case pod.Status.ObservedGeneration == 0 || pod.Status.ObservedGeneration < pod.Generation:
			return false, all, false
		default:
			all, doubtful = false, true
		}
	}
	return true, all, doubtful
}

// servingAnnotations returns the annotations that Serves reads; caches need not keep other annotations.
func servingAnnotations() []string {
	return []string{
		apps.AnnotationInPlaceUpdateState, apps.AnnotationInPlaceUpdateGrace, apps.AnnotationInPlaceUpdateStateLegacy, apps.AnnotationInPlaceUpdateGraceLegacy,
		apps.AnnotationRuntimeContainersMeta, apps.AnnotationSidecarSetInjected, apps.AnnotationSidecarSetInPlaceState,
		apps.AnnotationSidecarSetHash, apps.AnnotationSidecarSetHashWithoutImage,
	}
}

// marked reports whether an update adds a label that marks the Pod as unavailable.
func marked(before, after *corev1.Pod) bool {
	for key := range after.Labels {
		if _, was := before.Labels[key]; !was && strings.HasPrefix(key, apps.LabelUnavailablePrefix) {
			return true
		}
	}
	return false
}
