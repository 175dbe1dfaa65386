package cloneset

import (
	"context"
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/cloneset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

// endpoint returns the admission rules that default and validate CloneSets.
func endpoint(options admission.Options) *admission.Rules[v1beta1.CloneSet, v1alpha1.CloneSet] {
	gates := apps.ResolveGates(options.Gates)
	defaults := api.DefaultOptions{
		TemplateNoDefaults:   gates[apps.GateTemplateNoDefaults],
		HostNetworkHostPorts: gates[apps.GateDefaultHostNetworkHostPorts],
	}
	validate := validateOptions{inPlaceResources: gates[apps.GateInPlaceWorkloadVerticalScaling]}
	judge := admission.NewTemplateJudge(options, "spec.template was")
	kind := &admission.Rules[v1beta1.CloneSet, v1alpha1.CloneSet]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "CloneSet"},
		Resource:   "clonesets",
		Name:       "cloneset",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.CloneSet) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, stored *v1beta1.CloneSet) { api.Default(obj, stored, defaults) },
		ValidateCreate: func(ctx context.Context, obj *v1beta1.CloneSet) (field.ErrorList, error) {
			opts, err := withPodsToDelete(ctx, options.Reader, validate, obj, nil)
			return validateCreate(obj, opts), err
		},
		ValidateUpdate: func(ctx context.Context, obj, stored *v1beta1.CloneSet) (field.ErrorList, error) {
			opts, err := withPodsToDelete(ctx, options.Reader, validate, obj, stored)
			return validateUpdate(obj, stored, opts), err
		},
		CheckTemplate: func(ctx context.Context, obj, stored *v1beta1.CloneSet) (field.ErrorList, string) {
			return judge.Check(ctx, obj.Namespace, cloneSetTemplate(obj), cloneSetTemplate(stored))
		},
		ValidateOld: validateV1alpha1,
		OldField:    v1alpha1Field,
	}
	if gates[apps.GateResourcesDeletionProtection] {
		kind.Refused = options.Refused
		kind.ValidateDelete = validateDelete
	}
	return kind
}

func validateDelete(obj *v1beta1.CloneSet) field.ErrorList {
	return validation.DeletionProtected("CloneSet", obj.Labels, replicasOf(obj))
}

func cloneSetTemplate(obj *v1beta1.CloneSet) admission.PodTemplate {
	if obj == nil {
		return admission.PodTemplate{}
	}
	return admission.PodTemplate{PodTemplateSpec: &obj.Spec.Template, Claims: obj.Spec.VolumeClaimTemplates}
}

// withPodsToDelete returns opts with the metadata of the Pods whose names the create or update request adds to
// podsToDelete.
func withPodsToDelete(ctx context.Context, reader client.Reader, opts validateOptions, obj, stored *v1beta1.CloneSet,
) (validateOptions, error) {
	if reader == nil {
		return opts, nil
	}
	names := sets.New(obj.Spec.ScaleStrategy.PodsToDelete...)
	if stored != nil {
		names.Delete(stored.Spec.ScaleStrategy.PodsToDelete...)
	}
	for name := range names {
		if len(apivalidation.NameIsDNSSubdomain(name, false)) > 0 {
			names.Delete(name) // no Pod can have such a name
		}
	}
	var err error
	opts.pods, err = podsNamed(ctx, reader, obj.Namespace, obj.Spec.Selector, names)
	if err != nil {
		err = fmt.Errorf("looking up the Pods of podsToDelete: %w", err)
	}
	return opts, err
}

// v1alpha1Field returns the v1alpha1 name of a v1beta1 field.
func v1alpha1Field(path string) string {
	const strategy, rolling = "spec.updateStrategy", "spec.updateStrategy.rollingUpdate"
	annotation := func(key string) string { return field.NewPath("metadata", "annotations").Key(key).String() }
	switch path {
	case rolling + ".podUpdatePolicy":
		return strategy + ".type"
	case rolling + ".inPlaceUpdateStrategy.imagePreDownloadParallelism":
		return annotation(apps.AnnotationImagePreDownloadParallelism)
	case rolling + ".inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds":
		return annotation(apps.AnnotationImagePreDownloadTimeoutSeconds)
	case rolling + ".inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods":
		return annotation(apps.AnnotationImagePreDownloadMinUpdatedReadyPods)
	}
	if below, ok := strings.CutPrefix(path, rolling); ok {
		return strategy + below
	}
	return path
}
