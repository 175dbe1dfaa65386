//go:build unix && !linux

package child

import "syscall"

// dieWithParent does nothing: only Linux has the signal.
func dieWithParent(*syscall.SysProcAttr) {}
