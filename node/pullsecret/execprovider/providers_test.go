package execprovider_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workloadkit/workloadkit/node/pullsecret"
	"github.com/workloadkit/workloadkit/node/pullsecret/execprovider"
)

const v1 = "credentialprovider.kubelet.k8s.io/v1"

// node is the directory of the programs, with a file in which programs record their runs.
type node struct {
	t     *testing.T
	dir   string
	clock *clocktesting.FakePassiveClock

	options execprovider.Options
}

func newNode(t *testing.T) *node {
	n := &node{t: t, dir: t.TempDir(), clock: clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))}
	n.options = execprovider.Options{Environment: []string{"PATH=" + os.Getenv("PATH"), "RUNS=" + n.runs()}, Clock: n.clock}
	return n
}

func (n *node) runs() string { return filepath.Join(n.dir, "runs") }

// install installs a shell script as a program.
func (n *node) install(name, script string) string {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o600); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// ran returns the number of runs.
func (n *node) ran() int {
	n.t.Helper()
	raw, err := os.ReadFile(n.runs())
	if err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
	return strings.Count(string(raw), "\n")
}

// answer returns a script that records its run and writes a response. The number of the run is part of the user name.
func answer(cacheKeyType, cacheDuration, registry string) string {
	return fmt.Sprintf(`request=$(cat)
echo "$request" >> "$RUNS"
n=$(wc -l < "$RUNS")
echo '{"kind":"CredentialProviderResponse","apiVersion":"%s","cacheKeyType":"%s"%s,"auth":{"%s":{"username":"run'$((n))'","password":"p"}}}'`, v1, cacheKeyType, cacheDuration, registry)
}

func provider(name string, match ...string) execprovider.Provider {
	return execprovider.Provider{Name: name, MatchImages: match, APIVersion: v1, DefaultCacheDuration: &metav1.Duration{Duration: 12 * time.Hour}}
}

func (n *node) providers(of ...execprovider.Provider) *execprovider.Providers {
	n.t.Helper()
	config := execprovider.Config{TypeMeta: metav1.TypeMeta{APIVersion: "kubelet.config.k8s.io/v1", Kind: "CredentialProviderConfig"}, Providers: of}
	p, err := execprovider.New(config, n.dir, n.options)
	if err != nil {
		n.t.Fatal(err)
	}
	return p
}

func image(ref string) pullsecret.Image {
	host, path, _ := strings.Cut(ref, "/")
	return pullsecret.Image{Host: host, Path: path}
}

// get returns the user names for an image, and the reasons.
func get(t *testing.T, p *execprovider.Providers, ref string) (users, why string) {
	t.Helper()
	keyring, problems := p.For(t.Context(), image(ref))
	var names []string
	for _, c := range keyring.For(image(ref)) {
		names = append(names, c.Username)
	}
	return strings.Join(names, " "), problems.String()
}

func TestRequest(t *testing.T) {
	n := newNode(t)
	n.install("tool", answer("Image", "", "*.io"))
	p := n.providers(provider("tool", "reg.io"))
	if users, why := get(t, p, "reg.io/team/app"); users != "run1" || why != "" {
		t.Errorf("users %q, reasons %q", users, why)
	}
	raw, err := os.ReadFile(n.runs())
	want := `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"reg.io/team/app"}` + "\n"
	if diff := cmp.Diff(want, string(raw)); diff != "" || err != nil {
		t.Errorf("request: %v (-want +got):\n%s", err, diff)
	}
	if users, why := get(t, p, "other.io/app"); users != "" || why != "" || n.ran() != 1 {
		t.Errorf("a provider whose patterns do not match has run: users %q, reasons %q, %d runs", users, why, n.ran())
	}
}

