package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/internal/filelock"
	"github.com/workloadkit/workloadkit/testing/internal/progress"
	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

// NoNodes is the value of Options.Nodes for a cluster without simulated Nodes, for instance if real Nodes will join.
const NoNodes = -1

const (
	defaultNodes  = 3
	startTimeout  = 90 * time.Second
	startAttempts = 3
	stopGrace     = 5 * time.Second
	// apiServerGrace is how long kube-apiserver may take to end before it is killed: kube-apiserver does not end by
	// itself while a watch is open.
	apiServerGrace = 2 * time.Second
	pollInterval   = 25 * time.Millisecond
)

// Options describe the control plane to start. All fields except Dir may be zero.
type Options struct {
	// Dir holds the kubeconfig, certificates, logs and data. A missing Dir is created. Only one control plane can run
	// in Dir at a time.
	Dir string
	// Nodes is the number of simulated Nodes: 0 means 3, NoNodes none.
	Nodes int
	// AuditLog is a file to which a JSON line per request is written, at level Metadata, as soon as the request has
	// been answered. Lines are appended to the file. If empty, requests are not audited.
	AuditLog string
	// Binaries is the directory of the binaries. Missing binaries are built; existing binaries are used. If empty,
	// Start uses the directory in the environment variable WORKLOADKIT_BINARIES, or else a directory in the user's
	// cache whose name depends on the versions.
	Binaries string
	// Progress receives a message for every slow step. Nil means no messages.
	Progress io.Writer
	// APIServerFlags are appended to the flags of kube-apiserver, so they override other flags.
	APIServerFlags []string
	// FeatureGates are set on kube-apiserver, kube-controller-manager and kube-scheduler.
	FeatureGates map[string]bool
	// LeaseDuration is the duration of the leases of simulated Nodes, at most 5 minutes; 0 means 40 seconds, as in
	// kubelets. Thousands of Nodes need longer leases, because each Node renews its lease four times in each
	// duration, and the renewals would use all cores.
	LeaseDuration time.Duration
}

const (
	defaultLease = 40 * time.Second
	// longestLease is the time after which Nodes are unreachable.
	longestLease = 5 * time.Minute
)

func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("no directory given for the control plane")
	}
	if o.Nodes < NoNodes {
		return o, fmt.Errorf("%d nodes: want a positive number, 0 for %d or %d for none", o.Nodes, defaultNodes, NoNodes)
	}
	if o.Nodes == 0 {
		o.Nodes = defaultNodes
	}
	if o.LeaseDuration == 0 {
		o.LeaseDuration = defaultLease
	}
	if o.LeaseDuration < time.Second || o.LeaseDuration > longestLease {
		return o, fmt.Errorf("leases of %s: want 0 for %s, or a second to %s", o.LeaseDuration, defaultLease, longestLease)
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, fmt.Errorf("find the directory %s: %w", o.Dir, err)
	}
	if o.AuditLog != "" {
		if o.AuditLog, err = filepath.Abs(o.AuditLog); err != nil {
			return o, fmt.Errorf("find the audit log %s: %w", o.AuditLog, err)
		}
	}
	return o, nil
}

// ErrNotOwner is returned by a joined control plane for operations that only the process that started the control plane
// may do.
var ErrNotOwner = errors.New("the control plane was started by another process")

// ControlPlane is a running control plane. Its methods are safe for concurrent use.
type ControlPlane struct {
	opts   Options
	layout layout
	ports  ports
	paths  map[string]string
	config *rest.Config
	client kubernetes.Interface
	unlock func() // nil if the control plane was joined

	mu       sync.Mutex
	running  map[string]*child.Process
	died     chan struct{}
	dead     error // valid after died is closed
	stopOnce sync.Once
}

