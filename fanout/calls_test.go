package fanout

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// batches makes count calls that take a second of fake time each, and returns the number of calls in each second.
func batches(t *testing.T, count int, fail func(i int) bool) (sizes []int, succeeded int, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var mu sync.Mutex
		succeeded, err = slowStart(t.Context(), count, func(_ context.Context, i int) error {
			mu.Lock()
			second := int(time.Since(begin) / time.Second)
			for len(sizes) <= second {
				sizes = append(sizes, 0)
			}
			sizes[second]++
			mu.Unlock()
			time.Sleep(time.Second)
			if fail != nil && fail(i) {
				return fmt.Errorf("call %d", i)
			}
			return nil
		})
	})
	return sizes, succeeded, err
}

func TestBatches(t *testing.T) {
	for _, tc := range []struct {
		name      string
		count     int
		fail      func(int) bool
		want      []int
		succeeded int
		err       string
	}{
		{name: "C-8 doubling", count: 20, want: []int{1, 2, 4, 8, 5}, succeeded: 20},
		{name: "C-8 fewer than two batches", count: 2, want: []int{1, 1}, succeeded: 2},
		{name: "nothing to do", count: 0},
		{name: "a negative count is nothing to do", count: -1},
		{
			name: "C-8 a failure stops later batches", count: 100, fail: func(i int) bool { return i == 4 || i == 6 },
			want: []int{1, 2, 4}, succeeded: 5, err: "call 4\ncall 6",
		},
		{
			name: "C-8 all fail: one request finds out", count: 100, fail: func(int) bool { return true },
			want: []int{1}, succeeded: 0, err: "call 0",
		},
		{
			name: "S-8 at most 500 side by side", count: 2000,
			want: []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500, 489}, succeeded: 2000,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sizes, succeeded, err := batches(t, tc.count, tc.fail)
			if diff := cmp.Diff(tc.want, sizes); diff != "" {
				t.Errorf("batch sizes (-want +got):\n%s", diff)
			}
			if succeeded != tc.succeeded {
				t.Errorf("succeeded = %d, want %d", succeeded, tc.succeeded)
			}
			message := ""
			if err != nil {
				message = err.Error()
			}
			if diff := cmp.Diff(tc.err, message); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryIndexOnce(t *testing.T) {
	const count = 1234
	var calls [count]atomic.Int32
	if _, err := slowStart(t.Context(), count, func(_ context.Context, i int) error { calls[i].Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		if n := calls[i].Load(); n != 1 {
			t.Fatalf("call %d made %d times", i, n)
		}
	}
}

func TestContextEndsTheRun(t *testing.T) {
	stop := errors.New("no longer leader")
	ctx, cancel := context.WithCancelCause(t.Context())
	var seen atomic.Int32
	succeeded, err := slowStart(ctx, 100, func(ctx context.Context, i int) error {
		if i == 2 {
			cancel(stop)
			<-ctx.Done() // ctx ends for calls in progress, too
		}
		seen.Add(1)
		return nil
	})
	if !errors.Is(err, stop) || !strings.Contains(err.Error(), "97 of 100 calls not made") {
		t.Errorf("error = %v, want the cause and what was not made", err)
	}
	if succeeded != 3 || seen.Load() != 3 {
		t.Errorf("succeeded = %d, finished = %d, want 3: started calls finish", succeeded, seen.Load())
	}
	if n, err := slowStart(ctx, 1, func(context.Context, int) error { t.Error("called"); return nil }); n != 0 || err == nil {
		t.Errorf("slowStart on an ended context = %d, %v", n, err)
	}
	if _, err := slowStart(ctx, 0, nil); err != nil {
		t.Errorf("nothing to do on an ended context = %v, want nil", err)
	}
}

func TestPanicReachesTheCaller(t *testing.T) {
	boom := errors.New("boom")
	var finished atomic.Int32
	defer func() {
		err, ok := recover().(error)
		if !ok || !errors.Is(err, boom) || !strings.Contains(err.Error(), "call 1 panicked: boom") ||
			!strings.Contains(err.Error(), "calls_test.go") {
			t.Errorf("panic value = %v, want the call's own with its stack", err)
		}
		if finished.Load() != 2 {
			t.Errorf("%d other calls finished, want 2: call 0 and the neighbour in the batch", finished.Load())
		}
	}()
	_, _ = slowStart(t.Context(), 100, func(_ context.Context, i int) error {
		if i == 1 {
			panic(boom)
		}
		finished.Add(1)
		return nil
	})
	t.Error("slowStart returned")
}

func TestGoexitReachesTheCaller(t *testing.T) {
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = slowStart(t.Context(), 1, func(context.Context, int) error { runtime.Goexit(); return nil })
		returned = true
	}()
	<-done
	if returned {
		t.Error("a call that ended its goroutine was taken for one that succeeded")
	}
}

func FuzzSlowStart(f *testing.F) {
	f.Add(uint16(10), uint16(3))
	f.Add(uint16(0), uint16(0))
	f.Add(uint16(2000), uint16(1999))
	f.Fuzz(func(t *testing.T, count uint16, bad uint16) {
		n := int(count) % 3000
		var made, failed atomic.Int32
		succeeded, err := slowStart(t.Context(), n, func(_ context.Context, i int) error {
			made.Add(1)
			if i == int(bad) {
				failed.Add(1)
				return errors.New("bad")
			}
			return nil
		})
		if succeeded != int(made.Load()-failed.Load()) || (err != nil) != (failed.Load() > 0) {
			t.Errorf("slowStart = %d, %v after %d calls, %d failed", succeeded, err, made.Load(), failed.Load())
		}
		if err == nil && succeeded != n {
			t.Errorf("succeeded = %d of %d without an error", succeeded, n)
		}
	})
}

func BenchmarkSlowStart(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = slowStart(context.Background(), 1000, func(context.Context, int) error { return nil })
	}
}