// TestCache: responses are cached for the images and the time that the response says.
func TestCache(t *testing.T) {
	for _, c := range []struct {
		name, keyType, duration string
		steps                   []string // an image, an image after a call of Forget, or a duration that passes; then the expected user
	}{
		{"D-13 per image", "Image", "", []string{"a.io/x run1", "a.io/x run1", "a.io/y run2", "b.io/x run3", "a.io/y run2"}},
		{"D-13 per registry", "Registry", "", []string{"a.io/x run1", "a.io/y run1", "b.io/x run2", "a.io:5000/x run3"}},
		{"D-13 for all", "Global", "", []string{"a.io/x run1", "b.io/y run1"}},
		{"D-9 the default of 12 hours", "Image", "", []string{"a.io/x run1", "+12h0m0s", "a.io/x run1", "+1ns", "a.io/x run2"}},
		{"D-13 the duration of the response", "Image", `,"cacheDuration":"5m"`, []string{"a.io/x run1", "+5m", "a.io/x run1", "+1s", "a.io/x run2", "+5m", "a.io/x run2"}},
		{"D-13 no caching", "Global", `,"cacheDuration":"0s"`, []string{"a.io/x run1", "a.io/x run2"}},
		{"D-13 a negative duration is none", "Global", `,"cacheDuration":"-1h"`, []string{"a.io/x run1", "a.io/x run2"}},
		{"a null duration is the default", "Image", `,"cacheDuration":null`, []string{"a.io/x run1", "a.io/x run1"}},
		{"forgotten after a refusal", "Registry", "", []string{"a.io/x run1", "b.io/x run2", "forget a.io/y", "a.io/x run3", "b.io/x run2"}},
		{"a clock that goes back", "Image", "", []string{"a.io/x run1", "+-1h", "a.io/x run1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.install("tool", strings.ReplaceAll(answer(c.keyType, c.duration, "*.io"), `"auth":{`, `"auth":{"a.io:5000":{"username":"run'$((n))'","password":"p"},`))
			p := n.providers(provider("tool", "*.io", "a.io:5000"))
			for i, step := range c.steps {
				first, want, _ := strings.Cut(step, " ")
				switch {
				case first[0] == '+':
					d, err := time.ParseDuration(first[1:])
					if err != nil {
						t.Fatal(err)
					}
					n.clock.SetTime(n.clock.Now().Add(d))
				case first == "forget":
					p.Forget(image(want))
				default:
					if users, why := get(t, p, first); users != want || why != "" {
						t.Errorf("step %d: %s has %q, want %q; reasons %q", i, first, users, want, why)
					}
				}
			}
		})
	}
}

