package controlplane

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// identity returns a text that distinguishes a process from a later process with the same process ID: the start time
// in ticks since boot, and the program.
func identity(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("identify process %d: %w", pid, err)
	}
	// The second field, the program's name, is in parentheses and may contain any characters.
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return "", fmt.Errorf("identify process %d: it is gone", pid)
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "", fmt.Errorf("identify process %d: %w", pid, err)
	}
	return fields[19] + " " + strings.TrimSuffix(exe, " (deleted)"), nil
}
