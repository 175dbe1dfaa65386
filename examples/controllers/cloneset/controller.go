package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/adopt/ownerrefs"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/kruise"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podcontrol/executor"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/revision/history"
)

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
	// RateLimiter makes a limiter for each of the two queues; nil stands for one for each namespace.
	RateLimiter func() workqueue.TypedRateLimiter[ctrl.Request]
	// ExpectationTimeout is how long own writes may be missing from the cache before somebody is told; 0 means a minute.
	ExpectationTimeout time.Duration
	// Workers is how many CloneSets of one namespace are reconciled side by side; 0 means 3. One more worker is there for others.
	Workers int
	// PodWorkers is the same for the Pods whose updates are finished; 0 means 16.
	PodWorkers int
	// Calls is how many requests for the CloneSets of one namespace are under way at a time; 0 means 5. One more is there for
	// others. More would not start more Pods a second, as long as the API server is what they wait for, but keep each out of
	// service for longer: 8 add half to that time.
	Calls int
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// NewID returns a random instance id; nil means five characters of the alphabet that forms no words.
	NewID func() string
	// Metrics may be nil.
	Metrics *Metrics
}

// view is a CloneSet and what it owns, as the cache shows it.
type view = ownercache.View[*v1beta1.CloneSet]

// Reconciler reconciles CloneSets.
type Reconciler struct {
	options   Options
	cache     *ownercache.Cache[*v1beta1.CloneSet]
	client    client.Client // for reading Nodes
	events    record.EventRecorder
	inPlace   *inplaceupdate.Updater
	planner   *inplaceupdate.Planner
	control   *podcontrol.Control
	histories *revision.Histories
	reader    *podcontrol.Reader
	fanout    *fanout.Fanout
	pods      *executor.Executor[*v1beta1.CloneSet]
	unborn    pvc.Unborn
}

// decodedRevisions bounds how many revisions are kept decoded.
const decodedRevisions = 4096

// Setup adds both controllers to the manager. c is the client they write with; it must read from the manager's cache. The
// scheme must know the CloneSet types.
func Setup(ctx context.Context, mgr manager.Manager, c client.Client, options Options) error {
	r, err := newReconciler(ctx, mgr, c, options)
	if err != nil {
		return err
	}
	return r.addTo(mgr)
}

func (r *Reconciler) addTo(mgr manager.Manager) error {
	queue := func(workers int) (o ownercache.ControllerOptions) {
		if o.Workers = workers; r.options.RateLimiter != nil {
			o.RateLimiter = r.options.RateLimiter()
		}
		return o
	}
	return errors.Join(
		r.cache.AddController(mgr, "cloneset", r, queue(r.options.Workers)),
		r.pods.AddTo(mgr, "cloneset-pods", queue(r.options.PodWorkers)),
	)
}

func newReconciler(ctx context.Context, mgr ownercache.Manager, c client.Client, options Options) (*Reconciler, error) {
	r := &Reconciler{options: withDefaults(options), client: c, fanout: fanout.New(options.Calls)}
	if m, ok := mgr.(interface {
		GetEventRecorderFor(name string) record.EventRecorder
	}); ok { // The newer recorder cannot name the source component, which is part of the wire format.
		r.events = m.GetEventRecorderFor(apps.EventSource)
	}
	var err error
	r.cache, err = ownercache.New(ctx, mgr, &v1beta1.CloneSet{}, ownercache.Options{
		Client: c, Claims: true, Namespace: options.Namespace, Clock: r.options.Clock, Alarm: options.ExpectationTimeout,
		DropLate: r.options.Gates[apps.GateForceDeleteTimeoutExpectation], Observer: observer{options.Metrics, r.nameOf},
	})
	if err != nil {
		return nil, err
	}
	if r.inPlace, err = kruise.InPlace(r.options.Gates); err != nil {
		return nil, err
	}
	if r.control, err = kruise.PodControl(r.inPlace, r.options.Gates); err != nil {
		return nil, err
	}
	decoder := revision.NewDecoder(decodedRevisions, nil)
	if r.histories, err = revision.NewHistories(kruise.RevisionKeys(), decoder); err != nil {
		return nil, err
	}
	extra := claimTemplatesBlock
	if !r.options.Gates[apps.GateRecreatePodWhenChangeVCT] {
		extra = nil
	}
	r.planner, r.reader = inplaceupdate.NewPlanner(r.inPlace, decoder, extra), podcontrol.NewReader(r.control)
	r.cache.OnReplaced(r.reader.Drop)
	r.cache.OnGone(r.reader.Forget)
	r.cache.OnGone(r.unborn.Forget)
	r.pods, err = executor.New(r.control, r.cache, r.fanout, executor.Options[*v1beta1.CloneSet]{
		Rules: rules, Observe: r.observe, AfterDelete: r.deleteClaimsOf, Merger: podpatch.Merger{ResizeInSpec: options.ResizeInSpec}, Clock: r.options.Clock,
	})
	return r, err
}

