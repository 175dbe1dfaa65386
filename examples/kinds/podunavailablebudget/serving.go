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

// Serving decides which Pods are in service. Serving is safe for concurrent use. Make a Serving with NewServing.
type Serving struct {
	inPlace  *inplaceupdate.Updater
	sidecars *sidecarcontrol.Control
}

// NewServing returns a Serving for the feature gates; if nil, for the default gates.
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

// Serves reports whether a Pod is in service: the Pod runs and is ready, no label marks the Pod as unavailable, and the
// containers run what the spec says. If all images are named by digest and the Node reports the digests, the digests
// are compared. Otherwise no in-place update may be in progress. If again is positive, the answer may change after this
// time without an event.
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
		return true, 0 // nothing shows an update, so the Pod's own Ready condition counts
	}
	if !step.Complete || s.inPlace.InGracePeriod(pod) {
		return false, max(step.RequeueAfter, lookAgain)
	}
	return true, 0
}

// lookAgain is the wait before the next check of a Pod that is being updated, because some updates complete without an
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

// isDoubtful reports whether a container still runs an image whose digest differs from the digest in the spec, although
// the kubelet has observed the change of the spec (status.observedGeneration). Either the Node reports the image by the
// digest of its index, or the kubelet is about to stop the container.
func isDoubtful(pod *corev1.Pod) bool {
	_, _, doubtful := digests(pod)
	return doubtful && pod.Generation != 1 && pod.Annotations[apps.AnnotationInPlaceUpdateState] == "" && pod.Annotations[apps.AnnotationInPlaceUpdateStateLegacy] == ""
}

// digests reports whether containers whose image is named by digest may run this digest, and whether all containers
// have such an image and run it. A Node may report a manifest by the digest of its index, or the other way round.
// doubtful says that the kubelet has observed the newest spec and reports a digest that differs from the spec.
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

// servingAnnotations returns the annotations that Serves reads, for caches that drop all other annotations.
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
