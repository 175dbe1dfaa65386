package ephemeraljob

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
)

// again is the wait before the next reconciliation if the cache does not show the newest state.
const again = time.Second

// addToPod returns a fanout task that covers a single Pod: if the API server refuses the containers for a Pod, only
// the task of this Pod is delayed.
func addToPod() fanout.Task { return fanout.Task{Name: "add containers to a Pod"} }

// inject adds the containers to Pods, up to the number of Pods in which the job may have running containers at the
// same time. Pods for which the API server has refused the containers before are tried last.
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
	marked := s.marked(v.Owner.UID)
	var mu sync.Mutex
	var names []string
	err := fanout.Each(ctx, pass, fanout.Task{Name: "add containers"}, open[:min(d.Step.Start, len(open))], func(ctx context.Context, pod *corev1.Pod) (bool, error) {
		err := pass.Try(addToPod(), pod.UID, func() error {
			patches, err := podpatch.Ephemeral(pod, marked)
			if err != nil {
				return err
			}
			_, err = podwrite.SendPatches(ctx, v.Client, patches)
			return err
		})
		if apierrors.IsConflict(err) { // another client has changed the Pod, and the cache will soon show the change
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

// setFinalizer adds the finalizer to a job, or removes it.
func setFinalizer(ctx context.Context, v *view, pass *fanout.Pass, wanted bool) error {
	return pass.Once(ctx, fanout.Task{Name: "set the finalizer"}, func() (bool, error) {
		return v.SetFinalizer(ctx, apps.FinalizerEphemeralJob, wanted)
	})
}

// letGo removes the finalizer from a job in deletion, and sends an event with the names of the Pods in which the
// job's containers still run.
func (r *Reconciler) letGo(ctx context.Context, v *view, pass *fanout.Pass) error {
	if names := goesOn(r.pods.In(v.Owner.Namespace), v.Owner.UID); len(names) > 0 && slices.Contains(v.Owner.Finalizers, apps.FinalizerEphemeralJob) {
		r.told.Tell(v.Owner, corev1.EventTypeWarning, apps.EventContainersGoOn, "Kubernetes cannot remove ephemeral containers: the job's containers go on in Pods "+
			kruise.Some(names, "")+", until the programs end or the Pods are deleted")
	}
	return setFinalizer(ctx, v, pass, false)
}

// remove deletes a job after the TTL, unless the job has changed since the last read.
func (r *Reconciler) remove(ctx context.Context, v *view, pass *fanout.Pass) error {
	return pass.Once(ctx, fanout.Task{Name: "delete the job"}, func() (bool, error) {
		uid, version := v.Owner.UID, v.Owner.ResourceVersion
		err := v.Client.Delete(ctx, v.Owner, client.Preconditions{UID: &uid, ResourceVersion: &version})
		return err == nil, client.IgnoreNotFound(err)
	})
}
