package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	for _, tc := range []struct {
		name string
		live uint64
		want int
	}{
		{"nothing was collected yet", 0, 800},
		{"a few hundred Pods", 16 << 20, 200},
		{"as much garbage as objects", 32 << 20, 100},
		{"both rules say the same", 80 << 20, 40},
		{"tens of thousands of Pods", 1 << 30, 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := gcPercent(tc.live); got != tc.want {
				t.Errorf("gcPercent(%d) = %d, want %d", tc.live, got, tc.want)
			}
		})
	}
}

// TestSpareGarbageFollowsTheHeap: spareGarbage sets a new percentage after the heap has grown, and after the heap has
// shrunk.
func TestSpareGarbageFollowsTheHeap(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	percent := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	// The test must wait for the new percentage, because a goroutine of the Go runtime sets the percentage after the
	// collection.
	until := func(what string, is func(uint64) bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !is(percent()); runtime.GC() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the percentage stays at %d", what, percent())
			}
		}
	}
	spareGarbage(0)
	for range 2 {
		held := make([]byte, 256<<20)
		until("a large heap", func(p uint64) bool { return p == sparePercent })
		runtime.KeepAlive(held)
		until("a small heap", func(p uint64) bool { return p > 100 })
	}
}

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for _, tc := range []struct {
		name    string
		env     map[string]string
		want    int64
		wantErr bool
	}{
		{"no limit", nil, before, false},
		{"a limit", map[string]string{"MEMORY_LIMIT": "536870912"}, 483183819, false},
		{"Go's own", map[string]string{"MEMORY_LIMIT": "536870912", "GOMEMLIMIT": "1GiB"}, before, false},
		{"words", map[string]string{"MEMORY_LIMIT": "512Mi"}, before, true},
		{"nothing", map[string]string{"MEMORY_LIMIT": "0"}, before, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			debug.SetMemoryLimit(before)
			err := limitMemory(func(name string) string { return tc.env[name] })
			if got := debug.SetMemoryLimit(-1); got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("limit %d, %v; want %d, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}
