package rotator_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

func TestWriteFiles(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "certs")
	if err := os.MkdirAll(directory, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "tls.key"), []byte("in the way"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"one", "two", "three"} {
		err := rotator.ReplaceFiles(directory, map[string][]byte{"tls.crt": []byte(content), "tls.key": []byte(content)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(directory, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "WC-10: content", content, string(got))
	}
	entries, err := filepath.Glob(filepath.Join(directory, "*"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "WC-10: entries", 4, len(entries)) // two links, ..data and the target of ..data
	for _, bad := range []string{"", "a/b", "..data", ".."} {
		if err := rotator.ReplaceFiles(directory, map[string][]byte{bad: nil}); err == nil {
			t.Errorf("the name %q was taken", bad)
		}
	}
}

// TestWriteFilesModes: new directories are closed to other users. Existing directories keep their mode, because they
// may belong to somebody else, as an emptyDir or /tmp does.
func TestWriteFilesModes(t *testing.T) {
	tests := []struct {
		name   string
		before os.FileMode // mode of the directory; 0 if missing
		want   os.FileMode
	}{
		{name: "there is no directory", want: os.ModeDir | 0o700},
		{name: "an emptyDir", before: 0o777, want: os.ModeDir | 0o777},
		{name: "a directory for temporary files", before: os.ModeSticky | 0o777, want: os.ModeDir | os.ModeSticky | 0o777},
		{name: "a volume with a group", before: os.ModeSetgid | 0o770, want: os.ModeDir | os.ModeSetgid | 0o770},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			directory := filepath.Join(t.TempDir(), "certs")
			if test.before != 0 {
				open(t, directory, test.before)
			}
			if err := rotator.ReplaceFiles(directory, map[string][]byte{"tls.key": []byte("x")}); err != nil {
				t.Fatal(err)
			}
			modes := map[string]os.FileMode{}
			for _, name := range []string{".", "..data", "tls.key"} {
				info, err := os.Stat(filepath.Join(directory, name))
				if err != nil {
					t.Fatal(err)
				}
				modes[name] = info.Mode()
			}
			inside := modes["..data"] &^ os.ModeSetgid // new directories inherit the setgid bit
			modes["..data"] = inside
			same(t, "modes", map[string]os.FileMode{".": test.want, "..data": os.ModeDir | 0o700, "tls.key": 0o600}, modes)
		})
	}
}

// open makes a directory with exactly the given mode, whatever the umask.
func open(t *testing.T, directory string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(directory, mode); err != nil {
		t.Fatal(err)
	}
}

// TestWriteFilesKeepsWhatItHasLinked: if the link of a file cannot be made, for example because a directory has the
// same name, the write fails. The new data directory is kept, because the common link already points to the new
// directory.
func TestWriteFilesKeepsWhatItHasLinked(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "certs")
	if err := os.MkdirAll(filepath.Join(directory, "tls.key", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := rotator.ReplaceFiles(directory, map[string][]byte{"tls.key": []byte("x")}); err == nil {
		t.Fatal("a directory was replaced by a link")
	}
	got, err := os.ReadFile(filepath.Join(directory, "..data", "tls.key"))
	if err != nil || string(got) != "x" {
		t.Errorf("the data that ..data leads to: %q, %v", got, err)
	}
}

// TestUnwritableDirectory: a failure to write files does not delay writes of the Secret, and is retried separately.
func TestUnwritableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(file, "certs")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		r, observer := w.start(func(o *rotator.Options) { o.Validating, o.CRDs, o.Directory = nil, nil, directory })
		synctest.Wait()
		same(t, "bundles", map[string]int{"a.example.com": 1, "b.example.com": 1}, w.bundles())
		same(t, "initialised", true, closed(r.Initialised()))

		secret := w.secret()
		secret.Data["cert.pem"], secret.Data["tls.crt"] = []byte("x"), []byte("x")
		w.change(secret)
		synctest.Wait() // the fake clock does not advance
		policy, err := config().Complete()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := policy.Read(w.secret().Data); err != nil {
			t.Errorf("a leaf that was destroyed is not put right: %v", err)
		}

		w.pass(time.Hour)
		if n := len(observer.failed); n < 55 || n > 75 {
			t.Errorf("tried %d times in an hour, want one a minute and a few more in the beginning", n)
		}
		for _, err := range observer.failed {
			if !strings.Contains(err.Error(), directory) {
				t.Errorf("%v does not name %s", err, directory)
			}
		}
		same(t, "failed", []string{"Directory " + directory}, slices.Compact(slices.Sorted(slices.Values(observer.refs))))

		observer.failed = nil
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		bundle, err := os.ReadFile(filepath.Join(directory, "ca-cert.pem"))
		if err != nil || string(bundle) != string(r.Bundle()) {
			t.Errorf("a minute after it can be written the bundle in it differs: %v", err)
		}
	})
}
