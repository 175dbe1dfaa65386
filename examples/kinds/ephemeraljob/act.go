package ephemeraljob

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
)

// again is the wait before the next look at a late cache.
const again = time.Second

// addToPod is the task for a single Pod: a policy may refuse a Pod and take the next.
func addToPod() fanout.Task { return fanout.Task{Name: "add containers to a Pod"} }

// inject adds the containers to as many Pods as may be busy. Pods that have refused the containers come last.
func (r *Reconciler) inject(ctx context.Context, v *view, pass *fanout.Pass, s *settings, d *decision) error {
	open := slices.Clone(d.Open)
	turn := func(pod *corev1.Pod) (turn int) {
		if r.fanout.Backoff.WasRefused(pod.UID, addToPod()) {
			turn++
		}
		if pass.Rests(addToPod(), pod.UID) {
			turn++
		}
		return turn
	}
	slices.SortStableFunc(open, func(a, b *corev1.Pod) int { return cmp.Compare(turn(a), turn(b)) })
	var mu sync.Mutex
	var names []string
	err := fanout.Each(ctx, pass, fanout.Task{Name: "add containers"}, open[:min(d.Step.Start, len(open))], func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		err := pass.Try(addToPod(), pod.UID, func() error {
			patches, err := s.patches(v.Owner.UID, pod)
			if err != nil {
				return err
			}
			_, err = podwrite.SendPatches(ctx, v.Client, patches)
			return err
		})
		if apierrors.IsConflict(err) { // somebody has changed the Pod, as the cache will show
			pass.Wake(again)
			return false, nil
		}
		if err != nil {
			return false, err
		}
		mu.Lock()
		defer mu.Unlock()
		names = append(names, pod.Name)
		return true, nil
	})
	if slices.Sort(names); len(names) > 0 {
		r.options.Metrics.Done("added", int64(len(names)))
		r.events.Eventf(v.Owner, corev1.EventTypeNormal, apps.EventContainersAdded, "added containers to Pods %s", kruise.Some(names, ""))
	}
	return err
}

// hold puts the finalizer on a job under way.
func (r *Reconciler) hold(ctx context.Context, v *view, pass *fanout.Pass) error {
	if v.Owner.Status.Finished() || slices.Contains(v.Owner.Finalizers, apps.FinalizerEphemeralJob) {
		return nil
	}
	return r.setFinalizers(ctx, v, pass, append(slices.Clone(v.Owner.Finalizers), apps.FinalizerEphemeralJob))
}

// letGo takes the finalizer from a deleted job, and tells of containers that go on.
func (r *Reconciler) letGo(ctx context.Context, v *view, pass *fanout.Pass) error {
	if !slices.Contains(v.Owner.Finalizers, apps.FinalizerEphemeralJob) {
		return nil
	}
	if names := goesOn(r.pods.In(v.Owner.Namespace), v.Owner.UID); len(names) > 0 {
		r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventContainersGoOn, fmt.Sprintf(
			"Kubernetes cannot remove ephemeral containers: the job's containers go on in Pods %s, until the programs end or the Pods are deleted", kruise.Some(names, "")))
	}
	return r.setFinalizers(ctx, v, pass, slices.DeleteFunc(slices.Clone(v.Owner.Finalizers), func(f string) bool { return f == apps.FinalizerEphemeralJob }))
}

// setFinalizers replaces the finalizers, if the job is as seen. The view has the new finalizers then.
func (r *Reconciler) setFinalizers(ctx context.Context, v *view, pass *fanout.Pass, finalizers []string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": v.Owner.UID, "resourceVersion": v.Owner.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return fmt.Errorf("encoding the finalizers: %w", err)
	}
	return pass.Once(ctx, fanout.Task{Name: "set the finalizers"}, func() (bool, error) {
		job := &v1alpha1.EphemeralJob{}
		job.Namespace, job.Name = v.Owner.Namespace, v.Owner.Name
		err := v.Client.Patch(ctx, job, client.RawPatch(types.MergePatchType, body))
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("writing the finalizers of EphemeralJob %s: %w", v.Owner.Name, err)
		}
		v.Owner.ObjectMeta = job.ObjectMeta
		return true, nil
	})
}

// remove deletes a job over for long enough, on condition that the job is as seen.
func (r *Reconciler) remove(ctx context.Context, v *view, pass *fanout.Pass) error {
	return pass.Once(ctx, fanout.Task{Name: "delete the job"}, func() (bool, error) {
		uid, version := v.Owner.UID, v.Owner.ResourceVersion
		err := v.Client.Delete(ctx, v.Owner, client.Preconditions{UID: &uid, ResourceVersion: &version})
		return err == nil, client.IgnoreNotFound(err)
	})
}
