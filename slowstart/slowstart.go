// Package slowstart answers "how do I make a thousand requests without making a thousand mistakes?".
//
// [Run] works in batches of 1, 2, 4, ... calls side by side. Where every call would fail, because a quota is
// exhausted or an admission webhook refuses, one request finds out. Where all succeed, a thousand calls take ten round
// trips more than one.
package slowstart

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// MaxBatch is how many calls run side by side at most.
const MaxBatch = 500

// Run calls do for 0 to count-1, in batches that begin with initial calls (1 if it is less) and double up to MaxBatch.
// The calls of a batch run concurrently and all of them finish before anything else happens; a batch in which a call
// failed is the last one.
//
// Run returns how many calls succeeded. The error joins those of the failed calls in the order of their index, and the
// cause of ctx when it ended before all were made; calls in progress are not abandoned but see ctx. Calls that were never
// made are in neither result. A call that panics makes Run panic in its caller's goroutine, after its batch has finished,
// with a value that holds the call's own value and stack.
func Run(ctx context.Context, count, initial int, do func(ctx context.Context, i int) error) (succeeded int, err error) {
	size := max(initial, 1)
	for next := 0; next < count; {
		if ctx.Err() != nil {
			return succeeded, fmt.Errorf("%d of %d calls not made: %w", count-next, count, context.Cause(ctx))
		}
		n := min(size, MaxBatch, count-next)
		failed := runBatch(ctx, next, n, do)
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

// runBatch makes n calls from index first on and returns their errors in order.
func runBatch(ctx context.Context, first, n int, do func(ctx context.Context, i int) error) []error {
	outcomes := make([]outcome, n)
	var wg sync.WaitGroup
	for i := range outcomes {
		wg.Go(func() { outcomes[i].call(ctx, first+i, do) })
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

// callPanic carries a panic from a call's goroutine to that of Run's caller, where it can be handled.
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
