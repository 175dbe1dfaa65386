package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

const (
	// phaseDeadline is how long a phase may take. A phase takes so long only if the manager makes no progress.
	phaseDeadline = 30 * time.Minute
	settleEvery   = 50 * time.Millisecond
	// quiet is the time without writes of the manager after which a phase ends.
	quiet = time.Second
	// sideBySide is the largest number of requests that the bench itself sends at the same time.
	sideBySide = 32
)

// bench measures a manager on a control plane.
type bench struct {
	o        Options
	client   client.Client
	manager  *process
	pods     *follower
	log      auditLog
	progress *progress
	user     string

	shape   Shape
	foreign map[string]int  // Pods that the bench itself creates, by object
	objects []client.Object // the objects with the content that the bench has sent last
	changed int
	idleCPU float64 // CPU seconds per second while the manager has nothing to do
}

// drawn is a recorded phase, to be drawn in the timeline picture.
type drawn struct {
	phase  phase
	figure Figure
	lives  []life
}

// run takes the workload through all selected phases, and returns the figures of the phases and the recorded
// rollouts.
func (b *bench) run(ctx context.Context) (figures []Figure, pictures []drawn, err error) {
	b.shape = Shape{Name: "bench", Template: newTemplate(b.o), MaxUnavailable: b.o.MaxUnavailable}
	if err := b.warmUp(ctx); err != nil {
		return nil, nil, fmt.Errorf("a first Pod, to see that the manager works: %w", err)
	}
	for _, p := range phases() {
		wanted := len(b.o.Phases) == 0 || p.name == scaleUp || slices.Contains(b.o.Phases, p.name)
		if !wanted || p.skip != nil && p.skip(b.o) {
			continue
		}
		f, lives, err := b.measure(ctx, p)
		if err != nil {
			return figures, pictures, fmt.Errorf("phase %s: %w", p.name, err)
		}
		figures = append(figures, f)
		if p.picture != "" {
			pictures = append(pictures, drawn{p, f, lives})
		}
	}
	return figures, pictures, nil
}

// measure runs a phase and returns its figures.
func (b *bench) measure(ctx context.Context, p phase) (f Figure, lives []life, err error) {
	if p.prepare != nil {
		if err := p.prepare(ctx, b); err != nil {
			return f, nil, err
		}
		if _, err := b.calm(ctx); err != nil {
			return f, nil, err
		}
	}
	next := b.shape
	if p.next != nil {
		b.changed++
		next = p.next(b.shape, b.o, b.changed)
	}
	f = Figure{Phase: p.name, Pods: max(b.shape.Pods, next.Pods)}
	if err := b.manager.resetPeak(); err != nil {
		b.progress.line("peaks of memory count from the start of the manager: " + err.Error())
	}
	cpu, err := b.manager.cpu()
	if err != nil {
		return f, nil, err
	}
	b.pods.begin(&next.Template)
	began := time.Now()
	if p.work != nil {
		err = p.work(ctx, b, &f)
	} else {
		err = b.roll(ctx, p.name, next)
	}
	if err != nil {
		return f, nil, err
	}
	f.Seconds = time.Since(began).Seconds()
	requests, err := b.calm(ctx)
	if err != nil {
		return f, nil, err
	}
	return b.conclude(p, f, requests, cpu, time.Since(began))
}

// conclude fills in the figures that are known only at the end of a phase.
func (b *bench) conclude(p phase, f Figure, requests []audit.Request, cpuBefore float64, elapsed time.Duration) (Figure, []life, error) {
	cpu, cpuErr := b.manager.cpu()
	peak, peakErr := b.manager.peak()
	if err := errors.Join(cpuErr, peakErr); err != nil {
		return f, nil, err
	}
	lives := b.pods.lives()
	f.CPUSeconds, f.PeakMebibytes = cpu-cpuBefore, peak
	f.setRequests(requests)
	f.setLives(lives)
	if p.picture != "" {
		updated, ready := lastUpdate(lives)
		f.AllUpdated, f.AllReady = updated.Seconds(), ready.Seconds()
	}
	if p.name == "no-change" {
		b.idleCPU = f.CPUSeconds / elapsed.Seconds()
	}
	b.progress.line(fmt.Sprintf("%s: %.1f s, %.1f CPU s, %.0f MiB", p.name, f.Seconds, f.CPUSeconds, f.PeakMebibytes))
	return f, lives, nil
}

