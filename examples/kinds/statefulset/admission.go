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

// endpoint defaults and judges StatefulSets.
func endpoint(options admission.Options) *admission.Kind[v1beta1.StatefulSet, v1alpha1.StatefulSet] {
	gates := apps.ResolveGates(options.Gates)
	defaults := api.DefaultOptions{
		TemplateNoDefaults:   gates[apps.GateTemplateNoDefaults],
		HostNetworkHostPorts: gates[apps.GateDefaultHostNetworkHostPorts],
		AutoDeletePVC:        gates[apps.GateStatefulSetAutoDeletePVC],
		AutoResizePVC:        gates[apps.GateStatefulSetAutoResizePVC],
	}
	validate := api.ValidateOptions{
		AutoResizePVC:      gates[apps.GateStatefulSetAutoResizePVC],
		InPlaceResources:   gates[apps.GateInPlaceWorkloadVerticalScaling],
		DeletionProtection: gates[apps.GateResourcesDeletionProtection],
	}
	judge := admission.NewTemplateJudge(options, "spec.template was")
	kind := &admission.Kind[v1beta1.StatefulSet, v1alpha1.StatefulSet]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "StatefulSet"},
		Resource:   "statefulsets",
		Name:       "statefulset",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.StatefulSet) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, stored *v1beta1.StatefulSet) { api.Default(obj, stored, defaults) },
		ValidateCreate: func(_ context.Context, obj *v1beta1.StatefulSet) (field.ErrorList, error) {
			return api.ValidateCreate(obj), nil
		},
		ValidateUpdate: func(ctx context.Context, obj, stored *v1beta1.StatefulSet) (field.ErrorList, error) {
			opts := validate
			if options.Reader != nil {
				opts.StorageClasses = &storageClasses{ctx, options.Reader}
			}
			return api.ValidateUpdate(obj, stored, opts)
		},
		CheckTemplate: func(ctx context.Context, obj, stored *v1beta1.StatefulSet) (field.ErrorList, string) {
			return judge.Check(ctx, obj.Namespace, statefulSetTemplate(obj), statefulSetTemplate(stored))
		},
		OldField: statefulSetOldField,
	}
	if validate.DeletionProtection {
		kind.Refused = options.Refused
		kind.ValidateDelete = func(obj *v1beta1.StatefulSet) field.ErrorList { return api.ValidateDelete(obj, validate) }
	}
	return kind
}

func statefulSetTemplate(obj *v1beta1.StatefulSet) admission.PodTemplate {
	if obj == nil {
		return admission.PodTemplate{}
	}
	return admission.PodTemplate{PodTemplateSpec: &obj.Spec.Template, Claims: obj.Spec.VolumeClaimTemplates}
}

// statefulSetOldField returns the v1alpha1 place of a v1beta1 field: the same name, or the annotation.
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

// storageClasses reads classes for a single request.
type storageClasses struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the request
	reader client.Reader
}

// Named implements [api.StorageClasses].
func (s *storageClasses) Named(name string) (*storagev1.StorageClass, error) {
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

// Default implements [api.StorageClasses].
func (s *storageClasses) Default() (*storagev1.StorageClass, error) {
	classes := &storagev1.StorageClassList{}
	if err := s.reader.List(s.ctx, classes); err != nil {
		return nil, fmt.Errorf("listing storage classes: %w", err)
	}
	return api.DefaultClass(classes.Items), nil
}
