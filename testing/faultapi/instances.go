package faultapi

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Instance is the true state of a container's last started instance, even if the kubelet has not reported the state
// yet.
type Instance struct {
	// Pod is the version of the Pod that the kubelet knows, which may be old.
	Pod *corev1.Pod
	// Name is the name of the container. ID is the ID of the instance, without the runtime's name.
	Name, ID string
	Restarts int32
	Started  metav1.Time
	// Exit is the exit code of an ended instance, and nil while the instance runs.
	Exit *int32
	// Image is the name of the image with which the instance was started. Digest is its digest.
	Image, Digest string
	// Env are the variables from labels and annotations with which the instance was started.
	Env []corev1.EnvVar
}

// Instances returns the instances of all containers, in a fixed order.
func (n *Nodes) Instances() []Instance {
	var out []Instance
	for _, uid := range n.Known() {
		p := n.pods[uid]
		for spec := range p.specs() {
			if c := p.containers[spec.Name]; c != nil && c.id != "" {
				out = append(out, Instance{
					Pod: p.view, Name: spec.Name, ID: c.id, Restarts: c.restarts, Started: c.started,
					Exit: c.exitCode(p.failed), Image: c.image, Digest: c.digest, Env: c.env,
				})
			}
		}
	}
	return out
}

// exitCode returns the exit code of an ended instance, or nil if it runs.
func (c *container) exitCode(failed bool) *int32 {
	switch {
	case c.exit != nil:
		return c.exit
	case failed:
		return new(int32(killed))
	case c.runs:
		return nil
	default:
		return new(int32) // the container is done, or has been stopped for an instance that cannot start
	}
}
