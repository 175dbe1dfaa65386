package resourcedistribution

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// endpoint returns the admission rules that default and validate ResourceDistributions. The API server validates the
// resource by a dry-run creation in options.Namespace with options.Client. If the namespace or the client is missing,
// this check is skipped. While the feature gate is off, no ResourceDistribution can be created.
func endpoint(options admission.Options) *admission.Rules[v1beta1.ResourceDistribution, v1alpha1.ResourceDistribution] {
	judge := resourceJudge{admission.NewDryRun(options), options.Namespace}
	return &admission.Rules[v1beta1.ResourceDistribution, v1alpha1.ResourceDistribution]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "ResourceDistribution"},
		Resource:   "resourcedistributions",
		Name:       "resourcedistribution",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.ResourceDistribution) []decode.Problem { return obj.Spec.Undecodable },
		Closed:      admission.Gated(options, "nobody would carry it out", apps.GateResourceDistribution),
		ValidateCreate: func(_ context.Context, obj *v1beta1.ResourceDistribution) (field.ErrorList, error) {
			return validateCreate(obj), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.ResourceDistribution) (field.ErrorList, error) {
			return validateUpdate(obj, stored), nil
		},
		CheckTemplate: judge.check,
		TemplateParts: resourceParts,
		OldField: func(hubField string) string {
			return strings.Replace(hubField, "spec.targets.namespaceSelector", "spec.targets.namespaceLabelSelector", 1)
		},
	}
}

// resourceJudge asks the API server to validate a ConfigMap or Secret.
type resourceJudge struct {
	dry       admission.DryRun
	namespace string
}

// check returns the errors that the API server finds in a copy, if the resource has changed. An existing object of
// the same name is not an error. If the API server does not answer, the resource is accepted with a warning; if the
// API server refuses copies later, the status reports the errors.
func (j *resourceJudge) check(ctx context.Context, obj, stored *v1beta1.ResourceDistribution) (field.ErrorList, string) {
	if !j.dry.On() || j.namespace == "" || stored != nil && bytes.Equal(obj.Spec.Resource.Raw, stored.Spec.Resource.Raw) {
		return nil, ""
	}
	path := api.ResourcePath()
	resource, problems := api.Read(obj.Spec.Resource.Raw, path)
	if len(problems) > 0 {
		return problems, ""
	}
	template := resource.Copy(j.namespace, metav1.OwnerReference{Name: obj.Name})
	template.SetOwnerReferences(nil)
	copied, ok := template.(client.Object)
	if !ok {
		return nil, ""
	}
	err := j.dry.Create(ctx, copied)
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil, ""
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && isRefusal(status.Status().Code) {
		return admission.Objections(status.Status(), path), ""
	}
	return nil, j.dry.Unchecked(j.namespace, "spec.resource was", "copies", err)
}

// isRefusal reports whether an HTTP status code means that the object itself is invalid or too large, and not that
// the API server or the namespace has a problem.
func isRefusal(code int32) bool {
	switch code {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}

// resourceParts returns the resource as a part of the spec; the kind of the resource determines the type.
func resourceParts(spec admission.Spec) []admission.TemplatePart {
	var copied metav1.TypeMeta
	if utiljson.Unmarshal(spec["resource"], &copied) == nil && copied.Kind == "Secret" {
		return []admission.TemplatePart{{Path: "resource", Into: &corev1.Secret{}}}
	}
	return []admission.TemplatePart{{Path: "resource", Into: &corev1.ConfigMap{}}}
}
