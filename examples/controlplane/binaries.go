package controlplane

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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/workloadkit/workloadkit/examples/internal/bundle"
)

// BinariesEnv names the environment variable that overrides where binaries are kept, like [Options.Binaries].
const BinariesEnv = "WORKLOADKIT_BINARIES"

const (
	kubernetesVersion = "v1.36.3"
	kubernetesMajor   = "1"
	kubernetesMinor   = "36"
)

//go:embed binaries.txtar
var binariesModule string

// Binaries lists the names that [Binary] knows.
func Binaries() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"}
}

// Binary returns the path of the named binary and builds it first if it is missing. Only Binaries and Progress of the options
// are used. Concurrent calls, in other processes too, build it once.
func Binary(ctx context.Context, name string, opts Options) (string, error) {
	paths, err := buildBinaries(ctx, []string{name}, opts)
	if err != nil {
		return "", err
	}
	return paths[name], nil
}

// buildBinaries returns where the named binaries lie and builds what is missing, one after the other.
func buildBinaries(ctx context.Context, names []string, opts Options) (map[string]string, error) {
	for _, name := range names {
		if !slices.Contains(Binaries(), name) {
			return nil, fmt.Errorf("no binary %q: there are %s", name, strings.Join(Binaries(), ", "))
		}
	}
	dir, err := binariesDir(ctx, opts)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, name := range names {
		paths[name] = filepath.Join(dir, name)
	}
	if len(missing(paths, names)) == 0 {
		return paths, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory of binaries: %w", err)
	}
	progress := newProgress(opts.Progress)
	unlock, err := waitLock(ctx, filepath.Join(dir, ".lock"), func() {
		progress.line("waiting for another process that builds into " + dir)
	})
	if err != nil {
		return nil, fmt.Errorf("build binaries: %w", err)
	}
	defer unlock()
	source, err := unpackSource(dir)
	if err != nil {
		return nil, fmt.Errorf("build binaries: %w", err)
	}
	defer func() { _ = os.RemoveAll(source) }()
	todo := missing(paths, names)
	for i, name := range todo {
		label := fmt.Sprintf("building %s (%d/%d)", name, i+1, len(todo))
		err := progress.during(label, func() error { return goBuild(ctx, source, name, paths[name]) })
		if err != nil {
			return nil, fmt.Errorf("build %s: %w", name, err)
		}
	}
	return paths, nil
}

// unpackSource puts the module in place, and in it a directory for what the go command leaves behind when it is interrupted.
func unpackSource(dir string) (string, error) {
	source := filepath.Join(dir, ".source")
	if err := os.RemoveAll(source); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(source, "tmp"), 0o755); err != nil {
		return "", err
	}
	return source, bundle.Unpack(binariesModule, source)
}

func missing(paths map[string]string, names []string) []string {
	var out []string
	for _, name := range names {
		if info, err := os.Stat(paths[name]); err != nil || !info.Mode().IsRegular() {
			out = append(out, name)
		}
	}
	return out
}

// binariesDir is where binaries are kept: as told, or in the user's cache under a hash of everything that determines them.
func binariesDir(ctx context.Context, opts Options) (string, error) {
	if dir := opts.Binaries; dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv(BinariesEnv); dir != "" {
		return filepath.Abs(dir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for binaries (set %s to choose one): %w", BinariesEnv, err)
	}
	version, err := goVersion(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{binariesModule, ldflags(), version}, "\x00")))
	return filepath.Join(cache, "workloadkit", "binaries", hex.EncodeToString(sum[:8])), nil
}

func goVersion(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	// A go.mod in the working directory would choose another toolchain.
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building the binaries needs the go command on PATH: %w", err)
	}
	return string(out), nil
}

func ldflags() string {
	const p = " -X k8s.io/component-base/version."
	return "-s -w" + p + "gitVersion=" + kubernetesVersion + p + "gitMajor=" + kubernetesMajor + p + "gitMinor=" + kubernetesMinor
}

// goBuild builds one binary into a temporary file and renames it, so that nobody ever starts half of one.
func goBuild(ctx context.Context, source, name, path string) error {
	temporary := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	defer func() { _ = os.Remove(temporary) }()
	//nolint:noctx // Ending the context must end the compilers that the go command starts too, see below.
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", ldflags(), "-o", temporary, packageOf(name))
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOTMPDIR="+filepath.Join(source, "tmp"))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := runGroup(ctx, cmd); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w\n%s", err, lastLines(output.String(), 20))
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("put the binary in place: %w", err)
	}
	return nil
}

func packageOf(name string) string {
	switch name {
	case "etcd":
		return "./etcd"
	case "kwok":
		return "sigs.k8s.io/kwok/cmd/kwok"
	default:
		return "k8s.io/kubernetes/cmd/" + name
	}
}

// runGroup runs a command in a process group of its own and, when ctx ends, stops the whole group: the go command has
// compilers for children.
func runGroup(ctx context.Context, cmd *exec.Cmd) error {
	p, err := spawn(cmd)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.stop(syscall.SIGINT, 5*time.Second)
		return errors.Join(context.Cause(ctx), p.err)
	}
}

// progress reports what takes long, with one live line where the writer is a terminal.
type progress struct {
	w        io.Writer
	terminal bool
}

func newProgress(w io.Writer) progress {
	if w == nil {
		return progress{w: io.Discard}
	}
	f, ok := w.(*os.File)
	if !ok {
		return progress{w: w}
	}
	info, err := f.Stat()
	return progress{w: w, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (p progress) line(text string) { fmt.Fprintln(p.w, text) }

// during runs f and reports it under the label with the seconds it takes.
func (p progress) during(label string, f func() error) error {
	start := time.Now()
	seconds := func() int { return int(time.Since(start).Round(time.Second).Seconds()) }
	if !p.terminal {
		p.line(label + " ...")
		err := f()
		if err == nil {
			fmt.Fprintf(p.w, "%s done in %d s\n", label, seconds())
		}
		return err
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		fmt.Fprintf(p.w, "\r%s ... %d s", label, seconds())
		select {
		case err := <-done:
			fmt.Fprintf(p.w, "\r%s ... %d s\n", label, seconds())
			return err
		case <-tick.C:
		}
	}
}
