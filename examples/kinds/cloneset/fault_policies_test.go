package cloneset

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/kruise/restart/restarttest"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// policies determine which requests of the controller the API server refuses for some time.
type policies struct {
	quota                   bool // on the number of Pods in the namespace
	pods                    int
	images, resize, deletes bool
	invalid                 bool // the status is 422, otherwise 403
}

// drawPolicies returns a random choice of the schedule's policies.
func (w *story) drawPolicies() policies {
	s := &w.setup
	return policies{
		quota: s.quota && w.Chance(60), pods: w.Rand().IntN(7), invalid: w.Chance(50),
		images: s.denyImages && w.Chance(60), resize: s.denyResize && w.Chance(60), deletes: s.denyDeletes && w.Chance(60),
	}
}

// policyStep replaces the policies by random policies, or by none.
func (w *story) policyStep() {
	w.policies = policies{}
	if w.Chance(60) {
		w.policies = w.drawPolicies()
	}
	w.Logf("policies: %+v", w.policies)
}

// denies returns the error with which admission refuses a write of the controller, or nil.
func (w *story) denies(call faultapi.Call, before client.Object) error {
	if call.Resource.Resource != "pods" {
		return w.agents.Denies(call)
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

// used counts Pods as a quota does: terminating Pods count, ended Pods do not.
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

// TestPolicies checks which requests the policies refuse.
func TestPolicies(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	call := func(verb, sub, body string) faultapi.Call {
		return faultapi.Call{Verb: verb, Resource: pods, Subresource: sub, Name: "web-1", Body: []byte(body)}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}
	all := policies{quota: true, images: true, resize: true, deletes: true}
	const newImage, sameImage = `{"spec":{"containers":[{"name":"app","image":"app:v2"}]}}`, `{"spec":{"containers":[{"name":"app","image":"app:v1"}]}}`
	for _, tt := range []struct {
		name     string
		policies policies
		call     faultapi.Call
		want     int32 // the status code
	}{
		{"a quota", all, call("create", "", `{}`), 403},
		{"a quota with room", policies{quota: true, pods: 1}, call("create", "", `{}`), 0},
		{"another image", all, call("patch", "", newImage), 403},
		{"another image, invalid", policies{images: true, invalid: true}, call("patch", "", newImage), 422},
		{"the same image", all, call("patch", "", sameImage), 0},
		{"labels", all, call("patch", "", `{"metadata":{"labels":{"a":"b"}}}`), 0},
		{"status", all, call("patch", "status", `{}`), 0},
		{"a resize", all, call("patch", "resize", `{}`), 403},
		{"a deletion", all, call("delete", "", ""), 403},
		{"a claim", all, faultapi.Call{Verb: "delete", Resource: schema.GroupResource{Resource: "persistentvolumeclaims"}}, 0},
		{"no policies", policies{}, call("patch", "", newImage), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, err := faultapi.New(plan(t).Scheme, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			w := &story{World: &chaos.World{Server: server}, policies: tt.policies}
			w.agents = restarttest.New(w.World)
			code := int32(0)
			if status := apierrors.APIStatus(nil); errors.As(w.denies(tt.call, pod), &status) {
				code = status.Status().Code
			}
			if diff := cmp.Diff(tt.want, code); diff != "" {
				t.Errorf("code (-want +got):\n%s", diff)
			}
		})
	}
}
