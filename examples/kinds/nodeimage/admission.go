package nodeimage

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/nodeimage"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// endpoint returns the admission rules that default and validate NodeImages. While the feature gate KruiseDaemon is
// off, no NodeImage can be created, because no node agent would pull the images.
func endpoint(options admission.Options) *admission.Rules[v1beta1.NodeImage, v1alpha1.NodeImage] {
	agents := apps.ResolveGates(options.Gates)[apps.GateKruiseDaemon]
	return &admission.Rules[v1beta1.NodeImage, v1alpha1.NodeImage]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "NodeImage"},
		Resource:   "nodeimages",
		Name:       "nodeimage",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.NodeImage) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, _ *v1beta1.NodeImage) { api.Default(obj, clock.RealClock{}.Now()) },
		ValidateCreate: func(_ context.Context, obj *v1beta1.NodeImage) (field.ErrorList, error) {
			if !agents {
				return nil, apierrors.NewForbidden(schema.GroupResource{Group: apps.Group, Resource: "nodeimages"}, obj.Name,
					fmt.Errorf("feature gate %s is off: there is no node agent to pull images", apps.GateKruiseDaemon))
			}
			return validateSpec(obj), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.NodeImage) (field.ErrorList, error) {
			return validateUpdate(obj, stored), nil
		},
		TemplateParts: func(admission.Spec) []admission.TemplatePart { return nil },
	}
}
