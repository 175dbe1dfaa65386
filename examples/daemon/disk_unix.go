//go:build unix

package daemon

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freeBytes returns the space that is free, for users without privileges, in the file system of a directory.
func freeBytes(directory string) (uint64, error) {
	var found unix.Statfs_t
	if err := unix.Statfs(directory, &found); err != nil {
		return 0, fmt.Errorf("free disk of %s: %w", directory, err)
	}
	return uint64(found.Bavail) * uint64(found.Bsize), nil //nolint:gosec,unconvert // types differ between systems
}
