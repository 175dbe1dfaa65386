//go:build unix && !linux

package controlplane

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// identity tells a process from a later one that was given the same number: its start time and its program.
func identity(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "lstart=,comm=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("identify process %d: %w", pid, err)
	}
	return strings.TrimSpace(string(out)), nil
}
