package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/disruption"
)

// Review says what an admission request would do to a Pod.
type Review struct {
	// Pod is the present state of the Pod that the request takes out of service; nil for any other request, and for a
	// Pod that no longer exists.
	Pod       *corev1.Pod
	Operation disruption.Operation
	// Before and After are the Pod before and after an update of any kind; both are nil for deletions and evictions.
	Before, After *corev1.Pod
	// DryRun says that the request changes nothing, even if admitted.
	DryRun bool
}

// ReviewOf reads an admission request: the deletion, eviction, change or resize of a Pod. An eviction only names its
// Pod, so ReviewOf reads the Pod from live; live must not read from a cache. If the eviction's preconditions exclude
// the present Pod, Pod is nil: the request is about an earlier Pod with the same name. Preconditions on the
// resourceVersion are ignored: the Pod may still change before the API server checks the resourceVersion. The error
// means a bad request or a failed read. After an error, the caller must not take the Pod out of service.
//
// A webhook with ReviewOf must be configured for the resources pods (UPDATE, DELETE), pods/eviction (CREATE) and
// pods/resize (UPDATE).
func ReviewOf(ctx context.Context, live client.Reader, req admission.Request) (Review, error) {
	review := Review{DryRun: req.DryRun != nil && *req.DryRun}
	var err error
	switch {
	case req.Resource.Group != "" || req.Resource.Resource != "pods":
	case req.Operation == admissionv1.Create && req.SubResource == "eviction":
		err = review.evicts(ctx, live, req)
	case req.Operation == admissionv1.Delete && req.SubResource == "":
		review.Operation = disruption.Delete
		review.Pod, err = podOf(req.OldObject.Raw)
	case req.Operation == admissionv1.Update && (req.SubResource == "" || req.SubResource == "resize"):
		err = review.changes(req)
	}
	if err != nil {
		return Review{}, err
	}
	return review, nil
}

// changes reads an update of a Pod. The Pod is nil if the update leaves the Pod in service.
func (r *Review) changes(req admission.Request) error {
	before, err := podOf(req.OldObject.Raw)
	if before == nil || err != nil {
		return err
	}
	after, err := podOf(req.Object.Raw)
	if after == nil || err != nil {
		return err
	}
	r.Before, r.After = before, after
	if operation, changed := disruption.OperationOf(before, after); changed {
		r.Pod, r.Operation = before, operation
	}
	return nil
}

// evicts reads an eviction, and the evicted Pod.
func (r *Review) evicts(ctx context.Context, live client.Reader, req admission.Request) error {
	r.Operation = disruption.Evict
	if live == nil {
		return errors.New("guard: an eviction needs a reader of the API server")
	}
	eviction := &policyv1.Eviction{}
	if len(req.Object.Raw) > 0 {
		if err := decode.Object(req.Object.Raw, eviction); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("decoding the eviction: %v", err))
		}
	}
	pod := &corev1.Pod{}
	switch err := live.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, pod); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Pod %s/%s: %w", req.Namespace, req.Name, err)
	}
	if options := eviction.DeleteOptions; options != nil {
		if only := options.Preconditions; only != nil && only.UID != nil && *only.UID != pod.UID {
			return nil
		}
		r.DryRun = r.DryRun || slices.Contains(options.DryRun, metav1.DryRunAll)
	}
	r.Pod = pod
	return nil
}

// podOf decodes a Pod, or returns nil if the request has none: old API servers do not send the deleted object.
func podOf(raw []byte) (*corev1.Pod, error) {
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // neither a Pod nor an error: old API servers do not send the deleted object
	}
	pod := &corev1.Pod{}
	if err := decode.Object(raw, pod); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("decoding the Pod: %v", err))
	}
	return pod, nil
}
