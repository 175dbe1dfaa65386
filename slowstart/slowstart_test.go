package slowstart_test

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

	"github.com/workloadkit/workloadkit/slowstart"
)

func Example() {
	quota := errors.New("quota exceeded")
	var calls atomic.Int32
	done, err := slowstart.Run(context.Background(), 1000, 1, func(_ context.Context, i int) error {
		calls.Add(1)
		if i >= 5 {
			return quota
		}
		return nil
	})
	fmt.Println(done, calls.Load(), errors.Is(err, quota))
	// Output: 5 7 true
}

// batches runs count calls that take one second of synthetic time each and returns how many ran in each second.
func batches(t *testing.T, count, initial int, fail func(i int) bool) (sizes []int, succeeded int, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var mu sync.Mutex
		succeeded, err = slowstart.Run(t.Context(), count, initial, func(_ context.Context, i int) error {
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
		name           string
		count, initial int
		fail           func(int) bool
		want           []int
		succeeded      int
		err            string
	}{
		{name: "C-8 doubling", count: 20, initial: 1, want: []int{1, 2, 4, 8, 5}, succeeded: 20},
		{name: "C-8 another start", count: 20, initial: 5, want: []int{5, 10, 5}, succeeded: 20},
		{name: "C-8 start above the count", count: 3, initial: 10, want: []int{3}, succeeded: 3},
		{name: "a start below one is one", count: 3, initial: -2, want: []int{1, 2}, succeeded: 3},
		{name: "nothing to do", count: 0, initial: 1},
		{name: "a negative count is nothing to do", count: -1, initial: 1},
		{
			name: "C-8 a failure stops later batches", count: 100, initial: 1, fail: func(i int) bool { return i == 4 || i == 6 },
			want: []int{1, 2, 4}, succeeded: 5, err: "call 4\ncall 6",
		},
		{
			name: "C-8 all fail: one request finds out", count: 100, initial: 1, fail: func(int) bool { return true },
			want: []int{1}, succeeded: 0, err: "call 0",
		},
		{
			name: "S-8 at most 500 side by side", count: 2000, initial: 400,
			want: []int{400, 500, 500, 500, 100}, succeeded: 2000,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sizes, succeeded, err := batches(t, tc.count, tc.initial, tc.fail)
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
	if _, err := slowstart.Run(t.Context(), count, 1, func(_ context.Context, i int) error { calls[i].Add(1); return nil }); err != nil {
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
	succeeded, err := slowstart.Run(ctx, 100, 1, func(ctx context.Context, i int) error {
		if i == 2 {
			cancel(stop)
			<-ctx.Done() // calls in progress see it
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
	if n, err := slowstart.Run(ctx, 1, 1, func(context.Context, int) error { t.Error("called"); return nil }); n != 0 || err == nil {
		t.Errorf("Run on an ended context = %d, %v", n, err)
	}
	if _, err := slowstart.Run(ctx, 0, 1, nil); err != nil {
		t.Errorf("nothing to do on an ended context = %v, want nil", err)
	}
}

func TestPanicReachesTheCaller(t *testing.T) {
	boom := errors.New("boom")
	var finished atomic.Int32
	defer func() {
		err, ok := recover().(error)
		if !ok || !errors.Is(err, boom) || !strings.Contains(err.Error(), "call 1 panicked: boom") ||
			!strings.Contains(err.Error(), "slowstart_test.go") {
			t.Errorf("panic value = %v, want the call's own with its stack", err)
		}
		if finished.Load() != 2 {
			t.Errorf("%d other calls finished, want 2: call 0 and the neighbour in the batch", finished.Load())
		}
	}()
	_, _ = slowstart.Run(t.Context(), 100, 1, func(_ context.Context, i int) error {
		if i == 1 {
			panic(boom)
		}
		finished.Add(1)
		return nil
	})
	t.Error("Run returned")
}

func TestGoexitReachesTheCaller(t *testing.T) {
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = slowstart.Run(t.Context(), 1, 1, func(context.Context, int) error { runtime.Goexit(); return nil })
		returned = true
	}()
	<-done
	if returned {
		t.Error("a call that ended its goroutine was taken for one that succeeded")
	}
}

func FuzzRun(f *testing.F) {
	f.Add(uint16(10), uint8(1), uint16(3))
	f.Add(uint16(0), uint8(0), uint16(0))
	f.Add(uint16(2000), uint8(200), uint16(1999))
	f.Fuzz(func(t *testing.T, count uint16, initial uint8, bad uint16) {
		n := int(count) % 3000
		var made, failed atomic.Int32
		succeeded, err := slowstart.Run(t.Context(), n, int(initial), func(_ context.Context, i int) error {
			made.Add(1)
			if i == int(bad) {
				failed.Add(1)
				return errors.New("bad")
			}
			return nil
		})
		if succeeded != int(made.Load()-failed.Load()) || (err != nil) != (failed.Load() > 0) {
			t.Errorf("Run = %d, %v after %d calls, %d failed", succeeded, err, made.Load(), failed.Load())
		}
		if err == nil && succeeded != n {
			t.Errorf("succeeded = %d of %d without an error", succeeded, n)
		}
	})
}

func BenchmarkRun(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = slowstart.Run(context.Background(), 1000, 1, func(context.Context, int) error { return nil })
	}
}
