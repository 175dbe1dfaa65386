package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
)

const (
	// spareHeap is how many bytes of garbage may accumulate before a garbage collection, even if the live heap is
	// small.
	spareHeap = 32 << 20
	// sparePercent is how much garbage may accumulate, in percent of the live heap. The larger of both limits applies.
	// Most of a large heap consists of cached objects that live long. More frequent collections than Go's default cost
	// little in this case, and save a third of the memory.
	sparePercent = 40
)

// spareGarbage sets the percentage for the garbage collector anew after each collection, as long as the process runs.
// No fixed percentage suits all managers. With few Pods, a manager would spend a quarter of its time on collections
// of a heap of 8 MiB. With many Pods, a manager would need too much memory.
func spareGarbage(percent int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	next := gcPercent(live[0].Value.Uint64())
	if next != percent {
		debug.SetGCPercent(next)
	}
	// The next collection frees this object, and then calls spareGarbage again.
	runtime.AddCleanup(new(*int), spareGarbage, next)
}

// gcPercent returns the percentage for a heap with the given number of live bytes. Go applies the percentage to at
// least 4 MiB.
func gcPercent(live uint64) int {
	return max(sparePercent, int(100*spareHeap/max(live, 4<<20)))
}

// limitMemory makes the garbage collector run more often when the memory used is near the container's limit. The
// manifests set the environment variable MEMORY_LIMIT to the container's limit, in bytes. A tenth of the limit is
// reserved for memory that the collector does not count. The variable GOMEMLIMIT takes precedence.
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
