package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/fakeregistry"
	"github.com/workloadkit/workloadkit/testing/internal/filelock"
	"github.com/workloadkit/workloadkit/testing/internal/gobuild"
	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

const (
	startTimeout = 90 * time.Second
	stopGrace    = 10 * time.Second
	pollInterval = 25 * time.Millisecond
	repository   = "app"
)

// Options describe the Node to start.
type Options struct {
	// ControlPlane is the control plane to join. Stop the Node before its control plane.
	ControlPlane *controlplane.ControlPlane
	// Name is the name of the Node; empty means real-1.
	Name string
	// Binaries is the directory of binaries; missing binaries are built into it. Empty means a directory in the user's
	// cache.
	Binaries string
	// Progress receives a message for every slow step. Nil means no messages.
	Progress io.Writer
}

// Node is a running Node. Its methods may be called concurrently.
type Node struct {
	name     string
	layout   layout
	registry *fakeregistry.Registry
	program  []byte // the only file of all images
	unlock   func()
	process  *child.Process
	stopOnce sync.Once
	stopErr  error
}

// Start builds missing binaries, removes the remains of a killed run, and returns when the Node is Ready. ctx limits
// only the start; the Node runs until Stop is called or the process ends.
func Start(ctx context.Context, opts Options) (*Node, error) {
	if opts.ControlPlane == nil {
		return nil, errors.New("start real node: no control plane given")
	}
	if opts.Name == "" {
		opts.Name = "real-1"
	}
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	if err := Prerequisites(ctx); err != nil {
		return nil, fmt.Errorf("start real node: %w", err)
	}
	binaries, err := buildBinaries(ctx, opts.Binaries, opts.Progress)
	if err != nil {
		return nil, fmt.Errorf("start real node: %w", err)
	}
	dir := filepath.Join(os.TempDir(), "workloadkit-node")
	unlock, err := filelock.Try(dir + ".lock")
	if err != nil {
		return nil, fmt.Errorf("start real node: another one runs on this machine: %w", err)
	}
	n := &Node{name: opts.Name, layout: layout{dir: dir, binaries: binaries}, unlock: unlock}
	begin := clock.RealClock{}.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	if err := n.start(ctx, opts.ControlPlane); err != nil {
		logs := n.logTails()
		return nil, fmt.Errorf("start real node %s: %w%s", n.name, errors.Join(err, n.Stop(context.WithoutCancel(ctx))), logs)
	}
	fmt.Fprintf(opts.Progress, "starting the real node done in %.1f s\n", clock.RealClock{}.Since(begin).Seconds())
	return n, nil
}

func (n *Node) start(ctx context.Context, cp *controlplane.ControlPlane) error {
	if err := n.clean(ctx); err != nil {
		return err
	}
	var err error
	if n.program, err = os.ReadFile(n.layout.binary("app")); err != nil {
		return fmt.Errorf("read the program of the images: %w", err)
	}
	if n.registry, err = fakeregistry.New(ctx); err != nil {
		return err
	}
	if _, err := n.registry.Push("pause", "1", n.App("1", "pause")); err != nil {
		return err
	}
	if err := createCgroups(); err != nil {
		return err
	}
	if err := createBridge(ctx); err != nil {
		return err
	}
	port, err := child.FreePort(ctx, bridgeAddress)
	if err != nil {
		return err
	}
	if err := n.layout.write(n.name, cp.Kubeconfig(), n.registry.Host(), port); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	// The Node object of an earlier run with the same name would still have the Ready condition True.
	if err := client.CoreV1().Nodes().Delete(ctx, n.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the earlier node: %w", err)
	}
	if n.process, err = n.spawn(); err != nil {
		return err
	}
	return n.awaitReady(ctx, client)
}

// awaitReady returns when the Node is Ready and has no taints.
func (n *Node) awaitReady(ctx context.Context, client kubernetes.Interface) error {
	for {
		node, err := client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err == nil && ready(node) {
			return nil
		}
		select {
		case <-n.process.Done():
			return fmt.Errorf("process 1 ended: %w", n.process.Err())
		default:
		}
		if cause := sleep.For(ctx, pollInterval); cause != nil {
			return fmt.Errorf("wait for the node: %w", errors.Join(err, cause))
		}
	}
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}

// Name returns the name of the Node.
func (n *Node) Name() string { return n.name }

// Socket returns the path of the container runtime's socket, for CRI.
func (n *Node) Socket() string { return n.layout.socket() }

// KillRuntime kills containerd, and returns when the new containerd listens on a new socket with the same path.
// Containers continue to run.
func (n *Node) KillRuntime(ctx context.Context) error {
	program := n.layout.binary("containerd")
	pid, err := processOf(program)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill containerd: %w", err)
	}
	for {
		if next, err := processOf(program); err == nil && next != pid {
			if conn, err := (&net.Dialer{}).DialContext(ctx, "unix", n.Socket()); err == nil {
				return conn.Close()
			}
		}
		if err := sleep.For(ctx, pollInterval); err != nil {
			return fmt.Errorf("wait for containerd: %w", err)
		}
	}
}

