package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// decodedRevisions is the number of decoded revisions kept in memory.
const decodedRevisions = 4096

// Config is the input for the Parts of a controller. Control, Revisions and Options have required fields.
type Config[O client.Object] struct {
	// Control names the labels and annotations on Pods, and Revisions the labels and annotations on ControllerRevisions.
	Control   podcontrol.Config
	Revisions revision.Keys
	// Options are the options of the Executor. The Clock defaults to the Clock of Cache.
	Options Options[O]
	// Cache are the options of the cache, and Calls the argument of fanout.New.
	Cache ownercache.Options
	Calls int
	// Counting says which revisions count towards the history limit; empty means revision.CountUnused.
	Counting revision.Counting
	// Blocks adds reasons against in-place updates, see inplaceupdate.NewPlanner; nil for none.
	Blocks func(from, to *appsv1.ControllerRevision) reason.List
}

// Parts are the connected parts of a controller of Pods and revisions: when the cache replaces or deletes a Pod, all
// parts forget the old Pod. Make Parts with NewParts.
type Parts[O client.Object] struct {
	Cache     *ownercache.Cache[O]
	Fanout    *fanout.Fanout
	InPlace   *inplaceupdate.Updater
	Control   *podcontrol.Control
	Reader    *podcontrol.Reader
	Executor  *Executor[O]
	Histories *revision.Histories
	Planner   *inplaceupdate.Planner

	counting revision.Counting
	claims   bool
}

// NewParts makes the parts for the kind of owner. Call NewParts before the manager starts. The error names the missing
// part of the config, or comes from ownercache.New.
func NewParts[O client.Object](ctx context.Context, mgr ownercache.Manager, owner O, config Config[O]) (*Parts[O], error) {
	counting := cmp.Or(config.Counting, revision.CountUnused)
	if counting != revision.CountUnused && counting != revision.CountAllOld {
		return nil, fmt.Errorf("executor: Counting %q is neither %s nor %s", counting, revision.CountUnused, revision.CountAllOld)
	}
	if mgr == nil {
		return nil, errors.New("executor: a manager is required")
	}
	p := &Parts[O]{
		Fanout: fanout.New(config.Calls), InPlace: config.Control.InPlace,
		counting: counting, claims: config.Revisions.ClaimTemplatesAnnotation != "",
	}
	decoder := revision.NewDecoder(decodedRevisions, nil)
	var err error
	if p.Control, err = podcontrol.New(config.Control); err != nil {
		return nil, err
	}
	if p.Histories, err = revision.NewHistories(config.Revisions, decoder); err != nil {
		return nil, err
	}
	if p.Cache, err = ownercache.New(ctx, mgr, owner, config.Cache); err != nil {
		return nil, err
	}
	p.Planner = inplaceupdate.NewPlanner(p.InPlace, decoder, config.Blocks)
	if config.Options.Clock == nil {
		config.Options.Clock = config.Cache.Clock
	}
	if config.Options.Template == nil {
		config.Options.Template = p.template
	}
	if p.Executor, err = New(p.Control, p.Cache, p.Fanout, config.Options); err != nil {
		return nil, err
	}
	p.Reader = p.Executor.reader
	return p, nil
}

// AddTo adds both loops to the manager. The owners' loop gets the given name, and the loop over single Pods the name
// with the suffix "-pods".
func (p *Parts[O]) AddTo(mgr manager.Manager, name string, r reconcile.Reconciler, owners, pods ownercache.ControllerOptions) error {
	if p == nil || p.Cache == nil || p.Executor == nil {
		return errors.New("executor: make Parts with NewParts")
	}
	return errors.Join(p.Cache.AddController(mgr, name, r, owners), p.Executor.AddTo(mgr, name+"-pods", pods))
}

// Begin begins a Turn with the owner and Pods in the cache. If the Turn is nil, return the result and the error from
// the reconciler, as after ownercache.Cache.Observe.
func (p *Parts[O]) Begin(ctx context.Context, req ctrl.Request) (*Turn[O], ctrl.Result, error) {
	v, result, err := p.Cache.Observe(ctx, req)
	if v == nil {
		return nil, result, err
	}
	return p.Executor.For(v, p.Fanout.Begin(v)), result, err
}

// PlansTo returns a function that returns the plan from a Pod's revision to target, for Turn.UpdateTo.
func (p *Parts[O]) PlansTo(h *revision.History, target *appsv1.ControllerRevision) func(*corev1.Pod) *inplaceupdate.Plan {
	return func(pod *corev1.Pod) *inplaceupdate.Plan {
		return p.Planner.Plan(h.Find(p.Control.RevisionOf(pod)), target)
	}
}

// template returns the template of the owner's revision that a Pod's label names.
func (p *Parts[O]) template(owner O, name string) *corev1.PodTemplateSpec {
	h := p.Histories.Of(revision.OwnerOf(owner, p.Cache.Kind()), nil, p.Cache.RevisionsOf(owner))
	template, err := h.Template(h.Find(name))
	if err != nil {
		return nil
	}
	return template
}
