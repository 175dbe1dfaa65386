package filelock_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/workloadkit/workloadkit/testing/internal/filelock"
)

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := filelock.Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.Try(path); !errors.Is(err, filelock.ErrHeld) {
		t.Fatalf("second lock: %v, want %v", err, filelock.ErrHeld)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = filelock.Wait(ctx, path, cancel)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("wait that is interrupted: %v, want %v", err, context.Canceled)
	}
	unlock()
	unlock, err = filelock.Wait(t.Context(), path, func() { t.Error("waited for a free lock") })
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