// Registry returns the registry from which the Node pulls, for images and credentials of a test.
func (n *Node) Registry() *fakeregistry.Registry { return n.registry }

// App returns an image that starts the test program with the arguments and the environment variable VERSION. The test
// program is the only file.
func (n *Node) App(version string, args ...string) fakeregistry.Image {
	return fakeregistry.Image{
		Files:      []fakeregistry.File{{Name: "tmp/", Mode: 0o777}, {Name: "app", Mode: 0o755, Content: n.program}},
		Entrypoint: append([]string{"/app"}, args...), Env: []string{"VERSION=" + version},
	}
}

// Image returns the name of an image of the test program that reports the given version. If the image does not exist,
// Image makes the image.
func (n *Node) Image(version string) (string, error) {
	_, err := n.digest(version)
	return n.imageName(version), err
}

// digest returns the digest of the image of a version, and makes the image if it does not exist.
func (n *Node) digest(version string) (string, error) {
	if digest, err := n.registry.Digest(repository, version); err == nil {
		return digest, nil
	}
	return n.registry.Push(repository, version, n.App(version))
}

// Digest returns the name, by digest only, of the image of a version. If the image does not exist, it is created.
func (n *Node) Digest(version string) (string, error) {
	digest, err := n.digest(version)
	return n.registry.Host() + "/" + repository + "@" + digest, err
}

// Retag adds another tag to the image of a version, with the same digest, and returns the new name.
func (n *Node) Retag(version, tag string) (string, error) {
	return n.imageName(tag), n.registry.Tag(repository, version, tag)
}

func (n *Node) imageName(tag string) string { return n.registry.Host() + "/" + repository + ":" + tag }

// Cgroup reads a file of a container's cgroup, for example controller cpu, file cpu.cfs_quota_us. id is the container's
// ID, with or without the name of the runtime as prefix.
func (n *Node) Cgroup(pod types.UID, id, controller, file string) (string, error) {
	_, id, _ = strings.Cut(id, "://")
	pattern := filepath.Join(cgroups, controller, cgroupRoot, "kubepods", "*", "pod"+string(pod), id, file)
	paths, err := filepath.Glob(pattern)
	if guaranteed := filepath.Join(cgroups, controller, cgroupRoot, "kubepods", "pod"+string(pod), id, file); err == nil && len(paths) == 0 {
		paths = []string{guaranteed}
	}
	if err != nil {
		return "", fmt.Errorf("find the cgroup %s: %w", pattern, err)
	}
	data, err := os.ReadFile(paths[0])
	if err != nil {
		return "", fmt.Errorf("read the cgroup: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Stop ends the Node and removes all its files and cgroups. If ctx ends, Stop does not finish the cleanup. The caller
// may call Stop more than once.
func (n *Node) Stop(ctx context.Context) error {
	n.stopOnce.Do(func() {
		if n.process != nil {
			n.process.Stop(syscall.SIGKILL, stopGrace) // when process 1 dies, the kernel kills its whole PID namespace
		}
		if n.registry != nil {
			n.registry.Close()
		}
		ctx, cancel := context.WithTimeout(ctx, stopGrace)
		defer cancel()
		n.stopErr = n.clean(ctx)
		n.unlock()
	})
	return n.stopErr
}

// clean removes the files, cgroups and network of a Node after its process 1 has ended. The caller holds the lock, so
// no other Node runs.
func (n *Node) clean(ctx context.Context) error {
	err := errors.Join(removeCgroups(ctx), removeBridge(ctx), os.RemoveAll(n.layout.dir))
	if err != nil {
		return fmt.Errorf("remove what a node left: %w", err)
	}
	return nil
}

func (n *Node) logTails() string {
	var out strings.Builder
	for _, name := range []string{"nodeinit", "containerd", "kubelet"} {
		if data, err := os.ReadFile(filepath.Join(n.layout.logs(), name+".log")); err == nil {
			fmt.Fprintf(&out, "\n--- the end of the log of %s:\n%s", name, gobuild.LastLines(string(data), 20))
		}
	}
	return out.String()
}

// spawn starts process 1.
func (n *Node) spawn() (*child.Process, error) {
	log, err := os.Create(filepath.Join(n.layout.logs(), "nodeinit.log"))
	if err != nil {
		return nil, fmt.Errorf("start the node: %w", err)
	}
	defer func() { _ = log.Close() }()
	//nolint:noctx // The Node lives longer than the call that starts it; the kernel and Stop end it.
	cmd := exec.Command(n.layout.binary("nodeinit"), n.layout.file("init.json"))
	cmd.Dir = n.layout.dir
	cmd.Env = append(os.Environ(), "PATH="+n.layout.binaries+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	p, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("start the node: %w", err)
	}
	return p, nil
}
