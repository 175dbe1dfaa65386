package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/slowstart"
)

func sortStrings(s []string) { slices.Sort(s) }

// scale creates and deletes, in the order of C-18. It reports whether it changed anything; only when it has not are Pods
// updated in the same pass (C-2).
func (r *Reconciler) scale(ctx context.Context, v *view) (acted bool, err error) {
	if acted, err = r.tendClaims(ctx, v); acted || err != nil {
		return acted, err
	}
	if acted, err = r.cancelDeletions(ctx, v); acted || err != nil {
		return acted, err
	}
	step := v.step(r.planner, r.options.Gates[apps.GatePreparingUpdateAsUpdate])
	for _, limit := range step.Limits {
		if limit.Code == rollout.ScaleUpLimited {
			r.events.Event(v.cs, corev1.EventTypeWarning, apps.EventScaleUpLimited, limit.Detail)
		}
	}
	if step.Create > 0 {
		acted, err = r.create(ctx, v, step)
		if acted || err == nil || r.client.InDoubt(v.cs.UID) {
			return true, err
		}
		// Nothing could be created, say for a quota. That must not hold up deletions and updates (C-2).
		deleted, deleteErr := r.delete(ctx, v, step)
		return deleted, errors.Join(err, deleteErr)
	}
	return r.delete(ctx, v, step)
}

// maxCreations bounds the Pods created in one pass, so that a mistyped number of replicas costs a quota and not the
// controller's memory. The next pass goes on.
const maxCreations = slowstart.MaxBatch

// create makes the missing Pods, old ones first, each after its claims (C-8, C-10). It reports whether it made any.
func (r *Reconciler) create(ctx context.Context, v *view, step rollout.Step) (acted bool, err error) {
	old := v.update
	template := &v.cs.Spec.Template
	if step.CreateOld > 0 {
		content, err := r.decoder.Content(v.current)
		if err != nil {
			return false, fmt.Errorf("CloneSet %s/%s: template of the current revision: %w", v.cs.Namespace, v.cs.Name, err)
		}
		old, template = v.current, content.Template
	}
	existing := sets.New[string]()
	for _, claim := range v.claims {
		existing.Insert(claim.Name)
	}
	ids := r.instanceIDs(v, min(step.Create, maxCreations))
	made, err := slowstart.Run(ctx, len(ids), 1, func(ctx context.Context, i int) error {
		if err := r.createClaims(ctx, newClaims(v, ids[i], existing)); err != nil {
			return err
		}
		if i < step.CreateOld {
			return r.createPod(ctx, r.newPod(v, template, old, ids[i]))
		}
		return r.createPod(ctx, r.newPod(v, &v.cs.Spec.Template, v.update, ids[i]))
	})
	if made > 0 {
		r.events.Eventf(v.cs, corev1.EventTypeNormal, apps.EventSuccessfulCreate, "created %d Pods, %d at revision %s", made, min(step.CreateOld, made), old.Name)
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true, nil // everything here is about to go; trying again would only make noise
	}
	if err != nil {
		r.events.Event(v.cs, corev1.EventTypeWarning, apps.EventFailedCreate, firstError(err))
		return made > 0, fmt.Errorf("CloneSet %s/%s: %d of %d Pods created: %w", v.cs.Namespace, v.cs.Name, made, len(ids), err)
	}
	return true, nil
}

func (r *Reconciler) createPod(ctx context.Context, pod *corev1.Pod) error {
	if err := r.client.Create(ctx, pod); err != nil {
		return fmt.Errorf("creating Pod %s: %w", pod.Name, err)
	}
	return nil
}

