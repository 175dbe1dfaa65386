package gobuild_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/testing/internal/gobuild"
	"github.com/workloadkit/workloadkit/testing/internal/progress"
)

func set() gobuild.Set {
	return gobuild.Set{
		Modules: "-- hello/go.mod --\nmodule hello\n\ngo 1.26\n" +
			"-- hello/main.go --\npackage main\n\nvar version = \"none\"\n\nfunc main() { print(version) }\n" +
			"-- hello/broken/main.go --\npackage main\n\nfunc main() { nothing() }\n",
		Programs: []gobuild.Program{
			{Name: "hello", Module: "hello", Package: ".", LDFlags: "-X main.version=v7"},
			{Name: "broken", Module: "hello", Package: "./broken"},
		},
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "binaries")
	var log bytes.Buffer
	for range 2 { // the second call builds nothing
		if err := set().Build(t.Context(), dir, []string{"hello"}, progress.New(&log)); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "building hello (1/1) ..."); n != 1 {
		t.Errorf("it was built %d times:\n%s", n, log.String())
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "hello")).CombinedOutput()
	if diff := cmp.Diff("v7", string(out)); err != nil || diff != "" {
		t.Errorf("the program says (-want +got):\n%s%v", diff, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if diff := cmp.Diff([]string{filepath.Join(dir, ".lock"), filepath.Join(dir, "hello")}, left); err != nil || diff != "" {
		t.Errorf("in the directory (-want +got):\n%s%v", diff, err)
	}
}

func TestBrokenProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	err := set().Build(t.Context(), dir, []string{"broken"}, progress.New(nil))
	if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(err.Error(), "undefined: nothing") {
		t.Errorf("error %v, want one that shows what the compiler says", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "broken")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a binary all the same: %v", err)
	}
}

func TestCacheDirDependsOnEverything(t *testing.T) {
	t.Parallel()
	dirs := map[string]string{}
	for name, edit := range map[string]func(*gobuild.Set){
		"as it is":          func(*gobuild.Set) {},
		"another module":    func(s *gobuild.Set) { s.Modules += "\n" },
		"another flag":      func(s *gobuild.Set) { s.Programs[0].LDFlags = "" },
		"another name":      func(s *gobuild.Set) { s.Programs[0].Name = "hi" },
		"built with cgo":    func(s *gobuild.Set) { s.Programs[0].Cgo = true },
		"one program fewer": func(s *gobuild.Set) { s.Programs = s.Programs[:1] },
	} {
		s := set()
		edit(&s)
		dir, err := s.CacheDir(t.Context(), "test")
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := dirs[dir]; taken {
			t.Errorf("%q and %q have the directory %s", name, other, dir)
		}
		dirs[dir] = name
	}
}
