package inplaceupdate

import (
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
)

// maxPlans bounds a Planner's memory. A rollout needs a plan per revision in use.
const maxPlans = 4096

// Planner keeps a Plan per pair of revisions, so the second Pod of a pair costs a map lookup. Make a Planner with
// NewPlanner. A Planner is safe for concurrent use.
type Planner struct {
	updater *Updater
	decoder *revision.Decoder
	extra   func(from, to *appsv1.ControllerRevision) reason.List

	mu    sync.RWMutex
	plans map[pair]planned
}

type pair struct{ from, to types.UID }

// planned is a plan and the resource versions of its revisions, because the annotations of a revision may be rewritten.
type planned struct {
	*Plan

	from, to string
}

// NewPlanner returns a Planner of an Updater's plans. Updater and decoder are required: without them every plan is
// blocked, with code InvalidConfig. extra, unless nil, adds reasons against an update not shown by the templates, for
// example claim templates with a hash in a revision's annotation. extra may read all fields of both revisions and must
// depend on nothing else.
func NewPlanner(updater *Updater, decoder *revision.Decoder, extra func(from, to *appsv1.ControllerRevision) reason.List) *Planner {
	return &Planner{updater: updater, decoder: decoder, extra: extra, plans: make(map[pair]planned)}
}

// Plan returns the plan from a Pod's revision to another revision. A nil revision is unknown and blocks. The plan is
// shared: read only. Plan does not keep plans of revisions without a UID, as in a prediction.
func (p *Planner) Plan(from, to *appsv1.ControllerRevision) *Plan {
	switch {
	case p.updater == nil, p.decoder == nil:
		return &Plan{Blocking: reason.List{{Code: InvalidConfig, Detail: "the Planner has no Updater or no decoder"}}}
	case from == nil, to == nil:
		return &Plan{Blocking: unknownRevision()}
	}
	if from.UID == "" || to.UID == "" {
		return p.compute(from, to)
	}
	key := pair{from.UID, to.UID}
	p.mu.RLock()
	known := p.plans[key]
	p.mu.RUnlock()
	if known.Plan != nil && known.from == from.ResourceVersion && known.to == to.ResourceVersion {
		return known.Plan
	}
	plan := p.compute(from, to)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.plans) >= maxPlans {
		clear(p.plans)
	}
	p.plans[key] = planned{plan, from.ResourceVersion, to.ResourceVersion}
	return plan
}

func (p *Planner) compute(from, to *appsv1.ControllerRevision) *Plan {
	a, err := p.decoder.Content(from)
	if err != nil {
		return &Plan{Blocking: undecodable(err)}
	}
	b, err := p.decoder.Content(to)
	if err != nil {
		return &Plan{Blocking: undecodable(err)}
	}
	plan := p.updater.Plan(a.Template, b.Template)
	blocking := plan.Blocking
	if string(a.Outside) != string(b.Outside) {
		blocking = append(blocking, reason.Reason{
			Code: OutsideTemplate, Path: "data", Old: shorten(string(a.Outside)), New: shorten(string(b.Outside)), Remedy: "recreate the Pod",
		})
	}
	if p.extra != nil {
		blocking = append(blocking, p.extra(from, to)...)
	}
	if len(blocking) > 0 {
		return &Plan{Blocking: blocking}
	}
	return plan
}

// undecodable returns the reasons of a decoder's error, at least a single reason, because a plan without reasons would
// be possible.
func undecodable(err error) reason.List {
	if list := reason.From(err); len(list) > 0 {
		return list
	}
	return reason.List{{Code: revision.UnreadableRevision, Detail: err.Error(), Remedy: "recreate the Pod"}}
}

func unknownRevision() reason.List {
	return reason.List{{
		Code: RevisionMissing, Path: "metadata.labels", Detail: "the Pod's revision or the one to update to is unknown", Remedy: "recreate the Pod",
	}}
}
