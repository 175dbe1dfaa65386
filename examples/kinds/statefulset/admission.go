package statefulset

import (
	"context"
	"fmt"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/statefulset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// endpoint returns the admission rules that default and validate StatefulSets.
func endpoint(options admission.Options) *admission.Rules[v1beta1.StatefulSet, v1alpha1.StatefulSet] {
	gates := apps.ResolveGates(options.Gates)
	defaults := api.DefaultOptions{
		TemplateNoDefaults:   gates[apps.GateTemplateNoDefaults],
		HostNetworkHostPorts: gates[apps.GateDefaultHostNetworkHostPorts],
		AutoDeletePVC:        gates[apps.GateStatefulSetAutoDeletePVC],
		AutoResizePVC:        gates[apps.GateStatefulSetAutoResizePVC],
	}
	validate := validateOptions{
		autoResizePVC:    gates[apps.GateStatefulSetAutoResizePVC],
		inPlaceResources: gates[apps.GateInPlaceWorkloadVerticalScaling],
	}
	judge := admission.NewTemplateJudge(options, "spec.template was")
	kind := &admission.Rules[v1beta1.StatefulSet, v1alpha1.StatefulSet]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "StatefulSet"},
		Resource:   "statefulsets",
		Name:       "statefulset",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.StatefulSet) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, stored *v1beta1.StatefulSet) { api.Default(obj, stored, defaults) },
		ValidateCreate: func(_ context.Context, obj *v1beta1.StatefulSet) (field.ErrorList, error) {
			return validateCreate(obj), nil
		},
		ValidateUpdate: func(ctx context.Context, obj, stored *v1beta1.StatefulSet) (field.ErrorList, error) {
			opts := validate
			if options.Reader != nil {
				opts.storageClasses = &requestedClasses{ctx, options.Reader}
			}
			return validateUpdate(obj, stored, opts)
		},
		CheckTemplate: func(ctx context.Context, obj, stored *v1beta1.StatefulSet) (field.ErrorList, string) {
			return judge.Check(ctx, obj.Namespace, statefulSetTemplate(obj), statefulSetTemplate(stored))
		},
		OldField: statefulSetOldField,
	}
	if gates[apps.GateResourcesDeletionProtection] {
		kind.Refused = options.Refused
		kind.ValidateDelete = validateDelete
	}
	return kind
}

func statefulSetTemplate(obj *v1beta1.StatefulSet) admission.PodTemplate {
	if obj == nil {
		return admission.PodTemplate{}
	}
	return admission.PodTemplate{PodTemplateSpec: &obj.Spec.Template, Claims: obj.Spec.VolumeClaimTemplates}
}

// statefulSetOldField returns the path in v1alpha1 of a v1beta1 field: the same path, or an annotation.
func statefulSetOldField(path string) string {
	rest, ok := strings.CutPrefix(path, "spec.")
	name := rest
	if end := strings.IndexAny(rest, ".["); end >= 0 {
		name = rest[:end]
	}
	if !ok || !conversion.BetaOnly[v1beta1.StatefulSet]("spec."+name) {
		return path
	}
	return field.NewPath("metadata", "annotations").Key(apps.AnnotationV1beta1Only).Child(rest).String()
}

// requestedClasses reads StorageClasses for a single request.
type requestedClasses struct {
	ctx    context.Context //nolint:containedctx // the struct is used only during the request
	reader client.Reader
}

// Named implements [storageClasses].
func (s *requestedClasses) Named(name string) (*storagev1.StorageClass, error) {
	class := &storagev1.StorageClass{}
	err := s.reader.Get(s.ctx, client.ObjectKey{Name: name}, class)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return class, nil
}

// Default implements [storageClasses].
func (s *requestedClasses) Default() (*storagev1.StorageClass, error) {
	classes := &storagev1.StorageClassList{}
	if err := s.reader.List(s.ctx, classes); err != nil {
		return nil, fmt.Errorf("listing storage classes: %w", err)
	}
	return defaultClass(classes.Items), nil
}
