package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podorder"
	"github.com/workloadkit/workloadkit/podpatch"
	podapply "github.com/workloadkit/workloadkit/podpatch/apply"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/slowstart"
)

// PodNotCreated means that a Pod or one of its claims could not be created. The generated part of names is left out, so that
// the same trouble has the same message each time.
const PodNotCreated reason.Code = "PodNotCreated"

// scale creates and deletes. It reports whether it changed anything; only when it has not are Pods
// updated in the same pass.
func (r *Reconciler) scale(ctx context.Context, v *view) (acted bool, err error) {
	acted, claimsErr := r.tendClaims(ctx, v)
	if acted || worthTrying(claimsErr) {
		return acted, claimsErr
	}
	acted, err = r.scalePods(ctx, v)
	return acted, errors.Join(claimsErr, err)
}

func (r *Reconciler) scalePods(ctx context.Context, v *view) (acted bool, err error) {
	acted, cancelErr := r.cancelDeletions(ctx, v)
	if acted || worthTrying(cancelErr) {
		return acted, cancelErr
	}
	acted, err = r.resize(ctx, v)
	return acted, errors.Join(cancelErr, err)
}

// resize creates what is missing, or else deletes what is too many.
func (r *Reconciler) resize(ctx context.Context, v *view) (acted bool, err error) {
	step := v.step(r.planner, r.options.Gates[apps.GatePreparingUpdateAsUpdate])
	for _, limit := range step.Limits {
		if limit.Code == rollout.ScaleUpLimited {
			r.events.Event(v.cs, corev1.EventTypeWarning, apps.EventScaleUpLimited, limit.Detail)
		}
	}
	if step.Create == 0 {
		limited := slices.ContainsFunc(step.Limits, func(l reason.Reason) bool { return l.Code == rollout.ScaleUpLimited })
		if !limited && r.unborn.forget(v.cs.UID) && !v.cs.Spec.ScaleStrategy.EnablePVCReuse {
			v.wake.in(conflictRetry) // what was kept for Pods that are not wanted any more is lost
		}
		return r.delete(ctx, v, step)
	}
	acted, err = r.create(ctx, v, step)
	if acted || r.client.InDoubt(v.cs.UID) {
		return true, err
	}
	// Nothing could be created, say for a quota. That must not hold up deletions and updates.
	deleted, deleteErr := r.delete(ctx, v, step)
	return deleted, errors.Join(err, deleteErr)
}

// maxCreations bounds the Pods created in one pass, so that a mistyped number of replicas costs a quota and not the
// controller's memory. The next pass goes on.
const maxCreations = slowstart.MaxBatch

// create makes the missing Pods, old ones first, each after its claims. It reports whether it made any. Pods of
// one revision that are refused do not keep those of the other from being made.
func (r *Reconciler) create(ctx context.Context, v *view, step rollout.Step) (acted bool, err error) {
	ids := r.instanceIDs(v, step.Create)
	old, updated := ids[:min(step.CreateOld, len(ids))], ids[min(step.CreateOld, len(ids)):]
	template := &v.cs.Spec.Template
	if len(old) > 0 {
		content, err := r.decoder.Content(v.current)
		if err != nil {
			return false, fmt.Errorf("CloneSet %s/%s: template of the current revision: %w", v.cs.Namespace, v.cs.Name, err)
		}
		template = content.Template
	}
	made, oldErr := r.createAll(ctx, v, tryOld, template, v.current, old)
	more, err := r.createAll(ctx, v, tryCreate, &v.cs.Spec.Template, v.update, updated)
	if made+more > 0 {
		r.events.Event(v.cs, corev1.EventTypeNormal, apps.EventSuccessfulCreate, createdText(v, made+more, made))
	}
	if err = errors.Join(oldErr, err); apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true, nil // everything here is about to go; trying again would only make noise
	}
	return made+more > 0, err
}