// TestFailures: a reason names a provider that fails, without its output, and the credentials of another provider are
// used.
func TestFailures(t *testing.T) {
	response := func(fields string) string {
		return "cat > /dev/null; echo '{" + fields + "}'"
	}
	right := `"kind":"CredentialProviderResponse","apiVersion":"` + v1 + `"`
	for _, c := range []struct {
		name, script, want string
	}{
		{"exit code", "echo hunter2; echo hunter2 >&2; exit 3", "ProviderFailed: CredentialProvider bad: the program has ended with exit status 3; run "},
		{"a signal", "kill -9 $$", "ProviderFailed: CredentialProvider bad: the program has ended with signal: killed; run "},
		{"no JSON", "echo hunter2", "InvalidResponse: CredentialProvider bad: the response is not a CredentialProviderResponse in JSON"},
		{"no output", "true", "InvalidResponse: CredentialProvider bad: the response is not a CredentialProviderResponse in JSON"},
		{"two responses", response(right+`,"cacheKeyType":"Image"`) + "; echo '{}'", "InvalidResponse: CredentialProvider bad: the response is not a CredentialProviderResponse in JSON"},
		{"another kind", response(`"kind":"CredentialProviderRequest","apiVersion":"` + v1 + `","cacheKeyType":"Image"`), "InvalidResponse: CredentialProvider bad: the kind of the response is not CredentialProviderResponse"},
		{"another version", response(`"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1","cacheKeyType":"Image"`), "InvalidResponse: CredentialProvider bad: the apiVersion of the response is not " + v1},
		{"no cache key type", response(right), "InvalidResponse: CredentialProvider bad: the cacheKeyType of the response is not Image, Registry or Global"},
		{"another cache key type", response(right + `,"cacheKeyType":"hunter2"`), "InvalidResponse: CredentialProvider bad: the cacheKeyType of the response is not Image, Registry or Global"},
		{"a duration that is none", response(right + `,"cacheKeyType":"Image","cacheDuration":"hunter2"`), "InvalidResponse: CredentialProvider bad: the response is not a CredentialProviderResponse in JSON"},
		{"too much", "while true; do echo hunter2hunter2hunter2; done", "InvalidResponse: CredentialProvider bad: the response has more than 4096 bytes"},
		{"a registry name that is none", response(right + `,"cacheKeyType":"Image","auth":{"hunter2%zz":{"username":"u","password":"p"}}`), "MalformedEntry: CredentialProvider bad: credentials[0].registry: the registry name is not a host with an optional port and path"},
		{"no interpreter", "", "ProviderFailed: CredentialProvider bad: the program cannot be run; run "},
		{"no credentials are no failure", response(right + `,"cacheKeyType":"Image","auth":null`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.options.Largest = 4096
			path := n.install("bad", c.script)
			if c.script == "" {
				if err := os.WriteFile(path, []byte("#!/does/not/exist\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			n.install("good", answer("Image", "", "reg.io"))
			users, why := get(t, n.providers(provider("bad", "reg.io"), provider("good", "reg.io")), "reg.io/app")
			if users != "run1" {
				t.Errorf("the other provider has no part: %q", users)
			}
			if !strings.HasPrefix(why, c.want) || c.want == "" && why != "" || strings.Contains(why, "hunter") {
				t.Errorf("reasons %q, want %q", why, c.want)
			}
		})
	}
}

func TestDiagnose(t *testing.T) {
	n := newNode(t)
	var got []string
	n.options.Diagnose = func(_ context.Context, provider, text string) {
		got = append(got, provider+": "+text[:10]+fmt.Sprint(" ", len(text)))
	}
	n.install("bad", `i=0; while [ $i -lt 1000 ]; do echo 0123456789 >&2; i=$((i+1)); done; exit 1`)
	n.install("good", answer("Image", "", "reg.io")+"; echo a warning >&2")
	if users, why := get(t, n.providers(provider("bad", "reg.io"), provider("good", "reg.io")), "reg.io/app"); users != "run1" || !strings.Contains(why, "exit status 1") {
		t.Errorf("users %q, reasons %q", users, why)
	}
	if diff := cmp.Diff([]string{"bad: 0123456789 4096"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTimeout: the program and its children are killed, and the caller does not wait for the children.
func TestTimeout(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"4.7 hangs", "sleep 1000", "ProviderFailed: CredentialProvider tool: the program has not ended within 300ms"},
		{"4.7 with a child that hangs", "sleep 1000 & sleep 1000", "ProviderFailed: CredentialProvider tool: the program has not ended within 300ms"},
		{"4.7 ignores what it may", "trap '' TERM INT HUP; sleep 1000", "ProviderFailed: CredentialProvider tool: the program has not ended within 300ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.options.Timeout = 300 * time.Millisecond
			n.install("tool", c.script)
			begin := time.Now()
			if users, why := get(t, n.providers(provider("tool", "reg.io")), "reg.io/app"); users != "" || why != c.want {
				t.Errorf("users %q, reasons %q, want %q", users, why, c.want)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("4.7 a child holds the output", func(t *testing.T) {
		t.Parallel()
		n := newNode(t)
		n.install("tool", "sleep 1000 & exit 0")
		users, why := get(t, n.providers(provider("tool", "reg.io")), "reg.io/app")
		if want := "ProviderFailed: CredentialProvider tool: a child of the program holds the output open; run "; users != "" || !strings.HasPrefix(why, want) {
			t.Errorf("users %q, reasons %q, want %q", users, why, want)
		}
	})
}

func TestContext(t *testing.T) {
	n := newNode(t)
	n.install("tool", `echo >> "$RUNS"; sleep 1000`)
	p := n.providers(provider("tool", "reg.io"))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	results := make(chan string, 3)
	for range 3 { // one caller runs the program, and two callers wait
		all.Go(func() {
			_, why := p.For(ctx, image("reg.io/app"))
			results <- why.String()
		})
	}
	for n.ran() == 0 {
		if ctx.Err() != nil || t.Context().Err() != nil {
			t.Fatal("no program has begun")
		}
	}
	cancel()
	all.Wait()
	close(results)
	for why := range results {
		if !strings.HasPrefix(why, "ProviderFailed") {
			t.Errorf("reasons %q", why)
		}
	}
	if n.ran() != 1 {
		t.Errorf("%d runs", n.ran())
	}
}

// TestTogether: concurrent callers for the same registry share one run of the program.
func TestTogether(t *testing.T) {
	n := newNode(t)
	n.install("tool", answer("Registry", "", "*.io"))
	p := n.providers(provider("tool", "*.io"))
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if keyring, why := p.For(t.Context(), image(fmt.Sprintf("reg.io/app%d", i))); keyring.IsEmpty() || len(why) > 0 {
				t.Errorf("no credentials: %v", why)
			}
		})
	}
	all.Wait()
	if n.ran() != 1 {
		t.Errorf("%d runs", n.ran())
	}
}

// TestOrder: longer registry names come first, and for equal registry names the credentials of an earlier provider.
func TestOrder(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"one", "two"} {
		n.install(name, strings.ReplaceAll(answer("Image", "", "reg.io"), "run'$((n))'", name))
	}
	n.install("three", strings.ReplaceAll(answer("Image", "", "reg.io/team"), "run'$((n))'", "three"))
	users, why := get(t, n.providers(provider("two", "reg.io"), provider("one", "reg.io"), provider("three", "reg.io")), "reg.io/team/app")
	if users != "three two one" || why != "" {
		t.Errorf("users %q, reasons %q", users, why)
	}
}

// TestEnvironment: a program gets the environment of Options and of the configuration, and no variable of the agent.
func TestEnvironment(t *testing.T) {
	t.Setenv("AGENT_SECRET", "hunter2")
	n := newNode(t)
	out := filepath.Join(n.dir, "out")
	n.install("tool", `env > "$OUT"; pwd >> "$OUT"; echo "$@" >> "$OUT"; exit 1`)
	p := provider("tool", "reg.io")
	p.Args = []string{"--region", "a b"}
	p.Env = []execprovider.Variable{{Name: "OUT", Value: out}, {Name: "AWS_PROFILE", Value: "of the configuration"}}
	n.options.Environment = execprovider.Inherit([]string{"PATH=" + os.Getenv("PATH"), "AWS_PROFILE=of the agent", "HOME=/root", "OTHER=x", "BROKEN"}, "PATH", "AWS_PROFILE", "HOME", "BROKEN")
	get(t, n.providers(p), "reg.io/app")
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got := "\n" + string(raw)
	for line, want := range map[string]bool{
		"\nAWS_PROFILE=of the configuration\n": true, "\nHOME=/root\n": true, "\n/\n--region a b\n": true,
		"of the agent": false, "OTHER": false, "AGENT_SECRET": false, "BROKEN": false,
	} {
		if strings.Contains(got, line) != want {
			t.Errorf("%q is there: %v\n%s", line, !want, got)
		}
	}
	n.options.Environment = nil
	get(t, n.providers(p), "reg.io/app")
	if raw, err = os.ReadFile(out); err != nil || strings.Contains(string(raw), "hunter2") || strings.Contains(string(raw), "HOME") {
		t.Errorf("without Options.Environment: %v\n%s", err, raw)
	}
}

// TestNoEnvironment: with an empty environment in Options, a program does not get the agent's environment.
func TestNoEnvironment(t *testing.T) {
	t.Setenv("AGENT_SECRET", "hunter2")
	n := newNode(t)
	out := filepath.Join(n.dir, "out")
	n.install("tool", "export -p > "+out+"; exit 1")
	n.options.Environment = []string{}
	get(t, n.providers(provider("tool", "reg.io")), "reg.io/app")
	if raw, err := os.ReadFile(out); err != nil || strings.Contains(string(raw), "hunter2") {
		t.Errorf("%v\n%s", err, raw)
	}
}

// TestChildren: at the timeout, the children of a program end with the program.
func TestChildren(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("processes are read from /proc")
	}
	n := newNode(t)
	n.options.Timeout = time.Second
	out := filepath.Join(n.dir, "pid")
	n.install("tool", "sleep 1000 & echo $! > "+out+"; wait")
	get(t, n.providers(provider("tool", "reg.io")), "reg.io/app")
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(raw)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("a child runs on: %s", stat)
		}
	}
}

