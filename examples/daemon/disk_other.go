//go:build !unix

package daemon

import (
	"errors"
	"fmt"
)

// freeBytes returns an error, because only Unix has the call.
func freeBytes(directory string) (uint64, error) {
	return 0, fmt.Errorf("free disk of %s: %w", directory, errors.ErrUnsupported)
}
