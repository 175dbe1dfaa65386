//go:build !unix

package daemon

import (
	"errors"
	"fmt"
)

// freeBytes returns an error, because the statfs call exists only on Unix.
func freeBytes(directory string) (uint64, error) {
	return 0, fmt.Errorf("free disk of %s: %w", directory, errors.ErrUnsupported)
}
