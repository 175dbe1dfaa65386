package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
)

const (
	// spareHeap is the number of bytes of garbage that may pile up before a collection, even for a small heap.
	spareHeap = 32 << 20
	// sparePercent is the same limit in percent of the live heap, if larger. A large heap consists mostly of long-lived
	// cached objects: a collection sooner than Go's default costs little and saves a third of the memory.
	sparePercent = 40
)

// spareGarbage sets the collector's percentage after each collection, for as long as the process runs. A fixed
// percentage is wrong for some managers: a manager of few Pods spent a quarter of its time collecting 8 MiB again and
// again, a manager of many Pods took too much memory.
func spareGarbage(percent int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	next := gcPercent(live[0].Value.Uint64())
	if next != percent {
		debug.SetGCPercent(next)
	}
	// The next collection finds this object unused.
	runtime.AddCleanup(new(*int), spareGarbage, next)
}

// gcPercent is the percentage for a heap with the given number of live bytes. Go applies the percentage to at least 4
// MiB.
func gcPercent(live uint64) int {
	return max(sparePercent, int(100*spareHeap/max(live, 4<<20)))
}

// limitMemory makes the collector work sooner near the container's limit. The manifests pass the limit in MEMORY_LIMIT,
// in bytes. A tenth of the limit is left for memory not counted by the collector. GOMEMLIMIT takes precedence.
func limitMemory(getenv func(string) string) error {
	text := getenv("MEMORY_LIMIT")
	if text == "" || getenv("GOMEMLIMIT") != "" {
		return nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 {
		return fmt.Errorf("MEMORY_LIMIT %q: want a number of bytes", text)
	}
	debug.SetMemoryLimit(limit / 10 * 9)
	return nil
}
