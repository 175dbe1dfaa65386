package puller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/internal/background"
	"github.com/workloadkit/workloadkit/node/pullsecret"
)

// Runtime is the container runtime of a Node.
type Runtime interface {
	// Images lists all images stored on the Node.
	Images(ctx context.Context) ([]imagepull.Image, error)
	// Pull pulls the image named want.Image.Normal(), and returns the image's ID. A nil credential means a pull
	// without credentials. Pull must return when the context ends. A pull is not retried after an error marked by
	// reason.Final.
	Pull(ctx context.Context, want imagepull.Want, credential *pullsecret.Credential) (id string, err error)
	// FreeBytes returns the free disk for images in bytes.
	FreeBytes(ctx context.Context) (uint64, error)
}

// Keyring finds credentials.
type Keyring interface {
	// For returns a keyring for an image, with the credentials that the claims' owners may use. If some credentials
	// cannot be read, For returns the readable credentials and an error. The error is part of the message if the pull
	// fails, so the error must not contain secret values.
	For(ctx context.Context, want imagepull.Want) (pullsecret.Keyring, error)
}

// Options are options of a Puller.
type Options struct {
	// Bounds limit the pulls; the zero value allows no pull.
	Bounds imagepull.Bounds
	// Record writes the reports to the Node's object, before the pulls begin. After an error of Record, Sync begins
	// no pull. Nil means that reports are not recorded: after a restart, the count of attempts then begins at zero.
	Record func(ctx context.Context, reports []imagepull.Report) error
	// Done is called after each pull, from any goroutine, and should cause another call of Sync. Nil if not needed.
	Done func()
	// Clock is the clock; nil means the real clock.
	Clock clock.PassiveClock
}

// Puller pulls images. A Puller is safe for concurrent use. Make a Puller with New.
type Puller struct {
	runtime Runtime
	keyring Keyring
	options Options
	queue   *background.Queue

	pass sync.Mutex // held during Sync

	mu      sync.Mutex
	runs    []*run
	reports []imagepull.Report
}

// run is a requested pull.
type run struct {
	want  imagepull.Want
	round int64
	limit time.Duration
	task  *background.Task

	stopping, ended bool
	id              string
	err             error
}

// New returns a Puller. Pulls begin only after Start was called.
func New(runtime Runtime, keyring Keyring, options Options) *Puller {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Puller{runtime: runtime, keyring: keyring, options: options, queue: background.NewQueue()}
}

// Start runs pulls until the context ends, and returns after the last pull has ended. Call Start once.
func (p *Puller) Start(ctx context.Context) error { return p.queue.Start(ctx) }

// run carries out a pull, and keeps the result unless the pull was stopped. A pull that ends because Start's context
// has ended has no result: the next agent pulls again.
func (p *Puller) run(ctx context.Context, r *run) {
	id, err := p.pull(ctx, r)
	p.mu.Lock()
	r.id, r.err, r.ended = id, err, true
	if r.stopping || ctx.Err() != nil {
		p.drop(r)
	}
	p.mu.Unlock()
	if p.options.Done != nil {
		p.options.Done()
	}
}

// drop removes a pull from the memory of the Puller. The caller must hold the lock.
func (p *Puller) drop(r *run) {
	p.runs = slices.DeleteFunc(p.runs, func(known *run) bool { return known == r })
}

// Sync reads the state of the Node, records the reports, and begins and stops pulls. recorded are the reports in the
// Node's object. If the Puller has a newer report in its memory, the newer report counts. The Step says when to call
// Sync again, and why pulls wait; Sync has already carried out the Step's actions. If the container runtime does not
// respond, Sync returns an error and a Step that begins no pull. After an error of Record, the Step's actions are not
// carried out: call Sync again.
func (p *Puller) Sync(ctx context.Context, wants []imagepull.Want, recorded []imagepull.Report) (imagepull.Step, error) {
	p.pass.Lock()
	defer p.pass.Unlock()
	seen, ended, failure := p.observe(ctx)
	now := p.options.Clock.Now()
	before, _ := imagepull.Merge(wants, recorded, p.Report(), now)
	step := imagepull.Next(wants, before, seen, p.options.Bounds, now)
	if p.options.Record != nil {
		if err := p.options.Record(ctx, slices.Clone(step.Reports)); err != nil {
			return step, errors.Join(failure, fmt.Errorf("record of the reports: %w", err))
		}
	}
	p.carryOut(wants, step, ended)
	return step, failure
}

// Report returns the reports of the last Sync that were recorded.
func (p *Puller) Report() []imagepull.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reports)
}

// observe reads the pulls first and the images afterwards, as imagepull.Observed requires.
func (p *Puller) observe(ctx context.Context) (seen imagepull.Observed, ended []*run, failure error) {
	p.mu.Lock()
	for _, r := range p.runs {
		seen.Pulls = append(seen.Pulls, imagepull.Pull{Image: r.want.Image, Round: r.round, Ended: r.ended, Err: r.err, ID: r.id, Stopping: r.stopping})
		if r.ended {
			ended = append(ended, r)
		}
	}
	p.mu.Unlock()
	images, err := p.runtime.Images(ctx)
	if err != nil {
		failure = fmt.Errorf("images of the container runtime: %w", err)
	} else {
		seen.Images, seen.Listed = images, true
	}
	if p.options.Bounds.Floor == 0 {
		return seen, ended, failure
	}
	free, err := p.runtime.FreeBytes(ctx)
	if err != nil {
		return seen, ended, errors.Join(failure, fmt.Errorf("free disk of the container runtime: %w", err))
	}
	seen.Free = &free
	return seen, ended, failure
}

// carryOut begins and stops pulls, and forgets the ended pulls, because their results are recorded now.
func (p *Puller) carryOut(wants []imagepull.Want, step imagepull.Step, ended []*run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = step.Reports
	for _, r := range ended {
		p.drop(r)
	}
	for _, a := range step.Actions {
		if a.Do == imagepull.Stop {
			p.stop(a)
			continue
		}
		i := slices.IndexFunc(wants, func(w imagepull.Want) bool { return w.Image == a.Image })
		r := &run{want: wants[i], round: a.Round, limit: a.Limit}
		r.task = p.queue.Add(func(ctx context.Context) { p.run(ctx, r) })
		p.runs = append(p.runs, r)
	}
}

// stop cancels a pull. A pull that has begun counts towards Bounds.Pulls until the runtime returns. The caller must
// hold the lock.
func (p *Puller) stop(a imagepull.Action) {
	for _, r := range slices.Clone(p.runs) {
		if r.want.Image != a.Image || r.round != a.Round || r.stopping {
			continue
		}
		r.stopping = true
		if begun := r.task.Stop(); !begun || r.ended {
			p.drop(r)
		}
	}
}