// createAll makes a Pod of a revision for each id, unless that was refused a moment ago. None are made without ids: those that
// are missing wait for their predecessors to be gone.
func (r *Reconciler) createAll(
	ctx context.Context, v *view, action string, template *corev1.PodTemplateSpec, rev *appsv1.ControllerRevision, ids []string,
) (made int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	err = r.attempt(ctx, v, action, func() (err error) {
		made, err = r.createPods(ctx, v, template, rev, ids)
		if err != nil {
			r.events.Event(v.cs, corev1.EventTypeWarning, apps.EventFailedCreate, err.Error())
		}
		return err
	})
	return made, err
}

// createdText says how many Pods of which revision were made.
func createdText(v *view, made, old int) string {
	switch old {
	case 0:
		return fmt.Sprintf("created %d Pods at revision %s", made, v.update.Name)
	case made:
		return fmt.Sprintf("created %d Pods at revision %s", made, v.current.Name)
	default:
		return fmt.Sprintf("created %d Pods, %d at revision %s and %d at revision %s", made, old, v.current.Name, made-old, v.update.Name)
	}
}

// createPods makes a Pod for each id, with slow start, and returns how many it made.
func (r *Reconciler) createPods(
	ctx context.Context, v *view, template *corev1.PodTemplateSpec, rev *appsv1.ControllerRevision, ids []string,
) (made int, err error) {
	existing := sets.New[string]()
	for _, claim := range v.claims {
		existing.Insert(claim.Name)
	}
	made, err = slowstart.Run(ctx, len(ids), 1, func(ctx context.Context, i int) error {
		r.unborn.add(v.cs.UID, ids[i])
		pod := r.newPod(v, template, rev, ids[i])
		err := r.createClaims(ctx, newClaims(v, ids[i], existing))
		if err == nil {
			err = notCreated("Pod", pod.Name, pod.GenerateName+"*", r.createOwn(ctx, v, pod))
		}
		if err == nil {
			r.unborn.remove(v.cs.UID, ids[i])
		}
		return err
	})
	return made, firstError(err)
}

// createOwn creates a Pod that is the CloneSet's. What a webhook or policy has made a stranger is deleted again: it would not be
// counted, and so be made once more in every pass.
func (r *Reconciler) createOwn(ctx context.Context, v *view, pod *corev1.Pod) error {
	if err := r.client.Create(ctx, pod); err != nil {
		return err
	}
	var what string
	switch {
	case !metav1.IsControlledBy(pod, v.cs):
		what = "owner reference"
	case !v.selector.Matches(labelSet(pod.Labels)):
		what = "labels that the selector asks for"
	default:
		return nil
	}
	err := r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	return errors.Join(fmt.Errorf("its %s did not survive the API server's admission plugins", what), client.IgnoreNotFound(err))
}

// notCreated says why without the generated part of the name, which is another each time.
func notCreated(kind, name, pattern string, err error) error {
	if err == nil {
		return nil
	}
	return reason.With(reason.Reason{
		Code: PodNotCreated, Object: reason.Object{Kind: kind, Name: pattern}, Detail: strings.ReplaceAll(err.Error(), name, pattern),
	}, err)
}

func (r *Reconciler) createClaims(ctx context.Context, claims []*corev1.PersistentVolumeClaim) error {
	for _, claim := range claims {
		err := r.client.Create(ctx, claim)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			id := claim.Labels[apps.LabelInstanceID]
			return notCreated("PersistentVolumeClaim", claim.Name, strings.TrimSuffix(claim.Name, id)+"*", err)
		}
	}
	return nil
}

// cancelDeletions takes Pods back that wait for a hook before they are deleted and are wanted again.
func (r *Reconciler) cancelDeletions(ctx context.Context, v *view) (acted bool, err error) {
	cancellable := v.pods(func(m *member) bool { return m.dying && !hasSpecifiedDelete(m.pod) && !v.isNamed(m.pod) })
	condemned := 0
	for i := range v.members {
		if v.members[i].dying || v.members[i].specified {
			condemned++
		}
	}
	n := v.machine.Hooks().CancelDeletions(v.rollout.Replicas, len(v.members)-condemned, len(cancellable))
	return r.each(ctx, v, tryCancel, cancellable[:n], func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		return r.transit(ctx, v, pod, v.machine.Next(pod, lifecycle.Want{Intent: lifecycle.Cancel}))
	})
}

