package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/describe"

	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/examples/cli/seams"
)

// These are annotations of Deployments and of their ReplicaSets.
const (
	annotationRevision = "deployment.kubernetes.io/revision"
	// rolloutsPrefix is the prefix of the annotations in which Kruise Rollouts stores its state.
	rolloutsPrefix       = "rollouts.kruise.io/"
	annotationInProgress = rolloutsPrefix + "in-progressing"
	annotationStrategy   = rolloutsPrefix + "deployment-strategy"
)

// isOwnAnnotation reports whether an annotation belongs to the Deployment itself and not to a revision.
func isOwnAnnotation(key string) bool {
	return strings.HasPrefix(key, rolloutsPrefix) || strings.HasPrefix(key, "deployment.kubernetes.io/") || key == corev1.LastAppliedConfigAnnotation
}

// deployment undoes the rollout of a Deployment. kubectl's own implementation is not used, because kubectl would
// remove the annotations of Kruise Rollouts, and would refuse a Deployment that a canary release has paused.
func (u *undo) deployment(ctx context.Context, info *resource.Info, object *unstructured.Unstructured) error {
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d); err != nil {
		return err
	}
	isCanary := isCanaryRelease(d)
	if d.Spec.Paused && !isCanary {
		return errors.New("you cannot rollback a paused deployment; resume it first with 'kubectl kruise rollout resume' and try again")
	}
	clients, err := u.Factory.KubernetesClientSet()
	if err != nil {
		return err
	}
	all, err := clients.AppsV1().ReplicaSets(d.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	sets := slices.DeleteFunc(all.Items, func(set appsv1.ReplicaSet) bool { return !metav1.IsControlledBy(&set, d) || revisionOf(&set) == 0 })
	target, err := chooseSet(sets, &d.Spec.Template, u.revision, isCanary)
	if err != nil {
		return err
	}
	if u.dryRun == cmdutil.DryRunClient {
		var out bytes.Buffer
		describe.DescribePodTemplate(&target.Spec.Template, describe.NewPrefixWriter(&out))
		_, err := u.Out.Write(out.Bytes())
		return err
	}
	return u.One(info, backTo(target))
}

// isCanaryRelease reports whether Kruise Rollouts has paused a Deployment for a canary release.
func isCanaryRelease(d *appsv1.Deployment) bool {
	_, inProgress := d.Annotations[annotationInProgress]
	_, byStrategy := d.Annotations[annotationStrategy]
	return d.Spec.Paused && inProgress && !byStrategy
}

func revisionOf(set *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(set.Annotations[annotationRevision], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// chooseSet returns the ReplicaSet of a revision; number 0 means the previous revision. During a canary release the
// newest ReplicaSet may be older than the Deployment's template. Then the newest ReplicaSet is the previous revision.
func chooseSet(sets []appsv1.ReplicaSet, present *corev1.PodTemplateSpec, number int64, isCanary bool) (*appsv1.ReplicaSet, error) {
	slices.SortFunc(sets, func(a, b appsv1.ReplicaSet) int { return int(revisionOf(&b) - revisionOf(&a)) })
	if number > 0 {
		for i := range sets {
			if revisionOf(&sets[i]) == number {
				return &sets[i], nil
			}
		}
		return nil, fmt.Errorf("%w: %d", seams.ErrNoRevision, number)
	}
	if isCanary && len(sets) > 0 && !sameTemplate(&sets[0].Spec.Template, present) {
		return &sets[0], nil
	}
	if len(sets) < 2 {
		return nil, errors.New("no last revision to roll back to")
	}
	return &sets[1], nil
}

// sameTemplate compares templates, ignoring the label pod-template-hash, which the Deployment controller adds to the
// templates of ReplicaSets.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	first, second := a.DeepCopy(), b.DeepCopy()
	delete(first.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(second.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(first, second)
}

// backTo returns the edit that gives a Deployment the template and the annotations of a ReplicaSet.
func backTo(target *appsv1.ReplicaSet) edit {
	return func(object *unstructured.Unstructured) (string, error) {
		present := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, present); err != nil {
			return "", err
		}
		if sameTemplate(&present.Spec.Template, &target.Spec.Template) {
			return fmt.Sprintf("skipped rollback (current template already matches revision %d)", revisionOf(target)), nil
		}
		template := target.Spec.Template.DeepCopy()
		delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
		if err != nil {
			return "", err
		}
		annotations := map[string]string{}
		for key, value := range object.GetAnnotations() {
			if isOwnAnnotation(key) {
				annotations[key] = value
			}
		}
		for key, value := range target.Annotations {
			if !isOwnAnnotation(key) {
				annotations[key] = value
			}
		}
		object.SetAnnotations(annotations)
		return "rolled back", fields.Set(object.Object, content, "spec.template")
	}
}