func TestServiceAccount(t *testing.T) {
	n := newNode(t)
	n.install("tool", answer("Image", "", "reg.io"))
	required, optional := provider("tool", "reg.io"), provider("tool", "reg.io")
	yes, no := true, false
	required.TokenAttributes = &execprovider.TokenAttributes{ServiceAccountTokenAudience: "aud", CacheType: "Token", RequireServiceAccount: &yes}
	optional.TokenAttributes = &execprovider.TokenAttributes{ServiceAccountTokenAudience: "aud", CacheType: "Token", RequireServiceAccount: &no}
	p := n.providers(required)
	if users, why := get(t, p, "reg.io/app"); users != "" || why != "" || n.ran() != 0 {
		t.Errorf("users %q, reasons %q, %d runs", users, why, n.ran())
	}
	if want := "NeedsServiceAccount: CredentialProvider tool: a node agent pulls without service account"; p.Check().String() != want {
		t.Errorf("%q, want %q", p.Check(), want)
	}
	if users, why := get(t, n.providers(optional), "reg.io/app"); users != "run1" || why != "" {
		t.Errorf("users %q, reasons %q", users, why)
	}
}

// TestProgram: a program is refused if users other than root and the agent's user can change the program or its
// directory.
func TestProgram(t *testing.T) {
	chmod := func(path string, mode os.FileMode) {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		change func(n *node, program string)
		want   string // a part of the reason's text
	}{
		{"4.7 fine", func(*node, string) {}, ""},
		{"4.7 readable by all", func(n *node, program string) { chmod(program, 0o755); chmod(n.dir, 0o755) }, ""},
		{"4.7 missing", func(_ *node, program string) {
			if err := os.Remove(program); err != nil {
				t.Fatal(err)
			}
		}, "tool: the program cannot be found"},
		{"4.7 not executable", func(_ *node, program string) { chmod(program, 0o600) }, "tool: the program is not an executable file"},
		{"4.7 group-writable", func(_ *node, program string) { chmod(program, 0o770) }, "tool: the group or others may write"},
		{"4.7 writable by all", func(_ *node, program string) { chmod(program, 0o702) }, "tool: the group or others may write"},
		{"4.7 in a directory that is group-writable", func(n *node, _ string) { chmod(n.dir, 0o770) }, ": the group or others may write"},
		{"4.7 a directory", func(_ *node, program string) {
			if err := errors.Join(os.Remove(program), os.Mkdir(program, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, "tool: the program is not an executable file"},
		{"4.7 a link into a directory of others", func(_ *node, program string) {
			elsewhere := t.TempDir()
			chmod(elsewhere, 0o777)
			moved := filepath.Join(elsewhere, "moved")
			if err := errors.Join(os.Rename(program, moved), os.Symlink(moved, program)); err != nil {
				t.Fatal(err)
			}
		}, ": the group or others may write"},
		{"4.7 a link to a safe file, in a directory that is group-writable", func(n *node, program string) {
			moved := filepath.Join(t.TempDir(), "moved")
			if err := errors.Join(os.Chmod(filepath.Dir(moved), 0o755), os.Rename(program, moved), os.Symlink(moved, program), os.Chmod(n.dir, 0o770)); err != nil {
				t.Fatal(err)
			}
		}, ": the group or others may write"},
		{"4.7 a link to a safe file", func(_ *node, program string) {
			moved := filepath.Join(t.TempDir(), "moved")
			if err := errors.Join(os.Chmod(filepath.Dir(moved), 0o755), os.Rename(program, moved), os.Symlink(moved, program)); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"4.7 of another user", func(_ *node, program string) {
			if os.Geteuid() != 0 {
				t.Skip("only root gives files away")
			}
			if err := os.Chown(program, 12345, 0); err != nil {
				t.Fatal(err)
			}
		}, "tool: the owner is neither root nor the agent's user"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			chmod(n.dir, 0o755)
			c.change(n, n.install("tool", answer("Image", "", "reg.io")))
			p := n.providers(provider("tool", "reg.io"))
			users, why := get(t, p, "reg.io/app")
			if (c.want == "") != (users == "run1") || (c.want == "") != (why == "") || !strings.Contains(why, c.want) || c.want != "" && !strings.HasPrefix(why, "UnsafeProgram: CredentialProvider tool: ") {
				t.Errorf("users %q, reasons %q, want %q", users, why, c.want)
			}
			if checked := p.Check().String(); checked != why {
				t.Errorf("Check says %q, For says %q", checked, why)
			}
		})
	}
	t.Run("D-10 a program that is installed later", func(t *testing.T) {
		n := newNode(t)
		p := n.providers(provider("tool", "reg.io"))
		if users, why := get(t, p, "reg.io/app"); users != "" || !strings.HasPrefix(why, "UnsafeProgram") {
			t.Errorf("users %q, reasons %q", users, why)
		}
		n.install("tool", answer("Image", "", "reg.io"))
		if users, why := get(t, p, "reg.io/app"); users != "run1" || why != "" {
			t.Errorf("users %q, reasons %q", users, why)
		}
	})
}
