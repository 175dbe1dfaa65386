package podwrite_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
)

const gate corev1.PodConditionType = "example.com/Ready"

var (
	pods = schema.GroupResource{Resource: "pods"}
	now  = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
)

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "u1", Generation: 3},
		Spec: corev1.PodSpec{
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}},
			Containers: []corev1.Container{{Name: "app", Image: "app:v1", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}},
		},
	}
}

// change returns a change that needs patches of pods/status, pods and pods/resize.
func change() podpatch.Change {
	return podpatch.Change{
		UID:        "u1",
		Conditions: []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse}},
		Images:     map[string]string{"app": "app:v2"},
		Resources:  map[string]corev1.ResourceRequirements{"app": {Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}},
	}
}

// server is controller-runtime's fake client. server records the requests, and lets the request with the index failAt
// fail.
type server struct {
	client.WithWatch

	requests []string
	failAt   int
	fail     error
}

func newServer(failAt int, fail error, objects ...client.Object) *server {
	s := &server{failAt: failAt, fail: fail}
	note := func(request string, patch client.Patch, dryRun []string) error {
		request += " " + string(patch.Type())
		if len(dryRun) > 0 {
			request += " as a dry run"
		}
		s.requests = append(s.requests, request)
		if len(s.requests)-1 == s.failAt {
			return s.fail
		}
		return nil
	}
	backend := fake.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}).Build()
	s.WithWatch = interceptor.NewClient(backend, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := note("pods", patch, (&client.PatchOptions{}).ApplyOptions(opts).DryRun); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := note("pods/"+name, patch, (&client.SubResourcePatchOptions{}).ApplyOptions(opts).DryRun); err != nil {
				return err
			}
			return c.SubResource(name).Patch(ctx, obj, patch, opts...)
		},
	})
	return s
}

