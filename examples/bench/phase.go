package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// phase is one piece of work that is measured by itself.
type phase struct {
	name, about string
	// skip leaves the phase out.
	skip func(o options) bool
	// prepare is done before anything is measured.
	prepare func(ctx context.Context, b *bench) error
	// next returns the shape that the workload is taken to; nil leaves it as it is.
	next func(s shape, o options, n int) shape
	// work is done instead of waiting for the shape.
	work func(ctx context.Context, b *bench, f *figure) error
	// picture is the title of phases that the timeline shows.
	picture string
}

// phases lists them in their order. The scale-down is last, so that nothing changes while all Pods are there.
func phases() []phase {
	return []phase{
		{
			name: scaleUp, about: "from none to all Pods",
			next: func(s shape, o options, _ int) shape { s.pods = o.pods; return s },
		},
		{
			name: "in-place", about: "a rollout of --change", picture: "Change of --change",
			next: func(s shape, o options, n int) shape { return s.with(o.change, n) },
		},
		{
			name: "recreate", about: "a rollout of " + recreating().about, picture: "Change of " + recreating().name,
			next: func(s shape, _ options, n int) shape { return s.with(recreating(), n) },
		},
		{
			name: "slow-start", about: "a rollout of an image whose containers take --slow-start, with maxUnavailable 100%", picture: "Slow containers",
			skip:    func(o options) bool { return o.slowStart == 0 },
			prepare: func(ctx context.Context, b *bench) error { return b.slowDown(ctx, b.o.slowStart) },
			next: func(s shape, _ options, n int) shape {
				s = s.with(changes()[0], n)
				s.maxUnavailable = intstr.FromString("100%")
				return s
			},
		},
		{name: "no-change", about: "nothing changes for the time of --no-change", work: idle},
		{name: "passes", about: "passes over the workload that find nothing to do, forced by an annotation", work: forcePasses},
		{
			name: "scale-down", about: "from all Pods to none",
			next: func(s shape, _ options, _ int) shape { s.pods = 0; return s },
		},
	}
}

// scaleUp is the phase that all others need.
const scaleUp = "scale-up"

// with returns the shape after change number n.
func (s shape) with(c change, n int) shape {
	s.template = *s.template.DeepCopy()
	c.apply(&s.template, n)
	return s
}

// idle watches a manager that has nothing to do.
func idle(ctx context.Context, b *bench, _ *figure) error {
	return pause(ctx, b.o.noChange)
}

// passInterval is longer than a pass takes, so that two are never made one.
const passInterval = 100 * time.Millisecond

// forcePasses annotates workload objects in turn and divides the CPU time by the number of passes that this causes, whatever
// the manager is made of. That covers all that an event causes, such as decoding it and answering the API server's webhook
// calls. What the manager uses when nothing happens, as measured in phase no-change, is taken off.
func forcePasses(ctx context.Context, b *bench, f *figure) error {
	before, err := b.manager.cpu()
	if err != nil {
		return err
	}
	reconciled, err := scrape(ctx, b.o.metrics)
	if err != nil {
		return err
	}
	began := time.Now()
	for i := range b.o.passes {
		if err := b.annotate(ctx, b.objects[i%len(b.objects)], i); err != nil {
			return err
		}
		if err := pause(ctx, passInterval); err != nil {
			return err
		}
	}
	after, err := b.manager.cpu()
	if err != nil {
		return err
	}
	used := after - before - b.idleCPU*time.Since(began).Seconds()
	f.PassMilliseconds = max(0, used) / float64(b.o.passes) * 1000
	now, err := scrape(ctx, b.o.metrics)
	f.ReconcileMilliseconds = now.milliseconds(reconciled)
	return err
}
