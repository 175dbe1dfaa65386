package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

func TestFor(t *testing.T) {
	over := errors.New("over")
	tests := []struct {
		name string
		ends time.Duration // when the context ends; zero for never
		want error
		took time.Duration
	}{
		{"the time passes", 0, nil, time.Minute},
		{"the context ends first", time.Second, over, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.ends > 0 {
					time.AfterFunc(tt.ends, func() { cancel(over) })
				}
				began := time.Now()
				if err := sleep.For(ctx, time.Minute); !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
			})
		})
	}
}
