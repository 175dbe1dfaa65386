package background_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/workloadkit/workloadkit/node/internal/background"
)

// TestQueue: a stopped task does not begin, or ends early; a task does not wait for a slow task that was added
// before; and Start returns after the last task.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, ended := background.NewQueue(), make(chan string, 4)
		task := func(name string) func(context.Context) {
			return func(ctx context.Context) {
				<-ctx.Done()
				ended <- name
			}
		}
		never := q.Add(func(context.Context) { t.Error("a task stopped before its begin has begun") })
		if never.Stop() {
			t.Error("a task has begun before Start")
		}
		slow := q.Add(task("slow"))
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- q.Start(ctx) }()
		synctest.Wait()
		q.Add(func(context.Context) { ended <- "quick" })
		synctest.Wait()
		if got := <-ended; got != "quick" {
			t.Errorf("%s has ended", got)
		}
		if !slow.Stop() {
			t.Error("the slow task has not begun")
		}
		if got := <-ended; got != "slow" {
			t.Errorf("%s has ended", got)
		}
		q.Add(task("last"))
		synctest.Wait()
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if len(ended) != 1 {
			t.Error("Start has returned before the last task")
		}
	})
}
