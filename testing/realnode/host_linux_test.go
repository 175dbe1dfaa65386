package realnode

import (
	"strings"
	"testing"
)

// TestPrerequisites: the error names everything missing, and the remedies.
func TestPrerequisites(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Prerequisites(t.Context())
	if err == nil {
		t.Fatal("no error without any command")
	}
	for _, want := range []string{
		"command go: install Go", "command cc: apt-get install gcc libc6-dev", "command ip: apt-get install iproute2",
		"libseccomp with its headers (seccomp.h): apt-get install libseccomp-dev",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error:\n%v", want, err)
		}
	}
}
