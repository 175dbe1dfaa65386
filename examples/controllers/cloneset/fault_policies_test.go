package cloneset

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/faultapi"
)

// policies are what somebody forbids the controller for as long as it lasts.
type policies struct {
	quota                   bool // of pods Pods in the namespace
	pods                    int
	images, resize, deletes bool
	invalid                 bool // answered as 422, otherwise as 403
}

// drawPolicies takes policies into force that this schedule knows.
func (w *story) drawPolicies() policies {
	s := &w.setup
	return policies{
		quota: s.quota && w.Chance(60), pods: w.Rand().IntN(7), invalid: w.Chance(50),
		images: s.denyImages && w.Chance(60), resize: s.denyResize && w.Chance(60), deletes: s.denyDeletes && w.Chance(60),
	}
}

// policyStep changes the policies, or lifts them all.
func (w *story) policyStep() {
	w.policies = policies{}
	if w.Chance(60) {
		w.policies = w.drawPolicies()
	}
	w.Logf("policies: %+v", w.policies)
}

// denies is what admission says to a write of the controller.
func (w *story) denies(call faultapi.Call, before client.Object) error {
	if call.Resource.Resource != "pods" {
		return nil
	}
	p := &w.policies
	switch {
	case call.Verb == "create":
		if used := w.used(); p.quota && used >= p.pods {
			return apierrors.NewForbidden(call.Resource, call.Name,
				fmt.Errorf("exceeded quota: team, requested: pods=1, used: pods=%d, limited: pods=%d", used, p.pods))
		}
	case call.Verb == "delete":
		if p.deletes {
			return p.refusal(call, "metadata", "deletions need an approval")
		}
	case call.Subresource == "resize":
		if p.resize {
			return p.refusal(call, "spec.containers[0].resources", "no resizes in this namespace")
		}
	case call.Subresource == "":
		if pod, ok := before.(*corev1.Pod); ok && p.images && changesImage(call.Body, pod) {
			return p.refusal(call, "spec.containers[0].image", "images of Pods are frozen")
		}
	}
	return nil
}

// used counts Pods as a quota does: those that terminate too, and not those that have ended.
func (w *story) used() int {
	n := 0
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			n++
		}
	}
	return n
}

func (p *policies) refusal(call faultapi.Call, path, why string) error {
	if p.invalid {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, call.Name, field.ErrorList{field.Forbidden(field.NewPath(path), why)})
	}
	return apierrors.NewForbidden(call.Resource, call.Name, errors.New(why))
}

// changesImage reports whether a patch gives a container another image.
func changesImage(body []byte, pod *corev1.Pod) bool {
	var patch corev1.Pod
	if json.Unmarshal(body, &patch) != nil {
		return false
	}
	images := map[string]string{}
	for i := range pod.Spec.Containers {
		images[pod.Spec.Containers[i].Name] = pod.Spec.Containers[i].Image
	}
	for i := range patch.Spec.Containers {
		if c := &patch.Spec.Containers[i]; c.Image != "" && images[c.Name] != c.Image {
			return true
		}
	}
	return false
}
