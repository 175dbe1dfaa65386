package sidecarset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// endpoint returns the admission rules that default and validate SidecarSets. The API server validates the containers
// and volumes as parts of a Pod template.
func endpoint(options admission.Options) *admission.Rules[v1beta1.SidecarSet, v1alpha1.SidecarSet] {
	judge := admission.NewTemplateJudge(options, "the containers and volumes were")
	look := sidecarSetLookups{
		reader: options.Reader, namespace: options.Namespace, lenient: apps.ResolveGates(options.Gates)[apps.GateSidecarSetPatchPodMetadataDefaults],
	}
	return &admission.Rules[v1beta1.SidecarSet, v1alpha1.SidecarSet]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "SidecarSet"},
		Resource:   "sidecarsets",
		Name:       "sidecarset",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.SidecarSet) []decode.Problem { return obj.Spec.Undecodable },
		Default: func(obj, _ *v1beta1.SidecarSet) {
			if err := api.Default(obj); err != nil {
				panic(err) // decoded values can always be encoded; a panic gives a response with status 500
			}
		},
		ValidateCreate: func(ctx context.Context, obj *v1beta1.SidecarSet) (field.ErrorList, error) {
			return look.validate(ctx, obj, nil)
		},
		ValidateUpdate: look.validate,
		CheckTemplate: func(ctx context.Context, obj, stored *v1beta1.SidecarSet) (field.ErrorList, string) {
			problems, warning := judge.Check(ctx, cmp.Or(options.Namespace, metav1.NamespaceDefault), sidecarSetTemplate(obj), sidecarSetTemplate(stored))
			for _, problem := range problems {
				if rest, found := strings.CutPrefix(problem.Field, "spec.template.spec."); found {
					problem.Field = "spec." + rest
				}
			}
			return problems, warning
		},
		TemplateParts: func(admission.Spec) []admission.TemplatePart {
			return []admission.TemplatePart{
				{Path: "containers", Into: &[]pub.SidecarContainer{}}, {Path: "initContainers", Into: &[]pub.SidecarContainer{}}, {Path: "volumes", Into: &[]corev1.Volume{}},
			}
		},
		Warn:      sidecarSetWarnings,
		Withdrawn: map[string]string{"strategy": "spec.strategy has no effect and is not stored: use spec.updateStrategy"},
		OldField: func(hubField string) string {
			if hubField == "spec.customVersion" {
				return "metadata.labels[" + apps.LabelSidecarSetCustomVersion + "]"
			}
			return hubField
		},
	}
}

// sidecarSetWarnings returns warnings about values of a SidecarSet that have no effect.
func sidecarSetWarnings(obj *v1beta1.SidecarSet, old *v1alpha1.SidecarSet) (out []string) {
	path := "spec.namespaceSelector"
	if old != nil && old.Spec.Namespace != "" {
		path = "spec.namespace"
		if old.Spec.NamespaceSelector != nil {
			out = append(out, "spec.namespaceSelector has no effect beside spec.namespace: Pods of namespace "+admission.Shown(old.Spec.Namespace)+" alone are meant")
		}
	}
	if namesNamespace(obj.Spec.NamespaceSelector, metav1.NamespaceSystem) {
		out = append(out, path+": Pods of namespace "+metav1.NamespaceSystem+" get no sidecars")
	}
	return out
}

// namesNamespace reports whether a selector selects a namespace by its name.
func namesNamespace(selector *metav1.LabelSelector, name string) bool {
	if selector == nil {
		return false
	}
	asked := selector.MatchLabels[corev1.LabelMetadataName] == name
	for i := range selector.MatchExpressions {
		e := &selector.MatchExpressions[i]
		asked = asked || e.Key == corev1.LabelMetadataName && e.Operator == metav1.LabelSelectorOpIn && slices.Contains(e.Values, name)
	}
	return asked
}

// sidecarSetTemplate returns a Pod template that contains only the sidecars.
func sidecarSetTemplate(obj *v1beta1.SidecarSet) admission.PodTemplate {
	if obj == nil {
		return admission.PodTemplate{}
	}
	plain := func(list []pub.SidecarContainer) (out []corev1.Container) {
		for i := range list {
			out = append(out, list[i].Container)
		}
		return out
	}
	const day = 24 * 60 * 60 // long enough that a preStop sleep of a sidecar is valid
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(day)), InitContainers: plain(obj.Spec.InitContainers), Containers: plain(obj.Spec.Containers), Volumes: obj.Spec.Volumes,
	}}
	if len(template.Spec.Containers) == 0 { // a Pod needs at least one container
		template.Spec.Containers = []corev1.Container{{Name: "container-of-the-pod", Image: "image"}}
	}
	return admission.PodTemplate{PodTemplateSpec: template}
}

