// Command bench runs whole rollouts on a real control plane with simulated Nodes and says what they cost: seconds, requests per
// Pod by verb and resource, how long Pods were out of service, CPU and memory of the manager. Any manager that serves
// apps.kruise.io CloneSets can be measured, so that two can be compared on the same work:
//
//	bench --manager bin/kruise-manager --pods 1000
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/workloadkit/workloadkit/examples/controlplane"
)

// options are the command line.
type options struct {
	manager        string
	managerArgs    string
	agent          string
	pods, nodes    int
	maxUnavailable string
	startDelay     time.Duration
	json           string
}

func main() {
	var o options
	flag.StringVar(&o.manager, "manager", "bin/kruise-manager", "manager to measure; it is given --kubeconfig")
	flag.StringVar(&o.managerArgs, "manager-args", "--metrics-addr=0 --health-probe-addr=0 --enable-pprof=false", "further arguments of the manager, separated by spaces")
	flag.StringVar(&o.agent, "agent", "kruise-manager", "beginning of the user agents whose requests are counted")
	flag.IntVar(&o.pods, "pods", 500, "Pods of the CloneSet")
	flag.IntVar(&o.nodes, "nodes", 20, "simulated Nodes")
	flag.StringVar(&o.maxUnavailable, "max-unavailable", "100%", "maxUnavailable of the rollouts")
	flag.DurationVar(&o.startDelay, "start-delay", 0, "how long simulated containers take to start")
	flag.StringVar(&o.json, "json", "", "file that gets the figures as JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "workloadkit-bench-")
	if err != nil {
		return fmt.Errorf("making a directory for the control plane: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Dir: dir, Nodes: o.nodes, AuditLog: filepath.Join(dir, "audit.log"), Progress: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop(context.WithoutCancel(ctx))) }()
	c, err := connect(ctx, cp.Config())
	if err != nil {
		return err
	}
	m, err := startManager(ctx, o, cp.Kubeconfig(), filepath.Join(dir, "manager.log"))
	if err != nil {
		return err
	}
	figures, err := measure(ctx, o, c, cp.Config(), cp.AuditLog(), m)
	err = errors.Join(err, m.stop())
	if err != nil {
		return err
	}
	printTable(o, figures, m)
	if o.json == "" {
		return nil
	}
	raw, err := json.MarshalIndent(map[string]any{"pods": o.pods, "manager": m.total(), "rollouts": figures}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the figures: %w", err)
	}
	return os.WriteFile(o.json, append(raw, '\n'), 0o644)
}

// process is the manager under measurement.
type process struct {
	cmd *exec.Cmd
	log string
}

func startManager(ctx context.Context, o options, kubeconfig, log string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("creating the manager's log: %w", err)
	}
	defer func() { _ = file.Close() }()
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	args := append([]string{"--kubeconfig", kubeconfig}, strings.Fields(o.managerArgs)...)
	cmd := exec.CommandContext(ctx, o.manager, args...)
	cmd.Stdout, cmd.Stderr = file, file
	// No webhook configurations are installed; the server is kept off the machine's other addresses and a fixed port.
	cmd.Env = append(os.Environ(), "WEBHOOK_HOST=localhost", fmt.Sprintf("WEBHOOK_PORT=%d", port))
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.manager, err)
	}
	return &process{cmd: cmd, log: log}, nil
}

func freePort(ctx context.Context) (int, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil && p.cmd.ProcessState == nil {
		return fmt.Errorf("waiting for the manager: %w", err)
	}
	return nil
}

// cpu returns the seconds of CPU the running manager has used so far.
func (p *process) cpu() float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	var user, system int
	if len(fields) > 12 {
		_, _ = fmt.Sscan(fields[11], &user)
		_, _ = fmt.Sscan(fields[12], &system)
	}
	const ticksPerSecond = 100
	return float64(user+system) / ticksPerSecond
}

// usage is what the manager has used in all.
type usage struct {
	CPUSeconds    float64 `json:"cpuSeconds"`
	PeakMebibytes float64 `json:"peakMebibytes"`
}

func (p *process) total() usage {
	state := p.cmd.ProcessState
	u := usage{CPUSeconds: (state.UserTime() + state.SystemTime()).Seconds()}
	if r, ok := state.SysUsage().(*syscall.Rusage); ok {
		u.PeakMebibytes = float64(r.Maxrss) / 1024
	}
	return u
}
