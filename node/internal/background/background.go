// Package background answers "how does a node agent run and end slow work, such as a pull, without a worker that
// waits?"
package background

import (
	"context"
	"sync"
)

// Queue runs tasks, each in its own goroutine, while Start runs. A Queue is safe for concurrent use. Make a Queue with
// NewQueue.
type Queue struct {
	added chan struct{} // signals that a task waits

	mu      sync.Mutex
	waiting []*Task
}

// NewQueue returns a Queue without tasks.
func NewQueue() *Queue { return &Queue{added: make(chan struct{}, 1)} }

// Task is a task of a Queue.
type Task struct {
	run func(ctx context.Context)

	mu      sync.Mutex
	cancel  context.CancelFunc // nil until the task has begun
	stopped bool
}

// Add adds a task and does not wait. The context of run ends with Start's context, and with the task's Stop. Tasks
// added before Start begin with Start.
func (q *Queue) Add(run func(ctx context.Context)) *Task {
	t := &Task{run: run}
	q.mu.Lock()
	q.waiting = append(q.waiting, t)
	q.mu.Unlock()
	select {
	case q.added <- struct{}{}:
	default:
	}
	return t
}

// Start runs tasks until the context ends, and returns after the last task has ended. Call Start once.
func (q *Queue) Start(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.added:
		}
		for _, t := range q.take() {
			if own, ok := t.begin(ctx); ok {
				all.Go(func() {
					defer t.Stop() // frees the context
					t.run(own)
				})
			}
		}
	}
}

func (q *Queue) take() []*Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.waiting
	q.waiting = nil
	return taken
}

// begin returns the context of the task; ok is false if the task was stopped before.
func (t *Task) begin(ctx context.Context) (own context.Context, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil, false
	}
	own, t.cancel = context.WithCancel(ctx)
	return own, true
}

// Stop ends the context of the task, and does not wait for the task's end. A task that has not begun never begins.
// begun reports whether the task has begun.
func (t *Task) Stop() (begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped = true; t.cancel != nil {
		t.cancel()
	}
	return t.cancel != nil
}