// sidecarSetLookups reads the objects that the validation of a SidecarSet needs.
type sidecarSetLookups struct {
	reader    client.Reader
	namespace string
	lenient   bool
}

// validate validates a creation, if stored is nil, or an update.
func (l *sidecarSetLookups) validate(ctx context.Context, obj, stored *v1beta1.SidecarSet) (field.ErrorList, error) {
	others, err := l.others(ctx)
	if err != nil {
		return nil, err
	}
	rules, err := l.rules(ctx, obj, stored)
	if err != nil {
		return nil, err
	}
	options := validateOptions{annotations: rules, othersUnknown: l.reader == nil}
	var errs field.ErrorList
	if stored == nil {
		errs = validateCreate(obj, others, options)
	} else {
		errs = validateUpdate(obj, stored, others, options)
	}
	missing, err := l.revision(ctx, obj, stored)
	return append(errs, missing...), err
}

func (l *sidecarSetLookups) others(ctx context.Context) ([]*v1beta1.SidecarSet, error) {
	if l.reader == nil {
		return nil, nil
	}
	var list v1beta1.SidecarSetList
	if err := l.reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing the other SidecarSets: %w", err)
	}
	out := make([]*v1beta1.SidecarSet, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// rules reads the rules for annotations if obj adds or changes annotation patches.
func (l *sidecarSetLookups) rules(ctx context.Context, obj, stored *v1beta1.SidecarSet) (*annotationRules, error) {
	patches := obj.Spec.PatchPodMetadata
	if l.reader == nil || l.namespace == "" || len(patches) == 0 ||
		stored != nil && apiequality.Semantic.DeepEqual(patches, stored.Spec.PatchPodMetadata) && maps.Equal(obj.Labels, stored.Labels) {
		return nil, nil
	}
	var configuration corev1.ConfigMap
	err := l.reader.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: apps.ConfigurationName}, &configuration)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", l.namespace, apps.ConfigurationName, err)
	}
	rules, err := parseAnnotationRules(configuration.Data[apps.ConfigurationAnnotationRules], l.lenient)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", l.namespace, apps.ConfigurationName, err)
	}
	return rules, nil
}

// revision returns an error if the write pins a revision that does not exist.
func (l *sidecarSetLookups) revision(ctx context.Context, obj, stored *v1beta1.SidecarSet) (field.ErrorList, error) {
	wanted := obj.Spec.InjectionStrategy.Revision
	if l.reader == nil || l.namespace == "" || wanted == nil ||
		stored != nil && apiequality.Semantic.DeepEqual(wanted, stored.Spec.InjectionStrategy.Revision) {
		return nil, nil
	}
	path := field.NewPath("spec", "injectionStrategy", "revision")
	if name := wanted.RevisionName; name != nil && *name != "" {
		var found appsv1.ControllerRevision
		err := l.reader.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: *name}, &found)
		switch {
		case apierrors.IsNotFound(err), err == nil && found.Labels[apps.LabelSidecarSetName] != obj.Name:
			return field.ErrorList{field.NotFound(path.Child("revisionName"), *name)}, nil
		case err != nil:
			return nil, fmt.Errorf("reading ControllerRevision %s/%s: %w", l.namespace, *name, err)
		}
		return nil, nil
	}
	if version := wanted.CustomVersion; version != nil && *version != "" {
		var found appsv1.ControllerRevisionList
		err := l.reader.List(ctx, &found, client.InNamespace(l.namespace), client.Limit(1),
			client.MatchingLabels{apps.LabelSidecarSetName: obj.Name, apps.LabelSidecarSetCustomVersion: *version})
		if err != nil {
			return nil, fmt.Errorf("listing the ControllerRevisions of version %q: %w", *version, err)
		}
		if len(found.Items) == 0 {
			return field.ErrorList{field.NotFound(path.Child("customVersion"), *version)}, nil
		}
	}
	return nil, nil
}
