package scripted_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/scripted"
)

func states(m *scripted.Machine) []string {
	var out []string
	for _, c := range m.Containers() {
		out = append(out, fmt.Sprint(c.ID, " ", c.State(), " ", c.ExitCode))
	}
	return out
}

// TestStop: a container ends at the signal, after the time StopTakes, or at the end of the grace period.
func TestStop(t *testing.T) {
	for _, tt := range []struct {
		name      string
		behaviour scripted.Behaviour
		grace     time.Duration
		patience  time.Duration
		took      time.Duration
		err       error
		want      string
	}{
		{"at the signal", scripted.Behaviour{}, time.Minute, time.Hour, 0, nil, "CONTAINER_EXITED 143"},
		{"with a code of its own", scripted.Behaviour{StopCode: new(int32(3))}, time.Minute, time.Hour, 0, nil, "CONTAINER_EXITED 3"},
		{"after its time", scripted.Behaviour{StopTakes: time.Second}, time.Minute, time.Hour, time.Second, nil, "CONTAINER_EXITED 143"},
		{"after the grace period", scripted.Behaviour{StopTakes: time.Hour}, time.Minute, 2 * time.Hour, time.Minute, nil, "CONTAINER_EXITED 137"},
		{"at once", scripted.Behaviour{StopTakes: time.Hour}, 0, time.Hour, 0, nil, "CONTAINER_EXITED 137"},
		{"the caller gives up", scripted.Behaviour{StopTakes: 10 * time.Second}, time.Minute, time.Second, time.Second, context.DeadlineExceeded, "CONTAINER_RUNNING 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := scripted.New(nil)
				m.Add(fakecri.Container{ID: "c1"}, tt.behaviour)
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				began := time.Now()
				if err := m.Stop(ctx, "c1", tt.grace); !errors.Is(err, tt.err) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("the stop took %s, want %s", took, tt.took)
				}
				if diff := cmp.Diff([]string{"c1 " + tt.want}, states(m)); diff != "" {
					t.Errorf("containers (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestSignalStays: after a signal, a container ends even if the caller of Stop has given up, and a second Stop does
// not delay the end.
func TestSignalStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(nil)
		var ends []string
		m.OnEnd = func(c fakecri.Container) {
			ends = append(ends, fmt.Sprint(c.ID, " ", c.ExitCode, " after ", c.Finished.Sub(c.Started)))
			if c.ID == "c1" {
				m.Add(fakecri.Container{ID: "c2", Attempt: 1}, scripted.Behaviour{})
			}
		}
		m.Add(fakecri.Container{ID: "c1"}, scripted.Behaviour{StopTakes: 10 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = m.Stop(ctx, "c1", time.Minute) // the context ends before the container does
		if err := m.Stop(t.Context(), "c1", time.Minute); err != nil || !m.Exit("c2", 7) || m.Exit("c1", 1) {
			t.Errorf("error %v; c2 has to run, and c1 to be over", err)
		}
		m.Remove("c1")
		if diff := cmp.Diff([]string{"c2 CONTAINER_EXITED 7"}, states(m)); diff != "" {
			t.Errorf("containers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"c1 143 after 10s", "c2 7 after 0s"}, ends); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
	})
}

func TestExec(t *testing.T) {
	m := scripted.New(nil)
	m.Add(fakecri.Container{ID: "c1", Env: []fakecri.Variable{{Name: "A", Value: "1"}}}, scripted.Behaviour{})
	out, _, code, err := m.Exec(t.Context(), "c1", []string{"sh", "-c", "env; exit 4"})
	if string(out) != "A=1\n" || code != 4 || err != nil {
		t.Errorf("out %q, code %d, error %v", out, code, err)
	}
	m.Exit("c1", 0)
	if _, _, _, err := m.Exec(t.Context(), "c1", []string{"env"}); err == nil {
		t.Error("a program ran in an ended container")
	}
	if sandboxes := m.Sandboxes(); len(sandboxes) != 1 {
		t.Errorf("%d sandboxes, want one", len(sandboxes))
	}
}
