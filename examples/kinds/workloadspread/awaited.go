package workloadspread

import (
	"context"
	"fmt"
	"maps"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/subsets"
)

// awaitedPod identifies a place, which is the right to create a Pod in a subset: the place was taken for a Pod that
// the cache does not show yet. A place that is taken later with the same key is a different awaitedPod.
type awaitedPod struct {
	key   string
	since int64
}

func awaitedUnder(key string, since time.Time) awaitedPod { return awaitedPod{key, since.Unix()} }

// await finds the taken places (rights to create a Pod in a subset) whose Pods will never be created, and returns the
// time until the next check.
func (r *Reconciler) await(ctx context.Context, v *view, seen *observed) (again time.Duration, err error) {
	before, now := r.awaited.Of(v.Owner.UID), unseen(v.Owner, seen.pods)
	if len(before)+len(now) == 0 {
		return 0, nil
	}
	absent, again, err := r.look(ctx, v.Owner, v.Now, before, now)
	r.awaited.Change(v.Owner.UID, func(m *map[awaitedPod]time.Time) { *m = now })
	if len(absent) > 0 {
		seen.absent = func(key string, since time.Time) bool { return absent[awaitedUnder(key, since)] }
	}
	return again, err
}

// look returns the taken places whose Pods will never be created. now contains the taken places whose Pods the cache
// does not show; look stores in now since when this process knows each place. After the longest time that the request
// for a Pod may last, the Pod exists or will never be created, and a read from the API server shows which. The time
// recorded with the place is not used, because the clocks of processes may differ.
func (f *finder) look(ctx context.Context, spread *v1beta1.WorkloadSpread, at time.Time, before, now map[awaitedPod]time.Time,
) (absent map[awaitedPod]bool, again time.Duration, err error) {
	if len(now) == 0 {
		return nil, 0, nil
	}
	oldest := at
	for place := range now {
		now[place] = at
		if first, ok := before[place]; ok {
			now[place] = first
		}
		if now[place].Before(oldest) {
			oldest = now[place]
		}
	}
	life := passes + stored + subsets.RenewedAfter
	if wait := life - at.Sub(oldest); wait > 0 {
		return nil, wait, nil
	}
	request, err := f.flight(ctx)
	if err != nil || request == (flight{}) {
		return nil, 0, err
	}
	life = request.total() + subsets.RenewedAfter
	if wait := life - at.Sub(oldest); wait > 0 {
		return nil, wait, nil
	}
	there, err := f.keysOf(ctx, spread)
	if err != nil {
		return nil, 0, err
	}
	absent = map[awaitedPod]bool{}
	for place, first := range now {
		switch {
		case at.Sub(first) < life:
		case there[place.key]:
			now[place] = at // the API server has the Pod, and the cache does not show the Pod yet
		default:
			absent[place] = true
		}
	}
	if len(absent) < len(now) {
		again = life
	}
	return absent, again, nil
}

// unseen returns the taken places whose Pods the cache does not show.
func unseen(spread *v1beta1.WorkloadSpread, pods *crowd) map[awaitedPod]time.Time {
	out, awaited := map[awaitedPod]time.Time{}, sets.New[string]()
	for _, list := range spread.Status.VersionedSubsetStatuses {
		for i := range list {
			for key, since := range list[i].CreatingPods {
				out[awaitedUnder(key, since.Time)] = time.Time{}
				awaited.Insert(key)
			}
		}
	}
	if len(out) == 0 {
		return out
	}
	for _, entries := range pods.marked {
		for _, e := range entries {
			awaited.Delete(e.pod.Name, e.mark.UID)
		}
	}
	maps.DeleteFunc(out, func(place awaitedPod, _ time.Time) bool { return !awaited.Has(place.key) })
	return out
}

// flight returns how long the request for a new Pod may last; zero if the cluster's webhooks are unknown, because the
// manager may lack the permission to list webhook configurations.
func (f *finder) flight(ctx context.Context) (flight, error) {
	return asked(f, "webhooks of Pods", func() (flight, error) {
		var mutating admissionregistrationv1.MutatingWebhookConfigurationList
		var validating admissionregistrationv1.ValidatingWebhookConfigurationList
		for _, list := range []client.ObjectList{&mutating, &validating} {
			err := f.live.List(ctx, list)
			if apierrors.IsForbidden(err) {
				return flight{}, nil
			}
			if err != nil {
				return flight{}, fmt.Errorf("reading webhooks: %w", err)
			}
		}
		return flightOf(mutating.Items, validating.Items), nil
	})
}

// podsPerPage is the largest number of Pods in memory at a time; only the metadata is read.
const podsPerPage = 500

// keysOf returns the keys of the places of all existing Pods of a WorkloadSpread, read from the API server.
func (f *finder) keysOf(ctx context.Context, spread *v1beta1.WorkloadSpread) (map[string]bool, error) {
	keys := map[string]bool{}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for {
		err := f.live.List(ctx, list, client.InNamespace(spread.Namespace), client.Limit(podsPerPage), client.Continue(list.Continue))
		if err != nil {
			return nil, fmt.Errorf("reading Pods of namespace %s: %w", spread.Namespace, err)
		}
		for i := range list.Items {
			if m, marked := markOf(&corev1.Pod{ObjectMeta: list.Items[i].ObjectMeta}, spread.Name); marked {
				keys[list.Items[i].Name], keys[m.UID] = true, true
			}
		}
		if list.Continue == "" {
			return keys, nil
		}
	}
}
