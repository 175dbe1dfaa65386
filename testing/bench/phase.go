package bench

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

// phase is a part of a run that is measured separately.
type phase struct {
	name, about string
	// skip reports whether the phase is left out.
	skip func(o Options) bool
	// prepare is called before the measurement of the phase begins.
	prepare func(ctx context.Context, b *bench) error
	// next returns the shape to which the workload changes. If next is nil, the workload does not change.
	next func(s Shape, o Options, n int) Shape
	// work, if set, is called in place of the change to the next shape.
	work func(ctx context.Context, b *bench, f *Figure) error
	// picture is the title of the phase in the timeline picture; empty if the phase is not drawn.
	picture string
}

// phases lists the phases in their order. The scale-down is last, because all other phases need all Pods.
func phases() []phase {
	return []phase{
		{
			name: scaleUp, about: "from none to all Pods",
			next: func(s Shape, o Options, _ int) Shape { s.Pods = o.Pods; return s },
		},
		{
			name: "in-place", about: "a rollout of the change that was asked for", picture: pictureOfChange,
			next: func(s Shape, o Options, n int) Shape { return s.with(o.change(), n) },
		},
		{
			name: "recreate", about: "a rollout of " + recreating().about, picture: "Change of " + recreating().name,
			skip: func(o Options) bool { return o.Workload.Pod != nil },
			next: func(s Shape, _ Options, n int) Shape { return s.with(recreating(), n) },
		},
		{
			name: slowStart, about: "a rollout of an image whose containers are slow to start, with maxUnavailable 100%", picture: "Slow containers",
			skip:    func(o Options) bool { return o.SlowStart == 0 },
			prepare: func(ctx context.Context, b *bench) error { return b.slowDown(ctx, b.o.SlowStart) },
			next: func(s Shape, _ Options, n int) Shape {
				s = s.with(changes()[0], n)
				s.MaxUnavailable = intstr.FromString("100%")
				return s
			},
		},
		{name: "no-change", about: "nothing changes for a while", work: idle},
		{name: "passes", about: "passes over the workload that find nothing to do, forced by an annotation", work: forcePasses},
		{
			name: "scale-down", about: "from all Pods to none",
			next: func(s Shape, _ Options, _ int) Shape { s.Pods = 0; return s },
		},
	}
}

// scaleUp is the name of the phase without which no later phase can run.
const scaleUp = "scale-up"

// slowStart is the name of the phase that is skipped unless Options.SlowStart is set.
const slowStart = "slow-start"

// pictureOfChange is the title of the phase that makes the change of the options, for the timeline picture. The name
// of the change is appended.
const pictureOfChange = "Change of "

// with returns the shape after n changes.
func (s Shape) with(c change, n int) Shape {
	s.Template = *s.Template.DeepCopy()
	c.apply(&s.Template, n)
	return s
}

// idle measures a manager that has nothing to do.
func idle(ctx context.Context, b *bench, _ *Figure) error {
	return sleep.For(ctx, b.o.NoChange)
}

// passInterval is the time between two events. The time is longer than a reconcile, so that two events always lead to
// two reconciles.
const passInterval = 100 * time.Millisecond

// forcePasses annotates one workload object after the other, and divides the CPU time by the number of passes. This
// works for any kind of manager. The CPU time includes all work after an event, such as decoding the event and
// answering the webhook calls of the API server. forcePasses subtracts the CPU time that the manager uses without
// events, which was measured in the phase no-change.
func forcePasses(ctx context.Context, b *bench, f *Figure) error {
	before, err := b.manager.cpu()
	if err != nil {
		return err
	}
	reconciled, err := scrape(ctx, b.o.Metrics)
	if err != nil {
		return err
	}
	began := time.Now()
	for i := range b.o.Passes {
		if err := b.annotate(ctx, b.objects[i%len(b.objects)], i); err != nil {
			return err
		}
		if err := sleep.For(ctx, passInterval); err != nil {
			return err
		}
	}
	after, err := b.manager.cpu()
	if err != nil {
		return err
	}
	used := after - before - b.idleCPU*time.Since(began).Seconds()
	f.PassMilliseconds = max(0, used) / float64(b.o.Passes) * 1000
	now, err := scrape(ctx, b.o.Metrics)
	f.ReconcileMilliseconds = now.milliseconds(reconciled)
	return err
}