func (r *Reconciler) createClaims(ctx context.Context, claims []*corev1.PersistentVolumeClaim) error {
	for _, claim := range claims {
		err := r.client.Create(ctx, claim)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("creating PersistentVolumeClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// cancelDeletions takes Pods back that wait for a hook before they are deleted and are wanted again (L-14).
func (r *Reconciler) cancelDeletions(ctx context.Context, v *view) (acted bool, err error) {
	cancellable := v.pods(func(m *member) bool { return m.dying && !hasSpecifiedDelete(m.pod) && !v.isNamed(m.pod) })
	condemned := 0
	for i := range v.members {
		if v.members[i].dying || v.members[i].specified {
			condemned++
		}
	}
	n := lifecycle.CancelDeletions(v.rollout.Replicas, len(v.members), condemned, len(cancellable), v.machine.Hooks)
	return r.each(ctx, v, cancellable[:n], func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		facts := v.machine.Facts(pod)
		facts.Intent = lifecycle.Cancel
		return r.transit(ctx, v, pod, lifecycle.Next(facts))
	})
}

func hasSpecifiedDelete(pod *corev1.Pod) bool {
	_, ok := pod.Labels[apps.LabelSpecifiedDelete]
	return ok
}

func (v *view) isNamed(pod *corev1.Pod) bool {
	return slices.Contains(v.cs.Spec.ScaleStrategy.PodsToDelete, pod.Name)
}

// delete finishes deletions that waited for a hook, then deletes what was asked for, then what is too many (C-16 to C-18).
func (r *Reconciler) delete(ctx context.Context, v *view, step rollout.Step) (acted bool, err error) {
	dying := v.pods(func(m *member) bool { return m.dying })
	acted, err = r.each(ctx, v, dying, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		return r.deletePod(ctx, v, pod, nil)
	})
	if acted || err != nil {
		return acted, err
	}
	serves := func(pod *corev1.Pod) bool { m := v.member(pod); return m.ready && m.state.Available() }
	specified := v.pods(func(m *member) bool { return m.specified })
	r.deletionOrder(ctx, v).Sort(specified)
	if len(dying)+len(specified) > 0 {
		return r.each(ctx, v, rollout.Affordable(step, specified, serves), func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			return r.deletePod(ctx, v, pod, nil)
		})
	}
	if step.Delete == 0 {
		return false, nil
	}
	chosen := slices.Concat(
		r.rank(ctx, v, v.pods(func(m *member) bool { return !m.updated }), step.DeleteOld),
		r.rank(ctx, v, v.pods(func(m *member) bool { return m.updated }), step.Delete-step.DeleteOld),
	)
	return r.each(ctx, v, rollout.Affordable(step, chosen, serves), func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		return r.deletePod(ctx, v, pod, nil)
	})
}

// rank returns the n Pods to delete first (C-23).
func (r *Reconciler) rank(ctx context.Context, v *view, pods []*corev1.Pod, n int) []*corev1.Pod {
	n = min(max(n, 0), len(pods))
	if n < len(pods) {
		r.deletionOrder(ctx, v).Sort(pods)
	}
	return pods[:n]
}

func (r *Reconciler) deletionOrder(ctx context.Context, v *view) podorder.Deletion {
	return podorder.Deletion{
		Available:   func(pod *corev1.Pod) bool { return v.member(pod).available },
		Constraints: v.cs.Spec.Template.Spec.TopologySpreadConstraints,
		NodeLabels: func(name string) (map[string]string, bool) {
			node := &metav1.PartialObjectMetadata{}
			node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
			err := r.client.Get(ctx, client.ObjectKey{Name: name}, node)
			return node.Labels, err == nil
		},
	}
}

// deletePod deletes a Pod and its claims, or has it wait for its hook first (L-2). extra goes with the write that makes it
// wait.
func (r *Reconciler) deletePod(ctx context.Context, v *view, pod *corev1.Pod, extra *podpatch.Change) (acted bool, err error) {
	facts := v.machine.Facts(pod)
	facts.Intent = lifecycle.Delete
	t := lifecycle.Next(facts)
	if t.Act != lifecycle.DeletePod {
		if extra != nil {
			return r.transit(ctx, v, pod, t, *extra)
		}
		return r.transit(ctx, v, pod, t)
	}
	if err := r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
		r.events.Eventf(v.cs, corev1.EventTypeWarning, apps.EventFailedDelete, "failed to delete Pod %s: %v", pod.Name, err)
		return false, fmt.Errorf("deleting Pod %s: %w", pod.Name, err)
	}
	r.events.Eventf(v.cs, corev1.EventTypeNormal, apps.EventSuccessfulDelete, "deleted Pod %s", pod.Name)
	return true, r.deleteClaimsOf(ctx, v, pod)
}

// firstError shortens a joined error to its first part: what made the batch stop.
func firstError(err error) string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && len(joined.Unwrap()) > 0 {
		return joined.Unwrap()[0].Error()
	}
	return err.Error()
}
