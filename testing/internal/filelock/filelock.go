// Package filelock locks files, so that several processes on a machine do not do the same work at the same time.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

// ErrHeld means that another process holds the lock.
var ErrHeld = errors.New("locked by another process")

const interval = 200 * time.Millisecond

// Try locks a file, or returns ErrHeld. If the file does not exist, Try creates the file. The kernel releases the lock
// when the process dies.
func Try(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the file to lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return func() { _ = f.Close() }, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrHeld
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// Wait locks a file, and calls waiting once if another process holds the lock.
func Wait(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	for first := true; ; first = false {
		unlock, err := Try(path)
		if !errors.Is(err, ErrHeld) {
			return unlock, err
		}
		if first {
			waiting()
		}
		if err := sleep.For(ctx, interval); err != nil {
			return nil, fmt.Errorf("wait for the lock %s: %w", path, err)
		}
	}
}
