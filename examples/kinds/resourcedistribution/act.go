package resourcedistribution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/workloadkit/workloadkit/examples/apis/apps/resourcedistribution"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
)

// work contains the decisions and results of a reconciliation.
type work struct {
	resource *api.Resource
	owner    metav1.OwnerReference
	desired  int
	// open lists the namespaces in which a copy must be created, read or updated. extra lists the copies that must be
	// deleted.
	open  []*place
	extra []client.Object

	mu        sync.Mutex
	succeeded int
	failures  map[v1beta1.ResourceDistributionConditionType]map[string]error // errors by condition and namespace
	wrote     map[verb][]string                                              // names of namespaces, by verb
}

// place is a namespace in which a copy must exist, with the next step for the copy. Several places are handled at the
// same time.
type place struct {
	metav1.ObjectMeta

	action action
	// undone is true if another client has changed a copy that this process knows to have matched the template.
	undone bool
}

// placeOf returns the place for a ResourceDistribution's copy in a namespace. The UID of the place identifies the place
// in the back-off of package fanout.
func placeOf(owner types.UID, namespace string, action action, undone bool) *place {
	return &place{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: owner + "/" + types.UID(namespace)}, action: action, undone: undone}
}

// verb is what was done to a copy.
type verb string

const (
	created verb = "created"
	updated verb = "updated"
	deleted verb = "deleted"
)

// fail records why the copy in a namespace does not match the template.
func (w *work) fail(condition v1beta1.ResourceDistributionConditionType, namespace string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failures[condition] == nil {
		w.failures[condition] = map[string]error{}
	}
	w.failures[condition][namespace] = err
}

// done records that the copy in a namespace matches the template, and how the copy was changed. An empty verb means
// that nothing was done.
func (w *work) done(namespace string, how verb) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if how != deleted {
		w.succeeded++
	}
	if how != "" {
		w.wrote[how] = append(w.wrote[how], namespace)
	}
}

// plan decides from the objects in the caches, without sending requests.
func (r *Reconciler) plan(v *view, resource *api.Resource, targets targets) *work {
	uid := v.Owner.UID
	w := &work{
		resource: resource, owner: reference(v.Owner), desired: len(targets.Wanted) + len(targets.Missing),
		failures: map[v1beta1.ResourceDistributionConditionType]map[string]error{}, wrote: map[verb][]string{},
	}
	for _, missing := range targets.Missing {
		w.fail(v1beta1.ResourceDistributionNamespaceNotExists, missing.Object.Name, missing)
	}
	copies, known := r.copies[resource.Kind], r.known.Of(uid, targets.Wanted)
	wanted := make(map[string]bool, len(targets.Wanted))
	for _, namespace := range targets.Wanted {
		wanted[namespace] = true
		var found metav1.Object
		if object, ok := copies.Get(namespace, resource.Name); ok {
			found = object
		}
		was := known[namespace]
		if d := glance(resource, w.owner, found, was); !w.settled(namespace, d) {
			w.open = append(w.open, placeOf(uid, namespace, d.Action, was.Is(resource.Hash)))
		}
	}
	for _, found := range copies.By(distributorIndex, v.Owner.Name) {
		namespace := found.GetNamespace()
		_, exists := r.namespaces.Get("", namespace)
		if !wanted[namespace] && exists && !targets.Untouched.Has(namespace) && found.GetName() == resource.Name && found.GetDeletionTimestamp() == nil {
			w.extra = append(w.extra, found)
		}
	}
	return w
}

// settled returns true, and records the result for a copy, if no request is needed.
func (w *work) settled(namespace string, d decision) bool {
	switch d.Action {
	case none:
		w.done(namespace, "")
	case Leave:
		w.fail(d.Condition(), namespace, d.Why)
	default:
		return false
	}
	return true
}

func writeTask() fanout.Task  { return fanout.Task{Name: "write copies"} }
func deleteTask() fanout.Task { return fanout.Task{Name: "delete copies"} }

// act carries out the decisions. If a copy is refused in one namespace, all other namespaces still get copies.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, w *work) error {
	return errors.Join(
		fanout.Each(ctx, pass, writeTask(), w.open, func(ctx context.Context, p *place) (bool, error) {
			if err := r.undone(v, pass, p); err != nil {
				return r.note(w, p.Name, "", v1beta1.ResourceDistributionUpdateResourceFailed, err)
			}
			how, condition := verb(""), v1beta1.ResourceDistributionCreateResourceFailed
			err := pass.Try(fanout.Task{Name: "write copy"}, p.UID, func() (err error) {
				how, condition, err = r.write(ctx, v, pass, w, p)
				return err
			})
			if err == nil && p.undone {
				r.fanout.Backoff.Refused(redo(v, p), contested(w.resource, p.Name), v.Now)
			}
			return r.note(w, p.Name, how, condition, err)
		}),
		fanout.Each(ctx, pass, deleteTask(), w.extra, func(ctx context.Context, found client.Object) (bool, error) {
			err := pass.Try(fanout.Task{Name: "delete copy"}, found.GetUID(), func() error { return r.remove(ctx, v, pass, w.resource, found) })
			return r.note(w, found.GetNamespace(), deleted, v1beta1.ResourceDistributionDeleteResourceFailed, err)
		}),
	)
}

