package containerrecreaterequest

import (
	"context"
	"fmt"

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
)

// endpoint defaults and judges ContainerRecreateRequests. As in OpenKruise, the kind has a mutating
// webhook only, and the webhook also judges: the Pod used for judging also completes the request. options.Reader reads
// the Pod and its Node. Without a Reader neither is checked, and nothing is copied.
//
// Unlike further kinds, no request is created while the feature gate KruiseDaemon is off: nobody would ever carry the
// request out. Existing requests may be updated then, or their finalizers could not go.
func endpoint(options admission.Options) *admission.Kind[v1beta1.ContainerRecreateRequest, v1alpha1.ContainerRecreateRequest] {
	requests := requestAdmission{reader: options.Reader, agents: apps.ResolveGates(options.Gates)[apps.GateKruiseDaemon]}
	return &admission.Kind[v1beta1.ContainerRecreateRequest, v1alpha1.ContainerRecreateRequest]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "ContainerRecreateRequest"},
		Resource:   "containerrecreaterequests",
		Name:       "containerrecreaterequest",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.ContainerRecreateRequest) []decode.Problem { return obj.Spec.Undecodable },
		Admit:       requests.admit,
		ValidateOld: api.ValidateV1alpha1,
	}
}

// requestAdmission looks up the Pods and Nodes of requests.
type requestAdmission struct {
	reader client.Reader
	agents bool // whether node agents exist
}

func (a requestAdmission) admit(ctx context.Context, obj, stored *v1beta1.ContainerRecreateRequest) (field.ErrorList, error) {
	if stored != nil {
		return api.ValidateUpdate(obj, stored), nil
	}
	if !a.agents {
		return nil, apierrors.NewForbidden(schema.GroupResource{Group: apps.Group, Resource: "containerrecreaterequests"}, obj.Name,
			fmt.Errorf("feature gate %s is off: there is no node agent to carry it out", apps.GateKruiseDaemon))
	}
	api.Default(obj)
	problems := api.ValidateCreate(obj)
	if a.reader == nil || obj.Spec.PodName == "" {
		return problems, nil
	}
	pod, err := a.pod(ctx, obj)
	if err != nil {
		return nil, err
	}
	problems = append(problems, api.ValidatePod(obj, pod)...)
	if len(problems) > 0 {
		return problems, nil
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err = a.reader.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)
	if apierrors.IsNotFound(err) {
		return api.ValidateNode(obj, pod), nil
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("looking up Node %s: %w", pod.Spec.NodeName, err))
	}
	api.Complete(obj, pod, node.Labels)
	return nil, nil
}

// pod returns nil for a missing Pod.
func (a requestAdmission) pod(ctx context.Context, obj *v1beta1.ContainerRecreateRequest) (*corev1.Pod, error) {
	pod, key := &corev1.Pod{}, client.ObjectKey{Namespace: obj.Namespace, Name: obj.Spec.PodName}
	if len(apivalidation.NameIsDNSSubdomain(key.Name, false)) > 0 {
		return nil, nil // no Pod can have the name
	}
	switch err := a.reader.Get(ctx, key, pod); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("looking up Pod %s: %w", key, err))
	}
	return pod, nil
}
