// Package defaults answers "which values does the API server fill in where a Pod template has no value?"
//
// If a CRD stores templates without a schema, defaults must be set by the project itself, because otherwise the
// revisions of a workload would differ from its Pods. The values are Kubernetes' defaults for the template of a
// Deployment. Defaults that only Pods have (enableServiceLinks, requests from limits, host ports) are not set. Existing
// values are never changed, with a single exception that the API server makes too: quantities finer than a thousandth
// are rounded up.
package defaults

import (
	corev1 "k8s.io/api/core/v1"
)

// Options select among defaults that differ between kinds, or that depend on feature gates. The zero value gives the
// defaults of Kubernetes.
type Options struct {
	// ContainerImagePullPolicy is the imagePullPolicy of containers that have none. If empty, the rule of Kubernetes
	// applies: Always for the tag latest or no tag, IfNotPresent otherwise. The workloads of apps.kruise.io use Always.
	// For init containers the rule of Kubernetes always applies.
	ContainerImagePullPolicy corev1.PullPolicy
	// HostNetworkHostPorts sets hostPort to containerPort if hostPort is 0 and the template uses hostNetwork (gate
	// DefaultHostNetworkHostPortsInPodTemplates).
	HostNetworkHostPorts bool
}

// PodTemplate sets the defaults of a Pod template. PodTemplate is idempotent.
func PodTemplate(template *corev1.PodTemplateSpec, opts Options) {
	spec := &template.Spec
	podSpec(spec)
	if opts.HostNetworkHostPorts && spec.HostNetwork {
		hostPorts(spec.InitContainers)
		hostPorts(spec.Containers)
	}
	for i := range spec.Volumes {
		volume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		container(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		if opts.ContainerImagePullPolicy != "" {
			setIfZero(&spec.Containers[i].ImagePullPolicy, opts.ContainerImagePullPolicy)
		}
		container(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		container((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	roundUp(spec.Overhead)
	if spec.Resources != nil {
		roundUp(spec.Resources.Limits)
		roundUp(spec.Resources.Requests)
	}
}

// ClaimTemplate sets the defaults of a claim template: the phase Pending. Quantities are rounded. volumeMode stays
// unset: the API server sets volumeMode on the claims themselves.
func ClaimTemplate(claim *corev1.PersistentVolumeClaim) {
	setIfZero(&claim.Status.Phase, corev1.ClaimPending)
	roundUp(claim.Spec.Resources.Limits)
	roundUp(claim.Spec.Resources.Requests)
	roundUp(claim.Status.Capacity)
	roundUp(claim.Status.AllocatedResources)
}

func podSpec(spec *corev1.PodSpec) {
	setIfZero(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setIfZero(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setIfZero(&spec.SchedulerName, corev1.DefaultSchedulerName)
	IfNil(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	IfNil(&spec.SecurityContext, corev1.PodSecurityContext{})
}

func hostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			port := &containers[i].Ports[j]
			setIfZero(&port.HostPort, port.ContainerPort)
		}
	}
}

// Sidecar sets the defaults of an injected container. Sidecar sets no defaults in the startup probe, because
// OpenKruise computes the hash of a SidecarSet without such defaults.
func Sidecar(c *corev1.Container) {
	startup := c.StartupProbe
	c.StartupProbe = nil
	container(c)
	c.StartupProbe = startup
}

// Volume sets the defaults of a volume.
func Volume(v *corev1.Volume) { volume(v) }

func container(c *corev1.Container) {
	setIfZero(&c.ImagePullPolicy, pullPolicyFor(c.Image))
	setIfZero(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setIfZero(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setIfZero(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			fieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				IfNil(&from.FileKeyRef.Optional, false)
			}
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		probe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				httpGet(h.HTTPGet)
			}
		}
	}
}

func probe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setIfZero(&p.TimeoutSeconds, 1)
	setIfZero(&p.PeriodSeconds, 10)
	setIfZero(&p.SuccessThreshold, 1)
	setIfZero(&p.FailureThreshold, 3)
	httpGet(p.HTTPGet)
	if p.GRPC != nil {
		IfNil(&p.GRPC.Service, "")
	}
}

func httpGet(action *corev1.HTTPGetAction) {
	if action == nil {
		return
	}
	setIfZero(&action.Path, "/")
	setIfZero(&action.Scheme, corev1.URISchemeHTTP)
}

func fieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		setIfZero(&ref.APIVersion, "v1")
	}
}

// setIfZero sets a field if the field has its zero value.
func setIfZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// IfNil sets an optional field if the field is absent.
func IfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
