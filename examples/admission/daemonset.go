package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/daemonset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// DaemonSet describes the kind DaemonSet. Pod templates are stored as written; the API server judges the templates with
// its own defaults.
func DaemonSet(options Options) *Kind[v1beta1.DaemonSet, v1alpha1.DaemonSet] {
	judge := templateJudge{client: options.Client, unchecked: options.TemplateUnchecked, log: options.Log}
	return &Kind[v1beta1.DaemonSet, v1alpha1.DaemonSet]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "DaemonSet"},
		Resource:   "daemonsets",
		Name:       "daemonset",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		ToHub: conversion.DaemonSetToV1beta1, FromHub: conversion.DaemonSetToV1alpha1, ConvertJSON: conversion.JSON, CheckConversion: conversion.Check,
		Undecodable: func(obj *v1beta1.DaemonSet) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, _ *v1beta1.DaemonSet) { daemonset.Default(obj) },
		DefaultOld:  daemonset.DefaultV1alpha1,
		ValidateCreate: func(_ context.Context, obj *v1beta1.DaemonSet) (field.ErrorList, error) {
			return daemonset.ValidateCreate(obj), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.DaemonSet) (field.ErrorList, error) {
			return daemonset.ValidateUpdate(obj, stored), nil
		},
		Warn: func(obj *v1beta1.DaemonSet, _ *v1alpha1.DaemonSet) []string {
			if crowding := daemonset.CrowdingOf(obj); crowding != nil {
				return []string{crowding.String()}
			}
			return nil
		},
		CheckTemplate: func(ctx context.Context, obj, stored *v1beta1.DaemonSet) (field.ErrorList, string) {
			return judge.check(ctx, obj.Namespace, daemonSetTemplate(obj), daemonSetTemplate(stored))
		},
		ValidateOld: daemonset.ValidateV1alpha1,
	}
}

func daemonSetTemplate(obj *v1beta1.DaemonSet) podTemplate {
	if obj == nil {
		return podTemplate{}
	}
	return podTemplate{PodTemplateSpec: &obj.Spec.Template}
}