// redo returns the back-off entry for restoring a copy that another client has changed: the first attempt is made at
// once, and the back-off before later attempts grows. Without the back-off, this controller and the other client
// could overwrite each other's changes as fast as the API server allows.
func redo(v *view, p *place) fanout.Attempt {
	task := fanout.Task{Name: "redo copy", First: 500 * time.Millisecond, Last: time.Minute}
	return fanout.Attempt{Object: p.UID, Task: task, Target: strconv.FormatInt(v.Owner.Generation, 10)}
}

// undone returns an error if another client has changed the copy, and the back-off before the next attempt to restore
// the copy has not ended.
func (r *Reconciler) undone(v *view, pass *fanout.Pass, p *place) error {
	if !p.undone {
		return nil
	}
	wait, err := r.fanout.Backoff.Resting(redo(v, p), v.Now)
	pass.Wake(wait)
	return err
}

// errSettled means that a copy needs neither a write nor a report now.
var errSettled = errors.New("settled")

// note records the result for a copy, and returns an error only if the write should be retried at once. After other
// errors, which a retry would not avoid, the ResourceDistribution is already enqueued for later.
func (r *Reconciler) note(w *work, namespace string, how verb, condition v1beta1.ResourceDistributionConditionType, err error) (bool, error) {
	switch {
	case errors.Is(err, errSettled):
		return false, nil
	case err == nil:
		w.done(namespace, how)
		return how != "", nil
	}
	w.fail(condition, namespace, err)
	if podwrite.IsLasting(err) {
		return false, nil
	}
	return false, err
}

// write creates a missing copy, or reads and updates an existing copy. condition is the type of the condition for a
// failure.
func (r *Reconciler) write(
	ctx context.Context, v *view, pass *fanout.Pass, w *work, p *place,
) (how verb, condition v1beta1.ResourceDistributionConditionType, err error) {
	if p.action == create {
		how, err = r.create(ctx, v, pass, w, p.Name)
		return how, v1beta1.ResourceDistributionCreateResourceFailed, err
	}
	live := w.resource.Empty()
	object, ok := live.(client.Object)
	if !ok {
		return "", v1beta1.ResourceDistributionGetResourceFailed, fmt.Errorf("a %T is no object", live)
	}
	key := client.ObjectKey{Namespace: p.Name, Name: w.resource.Name}
	switch err := r.cache.APIReader().Get(ctx, key, object); {
	case apierrors.IsNotFound(err):
		pass.Wake(again)
		return "", "", errSettled
	case err != nil:
		return "", v1beta1.ResourceDistributionGetResourceFailed, fmt.Errorf("reading %s %s: %w", w.resource.Kind, key, err)
	}
	d := decide(w.resource, w.owner, live)
	switch d.Action {
	case none, Leave:
		if d.Why.Code != NameTaken && d.Why.Code != CopyEnding { // the cache will soon show the object that exists
			r.known.Keep(v.Owner.UID, p.Name, knownOf(live, w.resource.Hash, d.Why))
		}
		if w.settled(p.Name, d) {
			return "", "", errSettled
		}
	}
	body, err := json.Marshal(d.Patch)
	if err != nil {
		return "", v1beta1.ResourceDistributionUpdateResourceFailed, fmt.Errorf("encoding what differs in %s %s: %w", w.resource.Kind, key, err)
	}
	err = v.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		pass.Wake(again)
		return "", "", errSettled
	case err != nil:
		return "", v1beta1.ResourceDistributionUpdateResourceFailed, fmt.Errorf("updating %s %s: %w", w.resource.Kind, key, err)
	}
	r.known.Keep(v.Owner.UID, p.Name, knownOf(live, w.resource.Hash, reason.Reason{}))
	return updated, "", nil
}

// again is the wait before the next reconciliation if the cache does not show the newest state.
const again = time.Second

func (r *Reconciler) create(ctx context.Context, v *view, pass *fanout.Pass, w *work, namespace string) (verb, error) {
	wanted := w.resource.Copy(namespace, w.owner)
	object, ok := wanted.(client.Object)
	if !ok {
		return "", fmt.Errorf("a %T is no object", wanted)
	}
	err := v.Client.Create(ctx, object)
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
		pass.Wake(again) // the cache does not show yet that the object exists, or that the namespace is being deleted
		return "", errSettled
	case err != nil:
		return "", fmt.Errorf("creating %s %s/%s: %w", w.resource.Kind, namespace, w.resource.Name, err)
	}
	r.known.Keep(v.Owner.UID, namespace, knownOf(wanted, w.resource.Hash, reason.Reason{}))
	return created, nil
}

// remove deletes an unwanted copy, unless the copy has changed since the last read.
func (r *Reconciler) remove(ctx context.Context, v *view, pass *fanout.Pass, resource *api.Resource, found client.Object) error {
	uid, version := found.GetUID(), found.GetResourceVersion()
	gone := metadataOf(resource.Kind)
	gone.SetNamespace(found.GetNamespace())
	gone.SetName(found.GetName())
	err := v.Client.Delete(ctx, gone, client.Preconditions{UID: &uid, ResourceVersion: &version})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		pass.Wake(again)
		return errSettled
	case err != nil:
		return fmt.Errorf("deleting %s %s/%s: %w", resource.Kind, found.GetNamespace(), found.GetName(), err)
	}
	return nil
}