func hasSpecifiedDelete(pod *corev1.Pod) bool {
	_, ok := pod.Labels[apps.LabelSpecifiedDelete]
	return ok
}

func (v *view) isNamed(pod *corev1.Pod) bool {
	return slices.Contains(v.cs.Spec.ScaleStrategy.PodsToDelete, pod.Name)
}

// delete finishes deletions that waited for a hook, then deletes what was asked for, then what is too many.
func (r *Reconciler) delete(ctx context.Context, v *view, step rollout.Step) (acted bool, err error) {
	remove := func(pods []*corev1.Pod) (bool, error) {
		return r.each(ctx, v, tryDelete, pods, func(ctx context.Context, pod *corev1.Pod) (bool, error) {
			return r.deletePod(ctx, v, pod, nil)
		})
	}
	dying := v.pods(func(m *member) bool { return m.dying })
	acted, dyingErr := remove(dying)
	if acted || worthTrying(dyingErr) {
		return acted, dyingErr
	}
	serves := func(pod *corev1.Pod) bool { m := v.member(pod); return m.ready && m.state.Available() }
	specified := v.pods(func(m *member) bool { return m.specified })
	r.deletionOrder(ctx, v).Sort(specified)
	if len(dying)+len(specified) > 0 {
		acted, err = remove(rollout.Affordable(step, specified, serves))
		return acted, errors.Join(dyingErr, err)
	}
	if step.Delete == 0 {
		return false, nil
	}
	chosen := slices.Concat(
		r.rank(ctx, v, v.pods(func(m *member) bool { return !m.updated }), step.DeleteOld),
		r.rank(ctx, v, v.pods(func(m *member) bool { return m.updated }), step.Delete-step.DeleteOld),
	)
	return remove(rollout.Affordable(step, chosen, serves))
}

// rank returns the n Pods to delete first.
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

// deletePod deletes a Pod and its claims, or has it wait for its hook first. extra goes with the write that makes it
// wait.
func (r *Reconciler) deletePod(ctx context.Context, v *view, pod *corev1.Pod, extra *podpatch.Change) (acted bool, err error) {
	t := v.machine.Next(pod, lifecycle.Want{Intent: lifecycle.Delete})
	if t.Act != lifecycle.DeletePod {
		if extra != nil {
			return r.transit(ctx, v, pod, t, *extra)
		}
		return r.transit(ctx, v, pod, t)
	}
	kept := podapply.Attempt{Object: pod.UID, Action: tryDelete}
	if wait, err := r.kept.Of(kept, v.now); err != nil {
		v.wake.in(wait)
		return false, verdict{err}
	}
	if err := r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
		r.events.Eventf(v.cs, corev1.EventTypeWarning, apps.EventFailedDelete, "failed to delete Pod %s: %v", pod.Name, err)
		err = fmt.Errorf("deleting Pod %s: %w", pod.Name, err)
		if !podapply.IsLasting(err) {
			return false, err
		}
		v.wake.in(r.kept.Add(kept, v.now, err))
		v.refused.Add(1)
		return false, verdict{err}
	}
	r.events.Eventf(v.cs, corev1.EventTypeNormal, apps.EventSuccessfulDelete, "deleted Pod %s", pod.Name)
	return true, r.deleteClaimsOf(ctx, v, pod)
}

// firstError shortens a joined error to its first part: what made the batch stop.
func firstError(err error) error {
	var joined interface{ Unwrap() []error }
	if joined, _ = err.(interface{ Unwrap() []error }); joined != nil && len(joined.Unwrap()) > 0 {
		return joined.Unwrap()[0]
	}
	return err
}
