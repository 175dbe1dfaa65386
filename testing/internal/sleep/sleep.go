// Package sleep makes a goroutine wait no longer than its context lasts.
package sleep

import (
	"context"
	"time"
)

// For waits, or returns the context's cause when the context ends first.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
