// Package gobuild builds programs for tests into the user's cache. The package that uses gobuild embeds the Go modules
// of the programs.
package gobuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/internal/bundle"
	"github.com/workloadkit/workloadkit/testing/internal/filelock"
	"github.com/workloadkit/workloadkit/testing/internal/progress"
)

// Program describes how to build a binary.
type Program struct {
	Name string
	// Module is the directory of Package's module.
	Module, Package string
	Tags, LDFlags   string
	Cgo             bool
}

// Set is a set of programs to build.
type Set struct {
	// Modules is an archive in the format of package bundle.
	Modules  string
	Programs []Program
}

// CacheDir returns a directory in the user's cache. The name of the directory depends on all inputs of the build.
func (s Set) CacheDir(ctx context.Context, name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for binaries: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	// The command runs outside of any module, because a go.mod in the working directory could select another
	// toolchain.
	cmd.Dir = os.TempDir()
	version, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building binaries needs the go command on PATH: %w", err)
	}
	sum := sha256.Sum256(fmt.Append(version, s.Modules, s.Programs))
	return filepath.Join(cache, "workloadkit", name, hex.EncodeToString(sum[:8])), nil
}

// Build builds the named programs missing from the directory, sequentially. If several processes
// call Build, each program is built only once.
func (s Set) Build(ctx context.Context, dir string, names []string, p progress.Progress) error {
	if len(s.missing(dir, names)) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the directory of binaries: %w", err)
	}
	unlock, err := filelock.Wait(ctx, filepath.Join(dir, ".lock"), func() {
		p.Line("waiting for another process that builds into " + dir)
	})
	if err != nil {
		return fmt.Errorf("build binaries: %w", err)
	}
	defer unlock()
	source := filepath.Join(dir, ".source")
	if err := s.unpack(source); err != nil {
		return fmt.Errorf("build binaries: %w", err)
	}
	defer func() { _ = os.RemoveAll(source) }()
	todo := s.missing(dir, names)
	for i, program := range todo {
		label := fmt.Sprintf("building %s (%d/%d)", program.Name, i+1, len(todo))
		err := p.During(label, func() error { return program.build(ctx, source, filepath.Join(dir, program.Name)) })
		if err != nil {
			return fmt.Errorf("build %s: %w", program.Name, err)
		}
	}
	return nil
}

func (s Set) missing(dir string, names []string) []Program {
	var out []Program
	for _, p := range s.Programs {
		info, err := os.Stat(filepath.Join(dir, p.Name))
		if slices.Contains(names, p.Name) && (err != nil || !info.Mode().IsRegular()) {
			out = append(out, p)
		}
	}
	return out
}

// unpack writes the modules, and creates a directory for temporary files of an interrupted go command.
func (s Set) unpack(source string) error {
	if err := os.RemoveAll(source); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(source, "tmp"), 0o755); err != nil {
		return err
	}
	return bundle.Unpack(s.Modules, source)
}

// build writes to a temporary file and then renames the file, so that no process can start an incomplete binary.
func (p Program) build(ctx context.Context, source, path string) error {
	temporary := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	defer func() { _ = os.Remove(temporary) }()
	// Ending the context must also end the compilers that the go command starts.
	//nolint:noctx // child.Run ends the whole process group
	cmd := exec.Command("go", "build", "-trimpath", "-tags", p.Tags, "-ldflags", p.LDFlags, "-o", temporary, p.Package)
	cmd.Dir = filepath.Join(source, p.Module)
	cgo := "CGO_ENABLED=0"
	if p.Cgo {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), cgo, "GOWORK=off", "GOFLAGS=-mod=readonly", "GOTMPDIR="+filepath.Join(source, "tmp"))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := child.Run(ctx, cmd); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w\n%s", err, LastLines(output.String(), 20))
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("put the binary in place: %w", err)
	}
	return nil
}

// LastLines returns the last lines of a program's output.
func LastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
