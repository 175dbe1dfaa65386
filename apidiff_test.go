package workloadkit_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAPIDiff: the script .ci/apidiff fails only for an incompatible change that the changelog does not announce.
func TestAPIDiff(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a repository for each case")
	}
	const header = "# Changelog\n\nIncompatible changes begin with **BREAKING**.\n\n## Unreleased\n\n"
	const before = "package box\n\ntype Box struct{ Size int }\n\nfunc Open(Box) {}\n"
	tests := []struct {
		name             string
		untagged         bool
		before           string // source before the change; empty for the default, a type Box
		after, changelog string
		ok               bool
		want             string
	}{
		{name: "no tag", untagged: true, after: "package box\n", ok: true, want: "no tag v* yet"},
		{name: "nothing changed", after: before, ok: true, want: "since v0.1.0: 0 incompatible changes"},
		{name: "compatible", after: before + "\nfunc Close(Box) {}\n", ok: true, want: "0 incompatible changes"},
		{name: "removed, not announced", after: "package box\n\ntype Box struct{ Size int }\n", want: "- ./box.Open: removed"},
		{name: "removed, announced without the mark", after: "package box\n\ntype Box struct{ Size int }\n", changelog: "- `box`: `Open` is gone.\n", want: "- ./box.Open: removed"},
		{
			name: "removed, announced for an earlier version", after: "package box\n\ntype Box struct{ Size int }\n",
			changelog: "- Nothing.\n\n## v0.1.0\n\n- **BREAKING** `box`: `Open` is gone.\n", want: "- ./box.Open: removed",
		},
		{name: "removed, another announced", after: "package box\n\ntype Box struct{ Size int }\n", changelog: "- **BREAKING** `box`: `Opener` is gone.\n", want: "- ./box.Open: removed"},
		{
			name: "announced in two entries, each half of it", after: "package box\n\ntype Box struct{ Size int }\n",
			changelog: "- **BREAKING** `box` is smaller.\n- `Open` is gone.\n", want: "- ./box.Open: removed",
		},
		{
			name: "removed, announced", after: "package box\n\ntype Box struct{ Size int }\n",
			changelog: "- More.\n- **BREAKING** `box`: boxes are open,\n  so `Open` is gone.\n", ok: true, want: "1 incompatible changes, all announced",
		},
		{
			name: "one of two announced", after: "package box\n\ntype Box struct{ Size string }\n",
			changelog: "- **BREAKING** `box`: `Open` is gone.\n", want: "- ./box.Box.Size: changed from int to string",
		},
		{
			name: "a method of a generic type, announced", ok: true, want: "all announced",
			before: "package box\n\ntype Box[T any] struct{}\n\nfunc (*Box[T]) Put(T) {}\n",
			after:  "package box\n\ntype Box[T any] struct{}\n", changelog: "- **BREAKING** `box`: `Box.Put` is gone.\n",
		},
		{name: "package removed", want: "- package example.com/kit/box: removed"},
		{name: "package removed, announced", changelog: "- **BREAKING** `box` is gone.\n", ok: true, want: "all announced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			r.write("CHANGELOG.md", header)
			r.write("box/box.go", cmp.Or(tt.before, before))
			r.commit()
			if !tt.untagged {
				r.git("tag", "v0.1.0")
			}
			r.write("CHANGELOG.md", header+tt.changelog)
			if tt.after == "" {
				r.git("rm", "-rq", "box")
				r.write("other/other.go", "package other\n")
			} else {
				r.write("box/box.go", tt.after)
			}
			r.commit()
			out, err := r.run("bash", ".ci/apidiff")
			if (err == nil) != tt.ok || !strings.Contains(out, tt.want) {
				t.Errorf("error %v, want none: %t; want %q in the output:\n%s", err, tt.ok, tt.want, out)
			}
		})
	}
}

// repository is a module under version control with the script under test.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, t.TempDir()}
	r.git("init", "-q")
	r.write("go.mod", "module example.com/kit\n\ngo 1.26.0\n")
	for _, file := range []string{".ci/apidiff", "tools/go.mod", "tools/go.sum"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r.write(file, string(raw))
	}
	return r
}

func (r *repository) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *repository) commit() {
	r.t.Helper()
	r.git("add", "-A")
	r.git("-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--allow-empty", "-qm", "change")
}

func (r *repository) git(args ...string) {
	r.t.Helper()
	if out, err := r.run("git", args...); err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// run runs a command in the repository, without the git configuration of the user or of an enclosing repository.
func (r *repository) run(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), name, args...)
	cmd.Dir = r.dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GIT_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
