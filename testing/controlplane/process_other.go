//go:build unix && !linux

package controlplane

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// identity returns a text that distinguishes a process from a later process with the same process ID: the start time
// and the program.
func identity(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "lstart=,comm=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("identify process %d: %w", pid, err)
	}
	return strings.TrimSpace(string(out)), nil
}
