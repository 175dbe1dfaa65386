//go:build unix

package execprovider

import (
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// isTrusted reports whether root or the user of this process owns a file.
func isTrusted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int64(stat.Uid) == int64(os.Geteuid()))
}

// killChildren makes the end of the context kill the program's children too.
func killChildren(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}
