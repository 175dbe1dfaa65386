package foresee

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/kind"
)

// admit sends the change through the webhooks of a kind, as the API server does, and returns the object with
// defaults, converted to the stored version.
func (w *world) admit(ctx context.Context, row *kind.Row, ask Question) (hub client.Object, warnings []string, err error) {
	options := admission.Options{Gates: w.gates, Reader: w.server.Client(nil, nil), Namespace: ask.ManagerNamespace}
	endpoint := row.Admission(options)
	handlers := admission.Handlers(options, endpoint)
	raw, err := json.Marshal(ask.Changed)
	if err != nil {
		return nil, nil, err
	}
	if ask.NoWebhooks {
		hub, err = Hub(row, raw)
		return hub, nil, err
	}
	for _, verb := range []string{"/mutate-", "/validate-"} { // the API server calls mutating webhooks first
		for _, path := range admission.Paths(endpoint) {
			if !strings.HasPrefix(path, verb) {
				continue
			}
			response, err := review(ctx, handlers[path], row, raw, ask.Stored)
			if err != nil {
				return nil, nil, fmt.Errorf("asking %s: %w", path, err)
			}
			warnings = append(warnings, response.Warnings...)
			if !response.Allowed {
				return nil, warnings, &Refused{*response.Result}
			}
			if raw, err = patched(raw, response.Patch); err != nil {
				return nil, nil, fmt.Errorf("the patch of %s: %w", path, err)
			}
		}
	}
	hub, err = Hub(row, raw)
	return hub, warnings, err
}

// review sends a review to a handler.
func review(ctx context.Context, handler http.Handler, row *kind.Row, raw []byte, stored *unstructured.Unstructured) (*admissionv1.AdmissionResponse, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	gvk := u.GroupVersionKind()
	request := &admissionv1.AdmissionRequest{
		UID: "preview", Kind: metav1.GroupVersionKind(gvk), Name: u.GetName(), Namespace: u.GetNamespace(), Operation: admissionv1.Create,
		Resource: metav1.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: row.Resource},
		Object:   runtime.RawExtension{Raw: raw},
	}
	if stored != nil {
		before, err := json.Marshal(stored)
		if err != nil {
			return nil, err
		}
		request.Operation, request.OldObject = admissionv1.Update, runtime.RawExtension{Raw: before}
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		return nil, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	got := &answer{header: http.Header{}}
	handler.ServeHTTP(got, post)
	reply := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(got.body.Bytes(), &reply); err != nil || reply.Response == nil {
		return nil, fmt.Errorf("status %d, %s", got.status, strings.TrimSpace(got.body.String()))
	}
	return reply.Response, nil
}

// answer is the response of a handler.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the headers to be sent.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader stores the status.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write stores a part of the body.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
