package realnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

const cgroups = "/sys/fs/cgroup"

// Prerequisites returns an error that names everything missing on this machine, with the remedies. nil means that a
// Node can run.
func Prerequisites(ctx context.Context) error {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root: namespaces, mounts and cgroups need it; run as root")
	}
	for command, remedy := range map[string]string{
		"go": "install Go", "cc": "apt-get install gcc libc6-dev", "ip": "apt-get install iproute2",
	} {
		if _, err := exec.LookPath(command); err != nil {
			missing = append(missing, fmt.Sprintf("command %s: %s", command, remedy))
		}
	}
	if !hasSeccomp(ctx) {
		missing = append(missing, "libseccomp with its headers (seccomp.h): apt-get install libseccomp-dev")
	}
	if _, err := os.Stat(filepath.Join(cgroups, "memory", "tasks")); err != nil {
		missing = append(missing, "cgroup v1 (no memory hierarchy in "+cgroups+"): boot with systemd.unified_cgroup_hierarchy=0")
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("a real node cannot run here; missing:\n  %s", strings.Join(missing, "\n  "))
}

// hasSeccomp reports whether the C compiler finds the header that runc needs.
func hasSeccomp(ctx context.Context) bool {
	cmd := exec.CommandContext(ctx, "cc", "-E", "-x", "c", "-")
	cmd.Stdin = strings.NewReader("#include <seccomp.h>\n")
	return cmd.Run() == nil
}

// hierarchies returns the cgroup hierarchies of the machine, also the hierarchy of version 2, because runc leaves empty
// cgroups there.
func hierarchies() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(cgroups, "*", "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	for i, file := range files {
		files[i] = filepath.Dir(file)
	}
	return files, nil
}

func createCgroups() error {
	all, err := hierarchies()
	if err != nil {
		return fmt.Errorf("list the cgroup hierarchies: %w", err)
	}
	for _, dir := range all {
		if err := os.MkdirAll(filepath.Join(dir, cgroupRoot), 0o755); err != nil {
			return fmt.Errorf("create the cgroup of the node: %w", err)
		}
	}
	return nil
}

// removeCgroups kills all processes in the Node's cgroups and removes the cgroups, the deepest first.
func removeCgroups(ctx context.Context) error {
	all, err := hierarchies()
	if err != nil {
		return fmt.Errorf("list the cgroup hierarchies: %w", err)
	}
	for _, dir := range all {
		root := filepath.Join(dir, cgroupRoot)
		for {
			err := removeCgroup(root)
			if err == nil {
				break
			}
			// A killed process stays in its cgroup for a moment.
			if cause := sleep.For(ctx, pollInterval); cause != nil {
				return fmt.Errorf("remove the cgroup %s of the node: %w", root, errors.Join(err, cause))
			}
		}
	}
	return nil
}

func removeCgroup(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Reverse(dirs)
	var failed error
	for _, dir := range dirs {
		killAll(filepath.Join(dir, "cgroup.procs"))
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = err
		}
	}
	return failed
}

// killAll kills the processes of a cgroup. All processes in the cgroup belong to a Node.
func killAll(procs string) {
	data, err := os.ReadFile(procs)
	if err != nil {
		return // the cgroup does not exist any more
	}
	for line := range strings.Lines(string(data)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func createBridge(ctx context.Context) error {
	for _, args := range [][]string{
		{"link", "add", bridgeName, "type", "bridge"},
		{"address", "add", bridgeAddress + "/24", "dev", bridgeName},
		{"link", "set", bridgeName, "up"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("create the bridge %s: ip %s: %w\n%s", bridgeName, strings.Join(args, " "), err, out)
		}
	}
	return nil
}

func removeBridge(ctx context.Context) error {
	if _, err := os.Stat("/sys/class/net/" + bridgeName); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "ip", "link", "delete", bridgeName).CombinedOutput(); err != nil {
		return fmt.Errorf("remove the bridge %s: %w\n%s", bridgeName, err, out)
	}
	return nil
}

// processOf returns the process that runs a program.
func processOf(program string) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == program {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, fmt.Errorf("no process runs %s", program)
}
