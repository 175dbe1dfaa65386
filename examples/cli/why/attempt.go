package why

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/cli/cause"
	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
)

// tryCreation sends a dry-run creation of a Pod for a workload that lacks Pods, to find out whether a quota, a
// webhook or a policy refuses the Pod. If the user may not create Pods, tryCreation returns the API server's error
// and records no Refusal.
func (r *reader) tryCreation(ctx context.Context, f *cause.Facts) error {
	paths := facts.Templates(f.Object.Object)
	if f.Object.GetKind() == "Pod" || len(paths) == 0 || int64(len(f.Pods)) >= fields.IntOr(f.Object.Object, 0, "spec.replicas", "status.desiredNumberScheduled", "status.desired") {
		return nil
	}
	value, _ := fields.At(f.Object.Object, paths[0])
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	template := corev1.PodTemplateSpec{}
	if err := json.Unmarshal(raw, &template); err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = f.Object.GetNamespace(), f.Object.GetName()+"-"
	owner := metav1.NewControllerRef(f.Object, f.Object.GroupVersionKind())
	owner.BlockOwnerDeletion = nil // some clusters allow this field only for users who may change the owner's finalizers
	pod.OwnerReferences = []metav1.OwnerReference{*owner}
	for _, claim := range fields.List(f.Object.Object, "spec.volumeClaimTemplates") {
		name := fields.String(claim, "metadata.name")
		volume := corev1.Volume{Name: name}
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-" + f.Object.GetName() + "-0"}
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
	}
	_, err = r.clients.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	var status apierrors.APIStatus
	isAnswer := errors.As(err, &status)
	switch {
	case err == nil:
		return nil
	case !isAnswer, apierrors.IsForbidden(err) && strings.Contains(err.Error(), `cannot create resource "pods"`):
		return err
	}
	f.Refusals = append(f.Refusals, cause.Refusal{Operation: "create a Pod", Message: status.Status().Message})
	return nil
}

// splitList splits a list at its commas; "" is an empty list.
func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}
