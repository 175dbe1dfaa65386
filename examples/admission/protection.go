package admission

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// These are the paths of reviews of deletions of objects of Kubernetes' own groups.
const (
	ValidateNamespacePath   = "/validate-namespace"
	ValidateCRDPath         = "/validate-customresourcedefinition"
	ValidateDeploymentPath  = "/validate-apps-deployment"
	ValidateReplicaSetPath  = "/validate-apps-replicaset"
	ValidateStatefulSetPath = "/validate-apps-statefulset"
	ValidateServicePath     = "/validate-service"
	ValidateIngressPath     = "/validate-ingress"
)

// Refusal describes a request that was refused because of deletion protection or a PodUnavailableBudget.
type Refusal struct {
	// Event is EventDeletionProtection or EventPodUnavailableBudget.
	Event string
	// Kind, Namespace and Name identify the object, and User is who sent the request.
	Kind, Namespace, Name, User string
}

// These are the events of refusals: of refused deletions, and of requests that a PodUnavailableBudget refuses.
const (
	EventDeletionProtection   = "DeletionProtection"
	EventPodUnavailableBudget = "PodUnavailableBudget"
)

// Protection refuses deletions of Namespaces, CustomResourceDefinitions, workloads, Services and Ingresses of
// Kubernetes that have the label apps.LabelDeleteProtection. While the feature gate ResourcesDeletionProtection is
// off, every deletion is admitted. Only the main resources are checked, not subresources. An object already being
// deleted is not protected. If the label protects an object as long as other objects would be deleted with the
// object, and these objects cannot be counted, the deletion is refused.
func Protection(options Options) Endpoint {
	gates := apps.ResolveGates(options.Gates)
	p := &protection{options: options, on: gates[apps.GateResourcesDeletionProtection]}
	ofCRDs := p.customResources
	if !gates[apps.GateDeletionProtectionForCRDCascading] {
		ofCRDs = func(context.Context, *protected) (content, error) { return content{}, errNotCounted }
	}
	guards := map[string]guard{
		ValidateNamespacePath:   {"Namespace", schema.GroupResource{Resource: "namespaces"}, p.podsAndClaims},
		ValidateCRDPath:         {"CustomResourceDefinition", schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, ofCRDs},
		ValidateDeploymentPath:  {"Deployment", schema.GroupResource{Group: "apps", Resource: "deployments"}, replicas},
		ValidateReplicaSetPath:  {"ReplicaSet", schema.GroupResource{Group: "apps", Resource: "replicasets"}, replicas},
		ValidateStatefulSetPath: {"StatefulSet", schema.GroupResource{Group: "apps", Resource: "statefulsets"}, replicas},
		ValidateServicePath:     {"Service", schema.GroupResource{Resource: "services"}, nil},
		ValidateIngressPath:     {"Ingress", schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}, nil},
	}
	p.handlers = map[string]admission.Handler{}
	for path, g := range guards {
		p.handlers[path] = admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response { return p.judge(ctx, g, req) })
	}
	return p
}

type protection struct {
	options  Options
	on       bool
	handlers map[string]admission.Handler
}

func (p *protection) endpoint() endpoint { return endpoint{handlers: p.handlers} }

// guard protects objects of a kind from deletion. holds counts the objects that would be deleted together with an
// object of the kind; nil for kinds without such objects.
type guard struct {
	kind     string
	resource schema.GroupResource
	holds    func(context.Context, *protected) (content, error)
}

// content is the result of a count of the objects that would be deleted together with an object. If orMore is true,
// there may be more objects than counted.
type content struct {
	count  int
	orMore bool
	what   string
}

func (c content) String() string {
	more := ""
	if c.orMore {
		more = " or more"
	}
	return fmt.Sprintf("%d%s %s", c.count, more, c.what)
}

// forbiddenBy is the beginning of OpenKruise's messages for refusals. Scripts search for this text.
const forbiddenBy = "forbidden by ResourcesProtectionDeletion"

// errNotCounted means that the objects that would be deleted together with an object cannot be counted.
var errNotCounted = errors.New("what it holds is not counted")

// protected contains the fields of an object on which its protection depends.
type protected struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Replicas *int32 `json:"replicas"`
		Group    string `json:"group"`
		Names    struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name    string `json:"name"`
			Served  bool   `json:"served"`
			Storage bool   `json:"storage"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

func (p *protection) judge(ctx context.Context, g guard, req admission.Request) admission.Response {
	if !p.on || req.Operation != admissionv1.Delete || req.SubResource != "" || len(req.OldObject.Raw) == 0 {
		return admission.Allowed("")
	}
	object := &protected{}
	if err := decode.Object(req.OldObject.Raw, object); err != nil {
		return Refuse(ctx, apierrors.NewBadRequest(fmt.Sprintf("decoding %s %q: %v", g.kind, req.Name, err)))
	}
	why, err := g.why(ctx, object)
	switch {
	case errors.Is(err, errNotCounted):
		why = "protects it while it holds anything, and nobody looks: the feature gate " + string(apps.GateDeletionProtectionForCRDCascading) + " is off"
	case err != nil:
		return Refuse(ctx, fmt.Errorf("finding out what %s %q holds: %w", g.kind, object.Name, err))
	case why == "":
		return admission.Allowed("")
	}
	if p.options.Refused != nil {
		p.options.Refused(Refusal{EventDeletionProtection, g.kind, object.Namespace, object.Name, req.UserInfo.Username})
	}
	return Refuse(ctx, apierrors.NewForbidden(g.resource, object.Name, fmt.Errorf("%s: the label %s=%s %s", forbiddenBy, apps.LabelDeleteProtection, object.Labels[apps.LabelDeleteProtection], why)))
}

// why returns the reason why an object may not be deleted, or "".
func (g guard) why(ctx context.Context, object *protected) (string, error) {
	if object.DeletionTimestamp != nil {
		return "", nil
	}
	switch object.Labels[apps.LabelDeleteProtection] {
	case apps.DeleteProtectionAlways:
		return "protects it: remove or change the label first", nil
	case apps.DeleteProtectionCascading:
		if g.holds == nil {
			return "", nil
		}
		held, err := g.holds(ctx, object)
		if err != nil || held.count == 0 {
			return "", err
		}
		return fmt.Sprintf("protects it while it holds anything, and it has %s (>0)", held), nil
	}
	return "", nil
}

// replicas returns the number of replicas of a workload.
func replicas(_ context.Context, object *protected) (content, error) {
	if object.Spec.Replicas == nil {
		return content{}, nil
	}
	return content{count: int(max(*object.Spec.Replicas, 0)), what: "replicas"}, nil
}
