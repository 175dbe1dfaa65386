package puller_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/puller"
	"github.com/workloadkit/workloadkit/node/pullsecret"
	"github.com/workloadkit/workloadkit/reason"
)

// scripted is a runtime that records each pull, with the time since the start of the test.
type scripted struct {
	begin time.Time
	pull  func(ctx context.Context, image string, credential *pullsecret.Credential) error
	list  error
	free  uint64

	mu     sync.Mutex
	stored []imagepull.Image
	calls  []string
}

func (s *scripted) Images(context.Context) ([]imagepull.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stored), s.list
}

func (s *scripted) FreeBytes(context.Context) (uint64, error) {
	if s.free == 0 {
		return 0, errors.New("no answer")
	}
	return s.free, nil
}

func (s *scripted) Pull(ctx context.Context, want imagepull.Want, credential *pullsecret.Credential) (string, error) {
	name := want.Image.Normal()
	s.mu.Lock()
	s.calls = append(s.calls, fmt.Sprintf("%v %s %v", time.Since(s.begin), name, credential))
	s.mu.Unlock()
	if err := s.pull(ctx, name, credential); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := imagepull.Image{ID: "id", Tags: []string{name}}
	if want.Image.Digest() != "" {
		i = imagepull.Image{ID: "id", Digests: []string{name}}
	}
	s.stored = append(s.stored, i)
	return "id", nil
}

type keyring struct {
	credentials []pullsecret.Credential
	err         error
}

func (k keyring) For(context.Context, imagepull.Want) (pullsecret.Keyring, error) {
	keyring, problems := pullsecret.New(k.credentials...)
	return keyring, errors.Join(k.err, problems.Err())
}

// takes returns a pull function that returns err after a time, or earlier when the context ends.
func takes(d time.Duration, err error) func(context.Context, string, *pullsecret.Credential) error {
	return func(ctx context.Context, _ string, _ *pullsecret.Credential) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return err
		}
	}
}

func wanted(p imagepull.Policy, images ...string) (out []imagepull.Want) {
	for _, image := range images {
		r, err := imagepull.Parse(image)
		if err != nil {
			panic(err)
		}
		out = append(out, imagepull.Want{Image: r, Claims: []imagepull.Claim{{Owner: "x", Policy: p}}})
	}
	return out
}

// agent is a Puller with a caller that calls Sync again after Step.After and after each pull.
type agent struct {
	*puller.Puller

	t        *testing.T
	done     chan struct{}
	recorded []imagepull.Report
	history  []string
	refuse   error // the error that Record returns
}

