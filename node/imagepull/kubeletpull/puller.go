package kubeletpull

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/reason"
)

// Options are the settings of a Puller.
type Options struct {
	// Namespace is the namespace of the Pods, and of the pull secrets.
	Namespace string
	// Prefix is the prefix of the Pods' names: a DNS label of at most 40 bytes.
	Prefix string
	// Owner is the controller of the Pods: the object in which the wanted images of a Node are recorded. Pods with
	// another controller are left alone. The object must be in the same namespace or in none.
	Owner metav1.OwnerReference
	// Labels are the labels of the Pods, for the caller's selector.
	Labels map[string]string
	// PauseImage is the image of the Pods' container, for example "registry.k8s.io/pause:3.10".
	PauseImage string
	// PullSecrets maps each owner of claims to the names of its pull secrets. A Pod has the secrets of all claims for
	// the image. Secrets of a claim that is added later are used from the next attempt on.
	PullSecrets map[imagepull.Owner][]string
	// ServiceAccount is the service account of the Pods; empty for the default. The Pods get no token, but credential
	// providers of the kubelet may use the service account (KEP-4412).
	ServiceAccount string
	// PriorityClass is the priority class of the Pods; empty for the default. With a low priority, Pods of workloads
	// preempt these Pods if a Node is full.
	PriorityClass string
	// Bounds limit the pulls of the Node. Floor must be 0.
	Bounds imagepull.Bounds
	// Hold means that the Pod of a pulled image stays until the last claim is released, even without Policy.Keep, so
	// that the kubelet does not delete the image. Without Policy.Keep, an evicted Pod is not replaced.
	Hold bool
	// Annotation is the key of the annotation in which Pods store the reports; empty if the caller records the
	// reports. See Puller.Recorded.
	Annotation string
	// GateOn says that the feature gate ImageVolume is on in the API server and the kubelets. Set GateOn only for
	// Kubernetes 1.31 to 1.34, where the gate is off by default.
	GateOn bool
}

// longestPrefix limits Options.Prefix, so that a Pod's name has at most 63 bytes.
const longestPrefix = 40

// Puller decides about the Pods that pull images on a Node.
type Puller struct{ options Options }

// New returns a Puller. The error has the code InvalidOptions.
func New(options Options) (*Puller, error) {
	invalid := func(path, value, detail string) (*Puller, error) {
		return nil, reason.Reason{Code: InvalidOptions, Path: path, New: value, Detail: detail}
	}
	switch {
	case options.Namespace == "":
		return invalid("namespace", "", "a namespace is needed")
	case len(options.Prefix) > longestPrefix || len(validation.IsDNS1123Label(options.Prefix)) > 0:
		return invalid("prefix", options.Prefix, "a DNS label of at most 40 bytes is needed")
	case options.Owner.UID == "" || options.Owner.Name == "" || options.Owner.Kind == "" || options.Owner.APIVersion == "":
		return invalid("owner", options.Owner.Name, "an object with a UID is needed")
	case options.Bounds.Floor > 0:
		return invalid("bounds.floor", "", "the free disk of the Node is unknown")
	}
	if _, err := imagepull.Parse(options.PauseImage); err != nil {
		return invalid("pauseImage", options.PauseImage, "the name of the pause image is not valid")
	}
	isController := true
	options.Owner.Controller = &isController
	options.Labels = maps.Clone(options.Labels)
	options.PullSecrets = maps.Clone(options.PullSecrets)
	options.Bounds.Registries = slices.Clone(options.Bounds.Registries)
	return &Puller{options: options}, nil
}

// isOwn reports whether the Puller has created a Pod for a Node.
func (p *Puller) isOwn(pod *corev1.Pod, node string) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	of, _, ok := p.Holding(pod)
	return ok && of == node && owner != nil && owner.UID == p.options.Owner.UID && pod.Namespace == p.options.Namespace
}