// Start builds missing binaries, starts all components and returns when the control plane is ready: the API server
// reports so, the namespace default has its ServiceAccount, and the Nodes are Ready. ctx limits only the start; the
// control plane then runs until Stop is called or the process ends. Start first removes everything that an earlier run
// has left in the directory.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	l := layout{dir: opts.Dir}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	unlock, err := takeLocks(l, opts.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	paths, err := buildBinaries(ctx, Binaries(), opts)
	if err != nil {
		unlock()
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	for attempt := 1; ; attempt++ {
		cp := &ControlPlane{
			opts: opts, layout: l, paths: paths, unlock: unlock,
			running: map[string]*child.Process{}, died: make(chan struct{}),
		}
		err := cp.start(ctx)
		if err == nil {
			err = writeOffer(l, opts)
		}
		if err == nil {
			return cp, nil
		}
		cp.stopAll()
		// After a port was chosen and before it is used, another process may take the port.
		if attempt < startAttempts && strings.Contains(err.Error(), "address already in use") {
			continue
		}
		unlock()
		return nil, fmt.Errorf("start control plane in %s: %w", l.dir, err)
	}
}

// takeLocks prevents other processes from using the directory and the audit log.
func takeLocks(l layout, auditLog string) (unlock func(), err error) {
	unlockDir, err := filelock.Try(l.lock())
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("another one runs in %s: stop it or choose another directory", l.dir)
	}
	if err != nil || auditLog == "" {
		return unlockDir, err
	}
	unlockLog, err := filelock.Try(auditLog)
	if err == nil {
		return func() { unlockLog(); unlockDir() }, nil
	}
	unlockDir()
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("another one writes the audit log %s: choose another file", auditLog)
	}
	return nil, err
}

func (c *ControlPlane) start(ctx context.Context) error {
	report := progress.New(c.opts.Progress)
	if err := removeLeftovers(c.layout, c.opts.AuditLog); err != nil {
		return err
	}
	if err := c.layout.create(); err != nil {
		return err
	}
	var err error
	if c.ports, err = freePorts(ctx); err != nil {
		return err
	}
	admin, err := writeFiles(c.layout, c.ports)
	if err != nil {
		return err
	}
	if c.config, err = restConfig(admin); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	return report.During("starting the control plane", func() error {
		if err := c.run("etcd"); err != nil {
			return err
		}
		if err := c.startAPIServer(ctx); err != nil {
			return err
		}
		for _, name := range clients() {
			if err := c.run(name); err != nil {
				return err
			}
		}
		if err := createNodes(ctx, c.client, c.opts.Nodes); err != nil {
			return err
		}
		return c.await(ctx, c.ready)
	})
}

// Config returns the configuration of an administrator's client without a rate limit. The caller may modify the result.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *ControlPlane) Kubeconfig() string { return c.layout.kubeconfig() }

// AuditLog returns the absolute path of the audit log, or "" if requests are not audited.
func (c *ControlPlane) AuditLog() string { return c.opts.AuditLog }

// Wait blocks until ctx ends or the control plane is stopped, and then returns nil. If a component dies, Wait returns
// an error, except for a joined control plane.
func (c *ControlPlane) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.died:
		return c.dead
	}
}

// Stop stops all processes and releases the directory. Logs are kept. Stop may be called several times. Stop always
// stops everything; ctx only limits the time for an orderly end. If the control plane was joined, the control plane
// itself keeps running.
func (c *ControlPlane) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.stopAll()
		}()
		select {
		case <-done:
		case <-ctx.Done():
			c.signalAll(syscall.SIGKILL)
			<-done
		}
		c.fail(nil)
		if c.unlock != nil {
			_ = os.Remove(c.layout.offer())
			c.unlock()
		}
	})
	return nil
}

