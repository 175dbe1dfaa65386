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

// slowStart calls do for 0 to count-1, in batches that begin with one call and double up to PerPass. The calls of a batch run
// concurrently and all of them finish before anything else happens; a batch in which a call failed is the last one.
//
// It returns how many calls succeeded. The error joins those of the failed calls in the order of their index, and the
// cause of ctx when it ended before all were made; calls in progress are not abandoned but see ctx. Calls that were never
// made are in neither result.
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

// outcome of one call. A call that neither returned nor panicked ended its goroutine.
type outcome struct {
	returned bool
	err      error
	panicked any
	stack    []byte
}

// together makes n calls from index first on, so many at a time, and returns their errors in order. A call that panics makes it
// panic in its caller's goroutine, after all have finished, with a value that holds the call's own value and stack.
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

// callPanic carries a panic from a call's goroutine to that of the caller, where it can be handled.
type callPanic struct {
	index int
	value any
	stack []byte
}

func (p *callPanic) Error() string {
	return fmt.Sprintf("call %d panicked: %v\n\n%s", p.index, p.value, p.stack)
}

// Unwrap gives errors.Is and errors.As the panic's value where it is an error.
func (p *callPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
