package workloadspread

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/workloadspread"
	"github.com/workloadkit/workloadkit/podstate"
)

// comes returns the validating webhook's handler, which reviews new Pods with a mark, the annotation with the subset,
// after all mutating webhooks.
func (w *webhook) comes() webhookadmission.Handler {
	return webhookadmission.HandlerFunc(func(ctx context.Context, request webhookadmission.Request) webhookadmission.Response {
		if ptr.Deref(request.DryRun, false) {
			return webhookadmission.Allowed("")
		}
		pod := &corev1.Pod{}
		if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
			return admission.Refuse(ctx, apierrors.NewBadRequest(err.Error()))
		}
		pod.Namespace = request.Namespace
		if err := w.hold(ctx, pod); err != nil {
			return admission.Refuse(ctx, err)
		}
		return webhookadmission.Allowed("")
	})
}

// hold refuses a new Pod if the ledger (the record of taken places in the status) does not contain the Pod's place,
// or if the place was taken too long ago. A place that was taken recently enough cannot become free before the API
// server has stored or refused this Pod. So no place is used twice, even if the cache is stale, and hold need not
// write.
func (w *webhook) hold(ctx context.Context, pod *corev1.Pod) error {
	m, isMarked := marked(pod)
	spread, known := w.spreads.Get(pod.Namespace, m.Name)
	if !isMarked || !known || !podstate.IsActive(pod) || controllerOf(pod).Name == "" || !w.hasPlaces(spread, m.Subset) {
		return nil
	}
	key := m.UID
	if key == "" {
		key = pod.Name
	}
	now := w.clock.Now()
	if isHeld(spread.Status.VersionedSubsetStatuses, m.Subset, key, passes, now) {
		return nil
	}
	request, err := w.flight(ctx)
	if err != nil {
		return apierrors.NewServiceUnavailable(err.Error())
	}
	if request == (flight{}) { // places are freed after longestRequest
		request.passing = longestRequest
	}
	newest := &v1beta1.WorkloadSpread{}
	err = w.live.Get(ctx, client.ObjectKeyFromObject(spread), newest)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return apierrors.NewServiceUnavailable(fmt.Sprintf("WorkloadSpread %s: %v", spread.Name, err))
	case !w.hasPlaces(newest, m.Subset), isHeld(newest.Status.VersionedSubsetStatuses, m.Subset, key, request.passing, now):
		return nil
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("the place in subset %s of WorkloadSpread %s was kept for %s, and may be gone: create the Pod again",
		m.Subset, spread.Name, request.passing.Round(time.Second)))
}

// hasPlaces reports whether the status records a place for each new Pod of a subset.
func (w *webhook) hasPlaces(spread *v1beta1.WorkloadSpread, subset string) bool {
	s, ok := w.settingsOf(spread)
	if !ok || api.IsNumbered(s.kind) {
		return false
	}
	for i := range spread.Spec.Subsets {
		if of := &spread.Spec.Subsets[i]; of.Name == subset {
			return of.MaxReplicas != nil
		}
	}
	return false
}