func withDefaults(o Options) Options {
	if o.Gates == nil {
		o.Gates = apps.DefaultGates()
	}
	if o.Workers == 0 {
		o.Workers = 3
	}
	if o.PodWorkers == 0 {
		o.PodWorkers = 16
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.NewID == nil {
		o.NewID = func() string { return rand.String(5) }
	}
	return o
}

// Reconcile brings one CloneSet a step closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v, result, err := r.cache.Observe(ctx, req)
	if v == nil {
		return result, err
	}
	cs, pass := v.Owner, r.fanout.Begin(v)
	s, problems := resolve(cs, r.options)
	if problems != nil {
		return r.refuse(ctx, v, problems)
	}
	h := r.historyOf(cs, v.Revisions, s.selector)
	err = pass.Once(ctx, fanout.Task{Name: "write the revision"}, func() (bool, error) { return false, r.sync(ctx, v, h) })
	if err != nil || h.Update == nil {
		return r.stop(ctx, v, pass, err)
	}
	now := r.observed(v, s, h)
	todo := decide(now)
	var scaleErr, updateErr error
	if cs.DeletionTimestamp == nil {
		scaleErr, updateErr = r.act(ctx, v, pass, now, todo)
	}
	return r.report(ctx, v, pass, now, scaleErr, updateErr)
}

// act carries the decision out, until something has changed.
func (r *Reconciler) act(ctx context.Context, v *view, pass *fanout.Pass, now *observation, todo *todo) (scaleErr, updateErr error) {
	pods := r.pods.For(v, pass)
	plan := func(pod *corev1.Pod) *inplaceupdate.Plan {
		return r.planner.Plan(now.history.Find(pod.Labels[apps.LabelRevision]), todo.target)
	}
	scaleErr = pass.UntilChanged(
		func() error { return ownerrefs.Release(ctx, pass, v.Client, now.pods.NotSelected) },
		func() error { return r.tendClaims(ctx, v, pass, todo) },
		func() error {
			return fanout.Each(ctx, pass, fanout.Task{Name: "cancel deletions"}, todo.cancel, pods.Cancel)
		},
		func() error { return r.create(ctx, v, pass, now, todo) },
		func() error { return fanout.Each(ctx, pass, deletePods(), todo.leaving, pods.Delete) },
		func() error { return fanout.Each(ctx, pass, deletePods(), todo.remove, pods.Delete) },
	)
	updateErr = pass.UntilChanged(
		func() error {
			return fanout.Each(ctx, pass, fanout.Task{Name: "settle Pods"}, todo.settle, pods.Settle)
		},
		func() error {
			return fanout.Each(ctx, pass, updatePods(), todo.update, pods.UpdateTo(todo.target, plan))
		},
	)
	if updateErr == nil {
		updateErr = pods.Unfinished(now.pods)
	}
	return scaleErr, updateErr
}

func deletePods() fanout.Task { return fanout.Task{Name: "delete Pods"} }

// updatePods rests for longer after a refusal: an update that is refused has taken a Pod out of service.
func updatePods() fanout.Task {
	return fanout.Task{Name: "update Pods", First: 10 * time.Second, Last: 5 * time.Minute}
}

// historyOf is the CloneSet's history, with the revisions that a CloneSet of its name has left behind: they are used, not adopted.
func (r *Reconciler) historyOf(cs *v1beta1.CloneSet, revisions []*appsv1.ControllerRevision, selector matcher) *revision.History {
	for _, orphan := range r.cache.Revisions.Orphans(cs.Namespace) {
		if selector.Matches(labelSet(orphan.Labels)) && isLeftBy(orphan, cs) {
			revisions = append(revisions, orphan)
		}
	}
	collisions := cs.Status.CollisionCount
	if collisions == nil {
		collisions = new(int32) // OpenKruise hashes with a count of zero from the start
	}
	return r.histories.Of(revision.OwnerOf(cs, r.cache.Kind()), collisions, revisions)
}

// isLeftBy reports whether a revision without an owner can be of a CloneSet of this name that was deleted without it: it is named
// as CloneSets name theirs.
func isLeftBy(rev *appsv1.ControllerRevision, cs *v1beta1.CloneSet) bool {
	hash := rev.Labels[apps.LabelRevisionHash]
	return hash != "" && rev.Name == revision.Name(cs.Name, hash)
}

// sync finds or writes the revision of today's template.
func (r *Reconciler) sync(ctx context.Context, v *view, h *revision.History) error {
	decision, err := h.Decide(&v.Owner.Spec.Template)
	if err != nil {
		return reason.Final(err)
	}
	stampClaimTemplates(&decision, v.Owner)
	_, err = history.Write(ctx, v.Client, r.cache.APIReader(), h, decision)
	return err
}

// truncate deletes revisions that nobody needs. It does not depend on the rest of the pass having succeeded.
func (r *Reconciler) truncate(ctx context.Context, v *view, pass *fanout.Pass, now *observation, current string) error {
	if len(now.history.Revisions) <= now.settings.historyLimit+1 {
		return nil
	}
	excess := now.history.Excess(now.settings.historyLimit, revision.CountUnused, func(rev *appsv1.ControllerRevision) bool {
		return slices.ContainsFunc(now.pods.Active, func(pod podcontrol.Pod) bool { return revision.Same(pod.Revision, rev.Name) })
	}, current)
	return pass.Once(ctx, fanout.Task{Name: "truncate the history"}, func() (bool, error) {
		changed, err := history.Delete(ctx, v.Client, excess)
		if err != nil {
			err = fmt.Errorf("truncating the history of CloneSet %s/%s: %w", v.Owner.Namespace, v.Owner.Name, err)
		}
		return changed, err
	})
}
