package containerrecreaterequest

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
)

// endpoint returns the admission rules that default and validate ContainerRecreateRequests. As in OpenKruise, the
// kind has only a mutating webhook, which also validates: a single read of the Pod serves to validate the request and
// to copy fields of the Pod into the request. options.Reader reads the Pod and its Node. If there is no Reader, the
// Pod and its Node are not checked, and nothing is copied from the Pod.
//
// While the feature gate KruiseDaemon is off, no request can be created, because no node agent would carry out the
// request. Existing requests can still be updated, because otherwise their finalizers could not be removed.
func endpoint(options admission.Options) *admission.Rules[v1beta1.ContainerRecreateRequest, v1alpha1.ContainerRecreateRequest] {
	requests := requestAdmission{reader: options.Reader, agents: apps.ResolveGates(options.Gates)[apps.GateKruiseDaemon]}
	return &admission.Rules[v1beta1.ContainerRecreateRequest, v1alpha1.ContainerRecreateRequest]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "ContainerRecreateRequest"},
		Resource:   "containerrecreaterequests",
		Name:       "containerrecreaterequest",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.ContainerRecreateRequest) []decode.Problem { return obj.Spec.Undecodable },
		Admit:       requests.admit,
		ValidateOld: validateV1alpha1,
	}
}

// requestAdmission reads the Pods and Nodes that requests name.
type requestAdmission struct {
	reader client.Reader
	agents bool // true if node agents run
}

func (a requestAdmission) admit(ctx context.Context, obj, stored *v1beta1.ContainerRecreateRequest) (field.ErrorList, error) {
	if stored != nil {
		return validateUpdate(obj, stored), nil
	}
	if !a.agents {
		return nil, apierrors.NewForbidden(schema.GroupResource{Group: apps.Group, Resource: "containerrecreaterequests"}, obj.Name,
			fmt.Errorf("feature gate %s is off: there is no node agent to carry it out", apps.GateKruiseDaemon))
	}
	api.Default(obj)
	problems := validateCreate(obj)
	if a.reader == nil || obj.Spec.PodName == "" {
		return problems, nil
	}
	pod, err := podOf(ctx, a.reader, obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	problems = append(problems, validatePod(obj, pod)...)
	if len(problems) > 0 {
		return problems, nil
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err = a.reader.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)
	if apierrors.IsNotFound(err) {
		return validateNode(obj, pod), nil
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("looking up Node %s: %w", pod.Spec.NodeName, err))
	}
	complete(obj, pod, node.Labels)
	return nil, nil
}

// podOf reads the Pod of a request from the API server. If the Pod does not exist, the result is nil without an error.
func podOf(ctx context.Context, reader client.Reader, obj *v1beta1.ContainerRecreateRequest) (*corev1.Pod, error) {
	pod, key := &corev1.Pod{}, client.ObjectKey{Namespace: obj.Namespace, Name: obj.Spec.PodName}
	if len(apivalidation.NameIsDNSSubdomain(key.Name, false)) > 0 {
		return nil, nil //nolint:nilnil // no Pod can have such a name
	}
	switch err := reader.Get(ctx, key, pod); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // no Pod, no error
	case err != nil:
		return nil, fmt.Errorf("looking up Pod %s: %w", key, err)
	}
	return pod, nil
}

// complete copies into a valid new request what the node agent must know about the Pod, and adds the labels by which
// the agent finds the request. nodeLabels are the labels of the Pod's Node.
//
// If an HTTP hook names no host, complete sets the Pod's address as the host. The meaning is the same, and the agent
// has no other way to learn the address.
func complete(obj *v1beta1.ContainerRecreateRequest, pod *corev1.Pod, nodeLabels map[string]string) {
	if obj.Labels == nil {
		obj.Labels = map[string]string{}
	}
	obj.Labels[apps.LabelRequestActive] = "true"
	obj.Labels[apps.LabelRequestNodeName] = pod.Spec.NodeName
	obj.Labels[apps.LabelRequestPodUID] = string(pod.UID)
	if nodeLabels[apps.LabelNodeType] == apps.NodeTypeVirtualKubelet {
		obj.Labels[apps.LabelNodeType] = apps.NodeTypeVirtualKubelet
	}
	grace := pod.Spec.TerminationGracePeriodSeconds
	if obj.Spec.Strategy.TerminationGracePeriodSeconds == nil && grace != nil {
		obj.Spec.Strategy.TerminationGracePeriodSeconds = new(*grace)
	}
	for i := range obj.Spec.Containers {
		completeContainer(&obj.Spec.Containers[i], pod)
	}
}

func completeContainer(c *v1beta1.ContainerRecreateRequestContainer, pod *corev1.Pod) {
	of := podstate.Container(pod, c.Name)
	if of.Lifecycle != nil && of.Lifecycle.PreStop != nil {
		c.PreStop = of.Lifecycle.PreStop.DeepCopy()
		if get := c.PreStop.HTTPGet; get != nil {
			c.Ports = slices.Clone(of.Ports)
			if get.Host == "" {
				get.Host = pod.Status.PodIP
			}
		}
	}
	status := podstate.ContainerStatus(pod, c.Name)
	c.StatusContext = &v1beta1.ContainerRecreateRequestContainerContext{
		ContainerID: status.ContainerID, RestartCount: status.RestartCount,
	}
}