func start(t *testing.T, runtime *scripted, keys keyring, bounds imagepull.Bounds) *agent {
	runtime.begin = time.Now()
	a := &agent{t: t, done: make(chan struct{}, 100)}
	if bounds.Registries == nil {
		bounds.Registries = imagepull.Registries{"*"}
	}
	a.Puller = puller.New(runtime, keys, puller.Options{
		Bounds: bounds, Done: func() { a.done <- struct{}{} },
		Record: func(_ context.Context, reports []imagepull.Report) error {
			if a.refuse != nil {
				return a.refuse
			}
			a.recorded = reports
			var words []string
			for _, r := range reports {
				words = append(words, strings.TrimSpace(fmt.Sprint(r.Image.Name(), " ", r.Phase, " ", r.Message)))
			}
			if line := strings.Join(words, ", "); len(a.history) == 0 || !strings.HasSuffix(a.history[len(a.history)-1], "s "+line) {
				a.history = append(a.history, fmt.Sprint(time.Since(runtime.begin), " ", line))
			}
			return nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return a
}

// follow calls Sync until a time has passed.
func (a *agent) follow(wants []imagepull.Want, d time.Duration) {
	a.t.Helper()
	for end := time.Now().Add(d); ; {
		step, err := a.Sync(a.t.Context(), wants, a.recorded)
		if err != nil {
			a.t.Error(err)
		}
		synctest.Wait()
		left := time.Until(end)
		if step.After > 0 {
			left = min(left, step.After)
		}
		select {
		case <-a.done:
		case <-time.After(left):
		}
		if !time.Now().Before(end) {
			return
		}
	}
}

func TestPuller(t *testing.T) {
	secret := pullsecret.Credential{Registry: "docker.io/library/a", Source: reason.Object{Kind: "Secret", Namespace: "team", Name: "pull"}, Username: "user", Password: "pass-1234"}
	other := pullsecret.Credential{Registry: "docker.io", Source: reason.Object{Kind: "Provider", Name: "other"}, IdentityToken: "token-1234"}
	elsewhere := pullsecret.Credential{Registry: "quay.io", IdentityToken: "token-5678"}
	digest := "reg.io/a@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for _, c := range []struct {
		name    string
		pull    func(context.Context, string, *pullsecret.Credential) error
		keys    keyring
		policy  imagepull.Policy
		images  []string
		calls   []string
		history []string
	}{
		{
			"ND-12 one after the other",
			takes(3*time.Second, nil),
			keyring{},
			imagepull.Policy{},
			[]string{"a", "b:v1"},
			[]string{"0s docker.io/library/a:latest <nil>", "3s docker.io/library/b:v1 <nil>"},
			[]string{"0s a Pulling, b Waiting", "3s a Succeeded, b Pulling", "6s a Succeeded, b Succeeded"},
		},
		{
			"a digest is pulled by digest",
			takes(0, nil),
			keyring{},
			imagepull.Policy{},
			[]string{digest},
			[]string{"0s " + digest + " <nil>"},
			[]string{"0s reg.io/a Pulling", "0s reg.io/a Succeeded"},
		},
		{
			"ND-13 attempts and pauses",
			takes(0, errors.New("no such image")),
			keyring{},
			imagepull.Policy{Retries: 2},
			[]string{"a"},
			[]string{"0s docker.io/library/a:latest <nil>", "1s docker.io/library/a:latest <nil>", "3s docker.io/library/a:latest <nil>"},
			[]string{"0s a Pulling", "0s a Waiting no such image", "1s a Pulling", "1s a Waiting no such image", "3s a Pulling", "3s a Failed no such image"},
		},
		{
			"ND-13 the timeout",
			takes(time.Hour, nil),
			keyring{},
			imagepull.Policy{Timeout: 7 * time.Second},
			[]string{"a"},
			[]string{"0s docker.io/library/a:latest <nil>"},
			[]string{"0s a Pulling", "7s a Failed the attempt took longer than 7s context deadline exceeded"},
		},
		{
			"ND-15 the credentials in order",
			func(_ context.Context, _ string, c *pullsecret.Credential) error {
				if c.IdentityToken == "" {
					return errors.New("unauthorized")
				}
				return nil
			},
			keyring{credentials: []pullsecret.Credential{secret, other, elsewhere}},
			imagepull.Policy{},
			[]string{"a"},
			[]string{"0s docker.io/library/a:latest password for docker.io/library/a from Secret team/pull", "0s docker.io/library/a:latest identity token for docker.io from Provider other"},
			[]string{"0s a Pulling", "0s a Succeeded"},
		},
		{
			"ND-15 all credentials fail, and no anonymous pull follows",
			takes(0, errors.New("unauthorized: pass-1234, token-1234")),
			keyring{credentials: []pullsecret.Credential{secret, other, elsewhere}, err: errors.New("Secret team/old: not JSON")},
			imagepull.Policy{},
			[]string{"a"},
			[]string{"0s docker.io/library/a:latest password for docker.io/library/a from Secret team/pull", "0s docker.io/library/a:latest identity token for docker.io from Provider other"},
			[]string{"0s a Pulling", "0s a Failed Secret team/old: not JSON Secret team/pull: unauthorized: [redacted], [redacted] Provider other: unauthorized: [redacted], [redacted]"},
		},
		{
			"ND-65 an unreadable credential does not stop the pull",
			takes(0, nil),
			keyring{err: errors.New("Secret team/old: not JSON")},
			imagepull.Policy{},
			[]string{"a"},
			[]string{"0s docker.io/library/a:latest <nil>"},
			[]string{"0s a Pulling", "0s a Succeeded"},
		},
		{
			"ND-65 and is named if the pull fails",
			takes(0, reason.Final(errors.New("denied"))),
			keyring{err: errors.New("Secret team/old: not JSON")},
			imagepull.Policy{Retries: 1},
			[]string{"a"},
			[]string{"0s docker.io/library/a:latest <nil>", "1s docker.io/library/a:latest <nil>"},
			[]string{"0s a Pulling", "0s a Waiting Secret team/old: not JSON denied", "1s a Pulling", "1s a Failed Secret team/old: not JSON denied"},
		},
		{
			"a final error is not retried",
			takes(0, reason.Final(errors.New("denied"))),
			keyring{credentials: []pullsecret.Credential{secret}},
			imagepull.Policy{Retries: 5},
			[]string{"a"},
			[]string{"0s docker.io/library/a:latest password for docker.io/library/a from Secret team/pull"},
			[]string{"0s a Pulling", "0s a Failed Secret team/pull: denied"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runtime := &scripted{pull: c.pull}
				a := start(t, runtime, c.keys, imagepull.Bounds{})
				a.follow(wanted(c.policy, c.images...), time.Minute)
				if diff := cmp.Diff(c.calls, runtime.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.history, a.history); diff != "" {
					t.Errorf("history (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &scripted{}
		runtime.pull = func(ctx context.Context, _ string, _ *pullsecret.Credential) error {
			<-ctx.Done()
			time.Sleep(10 * time.Second) // a runtime that is slow to stop
			return ctx.Err()
		}
		a := start(t, runtime, keyring{}, imagepull.Bounds{})
		a.follow(wanted(imagepull.Policy{}, "a"), time.Second)
		a.follow(wanted(imagepull.Policy{}, "b"), 30*time.Second)
		// The result of the stopped pull of image a has no effect. The pull of image b begins when the runtime has
		// stopped the pull of image a.
		calls := []string{"0s docker.io/library/a:latest <nil>", "11s docker.io/library/b:latest <nil>"}
		if diff := cmp.Diff(calls, runtime.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"0s a Pulling", "1s b Waiting", "11s b Pulling"}, a.history); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}

func TestStopAndBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &scripted{}
		runtime.pull = func(ctx context.Context, _ string, _ *pullsecret.Credential) error {
			<-ctx.Done()
			time.Sleep(10 * time.Second) // a runtime that is slow to stop
			return ctx.Err()
		}
		a := start(t, runtime, keyring{}, imagepull.Bounds{})
		a.follow(wanted(imagepull.Policy{}, "a"), time.Second)
		a.follow(nil, time.Second)
		a.follow(wanted(imagepull.Policy{}, "a"), 30*time.Second)
		calls := []string{"0s docker.io/library/a:latest <nil>", "11s docker.io/library/a:latest <nil>"}
		if diff := cmp.Diff(calls, runtime.calls); diff != "" || a.Report()[0].Phase != imagepull.Pulling {
			t.Errorf("%+v (-want +got):\n%s", a.Report(), diff)
		}
	})
}

func TestStopBeforeTheBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &scripted{pull: takes(0, nil)}
		p := puller.New(runtime, keyring{}, puller.Options{Bounds: imagepull.Bounds{Registries: imagepull.Registries{"*"}}})
		for _, wants := range [][]imagepull.Want{wanted(imagepull.Policy{}, "a"), nil} {
			if _, err := p.Sync(t.Context(), wants, nil); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		if err := p.Start(ctx); err != nil || len(runtime.calls) > 0 {
			t.Errorf("%v, %v", err, runtime.calls)
		}
	})
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &scripted{pull: takes(time.Hour, nil)}
		wants := wanted(imagepull.Policy{Retries: 1}, "a")
		first := puller.New(runtime, keyring{}, puller.Options{Bounds: imagepull.Bounds{Registries: imagepull.Registries{"*"}}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- first.Start(ctx) }()
		if _, err := first.Sync(t.Context(), wants, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		recorded := first.Report()
		cancel()
		if err := <-ended; err != nil { // Start returns nil after the last pull has ended
			t.Error(err)
		}
		if step, err := first.Sync(t.Context(), wants, nil); err != nil || step.Reports[0].Message != "the agent ended during the pull" {
			t.Errorf("a pull that was cut off has a result: %v, %+v", err, step.Reports)
		}
		// The next agent reads the number of attempts from the recorded reports.
		second := start(t, runtime, keyring{}, imagepull.Bounds{})
		second.recorded = recorded
		second.follow(wants, 2*time.Second)
		if diff := cmp.Diff([]string{"0s a Waiting the agent ended during the pull", "1s a Pulling"}, second.history); diff != "" || second.recorded[0].Attempts != 2 {
			t.Errorf("%d attempts (-want +got):\n%s", second.recorded[0].Attempts, diff)
		}
	})
}

func TestRecordFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &scripted{pull: takes(time.Second, nil)}
		a := start(t, runtime, keyring{}, imagepull.Bounds{})
		wants := wanted(imagepull.Policy{}, "a")
		a.refuse = errors.New("conflict")
		sync := func() {
			t.Helper()
			if _, err := a.Sync(t.Context(), wants, nil); !errors.Is(err, a.refuse) {
				t.Error(err)
			}
			synctest.Wait()
		}
		if sync(); len(runtime.calls) > 0 || len(a.Report()) > 0 {
			t.Errorf("begun without a record: %v, %v", runtime.calls, a.Report())
		}
		refused := a.refuse
		a.refuse = nil
		sync()
		<-a.done
		a.refuse = refused // Record fails, and the result of the pull must not be lost
		sync()
		a.refuse = nil
		if sync(); a.Report()[0].Phase != imagepull.Succeeded || len(runtime.calls) != 1 {
			t.Errorf("%v, %v", a.Report(), runtime.calls)
		}
	})
}

func TestRuntimeSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &scripted{pull: takes(time.Second, nil), list: errors.New("no runtime"), free: 200}
		a := start(t, runtime, keyring{}, imagepull.Bounds{Floor: 100})
		wants := wanted(imagepull.Policy{}, "a")
		step, err := a.Sync(t.Context(), wants, nil)
		if !errors.Is(err, runtime.list) || !errors.Is(step.Why.Err(), imagepull.ImagesUnknown) || step.After <= 0 {
			t.Errorf("%v, %+v", err, step)
		}
		runtime.list, runtime.free = nil, 0
		step, err = a.Sync(t.Context(), wants, nil)
		if err == nil || !errors.Is(step.Why.Err(), imagepull.DiskBelowFloor) || len(runtime.calls) > 0 {
			t.Errorf("%v, %+v", err, step)
		}
		runtime.free = 200
		a.follow(wants, 2*time.Second)
		if len(runtime.calls) != 1 || a.Report()[0].Phase != imagepull.Succeeded {
			t.Errorf("%v, %v", runtime.calls, a.Report())
		}
	})
}

func TestCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &scripted{pull: takes(0, nil)}
		a := start(t, runtime, keyring{}, imagepull.Bounds{})
		wants := wanted(imagepull.Policy{Keep: true}, "a")
		present := func() string { return string(imagepull.Condition("ImagesPresent", 0, wants, a.Report()).Status) }
		a.follow(wants, time.Second)
		was := present()
		runtime.stored = nil
		a.follow(wants, time.Second)
		gone := present()
		a.follow(wants, 2*time.Minute)
		if is := present(); was != "True" || gone != "False" || is != "True" {
			t.Errorf("%s, %s, %s: %v", was, gone, is, a.history)
		}
		if diff := cmp.Diff([]string{"0s docker.io/library/a:latest <nil>", "1m1s docker.io/library/a:latest <nil>"}, runtime.calls); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestErrorsAreRedacted(t *testing.T) {
	c := pullsecret.Credential{Registry: "docker.io", Source: reason.Object{Kind: "Secret", Namespace: "team", Name: "pull"}, Username: "user-1", Password: "value-1"}
	token := pullsecret.Credential{Registry: "docker.io", Source: c.Source, RegistryToken: "value-2"}
	synctest.Test(t, func(t *testing.T) {
		basic := base64.StdEncoding.EncodeToString([]byte("user-1:value-1"))
		runtime := &scripted{pull: takes(0, fmt.Errorf("echo: %s value-1 value-2", basic))}
		a := start(t, runtime, keyring{credentials: []pullsecret.Credential{c, token}}, imagepull.Bounds{})
		a.follow(wanted(imagepull.Policy{}, "a"), time.Second)
		const each = "Secret team/pull: echo: [redacted] [redacted] [redacted]"
		if diff := cmp.Diff(each+" "+each, strings.ReplaceAll(a.Report()[0].Message, "\n", " ")); diff != "" {
			t.Errorf("ND-64 (-want +got):\n%s", diff)
		}
	})
}
