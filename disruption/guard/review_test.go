package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/disruption"
	"github.com/workloadkit/workloadkit/disruption/guard"
)

func raw(t *testing.T, object any) runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

// TestReviewOf: each case has a request and its effect on the Pod.
func TestReviewOf(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}},
	}
	changed, labelled := pod.DeepCopy(), pod.DeepCopy()
	changed.Spec.Containers[0].Image, labelled.Labels = "app:v2", map[string]string{"a": "b"}
	evicts := func(options *metav1.DeleteOptions) func(*admission.Request) {
		return func(r *admission.Request) {
			r.Operation, r.SubResource, r.Object = admissionv1.Create, "eviction", raw(t, &policyv1.Eviction{DeleteOptions: options})
		}
	}
	updates := func(after *corev1.Pod, subresource string) func(*admission.Request) {
		return func(r *admission.Request) {
			r.Operation, r.SubResource, r.OldObject, r.Object = admissionv1.Update, subresource, raw(t, pod), raw(t, after)
		}
	}
	type seen struct {
		Pod       bool
		Operation disruption.Operation
		After     bool
		DryRun    bool
	}
	for _, tc := range []struct {
		name string
		edit func(*admission.Request)
		want seen
	}{
		{"PUB-18 eviction", evicts(nil), seen{Pod: true, Operation: disruption.Evict}},
		{"PUB-18 eviction without a body", func(r *admission.Request) { evicts(nil)(r); r.Object.Raw = nil }, seen{Pod: true, Operation: disruption.Evict}},
		{"PUB-21 eviction that asks only", evicts(&metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}), seen{Pod: true, Operation: disruption.Evict, DryRun: true}},
		{"eviction of the Pod's predecessor", evicts(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("other"))}}), seen{Operation: disruption.Evict}},
		{"eviction of a Pod that is gone", func(r *admission.Request) { evicts(nil)(r); r.Name = "web-9" }, seen{Operation: disruption.Evict}},
		{"PUB-18 deletion", func(r *admission.Request) { r.Operation, r.OldObject = admissionv1.Delete, raw(t, pod) }, seen{Pod: true, Operation: disruption.Delete}},
		{"PUB-21 deletion that asks only", func(r *admission.Request) {
			r.Operation, r.OldObject, r.DryRun = admissionv1.Delete, raw(t, pod), new(true)
		}, seen{Pod: true, Operation: disruption.Delete, DryRun: true}},
		{"deletion by an API server of old", func(r *admission.Request) { r.Operation = admissionv1.Delete }, seen{Operation: disruption.Delete}},
		{"PUB-18 another image", updates(changed, ""), seen{Pod: true, Operation: disruption.Update, After: true}},
		{"a label", updates(labelled, ""), seen{After: true}},
		{"a status", updates(changed, "status"), seen{}},
		{"a new Pod", func(r *admission.Request) { r.Operation, r.Object = admissionv1.Create, raw(t, pod) }, seen{}},
		{"another resource", func(r *admission.Request) {
			r.Operation, r.OldObject, r.Resource.Resource = admissionv1.Delete, raw(t, pod), "services"
		}, seen{}},
		{"another group", func(r *admission.Request) {
			r.Operation, r.OldObject, r.Resource.Group = admissionv1.Delete, raw(t, pod), "metrics.k8s.io"
		}, seen{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Namespace: "shop", Name: "web-0", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			}}
			tc.edit(&request)
			review, err := guard.ReviewOf(t.Context(), fake.NewClientBuilder().WithObjects(pod.DeepCopy()).Build(), request)
			got := seen{review.Pod != nil && review.Pod.UID == pod.UID, review.Operation, review.After != nil, review.DryRun}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestReviewFails: if a request or its Pod cannot be read, ReviewOf returns an error.