// warmUp creates an object, waits until the manager has created its Pods, and deletes the object. So when warmUp
// returns, the manager certainly runs. The Pods are deleted before the object, because the garbage collector takes
// half a minute to notice a new kind.
func (b *bench) warmUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("not done within 3 minutes"))
	defer cancel()
	one := b.shape
	one.Name, one.Pods = "warm-up", 1
	none := one
	none.Pods = 0
	b.pods.begin(&one.Template)
	object, empty := b.o.object(one, 0, 1), b.o.object(none, 0, 1)
	if err := b.client.Create(ctx, object.DeepCopyObject().(client.Object)); err != nil {
		return fmt.Errorf("creating %s: %w", object.GetName(), err)
	}
	if err := b.keep(ctx, one.of(0, 1)); err != nil {
		return err
	}
	if err := b.settle(ctx, "warm-up", []client.Object{object}, 1); err != nil {
		return err
	}
	if err := b.client.Patch(ctx, empty.DeepCopyObject().(client.Object), client.MergeFrom(object)); err != nil {
		return fmt.Errorf("scaling %s to none: %w", object.GetName(), err)
	}
	if err := b.keep(ctx, none.of(0, 1)); err != nil {
		return err
	}
	if err := b.settle(ctx, "warm-up", []client.Object{empty}, 0); err != nil {
		return err
	}
	if err := b.client.Delete(ctx, object); err != nil {
		return fmt.Errorf("deleting %s: %w", object.GetName(), err)
	}
	_, err := b.calm(ctx)
	return err
}

// roll changes the workload's objects to a shape, and waits until all Pods have the template of the shape.
func (b *bench) roll(ctx context.Context, title string, next Shape) error {
	objects := make([]client.Object, b.o.Objects)
	for i := range objects {
		objects[i] = b.o.object(next, i, len(objects))
	}
	err := b.forEach(ctx, len(objects), func(ctx context.Context, i int) error {
		if b.objects == nil {
			return b.client.Create(ctx, objects[i].DeepCopyObject().(client.Object))
		}
		return b.client.Patch(ctx, objects[i].DeepCopyObject().(client.Object), client.MergeFrom(b.objects[i]))
	})
	if err != nil {
		return fmt.Errorf("changing the workload: %w", err)
	}
	for i := range objects {
		if err := b.keep(ctx, next.of(i, len(objects))); err != nil {
			return err
		}
	}
	b.shape, b.objects = next, objects
	return b.settle(ctx, title, objects, next.Pods)
}

// keep creates or deletes Pods until each object has as many Pods as its shape says. The bench calls keep for kinds
// that do not create Pods themselves.
func (b *bench) keep(ctx context.Context, s Shape) error {
	if b.o.Workload.Pod == nil || b.foreign[s.Name] == s.Pods {
		return nil
	}
	template, err := b.o.Workload.Pod(s)
	if err != nil {
		return fmt.Errorf("a Pod for %s: %w", s.Name, err)
	}
	have := b.foreign[s.Name]
	first, end := min(have, s.Pods), max(have, s.Pods)
	b.foreign[s.Name] = s.Pods
	return b.forEach(ctx, end-first, func(ctx context.Context, i int) error {
		pod := template.DeepCopy()
		pod.Namespace, pod.Name = Namespace, fmt.Sprintf("%s-%d", s.Name, first+i)
		if s.Pods > have {
			return b.client.Create(ctx, pod)
		}
		return b.client.Delete(ctx, pod)
	})
}

