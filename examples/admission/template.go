package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// templatePatience is how long the API server may take to judge a template. Meanwhile the API server waits for the
// whole answer itself.
const templatePatience = 3 * time.Second

// podTemplate is the template of a workload's Pods.
type podTemplate struct {
	*corev1.PodTemplateSpec

	claims []corev1.PersistentVolumeClaim // each claim is a volume of the same name
}

// isLike reports whether Pods of the two are alike, as far as admission is concerned.
func (p podTemplate) isLike(other podTemplate) bool {
	return apiequality.Semantic.DeepEqual(p.withVolumes(), other.withVolumes())
}

// withVolumes returns the effective template, with the claims as volumes after its own volumes. A claim replaces a
// volume of the same name.
func (p podTemplate) withVolumes() *corev1.PodTemplateSpec {
	out := p.DeepCopy()
	for i := range p.claims {
		volume := corev1.Volume{Name: p.claims[i].Name, VolumeSource: corev1.VolumeSource{
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

// templateJudge asks the API server about Pod templates: the API server knows its own rules best. The question is a
// dry-run creation of a PodTemplate, invisible to everybody.
type templateJudge struct {
	client    client.Writer
	unchecked func(error)
	log       logr.Logger
	what      string // the unchecked part, for the warning; empty for a template
}

// check returns the new problems of a template, beyond the problems of the template before. On creation, stored has a
// nil PodTemplateSpec. If the API server cannot be asked, the template passes with a warning: refused Pods will be
// reported. Strangers on the webhooks' port can see the warning, so the warning has no words of the API server about
// the namespace.
func (j *templateJudge) check(ctx context.Context, namespace string, next, stored podTemplate) (problems field.ErrorList, warning string) {
	if j.client == nil || stored.PodTemplateSpec != nil && next.isLike(stored) {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(ctx, templatePatience)
	defer cancel()
	problems, err := j.judge(ctx, namespace, next)
	if err == nil && len(problems) > 0 && stored.PodTemplateSpec != nil {
		var before field.ErrorList
		before, err = j.judge(ctx, namespace, stored)
		problems = without(problems, next, before, stored)
	}
	if err != nil {
		if j.unchecked != nil {
			j.unchecked(err)
		}
		j.log.V(1).Info("A template was not checked by the API server", "namespace", namespace, "error", err.Error())
		return nil, cmp.Or(j.what, "spec.template was") + " not checked by the API server, which may refuse its Pods; kruise-manager logs why (--v=1)"
	}
	return problems, ""
}

// judge returns the API server's problems with a template. The error says why no judgement was possible.
func (j *templateJudge) judge(ctx context.Context, namespace string, template podTemplate) (field.ErrorList, error) {
	object := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "dry-run-"}, Template: *template.withVolumes()}
	err := j.client.Create(ctx, object, client.DryRunAll)
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
			return nil, err // not about the template
		}
		problems = append(problems, &field.Error{
			Type: field.ErrorType(cause.Type), Field: template.fieldOf(cause.Field), BadValue: field.OmitValueType{},
			Detail: strings.TrimPrefix(strings.TrimPrefix(cause.Message, field.ErrorType(cause.Type).String()), ": "),
		})
	}
	return problems, nil
}

// fieldOf says where in the workload a field of the PodTemplate is.
func (p podTemplate) fieldOf(path string) string {
	const volumes = "template.spec.volumes["
	index, rest, _ := strings.Cut(strings.TrimPrefix(path, volumes), "]")
	i, err := strconv.Atoi(index)
	if own := len(p.Spec.Volumes); strings.HasPrefix(path, volumes) && err == nil && i >= own {
		var added []int
		for c := range p.claims {
			if !p.hasVolume(p.claims[c].Name) {
				added = append(added, c)
			}
		}
		if i-own < len(added) {
			return fmt.Sprintf("spec.volumeClaimTemplates[%d].metadata%s", added[i-own], rest)
		}
	}
	return "spec." + path
}

func (p podTemplate) hasVolume(name string) bool {
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == name {
			return true
		}
	}
	return false
}

// without returns the problems of next missing among the problems of stored. Containers and volumes are matched by
// name: positions change when neighbours come and go.
func without(problems field.ErrorList, next podTemplate, known field.ErrorList, stored podTemplate) field.ErrorList {
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

// named replaces the index of a container or volume in a path by the name.
func (p podTemplate) named(path string) string {
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
