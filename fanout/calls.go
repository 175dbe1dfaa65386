package fanout

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// slowStart calls do for the indexes 0 to count-1, in batches of 1, 2, 4, ... calls, up to PerPass. The calls of a
// batch run concurrently, and slowStart waits for all of them before the next batch. If a call of a batch fails, no
// further batch starts.
//
// slowStart returns the number of successful calls. The error joins the errors of the failed calls in the order of
// their index, and the cause of ctx if ctx ended before all calls were made. If ctx ends, slowStart waits for the calls
// in progress, which receive ctx. Calls never made appear in neither result.
func slowStart(ctx context.Context, count int, do func(ctx context.Context, i int) error) (succeeded int, err error) {
	size := 1
	for next := 0; next < count; {
		if ctx.Err() != nil {
			return succeeded, fmt.Errorf("%d of %d calls not made: %w", count-next, count, context.Cause(ctx))
		}
		n := min(size, PerPass, count-next)
		failed := together(ctx, next, n, n, do)
		succeeded += n - len(failed)
		if len(failed) > 0 {
			return succeeded, errors.Join(failed...)
		}
		next += n
		size = 2 * n
	}
	return succeeded, nil
}

// outcome is the result of a call in a goroutine. If the call neither returned nor panicked, the call has ended its
// goroutine (runtime.Goexit).
type outcome struct {
	returned bool
	err      error
	panicked any
	stack    []byte
}

// together makes n calls, for the indexes from first on, at most atOnce at a time, and returns their errors in order.
// If a call panics, together waits for all calls and then panics in its caller's goroutine, with a value that holds the
// value and the stack of the call's panic.
func together(ctx context.Context, first, n, atOnce int, do func(ctx context.Context, i int) error) []error {
	outcomes := make([]outcome, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(atOnce, n) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				outcomes[i].call(ctx, first+int(i), do)
			}
		})
	}
	wg.Wait()

	var failed []error
	for i := range outcomes {
		switch o := &outcomes[i]; {
		case o.panicked != nil:
			panic(&callPanic{index: first + i, value: o.panicked, stack: o.stack})
		case !o.returned:
			runtime.Goexit()
		case o.err != nil:
			failed = append(failed, o.err)
		}
	}
	return failed
}

func (o *outcome) call(ctx context.Context, i int, do func(ctx context.Context, i int) error) {
	defer func() {
		if o.returned {
			return
		}
		if o.panicked = recover(); o.panicked != nil {
			o.stack = debug.Stack()
		}
	}()
	o.err = do(ctx, i)
	o.returned = true
}

// callPanic carries a panic from a call's goroutine to the caller's goroutine, where the caller can recover.
type callPanic struct {
	index int
	value any
	stack []byte
}

func (p *callPanic) Error() string {
	return fmt.Sprintf("call %d panicked: %v\n\n%s", p.index, p.value, p.stack)
}

// Unwrap returns the panic's value if the value is an error, for errors.Is and errors.As.
func (p *callPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
