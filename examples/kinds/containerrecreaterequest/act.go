package containerrecreaterequest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podreadiness/gatewriter"
	"github.com/workloadkit/workloadkit/reason"
)

// act carries out a plan, in the order of the writes. After a conflict, the reconciliation ends, because another
// client has changed the object.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, pod *corev1.Pod, p plan) error {
	var held error
	if p.holds {
		held = r.try(v, pass, "make the Pod not ready", func() error { return r.hold(ctx, v, pod) })
	}
	if p.graces && held == nil {
		p.status.Conditions = withGrace(p.status.Conditions, r.options.Clock.Now())
	}
	written, err := v.WriteSharedStatus(ctx, p.status)
	if err != nil || !written {
		return errors.Join(held, err)
	}
	if !equality.Semantic.DeepEqual(v.Owner.Status, p.status) {
		r.tellEnd(v.Owner, p)
		return held // the next reconciliation carries out the remaining writes with the new version
	}
	if p.releases {
		if err := r.try(v, pass, "let the Pod be ready", func() error { return r.release(ctx, v) }); err != nil {
			return err
		}
	}
	if p.releases || p.deactivates {
		finalizers := slices.DeleteFunc(slices.Clone(v.Owner.Finalizers), func(f string) bool { return f == apps.FinalizerRequestUnreadyAcquired })
		err := pass.Try(fanout.Task{Name: "clean up"}, v.Owner.UID, func() error { return patchMetadata(ctx, v, finalizers, p.deactivates) })
		return client.IgnoreNotFound(err)
	}
	if p.removes {
		return r.remove(ctx, v, pass)
	}
	return held
}

// try calls do, which writes to the readiness gate of a Pod, and sends an event if do fails.
func (r *Reconciler) try(v *view, pass *fanout.Pass, name string, do func() error) error {
	err := pass.Try(fanout.Task{Name: name}, v.Owner.UID, func() error {
		err := do()
		if errors.Is(err, podreadiness.UnreadableMessage) {
			err = reason.Final(err) // retried rarely, because a user must correct the message
		}
		return err
	})
	message := ""
	if reason.IsFinal(err) || podwrite.IsLasting(err) {
		_, message = reason.Explain(err)
	}
	r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventFailedUnready, message)
	return err
}

// hold makes the Pod of a request not ready. The finalizer is added to the request first, so that the request cannot
// be deleted before release has opened the Pod's readiness gate.
func (r *Reconciler) hold(ctx context.Context, v *view, pod *corev1.Pod) error {
	if !slices.Contains(v.Owner.Finalizers, apps.FinalizerRequestUnreadyAcquired) {
		finalizers := append(slices.Clone(v.Owner.Finalizers), apps.FinalizerRequestUnreadyAcquired)
		if err := patchMetadata(ctx, v, finalizers, false); err != nil {
			return err
		}
	}
	gate, err := r.gate(v)
	if err != nil {
		return err
	}
	_, err = gate.Hold(ctx, pod, apps.ConditionKruisePodReady, holder(v.Owner))
	return err
}

// release allows the Pod of a request to become ready again. The Pod is read from the API server, because the cache may
// not show the request's entry in the readiness gate yet, or may keep only a part of the Pod.
func (r *Reconciler) release(ctx context.Context, v *view) error {
	pod, err := podOf(ctx, r.live, v.Owner)
	if err != nil || pod == nil || string(pod.UID) != v.Owner.Labels[apps.LabelRequestPodUID] {
		return err
	}
	gate, err := r.gate(v)
	if err != nil {
		return err
	}
	_, err = gate.Release(ctx, pod, apps.ConditionKruisePodReady, holder(v.Owner))
	if errors.Is(err, podwrite.Replaced) {
		return nil
	}
	return err
}

func (r *Reconciler) gate(v *view) (*gatewriter.Writer, error) {
	return gatewriter.New(v.Client, r.live, r.options.Clock)
}

// patchMetadata replaces the finalizers of a request. If deactivates is true, the label for node agents is removed as
// well. The patch requires the resourceVersion of the request in v, and the next write of this reconciliation
// requires the resourceVersion after the patch.
func patchMetadata(ctx context.Context, v *view, finalizers []string, deactivates bool) error {
	metadata := map[string]any{"uid": v.Owner.UID, "resourceVersion": v.Owner.ResourceVersion, "finalizers": finalizers}
	if deactivates {
		metadata["labels"] = map[string]any{apps.LabelRequestActive: nil}
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding the metadata of %s: %w", v.Owner.Name, err)
	}
	changed := &v1beta1.ContainerRecreateRequest{}
	changed.Namespace, changed.Name = v.Owner.Namespace, v.Owner.Name
	if err := v.Client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("writing the metadata of %s: %w", v.Owner.Name, err)
	}
	v.Owner.ResourceVersion, v.Owner.Finalizers = changed.ResourceVersion, finalizers
	return nil
}

// remove deletes a request whose TTL has passed.
func (r *Reconciler) remove(ctx context.Context, v *view, pass *fanout.Pass) error {
	uid, version := v.Owner.UID, v.Owner.ResourceVersion
	return pass.Try(fanout.Task{Name: "delete the request"}, uid, func() error {
		return client.IgnoreNotFound(v.Client.Delete(ctx, v.Owner, client.Preconditions{UID: &uid, ResourceVersion: &version}))
	})
}

// tellEnd sends an event about the reason why the controller has completed a request. If the Pod was deleted, no
// event is sent, because the deletion of a Pod is not a failure.
func (r *Reconciler) tellEnd(request *v1beta1.ContainerRecreateRequest, p plan) {
	if p.end.Code == "" {
		return
	}
	event, kind := apps.EventRequestCompleted, corev1.EventTypeWarning
	switch {
	case p.invalid:
		event = apps.EventInvalidContainerRecreateRequest
	case p.end.Code == PodGone || p.end.Code == PodEnded:
		kind = corev1.EventTypeNormal
	}
	_, message := reason.Explain(p.end)
	r.events.Event(request, kind, event, message)
	r.options.Metrics.Done(string(p.end.Code), 1)
}
