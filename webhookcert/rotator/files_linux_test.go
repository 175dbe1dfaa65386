package rotator_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

const nobodyWritesTo = "WEBHOOKCERT_TEST_NOBODY_WRITES_TO"

// TestWriteFilesToAnotherUsersDirectory writes files as another user to an emptyDir owned by root. Only root can make
// such a directory, so without root the test uses a directory of the present user.
func TestWriteFilesToAnotherUsersDirectory(t *testing.T) {
	if directory := os.Getenv(nobodyWritesTo); directory != "" {
		if err := rotator.ReplaceFiles(directory, map[string][]byte{"tls.key": []byte("x")}); err != nil {
			t.Errorf("as user %d: %v", os.Getuid(), err)
		}
		return
	}
	directory := filepath.Join(t.TempDir(), "certs")
	open(t, directory, 0o777)
	for above := filepath.Dir(directory); above != filepath.Clean(os.TempDir()); above = filepath.Dir(above) {
		open(t, above, 0o755)
	}
	child := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), nobodyWritesTo+"="+directory)
	child.Dir = "/"
	if os.Getuid() == 0 {
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
