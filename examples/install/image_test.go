package install_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

const dockerfile = root + "/examples/cmd/kruise-manager/Dockerfile"

// step is an instruction of a Dockerfile.
type step struct{ name, rest string }

// stages reads a Dockerfile. The first element is the part before the first FROM, and each further element is a
// stage.
func stages(t testing.TB) [][]step {
	t.Helper()
	raw, err := os.ReadFile(dockerfile)
	if err != nil {
		t.Fatal(err)
	}
	out := [][]step{nil}
	for line := range strings.Lines(strings.ReplaceAll(string(raw), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		if name == "FROM" {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], step{name, strings.TrimSpace(rest)})
	}
	return out
}

// one returns the only instruction of a stage with a given name.
func one(t testing.TB, stage []step, name string) string {
	t.Helper()
	var found []string
	for _, s := range stage {
		if s.name == name {
			found = append(found, s.rest)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: %q, want one", name, found)
	}
	return found[0]
}

func TestImageIsNothingButTheProgram(t *testing.T) {
	all := stages(t)
	if len(all) != 3 {
		t.Fatalf("%d stages, want a build and an image", len(all)-1)
	}
	if got := one(t, all[0], "ARG"); got != "BASE=golang:1.26" {
		t.Errorf("ARG %s", got)
	}
	if got := one(t, all[1], "FROM"); got != "${BASE} AS build" {
		t.Errorf("FROM %s", got)
	}
	image := all[2]
	if got := one(t, image, "FROM"); got != "scratch" {
		t.Errorf("FROM %s", got)
	}
	if got := one(t, image, "COPY"); got != "--from=build /out/kruise-manager /kruise-manager" {
		t.Errorf("COPY %s", got)
	}
	if got := one(t, image, "ENTRYPOINT"); got != `["/kruise-manager"]` {
		t.Errorf("ENTRYPOINT %s", got)
	}
	// The Deployment and the image must have the same user and ports.
	pod := as[appsv1.Deployment](t, find(t, parse(t, kustomize(t)), "Deployment", "")).Spec.Template.Spec
	if got, want := one(t, image, "USER"), fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup); got != want || got != "65534:65534" {
		t.Errorf("USER %s, and the Deployment says %s", got, want)
	}
	var ports []string
	for _, port := range pod.Containers[0].Ports {
		ports = append(ports, strconv.Itoa(int(port.ContainerPort)))
	}
	if got := strings.Fields(one(t, image, "EXPOSE")); !slices.Equal(got, ports) {
		t.Errorf("EXPOSE %s, and the Deployment says %s", got, ports)
	}
}

// TestImageBuilds works without Docker: the test carries out the build stage itself, in a separate directory with the
// files of the build context.
func TestImageBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the manager once more, without cgo")
	}
	dir := t.TempDir()
	environment, work := os.Environ(), dir
	for _, s := range stages(t)[1] {
		switch s.name {
		case "FROM":
		case "ENV", "ARG":
			environment = append(environment, strings.Fields(s.rest)...)
		case "WORKDIR":
			work = filepath.Join(dir, s.rest)
		case "COPY":
			paths := strings.Fields(s.rest)
			to := paths[len(paths)-1]
			for _, from := range paths[:len(paths)-1] {
				copyContext(t, from, filepath.Join(dir, to))
			}
		case "RUN":
			cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(s.rest, " /out/", " "+dir+"/out/"))
			cmd.Dir, cmd.Env = work, environment
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("RUN %s: %v\n%s", s.rest, err, out)
			}
		default:
			t.Fatalf("this test does not know %s", s.name)
		}
	}
	binary := filepath.Join(dir, "out/kruise-manager")
	checkStatic(t, binary)
	help := exec.CommandContext(t.Context(), binary, "--help")
	help.Env, help.Dir = []string{}, t.TempDir()
	if out, err := help.CombinedOutput(); err != nil || !strings.Contains(string(out), "--feature-gates") {
		t.Errorf("--help: %v\n%s", err, out)
	}
	checkArguments(t, binary)
}

// copyContext copies the files below a path of the build context, as COPY does.
func copyContext(t testing.TB, from, to string) {
	t.Helper()
	info, err := os.Stat(filepath.Join(root, from))
	if err != nil {
		t.Fatal(err)
	}
	excluded := ignored(t)
	if !info.IsDir() {
		if excluded(from) {
			t.Fatalf("COPY %s: .dockerignore leaves it out", from)
		}
		copyFile(t, filepath.Join(root, from), filepath.Join(to, path.Base(from)))
		return
	}
	err = filepath.WalkDir(filepath.Join(root, from), func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, name)
		switch {
		case err != nil:
			return err
		case excluded(inside) && entry.IsDir():
			return fs.SkipDir
		case excluded(inside) || !entry.Type().IsRegular():
			return nil
		}
		copyFile(t, name, filepath.Join(to, inside))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700))
	if err == nil {
		err = os.WriteFile(to, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ignored returns a function that reports whether a pattern in .dockerignore matches a file. A pattern is a path from
// the root, and **/ matches any folder.
func ignored(t testing.TB) func(name string) bool {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	var patterns []*regexp.Regexp
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text := regexp.QuoteMeta(line)
		text = strings.ReplaceAll(text, `\*\*/`, `(.*/)?`)
		text = strings.ReplaceAll(text, `\*`, `[^/]*`)
		patterns = append(patterns, regexp.MustCompile("^"+text+"$"))
	}
	return func(name string) bool {
		return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(filepath.ToSlash(name)) })
	}
}

// checkStatic checks that the program needs no other file to run, because the image is built from scratch.
func checkStatic(t testing.TB, binary string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is linked dynamically: %s", p.Type)
		}
	}
}

// checkArguments starts the program with the Deployment's arguments: the default arguments, and the arguments from
// every value of the chart. The program must fail because there is no cluster, not because of an argument.
func checkArguments(t testing.TB, binary string) {
	t.Helper()
	for _, values := range [][]string{nil, {
		`featureGates="TemplateNoDefaults=true, CloneSetShortHash=true"`, `manager.loggingFormat="json"`, `manager.pprofAddr=""`,
		`manager.resyncPeriod="1h30m"`, `manager.webhook.port=19443`, `manager.webhook.host="kruise.test"`, `manager.metrics.secure=true`,
		`manager.extraArgs=["-logtostderr","--log_dir=/none"]`,
	}} {
		container := as[appsv1.Deployment](t, find(t, parse(t, must(t)(template(t, values...))), "Deployment", "")).Spec.Template.Spec.Containers[0]
		args := []string{"--kubeconfig=/no/such/file"}
		for _, arg := range container.Args {
			args = append(args, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", namespace)) // as the kubelet does
		}
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir = t.TempDir()
		for _, e := range container.Env {
			switch from := e.ValueFrom; {
			case from == nil:
			case from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory":
				e.Value = strconv.FormatInt(container.Resources.Limits.Memory().Value(), 10)
			case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace":
				e.Value = namespace
			default:
				t.Errorf("%s comes from %v", e.Name, from)
			}
			cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
		}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "reading kubeconfig") {
			t.Errorf("%v: %v\n%s", container.Args, err, out)
		}
	}
}
