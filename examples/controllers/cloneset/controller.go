package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/claim"
	claimapply "github.com/workloadkit/workloadkit/claim/apply"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/expectations"
	expectationsapply "github.com/workloadkit/workloadkit/expectations/apply"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownerindex"
	"github.com/workloadkit/workloadkit/podpatch/podwrite"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	revisionapply "github.com/workloadkit/workloadkit/revision/apply"
)

// kind is the controller's kind, in the version it writes into owner references.
func kind() schema.GroupVersionKind { return v1beta1.GroupVersion.WithKind("CloneSet") }

// Options of the controller. The zero value is usable.
type Options struct {
	// Gates are the feature gates; nil stands for the defaults.
	Gates map[apps.Gate]bool
	// ExcludePreparingDelete is the global form of the field of that name.
	ExcludePreparingDelete bool
	// ResizeInSpec is set for API servers without pods/resize.
	ResizeInSpec bool
	// Namespace that the manager's cache is restricted to; empty for all.
	Namespace string
	// RateLimiter makes a limiter for each of the two queues; nil stands for controller-runtime's.
	RateLimiter func() workqueue.TypedRateLimiter[ctrl.Request]
	// ExpectationTimeout is how long own writes may be missing from the cache before somebody is told; 0 means a minute.
	ExpectationTimeout time.Duration
	// Workers is how many CloneSets of one namespace are reconciled side by side; 0 means 3. One more worker is there for others.
	Workers int
	// PodWorkers is the same for the Pods that are finished; 0 means 16.
	PodWorkers int
	// Calls is how many Pods are written to side by side; 0 means 5. CloneSets that are reconciled at the same time share
	// them, and each has two at least, or one if Calls is 1. More would not start more Pods a second, as long as the API
	// server is what they wait for, but keep each out of service for longer: 8 add half to that time.
	Calls int
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// NewID returns a random instance id; nil means five characters of the alphabet that forms no words.
	NewID func() string
	// Metrics may be nil.
	Metrics *Metrics
}

// Reconciler reconciles CloneSets. Make it with New.
type Reconciler struct {
	options Options
	client  *expectationsapply.Client
	live    client.Reader
	events  record.EventRecorder

	owners    *ownerindex.Index[*v1beta1.CloneSet]
	pods      *ownerindex.Index[*corev1.Pod]
	revisions *ownerindex.Index[*appsv1.ControllerRevision]
	claims    *ownerindex.Index[*corev1.PersistentVolumeClaim]

	// facts are what is known of each Pod, by CloneSet.
	facts ownerindex.Memo[*corev1.Pod, facts]

	inPlace *inplaceupdate.Updater
	planner *inplaceupdate.Planner
	decoder *revision.Decoder
	// busy holds the UIDs of the Pods that one of the two loops is working on: finishing must not open the gate that
	// starting has just closed.
	busy sync.Map
	// writers is how many CloneSets have Pods written to at the moment.
	writers atomic.Int32

	// refusals are updates of Pods that were refused, kept are Pods whose deletion was, and backOff is what was refused for
	// a CloneSet as a whole.
	refusals, kept, backOff *podwrite.Refusals
	// queue is that of the CloneSets.
	queue atomic.Pointer[queue]
	// unborn are the instance ids whose claims wait for a Pod that could not be created.
	unborn unborn
}

// Reconcile brings one CloneSet a step closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	owner, ok := r.owners.Get(req.Namespace, req.Name)
	if !ok {
		return ctrl.Result{}, nil
	}
	defer r.forgetIfReplaced(req, owner.UID)
	pending, err := r.client.Check(ctx, owner)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("CloneSet %s: comparing the cache with own writes: %w", req, err)
	}
	if pending != nil {
		return r.await(ctx, owner.UID, pending), nil
	}
	// Only now does the cache hold the status that was written last.
	if owner, ok = r.owners.Get(req.Namespace, req.Name); !ok {
		return ctrl.Result{}, nil
	}
	return r.reconcile(expectationsapply.For(ctx, owner.UID), owner.DeepCopy())
}

// forgetIfReplaced drops what a pass has left behind about a CloneSet that was deleted while it was under way: nobody will say
// so again.
func (r *Reconciler) forgetIfReplaced(req ctrl.Request, owner types.UID) {
	if now, ok := r.owners.Get(req.Namespace, req.Name); !ok || now.UID != owner {
		r.forget(owner)
	}
}

