package controlplane

import (
	"fmt"
	"os"

	"github.com/workloadkit/workloadkit/testing/internal/gobuild"
)

// tail returns the last lines of a log file.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return gobuild.LastLines(string(data), 20)
}
