package faultapi

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Instance is the truth about the last started instance of a container, reported or not.
type Instance struct {
	// Pod is the kubelet's view, which may be old.
	Pod *corev1.Pod
	// Name is the container's, and ID the instance's, without the runtime in front.
	Name, ID string
	Restarts int32
	Started  metav1.Time
	// Exit is the exit code of an ended instance, and nil while the instance runs.
	Exit *int32
	// Image is the name at the start, and Digest the image.
	Image, Digest string
	// Env is the variables from labels and annotations at the start.
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

// exitCode returns the code of an ended instance, or nil.
func (c *container) exitCode(failed bool) *int32 {
	switch {
	case c.exit != nil:
		return c.exit
	case failed:
		return new(int32(killed))
	case c.runs:
		return nil
	default:
		return new(int32) // done, or ended for a successor that cannot start
	}
}