func TestReviewFails(t *testing.T) {
	down := errors.New("down")
	live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return down
	}}).Build()
	junk := runtime.RawExtension{Raw: []byte(`{"spec":7}`)}
	for name, request := range map[string]admissionv1.AdmissionRequest{
		"the API server":       {Operation: admissionv1.Create, SubResource: "eviction"},
		"a junk eviction":      {Operation: admissionv1.Create, SubResource: "eviction", Object: runtime.RawExtension{Raw: []byte(`[]`)}},
		"a junk Pod":           {Operation: admissionv1.Delete, OldObject: junk},
		"a junk Pod afterward": {Operation: admissionv1.Update, OldObject: runtime.RawExtension{Raw: []byte(`{}`)}, Object: junk},
	} {
		request.Resource = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
		review, err := guard.ReviewOf(t.Context(), live, admission.Request{AdmissionRequest: request})
		if err == nil || review.Pod != nil || !errors.Is(err, down) && !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %+v, %v", name, review, err)
		}
	}
}

// TestPermit: if the budget refuses, Permit returns the reason.
func TestPermit(t *testing.T) {
	pod := evict("a").Pod
	for _, tc := range []struct {
		name   string
		budget *policyv1.PodDisruptionBudget
		serves bool
		want   error
	}{
		{"room", budget(1), true, nil},
		{"no room", budget(0), true, disruption.BudgetSpent},
		{"no room, and the Pod does not serve", budget(0), false, nil},
	} {
		c := server(t, nil, tc.budget)
		if err := newGuard(t, c, c).Permit(t.Context(), key, pod, disruption.Delete, tc.serves); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestHandler: each response of the webhook has the status code that clients expect.
func TestHandler(t *testing.T) {
	pod := evict("a").Pod
	down := errors.New("down")
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "budgets"}, "web")
	going := pod.DeepCopy()
	going.Finalizers, going.DeletionTimestamp = []string{"example.com/kept"}, &metav1.Time{Time: start}
	type answer struct {
		Allowed bool
		Code    int32
		Reason  metav1.StatusReason
		Cause   bool
		Retry   int32
		Left    int32
	}
	uncounted := func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }
	for _, tc := range []struct {
		name   string
		budget *policyv1.PodDisruptionBudget
		op     admissionv1.Operation
		dryRun bool
		of     func() (guard.Protected, bool, error)
		pod    *corev1.Pod
		fails  error // the error of the write
		want   answer
	}{
		{name: "room", budget: budget(1), op: admissionv1.Create, want: answer{Allowed: true}},
		{name: "PUB-21 room, and the request only asks", budget: budget(1), op: admissionv1.Create, dryRun: true, want: answer{Allowed: true, Left: 1}},
		{name: "PUB-23 no room for an eviction", budget: budget(0), op: admissionv1.Create, want: answer{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Cause: true}},
		{name: "PUB-23 nobody has counted", budget: budget(1, uncounted), op: admissionv1.Create, want: answer{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Cause: true, Retry: 10, Left: 1}},
		{name: "no room for a deletion", budget: budget(0), op: admissionv1.Delete, want: answer{Code: 403, Reason: metav1.StatusReasonForbidden}},
		{name: "no room, and it does not serve", budget: budget(0), op: admissionv1.Delete, of: func() (guard.Protected, bool, error) {
			return guard.Protected{Budget: key, OutOfService: true}, true, nil
		}, want: answer{Allowed: true}},
		{name: "no budget", budget: budget(0), op: admissionv1.Delete, of: func() (guard.Protected, bool, error) { return guard.Protected{}, false, nil }, want: answer{Allowed: true}},
		{name: "nothing is known", budget: budget(1), op: admissionv1.Delete, of: func() (guard.Protected, bool, error) { return guard.Protected{}, false, down }, want: answer{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Retry: 1, Left: 1}},
		{name: "kubectl drain takes 404 for the end of the Pod", budget: budget(1), op: admissionv1.Create, of: func() (guard.Protected, bool, error) { return guard.Protected{}, false, missing }, want: answer{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Retry: 1, Left: 1}},
		{name: "also of a budget without a status", budget: budget(1), op: admissionv1.Create, fails: missing, want: answer{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Retry: 1, Left: 1}},
		{name: "no room, and it is being evicted already", budget: budget(0), op: admissionv1.Create, pod: going, want: answer{Allowed: true}},
		{name: "no room, and it is being deleted already", budget: budget(0), op: admissionv1.Delete, pod: going, want: answer{Allowed: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.pod == nil {
				tc.pod = pod
			}
			if tc.of == nil {
				tc.of = func() (guard.Protected, bool, error) { return guard.Protected{Budget: key}, true, nil }
			}
			request := admissionv1.AdmissionRequest{
				Namespace: pod.Namespace, Name: pod.Name, Operation: tc.op, OldObject: raw(t, tc.pod), DryRun: &tc.dryRun,
				Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			}
			if tc.op == admissionv1.Create {
				request.SubResource = "eviction"
			}
			calls := &interceptor.Funcs{}
			if tc.fails != nil {
				calls.SubResourcePatch = func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					return tc.fails
				}
			}
			c := server(t, calls, tc.budget, tc.pod.DeepCopy())
			handler := newGuard(t, c, c).Handler(func(context.Context, *corev1.Pod) (guard.Protected, bool, error) { return tc.of() })
			response := handler.Handle(t.Context(), admission.Request{AdmissionRequest: request})
			got := answer{Allowed: response.Allowed, Left: stored(t, c).Status.DisruptionsAllowed}
			if result := response.Result; !response.Allowed && result != nil {
				got.Code, got.Reason = result.Code, result.Reason
				if result.Details != nil {
					got.Cause, got.Retry = len(result.Details.Causes) > 0 && result.Details.Causes[0].Type == policyv1.DisruptionBudgetCause, result.Details.RetryAfterSeconds
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMisuse: invalid calls return errors, and admit no request.
func TestMisuse(t *testing.T) {
	c := server(t, nil, budget(9))
	g := newGuard(t, c, c)
	pod := evict("a").Pod
	nobody := (*guard.Guard[*policyv1.PodDisruptionBudget])(nil)
	zero := &guard.Guard[*policyv1.PodDisruptionBudget]{}
	for name, ask := range map[string]func() (disruption.Decision, error){
		"nil":       func() (disruption.Decision, error) { return nobody.Ask(t.Context(), key, evict("a"), false) },
		"zero":      func() (disruption.Decision, error) { return zero.Ask(t.Context(), key, evict("a"), false) },
		"empty key": func() (disruption.Decision, error) { return g.Ask(t.Context(), client.ObjectKey{}, evict("a"), false) },
		"empty name": func() (disruption.Decision, error) {
			return g.Ask(t.Context(), client.ObjectKey{Namespace: "shop"}, evict("a"), true)
		},
		"one of several keys is empty": func() (disruption.Decision, error) {
			d, _, err := g.AskAll(t.Context(), []client.ObjectKey{key, {}}, evict("a"), false)
			return d, err
		},
		"nil, all keys": func() (disruption.Decision, error) {
			d, _, err := nobody.AskAll(t.Context(), []client.ObjectKey{key}, evict("a"), false)
			return d, err
		},
	} {
		if decision, err := ask(); err == nil || decision.Admitted {
			t.Errorf("%s: %+v, %v", name, decision, err)
		}
	}
	for name, err := range map[string]error{
		"empty key": g.Permit(t.Context(), client.ObjectKey{}, pod, disruption.Delete, false),
		"nil":       nobody.Permit(t.Context(), key, pod, disruption.Delete, false),
		"zero":      zero.Permit(t.Context(), key, pod, disruption.Delete, true),
	} {
		if err == nil {
			t.Errorf("Permit, %s: no error", name)
		}
	}
	named := func(context.Context, *corev1.Pod) (guard.Protected, bool, error) {
		return guard.Protected{Budget: key}, true, nil
	}
	for name, handler := range map[string]admission.Handler{
		"no function": g.Handler(nil), "nil": nobody.Handler(named), "zero": zero.Handler(named),
		"no budget": g.Handler(func(context.Context, *corev1.Pod) (guard.Protected, bool, error) { return guard.Protected{}, true, nil }),
	} {
		response := handler.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: pod.Namespace, Name: pod.Name, Operation: admissionv1.Delete, OldObject: raw(t, pod),
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		}})
		if response.Allowed || response.Result.Code != 429 {
			t.Errorf("Handler, %s: %+v", name, response)
		}
	}
	if left := stored(t, c).Status.DisruptionsAllowed; left != 9 {
		t.Errorf("%d left, want 9", left)
	}
}