// settle waits until all Pods have the present template and are ready, all replaced Pods are removed, and the status
// of the objects shows the present Pods.
func (b *bench) settle(ctx context.Context, title string, objects []client.Object, pods int) error {
	want := map[string]int{}
	for i, object := range objects {
		want[object.GetName()] = share(pods, i, len(objects))
	}
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	began := time.Now()
	defer b.progress.end()
	return b.until(ctx, func() (bool, error) {
		now := b.pods.count()
		b.progress.live(fmt.Sprintf("%s: %d Pods there, %d as they shall be, of %d, after %.0f s", title, sum(now.pods), sum(now.done), pods, time.Since(began).Seconds()))
		if !maps.Equal(now.pods, want) || !maps.Equal(now.done, want) {
			return false, nil
		}
		return b.settled(ctx, want)
	})
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// settled reports whether the status of all objects shows the wanted numbers of Pods.
func (b *bench) settled(ctx context.Context, want map[string]int) (bool, error) {
	if b.o.Workload.Settled == nil {
		return true, nil
	}
	list := b.o.Workload.List()
	if err := b.client.List(ctx, list, client.InNamespace(Namespace)); err != nil {
		return false, fmt.Errorf("listing the workload: %w", err)
	}
	done := true
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if ok && object.GetDeletionTimestamp() == nil {
			done = done && b.o.Workload.Settled(object, want[object.GetName()])
		}
		return nil
	})
	return done, err
}

// calm waits until the manager has written nothing for a while, and returns the manager's requests since the last call.
func (b *bench) calm(ctx context.Context) ([]audit.Request, error) {
	var all []audit.Request
	last := time.Now()
	err := b.until(ctx, func() (bool, error) {
		requests, err := b.log.next(func(r audit.Request) bool {
			return r.User == b.user && strings.HasPrefix(r.UserAgent, b.o.Agent)
		})
		if slices.ContainsFunc(requests, func(r audit.Request) bool { return counted(r) && r.IsWrite() }) {
			last = time.Now()
		}
		all = append(all, requests...)
		return time.Since(last) >= quiet, err
	})
	if err != nil {
		return nil, fmt.Errorf("waiting until the manager is quiet: %w", err)
	}
	return all, nil
}

// until polls until the function done returns true or an error, or until ctx or the deadline ends.
func (b *bench) until(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, phaseDeadline, fmt.Errorf("not done after %s", phaseDeadline))
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if err := sleep.For(ctx, settleEvery); err != nil {
			return err
		}
	}
}

// slowDown makes the containers of all existing Pods start slowly from now on.
func (b *bench) slowDown(ctx context.Context, delay time.Duration) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, controlplane.StartDelay, delay)
	names := b.pods.live()
	return b.forEach(ctx, len(names), func(ctx context.Context, i int) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: names[i]}}
		if err := b.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			return fmt.Errorf("Pod %s: %w", names[i], err)
		}
		return nil
	})
}

// annotate changes an annotation of the object and nothing else.
func (b *bench) annotate(ctx context.Context, object client.Object, n int) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"bench.example.com/pass":"%d"}}}`, n)
	object = object.DeepCopyObject().(client.Object)
	if err := b.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("annotating %s: %w", object.GetName(), err)
	}
	return nil
}

// forEach calls the function do for the indexes 0 to n-1. Several calls run at the same time.
func (b *bench) forEach(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, sideBySide, n, func(i int) { errs[i] = do(ctx, i) })
	return errors.Join(errors.Join(errs...), ctx.Err())
}

// auditLog reads the audit log in parts.
type auditLog struct {
	path   string
	offset int64
}

func (l *auditLog) next(keep func(audit.Request) bool) (requests []audit.Request, err error) {
	requests, l.offset, err = audit.Select(l.path, l.offset, keep)
	return requests, err
}
