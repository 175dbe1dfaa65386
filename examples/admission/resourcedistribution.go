package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// ResourceDistribution describes the kind ResourceDistribution. The API server judges the resource by a dry-run
// creation in options.Namespace with options.Client. Without either the check is skipped. No object is created while
// the feature gate is off.
func ResourceDistribution(options Options) *Kind[v1beta1.ResourceDistribution, v1alpha1.ResourceDistribution] {
	judge := resourceJudge{client: options.Client, namespace: options.Namespace, unchecked: options.TemplateUnchecked, log: options.Log}
	on := apps.ResolveGates(options.Gates)[apps.GateResourceDistribution]
	return &Kind[v1beta1.ResourceDistribution, v1alpha1.ResourceDistribution]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "ResourceDistribution"},
		Resource:   "resourcedistributions",
		Name:       "resourcedistribution",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		ToHub: conversion.ResourceDistributionToV1beta1, FromHub: conversion.ResourceDistributionToV1alpha1,
		ConvertJSON: conversion.JSON, CheckConversion: conversion.Check,
		Undecodable: func(obj *v1beta1.ResourceDistribution) []decode.Problem { return obj.Spec.Undecodable },
		Closed: func() error {
			if on {
				return nil
			}
			return fmt.Errorf("feature gate %s is off: nobody would carry it out", apps.GateResourceDistribution)
		},
		ValidateCreate: func(_ context.Context, obj *v1beta1.ResourceDistribution) (field.ErrorList, error) {
			return resourcedistribution.ValidateCreate(obj), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.ResourceDistribution) (field.ErrorList, error) {
			return resourcedistribution.ValidateUpdate(obj, stored), nil
		},
		CheckTemplate: judge.check,
		OldField: func(hubField string) string {
			return strings.Replace(hubField, "spec.targets.namespaceSelector", "spec.targets.namespaceLabelSelector", 1)
		},
	}
}

// resourceJudge asks the API server about a ConfigMap or Secret.
type resourceJudge struct {
	client    client.Writer
	namespace string
	unchecked func(error)
	log       logr.Logger
}

// check returns the API server's objections against a copy of a changed resource. An object of the same name may exist.
// If the API server does not answer, the resource passes with a warning: refused copies will be reported.
func (j *resourceJudge) check(ctx context.Context, obj, stored *v1beta1.ResourceDistribution) (field.ErrorList, string) {
	if j.client == nil || j.namespace == "" || stored != nil && bytes.Equal(obj.Spec.Resource.Raw, stored.Spec.Resource.Raw) {
		return nil, ""
	}
	path := resourcedistribution.ResourcePath()
	resource, problems := resourcedistribution.Read(obj.Spec.Resource.Raw, path)
	if len(problems) > 0 {
		return problems, ""
	}
	template := resource.Copy(j.namespace, metav1.OwnerReference{Name: obj.Name})
	template.SetOwnerReferences(nil)
	copied, ok := template.(client.Object)
	if !ok {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(ctx, templatePatience)
	defer cancel()
	err := j.client.Create(ctx, copied, client.DryRunAll)
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil, ""
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && isRefusal(status.Status().Code) {
		return refusedCopy(status.Status(), path), ""
	}
	if j.unchecked != nil {
		j.unchecked(err)
	}
	j.log.V(1).Info("A resource was not checked by the API server", "namespace", j.namespace, "error", err.Error())
	return nil, "spec.resource was not checked by the API server, which may refuse its copies; kruise-manager logs why (--v=1)"
}

// isRefusal reports whether an answer is about the object sent, not about the API server or the namespace.
func isRefusal(code int32) bool {
	switch code {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}

// refusedCopy maps the API server's objections to fields of the ResourceDistribution.
func refusedCopy(status metav1.Status, path *field.Path) (problems field.ErrorList) {
	if status.Details != nil && status.Reason == metav1.StatusReasonInvalid {
		for _, cause := range status.Details.Causes {
			problems = append(problems, &field.Error{
				Type: field.ErrorType(cause.Type), Field: path.Child(cause.Field).String(), BadValue: field.OmitValueType{},
				Detail: strings.TrimPrefix(strings.TrimPrefix(cause.Message, field.ErrorType(cause.Type).String()), ": "),
			})
		}
	}
	if len(problems) == 0 {
		problems = field.ErrorList{field.Invalid(path, field.OmitValueType{}, "the API server does not take it: "+status.Message)}
	}
	return problems
}