func (s *server) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web-0"}, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func Example() {
	ctx := context.Background()
	c := fake.NewClientBuilder().WithObjects(newPod()).WithStatusSubresource(&corev1.Pod{}).Build()
	pod := &corev1.Pod{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web-0"}, pod); err != nil {
		fmt.Println(err)
		return
	}
	patches, err := podpatch.Merge(pod, now, podpatch.Change{UID: pod.UID, Images: map[string]string{"app": "app:v2"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := podwrite.SendPatches(ctx, c, patches)
	switch {
	case apierrors.IsConflict(err): // read the Pod again and decide again
	case errors.Is(err, podwrite.Refused): // wait, recreate or stop
	case errors.Is(err, podwrite.Replaced): // nothing left to do
	}
	fmt.Println(result.Sent, "sent, the Pod is at", result.ResourceVersion)
	// Output: 1 sent, the Pod is at 1000
}

func TestApplySendsInOrder(t *testing.T) {
	s := newServer(-1, nil, newPod())
	before := s.pod(t)
	result, err := podwrite.Send(t.Context(), s, before, now, change())
	if err != nil {
		t.Fatal(err)
	}
	const strategic = " " + string(types.StrategicMergePatchType)
	if diff := cmp.Diff([]string{"pods/resize" + strategic + " as a dry run", "pods/status" + strategic, "pods" + strategic, "pods/resize" + strategic}, s.requests); diff != "" {
		t.Errorf("U-8 requests (-want +got):\n%s", diff)
	}
	pod := s.pod(t)
	if diff := cmp.Diff(podwrite.Result{ResourceVersion: pod.ResourceVersion, Generation: pod.Generation, Sent: 3}, result); diff != "" {
		t.Errorf("result (-Pod +got):\n%s", diff)
	}
	if len(pod.Status.Conditions) != 1 || pod.Spec.Containers[0].Image != "app:v2" || pod.Spec.Containers[0].Resources.Limits.Cpu().String() != "2" {
		t.Errorf("the Pod: %+v %+v", pod.Spec.Containers, pod.Status.Conditions)
	}
}

func TestSendNothing(t *testing.T) {
	s := newServer(-1, nil, newPod())
	if result, err := podwrite.Send(t.Context(), s, s.pod(t), now, podpatch.Change{Images: map[string]string{"app": "app:v1"}}); err != nil || result != (podwrite.Result{}) {
		t.Errorf("Send = %+v, %v", result, err)
	}
	if _, err := podwrite.Send(t.Context(), s, s.pod(t), now, podpatch.Change{UID: "u0"}); !errors.Is(err, podpatch.StaleDecision) {
		t.Errorf("Send of a stale decision = %v", err)
	}
	if len(s.requests) > 0 {
		t.Errorf("requests %v", s.requests)
	}
}

func TestApplyStopsAtTheFirstFailure(t *testing.T) {
	broken := errors.New("connection refused")
	for failAt, path := range []string{"pods/resize", "pods/status", "pods", "pods/resize"} {
		t.Run(fmt.Sprint(failAt, " ", path), func(t *testing.T) {
			s := newServer(failAt, broken, newPod())
			result, err := podwrite.Send(t.Context(), s, s.pod(t), now, change())
			if !errors.Is(err, broken) || len(s.requests) != failAt+1 {
				t.Fatalf("after %v: %v", s.requests, err)
			}
			want := podwrite.Result{}
			if failAt > 1 {
				pod := s.pod(t)
				want = podwrite.Result{ResourceVersion: pod.ResourceVersion, Generation: pod.Generation, Sent: failAt - 1}
			}
			if diff := cmp.Diff(want, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if want := "patching " + path + " of Pod default/web-0: connection refused"; err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
		})
	}
}

// TestRefusedResizeWritesNothing: a dry run finds the refusal of a resize before any patch is sent. A resize without
// other patches is sent without a dry run.
func TestRefusedResizeWritesNothing(t *testing.T) {
	const strategic = " " + string(types.StrategicMergePatchType)
	alone := change()
	alone.Conditions, alone.Images = nil, nil
	noRoom := apierrors.NewForbidden(pods, "web-0", errors.New("exceeded quota"))
	for _, tc := range []struct {
		name     string
		merger   podpatch.Merger
		change   podpatch.Change
		fail     error
		want     reason.Code
		requests []string
	}{
		{"a quota", podpatch.Merger{}, change(), noRoom, podwrite.Refused, []string{"pods/resize" + strategic + " as a dry run"}},
		{"another quality of service", podpatch.Merger{}, change(), apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web-0", nil), podwrite.Refused, []string{"pods/resize" + strategic + " as a dry run"}},
		{"no such subresource", podpatch.Merger{}, change(), apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", pods, "web-0", "404 page not found", 0, true), podwrite.Refused, []string{"pods/resize" + strategic + " as a dry run"}},
		{"the Pod is gone", podpatch.Merger{}, change(), apierrors.NewNotFound(pods, "web-0"), podwrite.Replaced, []string{"pods/resize" + strategic + " as a dry run"}},
		{"a conflict", podpatch.Merger{}, change(), apierrors.NewConflict(pods, "web-0", errors.New("modified")), "", []string{"pods/resize" + strategic + " as a dry run"}},
		{"a resize alone", podpatch.Merger{}, alone, noRoom, podwrite.Refused, []string{"pods/resize" + strategic}},
		{"a resize in the spec", podpatch.Merger{ResizeInSpec: true}, change(), noRoom, podwrite.Refused, []string{"pods/status" + strategic}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(0, tc.fail, newPod())
			before := s.pod(t)
			patches, err := tc.merger.Merge(before, now, tc.change)
			if err != nil {
				t.Fatal(err)
			}
			result, err := podwrite.SendPatches(t.Context(), s, patches)
			if !errors.Is(err, tc.fail) || errors.Is(err, podwrite.Refused) != (tc.want == podwrite.Refused) || errors.Is(err, podwrite.Replaced) != (tc.want == podwrite.Replaced) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if diff := cmp.Diff(tc.requests, s.requests); diff != "" || result != (podwrite.Result{}) {
				t.Errorf("result %+v, requests (-want +got):\n%s", result, diff)
			}
			if diff := cmp.Diff(before, s.pod(t)); diff != "" {
				t.Errorf("the Pod was written (-before +after):\n%s", diff)
			}
		})
	}
}

func TestClassification(t *testing.T) {
	status := func(code int32, causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: code, Message: fmt.Sprint("code ", code), Details: &metav1.StatusDetails{Causes: causes},
		}}
	}
	denied := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: code, Message: message, Reason: map[int32]metav1.StatusReason{http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests}[code],
		}}
	}
	kind := schema.GroupKind{Kind: "Pod"}
	otherUID := apierrors.NewInvalid(kind, "web-0", field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "u1", "field is immutable")})
	immutable := apierrors.NewInvalid(kind, "web-0", field.ErrorList{field.Forbidden(field.NewPath("spec"), "pod updates may not change fields")})
	for _, tc := range []struct {
		name string
		err  error
		want reason.Code
		is   func(error) bool // recognises the API server's error in the returned error
	}{
		{"403 of quota or a webhook", apierrors.NewForbidden(pods, "web-0", errors.New("exceeded quota")), podwrite.Refused, apierrors.IsForbidden},
		{"422 of validation", immutable, podwrite.Refused, apierrors.IsInvalid},
		{"422 of a webhook, without a reason", status(http.StatusUnprocessableEntity), podwrite.Refused, nil},
		{"403 of a webhook, without a reason", status(http.StatusForbidden), podwrite.Refused, nil},
		{"403 of RBAC says nothing about the Pod", apierrors.NewForbidden(pods, "web-0",
			errors.New(`User "kruise" cannot patch resource "pods/resize" in API group "" in the namespace "default"`)), "", apierrors.IsForbidden},
		{"404 of the path", apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", pods, "web-0", "404 page not found", 0, true), podwrite.Refused, nil},
		{"404", apierrors.NewNotFound(pods, "web-0"), podwrite.Replaced, apierrors.IsNotFound},
		{"422 for another Pod of the name", otherUID, podwrite.Replaced, apierrors.IsInvalid},
		{"another UID, told in a cause", status(http.StatusConflict, metav1.StatusCause{Field: "metadata.uid"}), podwrite.Replaced, nil},
		{"409 is for the caller to retry", apierrors.NewConflict(pods, "web-0", errors.New("modified")), "", apierrors.IsConflict},
		{"429", apierrors.NewTooManyRequests("slow down", 1), "", apierrors.IsTooManyRequests},
		{"500", apierrors.NewInternalError(errors.New("etcd")), "", apierrors.IsInternalError},
		{"400 for a malformed request", status(http.StatusBadRequest), "", nil},
		{"400 of a webhook that chose no code", denied(http.StatusBadRequest, `admission webhook "images.example.test" denied the request: not signed`), podwrite.Refused, nil},
		{"409 of a webhook", denied(http.StatusConflict, `admission webhook "images.example.test" denied the request: frozen`), "", nil},
		{"429 of a webhook", denied(http.StatusTooManyRequests, `admission webhook "images.example.test" denied the request: not now`), "", apierrors.IsTooManyRequests},
		{"413 of a policy", denied(http.StatusRequestEntityTooLarge, `pods "web-0" is forbidden: ValidatingAdmissionPolicy 'size' with binding 'all' denied request: too much`), podwrite.Refused, nil},
		{"no answer", context.DeadlineExceeded, "", func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(0, tc.err, newPod())
			_, err := podwrite.Send(t.Context(), s, s.pod(t), now, change())
			for _, code := range []reason.Code{podwrite.Refused, podwrite.Replaced} {
				if errors.Is(err, code) != (code == tc.want) {
					t.Errorf("errors.Is(%v, %s) = %v", err, code, code != tc.want)
				}
			}
			if !errors.Is(err, tc.err) || (tc.is != nil && !tc.is(err)) {
				t.Errorf("the API server's answer is lost: %v", err)
			}
			if tc.want == "" {
				return
			}
			why := reason.From(err)
			want := reason.Object{Kind: "Pod", Namespace: "default", Name: "web-0", UID: "u1"}
			if len(why) != 1 || why[0].Object != want || why[0].Path != "pods/resize" || why[0].Detail != tc.err.Error() {
				t.Errorf("reason %+v", why)
			}
		})
	}
}