// reconcile decides and acts on a view that holds all own writes.
func (r *Reconciler) reconcile(ctx context.Context, cs *v1beta1.CloneSet) (ctrl.Result, error) {
	v := &view{cs: cs, now: r.options.Clock.Now()}
	var err error
	if v.settings, err = resolve(cs, r.options); err != nil {
		return r.refuse(ctx, cs, err)
	}
	owned := r.pods.Of(cs.Namespace, cs.UID)
	known := r.factsOf(v, owned)
	v.claims = r.claims.Of(cs.Namespace, cs.UID)
	out := outcome{}
	if cs.DeletionTimestamp == nil && slices.ContainsFunc(known, func(f facts) bool { return !f.selected }) {
		if owned, out.releaseErr = r.release(ctx, v, owned); worthTrying(out.releaseErr) {
			return ctrl.Result{}, out.releaseErr
		}
		known = r.factsOf(v, owned)
	}
	v.setPods(owned, known)
	err = r.attempt(ctx, v, tryRevision, func() (err error) {
		out.collisions, err = r.ensureRevision(ctx, v)
		return err
	})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return ctrl.Result{}, nil // everything here is about to go; trying again would only make noise
	}
	if err != nil {
		return r.stop(ctx, v, err)
	}
	if cs.DeletionTimestamp == nil {
		out.acted, out.scaleErr = r.scale(ctx, v)
		if !out.acted && !r.client.InDoubt(cs.UID) {
			out.acted, out.updateErr = r.updatePods(ctx, v)
		}
		if out.updateErr == nil {
			out.updateErr = r.refused(v)
		}
	}
	return r.report(ctx, v, out)
}

// factsOf returns the facts of each Pod.
func (r *Reconciler) factsOf(v *view, pods []*corev1.Pod) []facts {
	return r.facts.Of(v.cs.UID, v.selector.String(), pods, factsOf(v.selector, r.inPlace))
}

// outcome is what a pass has done, for the report.
type outcome struct {
	acted                           bool
	releaseErr, scaleErr, updateErr error
	collisions                      *int32
}

// take reserves a Pod for one of the loops, until done is called. ok is false while the other has it.
func (r *Reconciler) take(pod types.UID) (done func(), ok bool) {
	if _, busy := r.busy.LoadOrStore(pod, struct{}{}); busy {
		return nil, false
	}
	return func() { r.busy.Delete(pod) }, true
}

// takeUnchanged is take for a Pod of a view. ok is also false when the Pod is not the one any more that was decided on, or when
// the cache lacks what its own loop has written: where the update stands is kept in the Pod, and would be undone.
func (r *Reconciler) takeUnchanged(ctx context.Context, pod *corev1.Pod) (done func(), ok bool) {
	if done, ok = r.take(pod.UID); !ok {
		return nil, false
	}
	pending, err := r.client.Check(ctx, pod)
	if newest, _ := r.pods.Get(pod.Namespace, pod.Name); pending == nil && err == nil && newest == pod {
		return done, true
	}
	r.forgetIfGone(pod.UID)
	done()
	return nil, false
}

// forgetIfGone drops what a write has left behind about a Pod that was deleted while it was under way.
func (r *Reconciler) forgetIfGone(pod types.UID) {
	if _, ok := r.pods.ByUID(pod); !ok {
		r.forgetPod(pod)
	}
}

// await lets the cache catch up.
func (r *Reconciler) await(ctx context.Context, owner types.UID, pending *expectations.Pending) ctrl.Result {
	logr.FromContextOrDiscard(ctx).V(4).Info("waiting for the cache", "awaited", pending.Awaited)
	if pending.Late && r.options.Gates[apps.GateForceDeleteTimeoutExpectation] {
		r.client.Forget(owner)
		return ctrl.Result{RequeueAfter: 10 * time.Second}
	}
	return ctrl.Result{RequeueAfter: pending.RequeueAfter}
}

