package podwebhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/reason"
)

// Mutator is a step that changes Pods.
type Mutator struct {
	// Name appears in errors and logs. Required.
	Name string
	// Mutate modifies the given Pod. The Handler has set the Pod's namespace before. Required. Mutate must be safe for
	// concurrent use.
	Mutate func(ctx context.Context, pod *corev1.Pod, request *admission.Request) error
	// Warn returns warnings for the creator of the Pod. The Pod is created in spite of a warning: see
	// admission.Response. Warn receives the Pod as sent by the client and the Pod after all steps, and must not
	// modify either. Optional. Warn must be safe for concurrent use.
	Warn func(before, after *corev1.Pod) []string
}

// Handler answers admission requests for Pods that are being created. All other requests are allowed without a change:
// other operations, other resources, and subresources. A Handler is an admission.Handler of controller-runtime, safe
// for concurrent use. Make a Handler with New.
type Handler struct {
	steps  []Mutator
	shapes shapes
}

// New returns a Handler that runs the steps in order. The error names a step that is incomplete or whose name is used
// twice.
func New(steps ...Mutator) (*Handler, error) {
	seen := map[string]bool{}
	for i, step := range steps {
		switch {
		case step.Name == "":
			return nil, fmt.Errorf("podwebhook: step %d needs a name", i)
		case step.Mutate == nil:
			return nil, fmt.Errorf("podwebhook: step %d (%q) needs Mutate", i, step.Name)
		case seen[step.Name]:
			return nil, fmt.Errorf("podwebhook: step %d (%q) has the name of another step", i, step.Name)
		}
		seen[step.Name] = true
	}
	h := &Handler{steps: steps, shapes: shapes{}}
	h.shapes.add(reflect.TypeFor[corev1.Pod]())
	if len(h.shapes[reflect.TypeFor[corev1.Pod]()]) == 0 {
		// Without the fields of the Pod type, the Handler would notice no change of a Pod.
		return nil, errors.New("podwebhook: the type of Pods cannot be read")
	}
	return h, nil
}

// Steps returns the names of the steps, in their order.
func (h *Handler) Steps() []string {
	var names []string
	for i := range h.steps {
		names = append(names, h.steps[i].Name)
	}
	return names
}

// Handle implements admission.Handler.
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	about := metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	if request.Operation != admissionv1.Create || request.Resource != about || request.SubResource != "" {
		return admission.Allowed("")
	}
	pod := &corev1.Pod{}
	if err := decode.Object(request.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the Pod: %w", err))
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		// The kubelet runs a mirror Pod's containers from a file, whatever the API server stores.
		return admission.Allowed("")
	}
	before := pod.DeepCopy()
	sent := pod.Namespace
	if pod.Namespace == "" {
		pod.Namespace = request.Namespace
	}
	for i := range h.steps {
		s := &h.steps[i]
		if err := s.run(ctx, func() error { return s.Mutate(ctx, pod, &request) }); err != nil {
			return refused(ctx, s, err)
		}
	}
	if sent == "" && pod.Namespace == request.Namespace {
		pod.Namespace = "" // the API server sets the namespace itself
	}
	return h.answer(before, pod).WithWarnings(h.warnings(ctx, before, pod)...)
}

// warnings returns the warnings of the steps. Warnings do not prevent the admission of a Pod.
func (h *Handler) warnings(ctx context.Context, before, after *corev1.Pod) (warnings []string) {
	for i := range h.steps {
		if s := &h.steps[i]; s.Warn != nil {
			// The method run has logged the error already.
			_ = s.run(ctx, func() error { warnings = append(warnings, s.Warn(before, after)...); return nil })
		}
	}
	return warnings
}

// run calls a function of a step. A panic becomes an error.
func (s *Mutator) run(ctx context.Context, part func() error) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			logr.FromContextOrDiscard(ctx).Error(fmt.Errorf("%v", panicked), "a step panicked", "step", s.Name, "stack", string(debug.Stack()))
			err = errors.New("it panicked; the log says where")
		}
	}()
	return part()
}

// refused is the response for a Pod that is not admitted.
func refused(ctx context.Context, step *Mutator, err error) admission.Response {
	logr.FromContextOrDiscard(ctx).V(1).Info("Pod refused", "step", step.Name, "error", err.Error())
	wrapped := fmt.Errorf("%s: %w", step.Name, err)
	var status apierrors.APIStatus
	switch {
	case len(reason.From(err)) > 0:
		return admission.Denied(fmt.Sprintf("%s: %s", step.Name, reason.From(err).Summary(reasonsShown)))
	case errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest:
		return admission.Errored(status.Status().Code, wrapped)
	}
	return admission.Errored(http.StatusInternalServerError, wrapped)
}

// reasonsShown is the largest number of reasons in a response.
const reasonsShown = 10

// answer is the response with the changes that the steps have made.
func (h *Handler) answer(before, after *corev1.Pod) admission.Response {
	response := admission.Allowed("")
	operations := h.shapes.difference(before, after)
	if len(operations) == 0 {
		return response
	}
	body, err := json.Marshal(operations)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the patch: %w", err))
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = body, &kind
	return response
}
