package faultapi

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/internal/imagename"
)

// Load stores objects as read from another API server: UID, times, generation and status are kept. Objects get
// resource versions of this server, and managed fields are removed. The caller must not use the objects afterwards.
// Load returns an error if the server does not have the kind, or already has the object.
func (s *Server) Load(objects ...client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, obj := range objects {
		k, err := s.kindOf(obj)
		if err != nil {
			return fmt.Errorf("loading %T %s: %w", obj, sortKey(obj), err)
		}
		if k.objects[client.ObjectKeyFromObject(obj)] != nil {
			return apierrors.NewAlreadyExists(k.resource, obj.GetName())
		}
		var number int64
		if n, err := fmt.Sscanf(string(obj.GetUID()), uidFormat, &number); n == 1 && err == nil {
			s.uids = max(s.uids, number) // the objects come from another Server
		}
		obj.SetManagedFields(nil)
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		s.store(k, watch.Added, obj)
	}
	return nil
}

// Adopt makes the simulated kubelets know the server's Pods that already run on Nodes, with the containers in their
// statuses. A running container continues to run, and a container that is not ready stays unready until SetReady is
// called. The kubelets restart a container of an unready Pod whose status has another image than the spec. A container
// that waits for an image or for its configuration waits on until the spec has another image. If no Pod runs the image
// for which a container waits, the image counts as broken.
func (n *Nodes) Adopt() {
	pods := All[*corev1.Pod](n.server)
	n.breakImages(pods)
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || n.pods[pod.UID] != nil {
			continue
		}
		p := &node{view: pod, containers: map[string]*container{}}
		for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
			for i := range list {
				if c := n.adopted(p, &list[i]); c != nil {
					p.containers[list[i].Name] = c
				}
			}
		}
		n.pods[pod.UID] = p
	}
}

// breakImages makes the images broken that Pods cannot pull and that no Pod runs.
func (n *Nodes) breakImages(pods []*corev1.Pod) {
	awaited, runs := map[string]bool{}, map[string]bool{}
	for _, pod := range pods {
		p := &node{view: pod}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			spec := p.specOf(status.Name)
			switch {
			case spec == nil:
			case isStuck(pod, &status, spec) && awaitsImage(status.State.Waiting.Reason):
				awaited[imagename.Full(spec.Image)] = true
			case status.State.Running != nil && !strings.HasPrefix(status.Image, "sha256:"):
				runs[imagename.Full(status.Image)] = true
			case status.State.Running != nil:
				runs[imagename.Full(spec.Image)] = true
			}
		}
	}
	for image := range awaited {
		if !runs[image] {
			n.Images.SetBroken(image, true)
		}
	}
}

// awaitsImage reports whether the kubelet gives a reason when it cannot get the image of a container
// (pkg/kubelet/images/types.go).
func awaitsImage(reason string) bool {
	return slices.Contains([]string{
		"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "InvalidImageName", "RegistryUnavailable", "SignatureValidationFailed",
	}, reason)
}

// isStuck reports whether a container cannot start because of its image or its configuration. In all other waiting
// states, such as ContainerCreating and CrashLoopBackOff, the kubelet starts the container soon.
//
// After an update in place, the status names the image of the last instance. The state is about the image of the spec
// if the kubelet has seen the newest spec, or names that image in its message.
func isStuck(pod *corev1.Pod, status *corev1.ContainerStatus, spec *corev1.Container) bool {
	waiting := status.State.Waiting
	if waiting == nil {
		return false
	}
	isSame := status.Image == "" || imagename.Full(status.Image) == imagename.Full(spec.Image)
	hasSeen := pod.Status.ObservedGeneration != 0 && pod.Status.ObservedGeneration == pod.Generation || strings.Contains(waiting.Message, spec.Image)
	if !isSame && !hasSeen {
		return false
	}
	return awaitsImage(waiting.Reason) || slices.Contains([]string{"CreateContainerConfigError", "CreateContainerError", "PreCreateHookError", "RunContainerError"}, waiting.Reason)
}

// adopted returns the container described by a status, or nil if no instance was started.
func (n *Nodes) adopted(p *node, status *corev1.ContainerStatus) *container {
	spec := p.specOf(status.Name)
	_, id, _ := strings.Cut(status.ContainerID, "://")
	if spec == nil {
		return nil
	}
	if isStuck(p.view, status, spec) {
		return &container{image: spec.Image, id: id, restarts: status.RestartCount, stuck: true, kept: status.DeepCopy(), resources: spec.Resources}
	}
	if id == "" {
		return nil
	}
	c := &container{
		image: spec.Image, id: id, restarts: status.RestartCount, ready: status.Ready, kept: status.DeepCopy(),
		runs: status.State.Running != nil, resources: spec.Resources, env: envFromMetadata(p.view, spec),
	}
	if _, digest, ok := strings.Cut(status.ImageID, "@"); ok {
		c.digest = digest
		n.Images.note(n.Images.ids, digest, status.ImageID)
	}
	if name := imagename.Full(status.Image); name != imagename.Full(spec.Image) && !strings.HasPrefix(status.Image, "sha256:") && !podstate.IsReady(p.view) {
		c.image = status.Image // the kubelet has not observed the new image in the spec yet
	} else if c.digest != "" && !strings.Contains(spec.Image, "@") {
		n.Images.note(n.Images.tags, c.digest, name)
		n.Images.Publish(spec.Image, c.digest)
	}
	c.adopt(status, p.isInit(spec) && !podstate.IsNativeSidecar(spec))
	return c
}

// adopt sets what a status says about the last instance. once is true for a plain init container, which succeeds once.
func (c *container) adopt(status *corev1.ContainerStatus, once bool) {
	switch ended := status.State.Terminated; {
	case status.State.Running != nil:
		c.started = status.State.Running.StartedAt
	case ended != nil && once && ended.ExitCode == 0:
		c.done = true
	case ended != nil:
		c.exit = &ended.ExitCode
	default: // such as CrashLoopBackOff: the kubelet starts the container again
		c.runs = true
	}
}

// specOf returns the spec of a container or init container, or nil.
func (p *node) specOf(name string) *corev1.Container {
	for spec := range p.specs() {
		if spec.Name == name {
			return spec
		}
	}
	for spec := range p.ephemeral() {
		if spec.Name == name {
			return spec
		}
	}
	return nil
}

// Unready describes a running container that is not ready.
type Unready struct {
	Name string
	// Started is the time when the container was started. Adopted means that the container ran before Adopt was
	// called.
	Started metav1.Time
	Adopted bool
}

// Unready returns the containers of a Pod that run and are not ready, in the order of the spec.
func (n *Nodes) Unready(pod *corev1.Pod) (out []Unready) {
	p := n.pods[pod.UID]
	if p == nil || p.failed {
		return nil
	}
	for spec := range p.specs() {
		if c := p.containers[spec.Name]; c != nil && c.runs && !c.ready {
			out = append(out, Unready{Name: spec.Name, Started: c.started, Adopted: c.kept != nil})
		}
	}
	return out
}