// release lets go of Pods that the selector no longer matches and returns the others. A Pod takes its claims along:
// whoever has relabelled it, to look into what is wrong with it, needs them.
func (r *Reconciler) release(ctx context.Context, v *view, owned []*corev1.Pod) ([]*corev1.Pod, error) {
	owner := claim.Owner{UID: v.cs.UID, Namespace: v.cs.Namespace, Selector: v.selector}
	decision, err := claim.Split(owner, "Pod", owned, claim.Options{})
	if err != nil {
		return nil, fmt.Errorf("CloneSet %s/%s: %w", v.cs.Namespace, v.cs.Name, err)
	}
	if len(decision.Release) == 0 {
		return decision.Owned, nil
	}
	err = r.attempt(ctx, v, tryRelease, func() error {
		_, err := claimapply.Release(ctx, r.client, claimapply.Owner{
			Kind: kind(), Namespace: v.cs.Namespace, Name: v.cs.Name, UID: v.cs.UID,
		}, corev1.SchemeGroupVersion.WithKind("Pod"), decision.Release)
		if err != nil {
			return err
		}
		_, err = r.handOverAll(ctx, v, decision.Release) // or else in the next pass
		return err
	})
	if err != nil {
		err = fmt.Errorf("CloneSet %s/%s: releasing Pods: %w", v.cs.Namespace, v.cs.Name, err)
	}
	return decision.Owned, err
}

// ensureRevision finds or writes the revision of today's template and sets the view's revisions.
func (r *Reconciler) ensureRevision(ctx context.Context, v *view) (collisions *int32, err error) {
	cs := v.cs
	v.revisions = r.revisions.Of(cs.Namespace, cs.UID)
	for _, orphan := range r.revisions.Orphans(cs.Namespace) { // used, not adopted
		if v.selector.Matches(labelSet(orphan.Labels)) && isLeftBy(orphan, cs) {
			v.revisions = append(v.revisions, orphan)
		}
	}
	collisions = cs.Status.CollisionCount
	if collisions == nil {
		collisions = new(int32) // OpenKruise hashes with a count of zero from the start
	}
	owner := revisionOwner(cs)
	decision, err := revision.Decide(owner, r.revisionKeys(), &cs.Spec.Template, collisions, v.revisions, r.decoder)
	if err != nil {
		return nil, err
	}
	if cs.DeletionTimestamp != nil && decision.Action != revision.Keep {
		v.setRevisions(r.currentRevision(v, decision.Revision), decision.Revision)
		return collisions, nil
	}
	stampClaimTemplates(&decision, cs)
	update, collisions, err := revisionapply.Ensure(ctx, r.client, r.live, owner, r.revisionKeys(), decision, collisions)
	if err != nil {
		return nil, fmt.Errorf("CloneSet %s/%s: %w", cs.Namespace, cs.Name, err)
	}
	if decision.Action != revision.Keep {
		v.revisions = append(v.revisions, update)
	}
	v.setRevisions(r.currentRevision(v, update), update)
	return collisions, nil
}

// isLeftBy reports whether a revision without an owner can be of a CloneSet of this name that was deleted without it: it is named
// as CloneSets name theirs.
func isLeftBy(rev *appsv1.ControllerRevision, cs *v1beta1.CloneSet) bool {
	hash := rev.Labels[apps.LabelRevisionHash]
	return hash != "" && rev.Name == revision.Name(cs.Name, hash)
}

// currentRevision is the one that is being replaced; without a record of it, the update revision.
func (r *Reconciler) currentRevision(v *view, update *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	name := v.cs.Status.CurrentRevision
	if name == update.Name {
		return update
	}
	for _, rev := range v.revisions {
		if rev.Name == name {
			return rev
		}
	}
	return update
}

// refuse reports a spec that cannot be used. No Pod is touched; the next change of the spec wakes the controller (DESIGN 7).
func (r *Reconciler) refuse(ctx context.Context, cs *v1beta1.CloneSet, cause error) (ctrl.Result, error) {
	list := reason.From(cause)
	if list == nil {
		return ctrl.Result{}, cause
	}
	return ctrl.Result{}, r.reportRefusal(ctx, cs, list)
}

// retryable keeps only errors worth trying again: a verdict waits for the input to change.
func retryable(errs ...error) error {
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return !worthTrying(err) })...)
}

// verdict is an error that trying again does not mend: the controller reports it and waits for a change.
type verdict struct{ error }

func (v verdict) Unwrap() error { return v.error }

// worthTrying reports whether anything in the error is no verdict: a verdict about one Pod says nothing about the others,
// whose errors are joined with it.
func worthTrying(err error) bool {
	switch e := err.(type) { //nolint:errorlint // It is the tree itself that is walked.
	case nil, verdict:
		return false
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), worthTrying)
	case interface{ Unwrap() error }:
		return e.Unwrap() == nil || worthTrying(e.Unwrap())
	}
	return true
}