func TestPodThatIsGone(t *testing.T) {
	s := newServer(-1, nil)
	gone := change()
	gone.Resources = nil // a dry run on a missing object succeeds with the fake client
	result, err := podwrite.Send(t.Context(), s, newPod(), now, gone)
	if !errors.Is(err, podwrite.Replaced) || result.Sent != 0 || len(s.requests) != 1 {
		t.Errorf("Send = %+v, %v after %v", result, err, s.requests)
	}
}

func TestIsLasting(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"a quota", apierrors.NewForbidden(pods, "a", errors.New("exceeded quota")), true},
		{"an invalid object", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil), true},
		{"a bad request", apierrors.NewBadRequest("no"), true},
		{"wrapped", fmt.Errorf("creating: %w", apierrors.NewBadRequest("no")), true},
		{"beside a reason", reason.Reason{Code: podwrite.Refused}.With(apierrors.NewBadRequest("no")), true},
		{"refused, for a path that is not there", reason.Reason{Code: podwrite.Refused}.With(apierrors.NewNotFound(pods, "a")), true},
		{"a conflict", apierrors.NewConflict(pods, "a", errors.New("newer")), false},
		{"a name that is taken", apierrors.NewAlreadyExists(pods, "a"), false},
		{"gone", apierrors.NewNotFound(pods, "a"), false},
		{"throttling", apierrors.NewTooManyRequests("later", 1), false},
		{"an error of the server", apierrors.NewInternalError(errors.New("oops")), false},
		{"a timeout", apierrors.NewTimeoutError("slow", 1), false},
		{"no answer", context.DeadlineExceeded, false},
		{"none", nil, false},
	} {
		if got := podwrite.IsLasting(tc.err); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
