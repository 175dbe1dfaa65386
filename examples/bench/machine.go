package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// machine describes where a run was made, without its name.
type machine struct {
	CPU       string  `json:"cpu"`
	Cores     int     `json:"cores"`
	Gibibytes float64 `json:"gibibytes"`
	System    string  `json:"system"`
	Go        string  `json:"go"`
}

func thisMachine() machine {
	m := machine{
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

func (m machine) String() string {
	return fmt.Sprintf("%d cores (%s), %.0f GiB, %s, %s", m.Cores, m.CPU, m.Gibibytes, m.System, m.Go)
}

// valueOf returns the value of the first line of a file that begins with the key; empty if there is none.
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
