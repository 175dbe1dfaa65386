package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Machine describes the hardware and the system of a run, without the machine's name. The description is the same for
// each run on the machine.
type Machine struct {
	CPU       string  `json:"cpu"`
	Cores     int     `json:"cores"`
	Gibibytes float64 `json:"gibibytes"`
	System    string  `json:"system"`
	Go        string  `json:"go"`
}

func thisMachine() Machine {
	m := Machine{
		CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(),
		System: valueOf("/etc/os-release", "PRETTY_NAME", "=") + ", Linux " + firstWords("/proc/sys/kernel/osrelease"),
	}
	if model := valueOf("/proc/cpuinfo", "model name", ":"); model != "" {
		m.CPU = model
	}
	kibibytes, err := strconv.ParseFloat(strings.TrimSuffix(valueOf("/proc/meminfo", "MemTotal", ":"), " kB"), 64)
	if err == nil {
		m.Gibibytes = kibibytes / (1 << 20)
	}
	return m
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores (%s), %.0f GiB, %s, %s", m.Cores, m.CPU, m.Gibibytes, m.System, m.Go)
}

// Yardstick describes the work whose duration [Pace] gives.
const Yardstick = "sort 2,000,000 numbers on each core at once"

const sorted = 2_000_000

// yardstick returns the seconds that all cores together take to sort a fixed list of numbers. The speed of a shared
// machine varies, and the figures of two runs can be compared only if their yardstick times are similar.
func yardstick() float64 {
	begin := time.Now()
	var cores sync.WaitGroup
	for range runtime.NumCPU() {
		cores.Go(func() {
			numbers, random := make([]uint64, sorted), rand.NewPCG(1, 2)
			for i := range numbers {
				numbers[i] = random.Uint64()
			}
			slices.Sort(numbers)
		})
	}
	cores.Wait()
	return time.Since(begin).Seconds()
}

// valueOf returns the value in the first line of a file that begins with the key, or "" if there is none.
func valueOf(file, key, separator string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		name, value, found := strings.Cut(line, separator)
		if found && strings.TrimSpace(name) == key {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

func firstWords(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(raw))
}
