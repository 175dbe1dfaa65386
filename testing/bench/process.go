package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/workloadkit/workloadkit/testing/child"
)

const stopGrace = 10 * time.Second

// process is the measured manager with its child processes, in its own process group.
type process struct {
	*child.Process

	name, log string
}

// startManager runs the manager, with the API server in the kubeconfig, until stop is called.
func startManager(ctx context.Context, o Options, kubeconfig, log string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("creating the manager's log: %w", err)
	}
	defer func() { _ = file.Close() }()
	port, err := child.FreePort(ctx, "localhost")
	if err != nil {
		return nil, err
	}
	//nolint:noctx // stop ends the whole process group; a context would kill its leader alone.
	cmd := exec.Command(o.Manager, append([]string{"--kubeconfig", kubeconfig}, o.ManagerArgs...)...)
	cmd.Stdout, cmd.Stderr = file, file
	// The bench installs no webhook configurations. The environment variables make the webhook server listen on a
	// loopback address and a free port.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "WEBHOOK_HOST=localhost", fmt.Sprintf("WEBHOOK_PORT=%d", port))
	p, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("starting the manager: %w", err)
	}
	return &process{Process: p, name: o.Manager, log: log}, nil
}

// wait returns nil when ctx ends. If the manager exits earlier, wait returns an error with the last part of the
// manager's log.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.Done():
		return fmt.Errorf("the manager %s ended by itself (%s); end of its log:\n%s", p.name, p.State(), child.EndOfLog(p.log))
	}
}

// stop ends the manager, and kills the manager if it takes too long.
func (p *process) stop() { p.Stop(syscall.SIGTERM, stopGrace) }

// cpu returns the CPU seconds that the process group has used so far, including children that have exited.
func (p *process) cpu() (seconds float64, err error) {
	err = p.each(func(_ string, stat []string) error {
		for _, field := range stat[11:15] { // the fields utime, stime, cutime and cstime
			ticks, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return fmt.Errorf("CPU time %q: %w", field, err)
			}
			const ticksPerSecond = 100 // the value for every Linux ABI that Go supports
			seconds += ticks / ticksPerSecond
		}
		return nil
	})
	return seconds, err
}

// resetPeak resets the peak memory of the processes.
func (p *process) resetPeak() error {
	return p.each(func(dir string, _ []string) error {
		return os.WriteFile(filepath.Join(dir, "clear_refs"), []byte("5"), 0)
	})
}

// peak returns the largest resident memory since resetPeak, in MiB. The peaks of several processes are added.
func (p *process) peak() (mebibytes float64, err error) {
	err = p.each(func(dir string, _ []string) error {
		raw, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			return err
		}
		_, rest, _ := bytes.Cut(raw, []byte("VmHWM:"))
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			return nil // the child has exited but its parent has not waited for it
		}
		kibibytes, err := strconv.ParseFloat(string(fields[0]), 64)
		mebibytes += kibibytes / 1024
		return err
	})
	return mebibytes, err
}

// each calls the function visit for each process of the group. The parameters are the process's directory in /proc,
// and the fields of its file stat, from the field state on.
func (p *process) each(visit func(dir string, stat []string) error) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	group, found := strconv.Itoa(p.ID()), false
	for _, dir := range dirs {
		raw, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // the process has exited since the directories were listed
		}
		// The name of the process ends at the last parenthesis, because the name itself may contain parentheses and spaces.
		stat := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		if len(stat) < 15 || stat[2] != group {
			continue
		}
		found = found || stat[0] != "Z" // a zombie process still shows its CPU time
		if err := visit(dir, stat); err != nil {
			return fmt.Errorf("reading %s: %w", dir, err)
		}
	}
	if !found {
		return fmt.Errorf("no process of group %s in /proc, where CPU and memory are read", group)
	}
	return nil
}
