package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	want := map[string]string{"go.mod": "module x\n\n--\n", "etcd/main.go": "package main\n// -- not a header\n"}
	if err := os.Mkdir(filepath.Join(from, "etcd"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range want {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	packed, err := Pack(from, []string{"go.mod", "etcd/main.go"})
	if err != nil {
		t.Fatal(err)
	}
	if err := Unpack(string(packed), to); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name := range want {
		data, err := os.ReadFile(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"hello\n":             "text before the first file name",
		"-- ../x --\nhello\n": `"../x" leads out of it`,
	} {
		if err := Unpack(text, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("unpack %q: error %v, want one with %q", text, err, want)
		}
	}
}
