package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
)

const (
	// spareHeap is how many bytes of garbage may pile up before they are collected, however little of the heap is in use.
	spareHeap = 32 << 20
	// sparePercent is the same in percent of what is in use, where that is more. Most of a large heap are cached objects that
	// live long: collecting them sooner than Go does by default costs little and saves a third of the memory.
	sparePercent = 40
)

// spareGarbage sets the collector's percentage after each collection, for as long as the process runs. A fixed one is wrong for
// somebody: a manager of few Pods spent a quarter of its time collecting 8 MiB again and again, one of many took too much memory.
func spareGarbage(percent int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	next := gcPercent(live[0].Value.Uint64())
	if next != percent {
		debug.SetGCPercent(next)
	}
	// The next collection finds that nobody holds this object.
	runtime.AddCleanup(new(*int), spareGarbage, next)
}

// gcPercent is the percentage for a heap of which so many bytes are in use. Go takes it of 4 MiB at least.
func gcPercent(live uint64) int {
	return max(sparePercent, int(100*spareHeap/max(live, 4<<20)))
}

// limitMemory has garbage collected sooner where the container's limit is near. The manifests name it in MEMORY_LIMIT, in bytes; a tenth of
// it is left to what the collector does not count. GOMEMLIMIT goes first.
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
