package sidecarcontrol

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why a sidecar does not fit into a Pod. The API server refuses such a Pod, and its error does not
// name the sidecar as the cause.
const (
	// HostPortTaken means that two containers of the Pod use the same port of the Node, or a sidecar of a Pod in the
	// Node's network has a host port different from its container port.
	HostPortTaken reason.Code = "HostPortTaken"
	// NoDevice means that a sidecar uses a volume as a block device, but the Pod's own volume of the same name is not a
	// PersistentVolumeClaim.
	NoDevice reason.Code = "NoDevice"
	// PodResourcesExceeded means that the containers, including sidecars, request more than the Pod-level resources
	// (spec.resources). If a Pod has Pod-level limits but no requests, the API server derives the Pod-level requests
	// from its own containers (KEP-2837).
	PodResourcesExceeded reason.Code = "PodResourcesExceeded"
	// PodForbids means that a Pod-level field forbids a setting of a sidecar: a short grace period forbids a longer
	// preStop sleep, and restartPolicy Never forbids a resize that restarts containers.
	PodForbids reason.Code = "PodForbids"
)

// fit finds combinations that the API server refuses although Pod and sidecars are each valid (ValidatePodSpec in
// pkg/apis/core/validation/validation.go).
func (d *draft) fit() {
	d.fitPorts()
	if whole := d.pod.Spec.Resources; whole != nil {
		d.fitRequests(whole.Requests)
		d.fitLimits(whole.Limits)
	}
	for _, list := range [][]corev1.Container{d.init.placed(), d.containers.placed()} {
		for i := range list {
			if set := d.injected[list[i].Name]; set != nil {
				d.fitDevices(set, &list[i])
				d.fitSettings(set, &list[i])
			}
		}
	}
}

// hostPort is a port of the Node.
type hostPort struct {
	protocol corev1.Protocol
	address  string
	number   int32
}

// fitPorts compares the host ports of all containers, but not of native sidecars, as the API server does.
func (d *draft) fitPorts() {
	taken := map[hostPort]string{}
	list := d.containers.placed()
	for i := range list {
		c := &list[i]
		for j := range c.Ports {
			p := &c.Ports[j]
			port := hostPort{p.Protocol, p.HostIP, p.HostPort}
			if port.protocol == "" {
				port.protocol = corev1.ProtocolTCP
			}
			path := fmt.Sprintf("spec.containers[%s].ports[%d]", c.Name, j)
			if d.pod.Spec.HostNetwork {
				if set := d.injected[c.Name]; set != nil && p.HostPort != 0 && p.HostPort != p.ContainerPort {
					d.refuse(HostPortTaken, path, fmt.Sprintf("the set %s wants host port %d for port %d, and the Pod is in the network of its Node, where both must be the same",
						set.spec.Name, p.HostPort, p.ContainerPort))
				}
				port.number = p.ContainerPort
			}
			if port.number == 0 {
				continue
			}
			other, is := taken[port]
			taken[port] = c.Name
			if is && (d.injected[c.Name] != nil || d.injected[other] != nil) {
				d.refuse(HostPortTaken, path, fmt.Sprintf("host port %d (%s) is wanted by %s and by %s",
					port.number, port.protocol, d.whose(other), d.whose(c.Name)))
			}
		}
	}
}

// whose returns a text with the name of a container and of the set that injects the container.
func (d *draft) whose(container string) string {
	if set := d.injected[container]; set != nil {
		return "container " + container + " of the set " + set.spec.Name
	}
	return "container " + container
}

// fitDevices checks the devices of a sidecar against the Pod's own volumes.
func (d *draft) fitDevices(set *Set, c *corev1.Container) {
	for _, device := range c.VolumeDevices {
		for i := range d.pod.Spec.Volumes {
			if v := &d.pod.Spec.Volumes[i]; v.Name == device.Name && v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
				d.refuse(NoDevice, "spec.volumes["+v.Name+"]", "is no claim, and container "+c.Name+" of the set "+set.spec.Name+" maps it as a device")
			}
		}
	}
}

// fitSettings checks a sidecar against Pod-level fields, as the API server does (validateSleepAction and
// validateResizePolicy).
func (d *draft) fitSettings(set *Set, c *corev1.Container) {
	const usual = 30
	grace, spec := int64(usual), &d.pod.Spec
	if spec.TerminationGracePeriodSeconds != nil {
		grace = *spec.TerminationGracePeriodSeconds
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil && c.Lifecycle.PreStop.Sleep.Seconds > grace {
		d.refuse(PodForbids, "spec.terminationGracePeriodSeconds", fmt.Sprintf("is %d, and container %s of the set %s sleeps for %d seconds before it ends",
			grace, c.Name, set.spec.Name, c.Lifecycle.PreStop.Sleep.Seconds))
	}
	restarts := slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool { return p.RestartPolicy == corev1.RestartContainer })
	if restarts && spec.RestartPolicy == corev1.RestartPolicyNever {
		d.refuse(PodForbids, "spec.restartPolicy", "is Never, and a resize restarts container "+c.Name+" of the set "+set.spec.Name)
	}
}
