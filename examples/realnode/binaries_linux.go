package realnode

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/internal/bundle"
)

const kubernetesVersion = "v1.36.3"

//go:embed binaries.txtar
var binariesModules string

// binary is one program of the Node and how it is built. The kubelet has a module of its own, so that it is built with the
// versions of the control plane's binaries, from the same build cache.
type binary struct{ name, module, pkg, tags, ldflags, cgo string }

func binaries() []binary {
	const p = " -X k8s.io/component-base/version."
	const versions = p + "gitVersion=" + kubernetesVersion + p + "gitMajor=1" + p + "gitMinor=36"
	const containerd = "github.com/containerd/containerd/v2/cmd/"
	const cni = "github.com/containernetworking/plugins/plugins/"
	const plain = "no_btrfs,no_zfs,no_devmapper"
	return []binary{
		{name: "nodeinit", module: "runtime", pkg: "./nodeinit", cgo: "0"},
		{name: "app", module: "runtime", pkg: "./app", cgo: "0"},
		{name: "kubelet", module: "kubelet", pkg: "k8s.io/kubernetes/cmd/kubelet", ldflags: versions, cgo: "0"},
		{name: "containerd", module: "runtime", pkg: containerd + "containerd", tags: plain, cgo: "0"},
		{name: "containerd-shim-runc-v2", module: "runtime", pkg: containerd + "containerd-shim-runc-v2", tags: plain, cgo: "0"},
		{name: "runc", module: "runtime", pkg: "github.com/opencontainers/runc", tags: "seccomp", cgo: "1"},
		{name: "bridge", module: "runtime", pkg: cni + "main/bridge", cgo: "0"},
		{name: "loopback", module: "runtime", pkg: cni + "main/loopback", cgo: "0"},
		{name: "host-local", module: "runtime", pkg: cni + "ipam/host-local", cgo: "0"},
	}
}

// buildBinaries returns the directory of the binaries and builds what is missing there.
func buildBinaries(ctx context.Context, dir string, progress io.Writer) (string, error) {
	var err error
	if dir == "" {
		dir, err = cacheDir(ctx)
	} else {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find a directory for binaries: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the directory of binaries: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return "", fmt.Errorf("build binaries: %w", err)
	}
	defer unlock()
	source := filepath.Join(dir, ".source")
	for _, b := range binaries() {
		path := filepath.Join(dir, b.name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := prepareSource(source); err != nil {
			return "", fmt.Errorf("build %s: %w", b.name, err)
		}
		begin := clock.RealClock{}.Now()
		if err := b.build(ctx, source, path); err != nil {
			return "", fmt.Errorf("build %s: %w", b.name, err)
		}
		fmt.Fprintf(progress, "building %s done in %.0f s\n", b.name, clock.RealClock{}.Since(begin).Seconds())
	}
	return dir, os.RemoveAll(source)
}

// prepareSource puts the modules in place, and beside them a directory for what an interrupted go command leaves.
func prepareSource(source string) error {
	if err := os.RemoveAll(source); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(source, "tmp"), 0o755); err != nil {
		return err
	}
	return bundle.Unpack(binariesModules, source)
}

// cacheDir lies in the user's cache under a hash of everything that determines the binaries.
func cacheDir(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	// A go.mod in the working directory would choose another toolchain.
	cmd.Dir = os.TempDir()
	version, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask the go command for its version: %w", err)
	}
	sum := sha256.Sum256(fmt.Append(version, binariesModules, binaries()))
	return filepath.Join(cache, "workloadkit", "node", hex.EncodeToString(sum[:8])), nil
}

// build writes to a temporary file and renames it, so that nobody ever starts half of a binary.
func (b binary) build(ctx context.Context, source, path string) error {
	temporary := path + ".tmp"
	defer func() { _ = os.Remove(temporary) }()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", b.tags, "-ldflags", "-s -w"+b.ldflags, "-o", temporary, b.pkg)
	cmd.Dir = filepath.Join(source, b.module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+b.cgo, "GOWORK=off", "GOFLAGS=-mod=readonly", "GOTMPDIR="+filepath.Join(source, "tmp"))
	// The go command has compilers for children: end the whole group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = stopGrace
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", errors.Join(context.Cause(ctx), err), lastLines(output.String()))
	}
	return os.Rename(temporary, path)
}

// lock waits for the lock of a file; the kernel drops it when this process dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		unlock, err := tryLock(path)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return unlock, err
		}
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("wait for the lock %s: %w", path, err)
		}
	}
}

func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the file to lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

// pause waits for a moment between two looks, or returns the cause when ctx ends first.
func pause(ctx context.Context) error {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
