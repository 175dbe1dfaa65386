package predownload

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// These are the values that OpenKruise 1.9 sets in ImagePullJobs of workloads.
const (
	backoffLimit = 1
	keepSeconds  = 600
)

// job returns the job that pulls the image of a container. The job selects the outdated Pods of the workload, because
// a Node whose Pod was updated has the image already.
func (v *View) job(container *corev1.Container, s Settings, nodes []string) *v1beta1.ImagePullJob {
	selector := v.Selector.DeepCopy()
	updated := metav1.LabelSelectorRequirement{Key: apps.LabelRevision, Operator: metav1.LabelSelectorOpNotIn, Values: []string{v.Update.Name, v.hash()}}
	if len(v.Update.Name) > validation.LabelValueMaxLength { // no Pod can have the label, and the selector would be invalid
		updated.Values = []string{v.hash()}
	}
	selector.MatchExpressions = append(selector.MatchExpressions, updated)
	out := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: v.Namespace, Name: v.Update.Name + "-" + container.Name, OwnerReferences: []metav1.OwnerReference{v.Owner},
		Labels: labels.Merge(v.Template.Labels, map[string]string{apps.LabelRevisionHash: v.hash()}),
	}}
	if len(nodes) > 1 {
		out.Annotations = map[string]string{apps.AnnotationPullOrder: strings.Join(nodes, ",")}
	}
	out.Spec = v1beta1.ImagePullJobSpec{
		Image: container.Image, PullSecrets: v.secrets(), Parallelism: &s.Parallelism,
		PodSelector:      &v1beta1.ImagePullJobPodSelector{LabelSelector: *selector},
		PullPolicy:       &v1beta1.PullPolicy{TimeoutSeconds: &s.TimeoutSeconds, BackoffLimit: new(int32(backoffLimit))},
		CompletionPolicy: v1beta1.CompletionPolicy{Type: v1beta1.Always, TTLSecondsAfterFinished: new(int32(keepSeconds))},
	}
	if len(v.Template.Labels)+len(v.Template.Annotations) > 0 {
		out.Spec.SandboxConfig = &v1beta1.SandboxConfig{Labels: v.Template.Labels, Annotations: v.Template.Annotations}
	}
	return out
}

// hash returns the hash at the end of the update revision's name. Some kinds use only this hash as the label value of
// Pods.
func (v *View) hash() string { return v.Update.Name[strings.LastIndex(v.Update.Name, "-")+1:] }

// secrets returns the names of the template's pull secrets, each name once.
func (v *View) secrets() (names []string) {
	for _, ref := range v.Template.Spec.ImagePullSecrets {
		if ref.Name != "" && !slices.Contains(names, ref.Name) {
			names = append(names, ref.Name)
		}
	}
	return names
}
