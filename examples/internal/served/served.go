// Package served runs a manager with webhooks as a separate process, and a control plane that calls the webhooks, for
// measurements and load tests.
package served

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

// Cluster is a control plane with a manager that serves webhooks. Start makes a Cluster.
type Cluster struct {
	client.WithWatch

	Plane   *controlplane.ControlPlane
	Manager *child.Process
	// Port is the port of the webhooks on localhost. Metrics is the URL of the manager's metrics.
	Port    int
	Metrics string

	dir, health string
}

// Options are the options of a Cluster.
type Options struct {
	// Manager is the path of the manager's binary. Required.
	Manager string
	// Args are additional arguments for the manager.
	Args []string
	// Nodes is the number of simulated Nodes.
	Nodes int
	// LeaseDuration is the duration of the Nodes' leases: see controlplane.Options.
	LeaseDuration time.Duration
	// AuditLog makes the API server write an audit log.
	AuditLog bool
	// Prepare is called before the manager starts. Optional.
	Prepare func(ctx context.Context, c client.Client) error
}

// Start returns a Cluster whose manager serves the webhooks. The caller must call Stop at the end.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "served-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	c := &Cluster{dir: dir}
	options := controlplane.Options{Dir: filepath.Join(dir, "controlplane"), Nodes: o.Nodes, LeaseDuration: o.LeaseDuration, Progress: os.Stderr}
	if o.AuditLog {
		options.AuditLog = filepath.Join(dir, "audit.log")
	}
	if c.Plane, err = controlplane.Start(ctx, options); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.prepare(ctx, o); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Cluster) prepare(ctx context.Context, o Options) (err error) {
	if c.WithWatch, err = manager.NewClient(c.Plane.Config()); err != nil {
		return err
	}
	for _, prepare := range []func(context.Context, client.Client) error{config.InstallCRDs, config.InstallWebhooks, o.Prepare} {
		if prepare == nil {
			continue
		}
		if err := prepare(ctx, c); err != nil {
			return err
		}
	}
	return c.run(ctx, o.Manager, o.Args)
}

// run starts the manager, and waits until the manager serves its webhooks.
func (c *Cluster) run(ctx context.Context, binary string, args []string) error {
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = child.FreePort(ctx, "127.0.0.1"); err != nil {
			return err
		}
	}
	c.Port, c.health = ports[0], fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[1])
	c.Metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[2])
	log, err := os.Create(filepath.Join(c.dir, "manager.log"))
	if err != nil {
		return fmt.Errorf("creating the manager's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	//nolint:noctx // stop ends the whole process group; a context would kill its leader alone.
	cmd := exec.Command(binary, append([]string{
		"--kubeconfig", c.Plane.Kubeconfig(), "--enable-pprof=false",
		fmt.Sprintf("--health-probe-addr=127.0.0.1:%d", ports[1]), fmt.Sprintf("--metrics-addr=127.0.0.1:%d", ports[2]),
	}, args...)...)
	cmd.Env = append(os.Environ(), "WEBHOOK_HOST=localhost", fmt.Sprintf("WEBHOOK_PORT=%d", c.Port))
	cmd.Stdout, cmd.Stderr = log, log
	if c.Manager, err = child.Start(cmd); err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if c.Manager.Ended() {
			return false, fmt.Errorf("it has ended: %s", c.Manager.State())
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.health, nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // the manager is not listening yet
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("waiting for the manager's webhooks: %w; end of its log:\n%s", err, child.EndOfLog(log.Name()))
	}
	return nil
}

// Stop ends the manager and the control plane.
func (c *Cluster) Stop(ctx context.Context) error {
	if c.Manager != nil {
		c.Manager.Stop(syscall.SIGTERM, 10*time.Second)
	}
	return errors.Join(c.Plane.Stop(ctx), os.RemoveAll(c.dir))
}

// CPU returns the CPU time that the manager has used, in seconds.
func (c *Cluster) CPU() (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Manager.ID()))
	if err != nil {
		return 0, fmt.Errorf("the manager's CPU time: %w", err)
	}
	// The name of the process, before the last parenthesis, may contain any characters.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 13 {
		return 0, errors.New("the manager's CPU time is not in /proc")
	}
	var seconds float64
	for _, field := range fields[11:13] { // the fields utime and stime of proc(5)
		ticks, err := strconv.ParseFloat(string(field), 64)
		if err != nil {
			return 0, fmt.Errorf("the manager's CPU time: %w", err)
		}
		const ticksPerSecond = 100 // on every Linux ABI that Go supports
		seconds += ticks / ticksPerSecond
	}
	return seconds, nil
}

// Memory returns the peak of the manager's resident memory, in MiB.
func (c *Cluster) Memory() (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Manager.ID()))
	if err != nil {
		return 0, fmt.Errorf("the manager's memory: %w", err)
	}
	_, rest, _ := bytes.Cut(raw, []byte("VmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("the manager's memory is not in /proc")
	}
	kibibytes, err := strconv.ParseFloat(string(fields[0]), 64)
	return kibibytes / 1024, err
}
