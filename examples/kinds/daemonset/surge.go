package daemonset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
	"github.com/workloadkit/workloadkit/podstate"
)

// crowding is the reason why the new Pod of an update with maxSurge cannot run beside the old Pod on the same Node.
// On such a Node an update with maxSurge never completes.
type crowding struct {
	// Path and Value are the field of the template that prevents both Pods on a Node, and the value of the field.
	Path, Value string
	// Certain is true if the scheduler refuses to bind both Pods to the Node. Otherwise the Pods use the network of
	// their Node, and the ports on which they listen decide.
	Certain bool
}

// crowdingRemedy is what messages about two Pods that cannot share a Node advise the user to do.
const crowdingRemedy = "set maxSurge to 0 and maxUnavailable to 1 or more, so that the old Pod goes first, or take the host port out of the template"

func (c *crowding) String() string {
	if c.Certain {
		return fmt.Sprintf("%s: the host port %s has room for one Pod on a Node, but maxSurge asks for a second one beside the old: %s", c.Path, c.Value, crowdingRemedy)
	}
	return c.Path + ": Pods share the network of their Node, so a second one beside the old, which maxSurge asks for, cannot listen on the same ports: " + crowdingRemedy
}

// crowdingOf returns the first field of the template that may prevent two Pods on the same Node in an update with
// maxSurge, or nil. The defaults of the object need not be set.
func crowdingOf(obj *v1beta1.DaemonSet) *crowding {
	strategy := &obj.Spec.UpdateStrategy
	rolling := strategy.RollingUpdate
	if strategy.Type == v1beta1.OnDeleteDaemonSetStrategyType || rolling == nil || rolling.MaxSurge == nil || !validation.AtLeastOne(*rolling.MaxSurge, beyondNodes) {
		return nil
	}
	spec, path := &obj.Spec.Template.Spec, field.NewPath("spec").Child("template", "spec")
	for i := range spec.Containers {
		if c := hostPortOf(&spec.Containers[i], spec.HostNetwork, path.Child("containers").Index(i)); c != nil {
			return c
		}
	}
	for i := range spec.InitContainers {
		if container := &spec.InitContainers[i]; podstate.IsNativeSidecar(container) {
			if c := hostPortOf(container, spec.HostNetwork, path.Child("initContainers").Index(i)); c != nil {
				return c
			}
		}
	}
	if spec.HostNetwork {
		return &crowding{Path: path.Child("hostNetwork").String(), Value: "true"}
	}
	return nil
}

// hostPortOf returns the first host port of a container. If the Pod uses the Node's network, every port is a host port.
func hostPortOf(container *corev1.Container, hostNetwork bool, path *field.Path) *crowding {
	for i := range container.Ports {
		port, at := &container.Ports[i], path.Child("ports").Index(i)
		switch {
		case port.HostPort > 0:
			return &crowding{Path: at.Child("hostPort").String(), Value: fmt.Sprint(port.HostPort), Certain: true}
		case hostNetwork && port.ContainerPort > 0:
			return &crowding{Path: at.Child("containerPort").String(), Value: fmt.Sprint(port.ContainerPort), Certain: true}
		}
	}
	return nil
}
