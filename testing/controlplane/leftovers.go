package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/workloadkit/workloadkit/testing/child"
)

// recorded is a process that an earlier run has recorded.
type recorded struct {
	Name     string `json:"name"`
	PID      int    `json:"pid"`
	Identity string `json:"identity"`
}

func writeRecord(l layout, running map[string]*child.Process) error {
	var all []recorded
	for name, p := range running {
		pid := p.ID()
		// A process whose identity cannot be read has died already.
		if id, err := identity(pid); err == nil {
			all = append(all, recorded{Name: name, PID: pid, Identity: id})
		}
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("record the processes: %w", err)
	}
	temporary := l.record() + ".tmp"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("record the processes: %w", err)
	}
	if err := os.Rename(temporary, l.record()); err != nil {
		return fmt.Errorf("record the processes: %w", err)
	}
	return nil
}

// removeLeftovers kills the processes that a killed run has left, and removes the run's data. The caller holds the
// lock, so no other run uses the directory. If there are no data of an earlier run, the directory is not changed.
func removeLeftovers(l layout, auditLog string) error {
	if _, err := os.Stat(l.state()); errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(l.kubeconfig()); err == nil {
			return fmt.Errorf("%s exists and is not from a control plane: choose another directory", l.kubeconfig())
		}
		return nil
	}
	if rel, err := filepath.Rel(l.state(), auditLog); auditLog != "" && err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("the audit log %s lies in %s, which every start empties", auditLog, l.state())
	}
	if err := killRecorded(l.record()); err != nil {
		return err
	}
	if err := os.RemoveAll(l.state()); err != nil {
		return fmt.Errorf("remove the data of an earlier run: %w", err)
	}
	if err := os.Remove(l.kubeconfig()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the kubeconfig of an earlier run: %w", err)
	}
	return nil
}

func killRecorded(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the processes of an earlier run: %w", err)
	}
	var all []recorded
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("read the processes of an earlier run from %s: %w", path, err)
	}
	for _, r := range all {
		if err := r.kill(); err != nil {
			return err
		}
	}
	return nil
}

// kill kills the recorded process, unless another process has its process ID now.
func (r recorded) kill() error {
	deadline := time.Now().Add(stopGrace)
	for r.alive() {
		if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %s (process %d) of an earlier run: %w", r.Name, r.PID, err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s (process %d) of an earlier run does not die", r.Name, r.PID)
		}
		time.Sleep(pollInterval)
	}
	return nil
}

func (r recorded) alive() bool {
	id, err := identity(r.PID)
	return err == nil && strings.TrimSpace(id) == strings.TrimSpace(r.Identity)
}
