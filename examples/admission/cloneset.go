package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/cloneset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// CloneSet describes the kind of that name.
func CloneSet(options Options) *Kind[v1beta1.CloneSet, v1alpha1.CloneSet] {
	gates := apps.ResolveGates(options.Gates)
	defaults := cloneset.DefaultOptions{
		TemplateNoDefaults:   gates[apps.GateTemplateNoDefaults],
		HostNetworkHostPorts: gates[apps.GateDefaultHostNetworkHostPorts],
	}
	validate := cloneset.ValidateOptions{
		InPlaceResources:   gates[apps.GateInPlaceWorkloadVerticalScaling],
		DeletionProtection: gates[apps.GateResourcesDeletionProtection],
	}
	kind := &Kind[v1beta1.CloneSet, v1alpha1.CloneSet]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "CloneSet"},
		Resource:   "clonesets",
		Name:       "cloneset",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		ToHub: conversion.ToV1beta1, FromHub: conversion.ToV1alpha1, ConvertJSON: conversion.JSON,
		Default: func(obj, stored *v1beta1.CloneSet) { cloneset.Default(obj, stored, defaults) },
		ValidateCreate: func(ctx context.Context, obj *v1beta1.CloneSet) (field.ErrorList, error) {
			opts, err := withPodsToDelete(ctx, options.Reader, validate, obj, nil)
			return cloneset.ValidateCreate(obj, opts), err
		},
		ValidateUpdate: func(ctx context.Context, obj, stored *v1beta1.CloneSet) (field.ErrorList, error) {
			opts, err := withPodsToDelete(ctx, options.Reader, validate, obj, stored)
			return cloneset.ValidateUpdate(obj, stored, opts), err
		},
		ValidateOld: cloneset.ValidateV1alpha1,
		OldField:    v1alpha1Field,
	}
	if validate.DeletionProtection {
		kind.ValidateDelete = func(obj *v1beta1.CloneSet) field.ErrorList { return cloneset.ValidateDelete(obj, validate) }
	}
	return kind
}

// withPodsToDelete looks up the Pods that a request newly puts in podsToDelete.
func withPodsToDelete(ctx context.Context, reader client.Reader, opts cloneset.ValidateOptions, obj, stored *v1beta1.CloneSet,
) (cloneset.ValidateOptions, error) {
	if reader == nil {
		return opts, nil
	}
	var known []string
	if stored != nil {
		known = slices.Clone(stored.Spec.ScaleStrategy.PodsToDelete)
	}
	opts.Pods = []*corev1.Pod{}
	for _, name := range obj.Spec.ScaleStrategy.PodsToDelete {
		if slices.Contains(known, name) {
			continue
		}
		known = append(known, name)
		if len(apivalidation.NameIsDNSSubdomain(name, false)) > 0 {
			continue // no Pod can have this name, and the client would not even ask
		}
		pod := &corev1.Pod{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: obj.Namespace, Name: name}, pod)
		switch {
		case err == nil:
			opts.Pods = append(opts.Pods, pod)
		case !apierrors.IsNotFound(err):
			return opts, fmt.Errorf("looking up Pod %s of podsToDelete: %w", name, err)
		}
	}
	return opts, nil
}

// v1alpha1Field returns the name that a field of v1beta1 has in v1alpha1.
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