// RestartAPIServer stops kube-apiserver as StopAPIServer does and starts kube-apiserver again on the same port.
func (c *ControlPlane) RestartAPIServer(ctx context.Context) error {
	if err := c.StopAPIServer(); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// StopAPIServer ends kube-apiserver: in an orderly way, or by force if clients delay the end by two seconds. etcd and
// its data are kept. The components that need the API server are ended too, because running components would
// reconnect only after a long backoff. StopAPIServer returns ErrNotOwner for a joined control plane.
func (c *ControlPlane) StopAPIServer() error {
	if c.unlock == nil {
		return fmt.Errorf("stop kube-apiserver: %w", ErrNotOwner)
	}
	c.endAll(clients())
	c.end("kube-apiserver", apiServerGrace)
	return nil
}

// StartAPIServer starts kube-apiserver again after StopAPIServer, on the same port, and returns when the API server is
// ready and the other components run.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	if c.unlock == nil {
		return fmt.Errorf("start kube-apiserver: %w", ErrNotOwner)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	if err := c.startAPIServer(ctx); err != nil {
		return fmt.Errorf("restart kube-apiserver: %w", err)
	}
	if err := releaseNodes(ctx, c.client); err != nil {
		return fmt.Errorf("after the restart of kube-apiserver: %w", err)
	}
	for _, name := range clients() {
		if err := c.run(name); err != nil {
			return fmt.Errorf("after the restart of kube-apiserver: %w", err)
		}
	}
	return nil
}

// clients returns the names of the components that are clients of kube-apiserver.
func clients() []string { return []string{"kube-controller-manager", "kube-scheduler", "kwok"} }

func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	if err := c.run("kube-apiserver"); err != nil {
		return err
	}
	return c.await(ctx, func(ctx context.Context) error {
		return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (c *ControlPlane) flags(name string) []string {
	switch name {
	case "etcd":
		return etcdFlags(c.layout, c.ports)
	case "kube-apiserver":
		return apiServerFlags(c.layout, c.ports, c.opts)
	case "kube-controller-manager":
		return controllerManagerFlags(c.layout, c.opts)
	case "kube-scheduler":
		return schedulerFlags(c.layout, c.opts)
	default:
		return kwokFlags(c.layout, c.opts)
	}
}

// run starts a component, and watches for its end. run also records the process, so that a later Start can kill the
// process if this program dies.
func (c *ControlPlane) run(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.running[name]; p != nil {
		return fmt.Errorf("start %s: it runs already", name)
	}
	log, err := os.OpenFile(c.layout.log(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	//nolint:noctx // A component lives longer than the call that starts it; the kernel and Stop end it.
	cmd := exec.Command(c.paths[name], c.flags(name)...)
	cmd.Dir = c.layout.state()
	cmd.Stdout, cmd.Stderr = log, log
	if name == "kwok" {
		// kwok may use more memory to save CPU time, because the program under test needs the CPU.
		cmd.Env = append(os.Environ(), "GOGC=400")
	}
	p, err := child.Start(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	c.running[name] = p
	go c.watch(name, p)
	return writeRecord(c.layout, c.running)
}

// watch waits for the end of a component, and records an unexpected end.
func (c *ControlPlane) watch(name string, p *child.Process) {
	<-p.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[name] != p {
		return
	}
	log := c.layout.log(name)
	c.failLocked(fmt.Errorf("%s died: %w; the end of %s:\n%s", name, p.Err(), log, tail(log)))
}

func (c *ControlPlane) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

func (c *ControlPlane) failLocked(err error) {
	select {
	case <-c.died:
	default:
		c.dead = err
		close(c.died)
	}
}

// end stops a running component.
func (c *ControlPlane) end(name string, grace time.Duration) {
	c.mu.Lock()
	p := c.running[name]
	delete(c.running, name)
	c.mu.Unlock()
	if p != nil {
		p.Stop(syscall.SIGTERM, grace)
	}
}

// stopAll stops clients before servers, so that the logs contain no connection errors.
func (c *ControlPlane) stopAll() {
	c.endAll(clients())
	c.end("kube-apiserver", stopGrace)
	c.end("etcd", stopGrace)
}

func (c *ControlPlane) endAll(names []string) {
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() { c.end(name, stopGrace) })
	}
	all.Wait()
}

func (c *ControlPlane) signalAll(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.running {
		if !p.Ended() {
			p.Signal(sig)
		}
	}
}

// await polls until check returns nil, a component ends, or ctx ends.
func (c *ControlPlane) await(ctx context.Context, check func(context.Context) error) error {
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.died:
			return c.dead
		default:
		}
		if cause := sleep.For(ctx, pollInterval); cause != nil {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}
}
