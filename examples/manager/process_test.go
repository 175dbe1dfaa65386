package manager_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// cluster is a control plane for a test, with the CRDs, the webhook configurations and the running managers.
type cluster struct {
	client.WithWatch
	t      *testing.T
	cp     *controlplane.ControlPlane
	binary string
	proxy  *proxy
}

// newCluster starts a control plane for a single test, because webhook configurations affect all requests to a
// control plane.
func newCluster(t *testing.T) *cluster { return newClusterOf(t, 5) }

// newClusterOf is newCluster with a number of Nodes.
func newClusterOf(t *testing.T, nodes int) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, Nodes: nodes, AuditLog: filepath.Join(dir, "audit.log"), Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	c, err := manager.NewClient(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	out := &cluster{WithWatch: c, t: t, cp: cp, binary: filepath.Join(dir, "kruise-manager"), proxy: newProxy(t)}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", out.binary, "../cmd/kruise-manager")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the manager: %v\n%s", err, text)
	}
	return out
}

// install applies CRDs and webhook configurations.
func (c *cluster) install() {
	c.t.Helper()
	for _, apply := range []func(context.Context, client.Client) error{config.InstallCRDs, config.InstallWebhooks} {
		if err := apply(c.t.Context(), c); err != nil {
			c.t.Fatal(err)
		}
	}
}

// process is a running manager.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    string
	health string
	once   sync.Once
}

// run starts a manager with webhooks reached through the cluster's proxy.
func (c *cluster) run(args ...string) *process {
	c.t.Helper()
	listen, health := freePort(c.t), freePort(c.t)
	p := &process{t: c.t, log: filepath.Join(c.t.TempDir(), "log"), health: fmt.Sprintf("http://127.0.0.1:%d", health)}
	file, err := os.Create(p.log)
	if err != nil {
		c.t.Fatal(err)
	}
	p.cmd = exec.Command(c.binary, append([]string{
		"--kubeconfig", c.cp.Kubeconfig(), "--metrics-addr=0", "--enable-pprof=false", "--logging-format=json",
		fmt.Sprintf("--health-probe-addr=127.0.0.1:%d", health), fmt.Sprintf("--webhook-listen-port=%d", listen),
	}, args...)...)
	p.cmd.Env = append(os.Environ(), "WEBHOOK_HOST=localhost", fmt.Sprintf("WEBHOOK_PORT=%d", c.proxy.port))
	p.cmd.Stdout, p.cmd.Stderr = file, file
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.proxy.add(listen)
	c.t.Cleanup(func() {
		p.end(syscall.SIGTERM)
		_ = file.Close()
		if c.t.Failed() {
			c.t.Logf("log of %s:\n%s", p.health, tail(p.read(), 8000))
		}
	})
	return p
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (p *process) read() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Error(err)
	}
	return string(raw)
}

// end sends a signal and waits for the process.
func (p *process) end(signal syscall.Signal) {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(signal)
		err := p.cmd.Wait()
		if err != nil && signal == syscall.SIGTERM {
			p.t.Errorf("manager: %v", err)
		}
	})
}

// untilReady waits for /readyz.
func (p *process) untilReady() {
	p.t.Helper()
	controlplanetest.Eventually(p.t, 30*time.Second, func(ctx context.Context) error { return get(ctx, p.health+"/readyz") })
}

// untilLogged waits for a text in the log.
func (p *process) untilLogged(text string) {
	p.t.Helper()
	controlplanetest.Eventually(p.t, 30*time.Second, func(context.Context) error {
		if !strings.Contains(p.read(), text) {
			return fmt.Errorf("%q is not logged", text)
		}
		return nil
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// proxy passes each connection on to the next of the replicas, as a Service does. The proxy skips a replica that does
// not accept connections.
type proxy struct {
	port int
	mu   sync.Mutex
	to   []int
	next int
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{port: listener.Addr().(*net.TCPAddr).Port}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go p.pass(from)
		}
	}()
	return p
}

func (p *proxy) add(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = append(p.to, port)
}

// dial connects to the next answering replica.
func (p *proxy) dial() net.Conn {
	p.mu.Lock()
	ports := append([]int(nil), p.to...)
	p.next++
	first := p.next
	p.mu.Unlock()
	for i := range ports {
		to, err := net.Dial("tcp", fmt.Sprintf("localhost:%d", ports[(first+i)%len(ports)]))
		if err == nil {
			return to
		}
	}
	return nil
}

func (p *proxy) pass(from net.Conn) {
	defer func() { _ = from.Close() }()
	to := p.dial()
	if to == nil {
		return
	}
	defer func() { _ = to.Close() }()
	done := make(chan struct{}, 2)
	copyTo := func(dst, src net.Conn) {
		_, _ = io.Copy(dst, src)
		done <- struct{}{}
	}
	go copyTo(to, from)
	go copyTo(from, to)
	<-done
}
