package advancedcronjob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/advancedcronjob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
)

// act carries out a decision: act deletes ended runs beyond the history limits, deletes the runs to be replaced, and
// starts the new run. If the deletion of an ended run fails, the new run is started nevertheless. If the deletion of
// a run to be replaced fails, no run is started.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, d decision) error {
	return errors.Join(
		fanout.Each(ctx, pass, fanout.Task{Name: "delete history"}, d.Trim, func(ctx context.Context, run Run) (bool, error) {
			return r.remove(ctx, v, pass, run)
		}),
		fanout.Each(ctx, pass, fanout.Task{Name: "delete replaced"}, d.Replace, func(ctx context.Context, run Run) (bool, error) {
			return r.remove(ctx, v, pass, run)
		}),
		r.start(ctx, v, pass, d),
	)
}

// again is the wait before the next reconciliation if the cache does not show the newest state.
const again = time.Second

// remove deletes a run; the garbage collector then deletes the run's Pods.
func (r *Reconciler) remove(ctx context.Context, v *view, pass *fanout.Pass, run Run) (bool, error) {
	uid := run.GetUID()
	err := v.Client.Delete(ctx, run.Object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		pass.Wake(again)
		return false, nil
	case err != nil:
		r.events.Eventf(v.Owner, corev1.EventTypeWarning, apps.EventFailedDelete, "failed to delete %s %s: %v", run.Kind.Kind, run.GetName(), err)
		return false, fmt.Errorf("deleting %s %s: %w", run.Kind.Kind, run.GetName(), err)
	}
	r.events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventSuccessfulDelete, "deleted %s %s", run.Kind.Kind, run.GetName())
	return true, nil
}

// start creates the job for the decision's slot, the time at which a run is due.
func (r *Reconciler) start(ctx context.Context, v *view, pass *fanout.Pass, d decision) error {
	if d.Slot.IsZero() {
		return nil
	}
	job := newRun(v.Owner, d.Slot, v.Now.Location())
	run, ok := Read(job)
	if !ok {
		return fmt.Errorf("a %T is no run", job)
	}
	made := false
	err := pass.Once(ctx, fanout.Task{Name: "start run"}, func() (bool, error) {
		err := v.Client.Create(ctx, job)
		switch {
		case apierrors.IsAlreadyExists(err):
			return false, r.meet(ctx, v, d, run)
		case err != nil:
			r.tellFailure(v, d.Slot, err)
			return false, fmt.Errorf("creating %s %s: %w", run.Kind.Kind, job.GetName(), err)
		}
		made = true
		return true, nil
	})
	if !made {
		return err
	}
	r.started(v, d, run)
	return errors.Join(err, r.recordStart(ctx, v, d, run))
}

// recordStart records the start of a run in the status, so that no second run is started for the same slot after the
// deletion of the first run.
func (r *Reconciler) recordStart(ctx context.Context, v *view, d decision, run Run) error {
	_, err := v.WriteStatus(ctx, d.Started(run))
	return err
}

// meet reads the existing object that has the name of a new run. If the AdvancedCronJob controls the object, the run
// was started before, and the cache does not show the run yet. If the object is being deleted, meet returns an error,
// so that the run is started later.
func (r *Reconciler) meet(ctx context.Context, v *view, d decision, run Run) error {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(run.Kind)
	err := r.cache.APIReader().Get(ctx, client.ObjectKeyFromObject(run), found)
	switch {
	case err != nil:
		return fmt.Errorf("reading %s %s, whose name is taken: %w", run.Kind.Kind, run.GetName(), err)
	case metav1.IsControlledBy(found, v.Owner):
		r.knows.Change(v.Owner.UID, func(k *known) { k.NoteStart(d.Slot) })
		return nil
	case isLeaving(found, v.Owner):
		return fmt.Errorf("creating %s %s: one of the name is about to go", run.Kind.Kind, run.GetName())
	}
	r.refused(v, d, run)
	return nil
}

// isLeaving reports whether an object is being deleted, or will be garbage collected because it belongs to an earlier
// AdvancedCronJob of the same name.
func isLeaving(found metav1.Object, owner *v1beta1.AdvancedCronJob) bool {
	name, ours := controllerOf(found)
	return found.GetDeletionTimestamp() != nil || ours && name == owner.Name
}

// newRun returns the job to create for a slot, the time at which a run is due.
func newRun(owner *v1beta1.AdvancedCronJob, slot time.Time, zone *time.Location) client.Object {
	object := func(template metav1.ObjectMeta) metav1.ObjectMeta {
		annotations := maps.Clone(template.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[apps.AnnotationScheduledAt] = slot.In(zone).Format(time.RFC3339)
		return metav1.ObjectMeta{
			Namespace: owner.Namespace, Name: api.JobName(owner.Name, slot), Labels: maps.Clone(template.Labels), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1beta1.GroupVersion.WithKind(kindName))},
		}
	}
	if t := owner.Spec.Template.JobTemplate; t != nil {
		return &batchv1.Job{ObjectMeta: object(t.ObjectMeta), Spec: *t.Spec.DeepCopy()}
	}
	if t := owner.Spec.Template.ImageListPullJobTemplate; t != nil {
		return &v1beta1.ImageListPullJob{ObjectMeta: object(t.ObjectMeta), Spec: *t.Spec.DeepCopy()}
	}
	job := &v1beta1.BroadcastJob{}
	if t := owner.Spec.Template.BroadcastJobTemplate; t != nil {
		job.Spec, job.ObjectMeta = *t.Spec.DeepCopy(), object(t.ObjectMeta)
	}
	return job
}
