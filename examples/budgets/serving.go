package budgets

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/examples/sidecars"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// Serving knows which Pods are in service. It is safe for concurrent use. Make it with NewServing.
type Serving struct {
	inPlace  *inplaceupdate.Updater
	sidecars *sidecarcontrol.Control
}

// NewServing returns a Serving for the gates; nil stands for the defaults.
func NewServing(gates map[apps.Gate]bool) (*Serving, error) {
	if gates == nil {
		gates = apps.DefaultGates()
	}
	updater, err := kruise.InPlace(gates, nil)
	if err != nil {
		return nil, err
	}
	control, err := sidecars.NewControl(gates)
	return &Serving{inPlace: updater, sidecars: control}, err
}

// Serves reports whether a Pod is in service: it runs and is ready, nobody has labelled it as unavailable, and its containers are those that its spec
// asks for. Where all images are named by digest and their Nodes report those, that decides; else no update in place may be under way. again,
// where it is positive, is when the answer may be another one without any event.
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
		return true, 0 // nobody can say that an update goes on: what the Pod says about its containers counts
	}
	if !step.Complete || s.inPlace.InGracePeriod(pod) {
		return false, max(step.RequeueAfter, lookAgain)
	}
	return true, 0
}

// lookAgain is when to look again at a Pod whose update is under way: some of what ends one is the time alone.
const lookAgain = 5 * time.Second

// isLabelled reports whether somebody has said by a label that the Pod is unavailable.
func isLabelled(pod *corev1.Pod) bool {
	for key := range pod.Labels {
		if strings.HasPrefix(key, apps.LabelUnavailablePrefix) {
			return true
		}
	}
	return false
}

// IsDoubtful reports whether a container of a Pod runs another digest than its spec names, though the spec was changed and the kubelet has seen
// the change. Either the Node knows the image by the digest of its index, or the kubelet is about to end the container.
func IsDoubtful(pod *corev1.Pod) bool {
	_, _, doubtful := digests(pod)
	return doubtful && pod.Generation != 1 && pod.Annotations[apps.AnnotationInPlaceUpdateState] == "" && pod.Annotations[apps.AnnotationInPlaceUpdateStateLegacy] == ""
}

// digests reports whether the containers with an image by digest may run that digest, and whether all have such an image and run it. A Node may
// know a manifest by the digest of its index, and the other way round. doubtful says that another digest is reported by a kubelet that has
// seen the newest spec.
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

// Annotations are those that Serves reads, of Pods in caches that keep no others.
func Annotations() []string {
	return []string{
		apps.AnnotationInPlaceUpdateState, apps.AnnotationInPlaceUpdateGrace, apps.AnnotationInPlaceUpdateStateLegacy, apps.AnnotationInPlaceUpdateGraceLegacy,
		apps.AnnotationRuntimeContainersMeta, apps.AnnotationSidecarSetInjected, apps.AnnotationSidecarSetInPlaceState,
	}
}

// Marked reports whether an update of a Pod says by a new label that it is unavailable.
func Marked(before, after *corev1.Pod) bool {
	for key := range after.Labels {
		if _, was := before.Labels[key]; !was && strings.HasPrefix(key, apps.LabelUnavailablePrefix) {
			return true
		}
	}
	return false
}
