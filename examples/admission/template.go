package admission

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodTemplate is the template of a workload's Pods. The zero value means that there is no template.
type PodTemplate struct {
	*corev1.PodTemplateSpec

	// Claims are the claim templates. Each claim is mounted as a volume of the same name.
	Claims []corev1.PersistentVolumeClaim
}

// isLike reports whether two templates are equal in all fields that the API server validates.
func (p PodTemplate) isLike(other PodTemplate) bool {
	return apiequality.Semantic.DeepEqual(p.withVolumes(), other.withVolumes())
}

// withVolumes returns the template with the claims appended to its volumes. A claim replaces a volume of the same name.
func (p PodTemplate) withVolumes() *corev1.PodTemplateSpec {
	out := p.DeepCopy()
	for i := range p.Claims {
		volume := corev1.Volume{Name: p.Claims[i].Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"},
		}}
		taken := false
		for j := range out.Spec.Volumes {
			if taken = out.Spec.Volumes[j].Name == volume.Name; taken {
				out.Spec.Volumes[j] = volume
				break
			}
		}
		if !taken {
			out.Spec.Volumes = append(out.Spec.Volumes, volume)
		}
	}
	return out
}

// TemplateJudge asks the API server to validate Pod templates, by dry-run creations of PodTemplates.
type TemplateJudge struct {
	dry  DryRun
	what string
}

// NewTemplateJudge returns a TemplateJudge. The parameter what is the beginning of the warning that a part of the spec
// could not be validated, for example "spec.template was". If options have no client, templates are not validated.
func NewTemplateJudge(options Options, what string) TemplateJudge {
	return TemplateJudge{NewDryRun(options), what}
}

// Check returns the errors of a template that the stored template does not have. On creation, stored is the zero
// value. If the API server does not answer, the template is accepted with a warning; if the API server refuses Pods
// later, the status of the object reports the errors.
func (j *TemplateJudge) Check(ctx context.Context, namespace string, next, stored PodTemplate) (problems field.ErrorList, warning string) {
	if !j.dry.On() || stored.PodTemplateSpec != nil && next.isLike(stored) {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(ctx, judgement) // a deadline for both requests together
	defer cancel()
	problems, err := j.judge(ctx, namespace, next)
	if err == nil && len(problems) > 0 && stored.PodTemplateSpec != nil {
		var before field.ErrorList
		before, err = j.judge(ctx, namespace, stored)
		problems = without(problems, next, before, stored)
	}
	if err != nil {
		return nil, j.dry.Unchecked(namespace, j.what, "Pods", err)
	}
	return problems, ""
}

// judge returns the API server's errors about a template. err says why the template could not be validated.
func (j *TemplateJudge) judge(ctx context.Context, namespace string, template PodTemplate) (field.ErrorList, error) {
	object := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "dry-run-"}, Template: *template.withVolumes()}
	err := j.dry.Create(ctx, object)
	if err == nil {
		return nil, nil
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil, err
	}
	var problems field.ErrorList
	for _, cause := range status.Status().Details.Causes {
		if !strings.HasPrefix(cause.Field, "template.") {
			return nil, err // the error is not about the template
		}
		problems = append(problems, objection(cause, template.fieldOf(cause.Field)))
	}
	return problems, nil
}

// fieldOf converts a field path in the PodTemplate to the path in the workload.
func (p PodTemplate) fieldOf(path string) string {
	const volumes = "template.spec.volumes["
	index, rest, _ := strings.Cut(strings.TrimPrefix(path, volumes), "]")
	i, err := strconv.Atoi(index)
	if own := len(p.Spec.Volumes); strings.HasPrefix(path, volumes) && err == nil && i >= own {
		var added []int
		for c := range p.Claims {
			if !p.hasVolume(p.Claims[c].Name) {
				added = append(added, c)
			}
		}
		if i-own < len(added) {
			return fmt.Sprintf("spec.volumeClaimTemplates[%d].metadata%s", added[i-own], rest)
		}
	}
	return "spec." + path
}

func (p PodTemplate) hasVolume(name string) bool {
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == name {
			return true
		}
	}
	return false
}

// without returns the errors in problems, which are errors of next, except the errors in known, which are errors of
// stored. Containers and volumes are identified by name, because their indexes may change.
func without(problems field.ErrorList, next PodTemplate, known field.ErrorList, stored PodTemplate) field.ErrorList {
	had := map[string]bool{}
	for _, problem := range known {
		had[stored.named(problem.Field)+": "+problem.ErrorBody()] = true
	}
	var out field.ErrorList
	for _, problem := range problems {
		if !had[next.named(problem.Field)+": "+problem.ErrorBody()] {
			out = append(out, problem)
		}
	}
	return out
}

// named replaces the index of a container or volume in a path by its name.
func (p PodTemplate) named(path string) string {
	rest, ok := strings.CutPrefix(path, "spec.template.spec.")
	list, tail, indexed := strings.Cut(rest, "[")
	number, tail, closed := strings.Cut(tail, "]")
	i, err := strconv.Atoi(number)
	if !ok || !indexed || !closed || err != nil {
		return path
	}
	var name string
	switch {
	case list == "containers" && i < len(p.Spec.Containers):
		name = p.Spec.Containers[i].Name
	case list == "initContainers" && i < len(p.Spec.InitContainers):
		name = p.Spec.InitContainers[i].Name
	case list == "volumes" && i < len(p.Spec.Volumes):
		name = p.Spec.Volumes[i].Name
	default:
		return path
	}
	return list + "[" + name + "]" + tail
}
