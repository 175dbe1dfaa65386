package uniteddeployment

import (
	"context"
	"errors"
	"net/http"
	"reflect"
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
	api "github.com/workloadkit/workloadkit/examples/apis/apps/uniteddeployment"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// endpoint returns the admission rules that default and validate UnitedDeployments. The API server validates the
// workloads of subsets by dry-run creations.
func endpoint(options admission.Options) *admission.Rules[v1beta1.UnitedDeployment, v1alpha1.UnitedDeployment] {
	gates := apps.ResolveGates(options.Gates)
	defaults := api.DefaultOptions{TemplateNoDefaults: gates[apps.GateTemplateNoDefaults]}
	judge := workloadJudge{admission.NewTemplateJudge(options, "spec.template was"), admission.NewDryRun(options)}
	rules := &admission.Rules[v1beta1.UnitedDeployment, v1alpha1.UnitedDeployment]{
		GroupKind:  schema.GroupKind{Group: apps.Group, Kind: "UnitedDeployment"},
		Resource:   "uniteddeployments",
		Name:       "uniteddeployment",
		HubVersion: v1beta1.GroupVersion.Version, OldVersion: v1alpha1.GroupVersion.Version,
		Undecodable: func(obj *v1beta1.UnitedDeployment) []decode.Problem { return obj.Spec.Undecodable },
		Default:     func(obj, stored *v1beta1.UnitedDeployment) { api.Default(obj, stored, defaults) },
		ValidateCreate: func(_ context.Context, obj *v1beta1.UnitedDeployment) (field.ErrorList, error) {
			return validateCreate(obj), nil
		},
		ValidateUpdate: func(_ context.Context, obj, stored *v1beta1.UnitedDeployment) (field.ErrorList, error) {
			return validateUpdate(obj, stored), nil
		},
		CheckTemplate: judge.check,
		TemplateParts: templateParts,
		Warn:          func(obj *v1beta1.UnitedDeployment, _ *v1alpha1.UnitedDeployment) []string { return warn(obj) },
		WarnUpdate:    warnUpdate,
	}
	if gates[apps.GateResourcesDeletionProtection] {
		rules.Refused = options.Refused
		rules.ValidateDelete = validateDelete
	}
	return rules
}

// templateParts returns the workload templates, and the Pod and claim templates in the workload templates.
func templateParts(admission.Spec) []admission.TemplatePart {
	parts := []admission.TemplatePart{
		{Path: "template.statefulSetTemplate.spec", Into: &appsv1.StatefulSetSpec{}},
		{Path: "template.deploymentTemplate.spec", Into: &appsv1.DeploymentSpec{}},
	}
	for _, name := range []string{"statefulSetTemplate", "deploymentTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate"} {
		parts = append(parts, admission.TemplatePart{Path: "template." + name + ".metadata", Into: &metav1.ObjectMeta{}})
	}
	for _, name := range []string{"advancedStatefulSetTemplate", "cloneSetTemplate"} {
		parts = append(parts,
			admission.TemplatePart{Path: "template." + name + ".spec.template", Into: &corev1.PodTemplateSpec{}},
			admission.TemplatePart{Path: "template." + name + ".spec.volumeClaimTemplates", Into: &[]corev1.PersistentVolumeClaim{}},
		)
	}
	return parts
}

// workloadJudge asks the API server to validate the workloads of subsets. StatefulSets and Deployments of Kubernetes
// are validated as a whole. Of CloneSets and StatefulSets of this group only the Pod templates are validated, because
// these kinds have webhooks in the same process, and webhooks should not wait for each other.
type workloadJudge struct {
	pods admission.TemplateJudge
	dry  admission.DryRun
}

// mostJudged is the largest number of subsets whose workloads the API server validates. More subsets seldom lead to
// further errors, because most subsets differ only in the values of the same fields.
const mostJudged = 5

// check validates the workloads of the first subsets, up to the first workload with an error. An error names the field
// of the template, and the subset.
func (j *workloadJudge) check(ctx context.Context, obj, stored *v1beta1.UnitedDeployment) (problems field.ErrorList, warning string) {
	subsets := obj.Spec.Topology.Subsets
	if len(subsets) == 0 {
		subsets = make([]v1beta1.Subset, 1)
	}
	for i := 0; i < min(len(subsets), mostJudged) && len(problems) == 0 && warning == ""; i++ {
		next, path := sample(obj, &subsets[i])
		if next == nil {
			return nil, ""
		}
		var was workload
		if stored != nil {
			was, _ = sample(stored, subsetNamed(stored, subsets[i].Name))
		}
		problems, warning = j.judge(ctx, path, next, was)
		for _, problem := range problems {
			if name := subsets[i].Name; name != "" {
				problem.Detail += " (subset " + name + ")"
			}
		}
	}
	return problems, warning
}

func subsetNamed(ud *v1beta1.UnitedDeployment, name string) *v1beta1.Subset {
	for i := range ud.Spec.Topology.Subsets {
		if subset := &ud.Spec.Topology.Subsets[i]; subset.Name == name {
			return subset
		}
	}
	return nil
}

// sample returns the workload of a subset, with zero replicas, and the path of the workload's template. If subset is
// nil, the workload contains no changes for a subset.
func sample(ud *v1beta1.UnitedDeployment, subset *v1beta1.Subset) (workload, *field.Path) {
	found := templatesOf(&ud.Spec.Template)
	if len(found) != 1 || subset == nil || ud.Spec.Selector == nil {
		return nil, nil
	}
	w, _, err := build(ud, found[0], subset, "", numbers{})
	if err != nil {
		return nil, nil
	}
	w.SetOwnerReferences(nil)
	return w, field.NewPath("spec", "template", found[0].name)
}

func (j *workloadJudge) judge(ctx context.Context, path *field.Path, next, was workload) (field.ErrorList, string) {
	switch next.(type) {
	case *appsv1.StatefulSet, *appsv1.Deployment:
		return j.whole(ctx, path, next, was)
	}
	before := admission.PodTemplate{}
	if was != nil && reflect.TypeOf(was) == reflect.TypeOf(next) {
		before = podTemplate(was)
	}
	problems, warning := j.pods.Check(ctx, next.GetNamespace(), podTemplate(next), before)
	for _, problem := range problems {
		problem.Field = path.Child("spec").String() + strings.TrimPrefix(problem.Field, "spec")
	}
	return problems, warning
}

func podTemplate(w workload) admission.PodTemplate {
	p := partsOf(w)
	return admission.PodTemplate{PodTemplateSpec: p.pod, Claims: p.claims}
}

// whole makes the API server validate a whole workload of Kubernetes. Errors that may be temporary, for example because
// of a quota, are reported only when the workload is created.
func (j *workloadJudge) whole(ctx context.Context, path *field.Path, next, was workload) (field.ErrorList, string) {
	object, ok := next.(client.Object)
	if !j.dry.On() || !ok || apiequality.Semantic.DeepEqual(next, was) {
		return nil, ""
	}
	err := j.dry.Create(ctx, object)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil, ""
	case errors.As(err, &status) && (status.Status().Code == http.StatusUnprocessableEntity || status.Status().Code == http.StatusBadRequest):
		return admission.Objections(status.Status(), path), ""
	}
	return nil, j.dry.Unchecked(next.GetNamespace(), path.String()+" was", "workloads", err)
}
