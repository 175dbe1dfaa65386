package stopper_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/containerrestart/stopper"
	"github.com/workloadkit/workloadkit/reason"
)

// scripted is a runtime that records its calls, with the seconds since the start of the test.
type scripted struct {
	begin time.Time
	stop  func(ctx context.Context, attempt int) error
	exec  func(ctx context.Context) (int32, error)

	mu    sync.Mutex
	stops int
	calls []string
}

func (s *scripted) note(format string, args ...any) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf("%v ", time.Since(s.begin))+fmt.Sprintf(format, args...))
	s.stops++
	return s.stops
}

func (s *scripted) Stop(ctx context.Context, id string, grace time.Duration) error {
	attempt := s.note("stop %s %v", id, grace)
	if s.stop == nil {
		return nil
	}
	return s.stop(ctx, attempt)
}

func (s *scripted) Exec(ctx context.Context, id string, command []string, limit time.Duration) (int32, error) {
	s.note("exec %s %v %v", id, command, limit)
	return s.exec(ctx)
}

// after returns a result after a time, or an error when the context ends.
func after[T any](ctx context.Context, d time.Duration, result T) (none T, err error) {
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case <-time.After(d):
		return result, nil
	}
}

func TestStop(t *testing.T) {
	second := containerrestart.Grace(time.Second)
	exec := containerrestart.Hook{Exec: []string{"bye", "now"}}
	takes := func(d time.Duration, code int32) func(context.Context) (int32, error) {
		return func(ctx context.Context) (int32, error) { return after(ctx, d, code) }
	}
	hangs := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	for _, c := range []struct {
		name  string
		order stopper.Order
		exec  func(context.Context) (int32, error)
		stop  func(context.Context, int) error
		calls []string
		hook  string // a part of the hook's error text
		err   string
		took  time.Duration
	}{
		{name: "no hook", order: stopper.Order{Grace: 30 * second}, calls: []string{"0s stop a0 30s"}},
		{name: "CR-28 the hook takes from the grace", order: stopper.Order{Grace: 30 * second, Hook: exec}, exec: takes(12*time.Second, 0), calls: []string{"0s exec a0 [bye now] 30s", "12s stop a0 18s"}, took: 12 * time.Second},
		{name: "CR-28 and is ended with the grace", order: stopper.Order{Grace: 30 * second, Hook: exec}, exec: takes(time.Hour, 0), calls: []string{"0s exec a0 [bye now] 30s", "30s stop a0 2s"}, hook: "HookFailed", took: 30 * time.Second},
		{name: "CR-28 a hook that fails", order: stopper.Order{Grace: 30 * second, Hook: exec}, exec: takes(time.Second, 3), calls: []string{"0s exec a0 [bye now] 30s", "1s stop a0 29s"}, hook: `HookFailed: command "bye": exit code 3`, took: time.Second},
		{name: "CR-29 without grace no hook", order: stopper.Order{Hook: exec}, calls: []string{"0s stop a0 2s"}},
		{name: "4.6 sleep", order: stopper.Order{Grace: 30 * second, Hook: containerrestart.Hook{Sleep: 7 * time.Second}}, calls: []string{"7s stop a0 23s"}, took: 7 * time.Second},
		{name: "4.6 sleep beyond the grace", order: stopper.Order{Grace: 5 * second, Hook: containerrestart.Hook{Sleep: 7 * time.Second}}, calls: []string{"5s stop a0 2s"}, took: 5 * time.Second},
		{
			name: "the runtime is away for a moment", order: stopper.Order{Grace: 5 * second},
			stop: func(_ context.Context, attempt int) error {
				if attempt < 3 {
					return errors.New("connection refused")
				}
				return nil
			},
			calls: []string{"0s stop a0 5s", "200ms stop a0 4.8s", "600ms stop a0 4.4s"}, took: 600 * time.Millisecond,
		},
		{
			name: "the runtime refuses", order: stopper.Order{Grace: 5 * second}, stop: func(context.Context, int) error { return reason.Final(errors.New("no such thing")) },
			calls: []string{"0s stop a0 5s"}, err: "stop of a0: no such thing",
		},
		{
			name: "the runtime hangs", order: stopper.Order{Grace: 10 * second}, stop: hangs,
			calls: []string{"0s stop a0 10s", "30.2s stop a0 2s", "52.6s stop a0 2s", "1m15.4s stop a0 2s", "1m39s stop a0 2s", "2m4.2s stop a0 2s"}, err: "deadline exceeded",
			took: 146*time.Second + 200*time.Millisecond,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := &scripted{begin: time.Now(), stop: c.stop, exec: c.exec}
				c.order.ID = "a0"
				hook, err := stopper.Stop(t.Context(), fake, clock.RealClock{}, c.order)
				took := time.Since(fake.begin)
				if diff := cmp.Diff(c.calls, fake.calls); diff != "" || took != c.took {
					t.Errorf("after %v, calls (-want +got):\n%s", took, diff)
				}
				if !says(hook, c.hook) || !says(err, c.err) {
					t.Errorf("hook %v, error %v", hook, err)
				}
				if hook != nil && !errors.Is(hook, stopper.HookFailed) {
					t.Errorf("%v is no reason", hook)
				}
			})
		})
	}
}

// says reports whether err contains words; if words is empty, err must be nil.
func says(err error, words string) bool {
	return (err == nil) == (words == "") && (err == nil || strings.Contains(err.Error(), words))
}

func TestHTTP(t *testing.T) {
	var elsewhere atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) }))
	defer other.Close()
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}
	asked := make(chan string, 10)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host + " " + r.URL.RequestURI() + " " + r.Header.Get("X-Why")
		switch r.URL.Path {
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/elsewhere":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/endless":
			endless(w, r)
		case "/hangs":
			<-r.Context().Done()
		}
	})
	for _, secure := range []bool{false, true} {
		server := httptest.NewUnstartedServer(handler)
		scheme := "http"
		if server.Start(); secure {
			server.Close()
			server = httptest.NewUnstartedServer(handler)
			server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			server.StartTLS()
			scheme = "https"
		}
		t.Cleanup(server.Close)
		for _, c := range []struct {
			path  string
			grace time.Duration
			want  string
		}{
			{"/fine?x=1", time.Minute, ""},
			{"/gone", time.Minute, "410 Gone"},
			{"/elsewhere", time.Minute, ""},
			{"/endless", time.Minute, ""},
			{"/hangs", 50 * time.Millisecond, "deadline exceeded"},
		} {
			t.Run(scheme+c.path, func(t *testing.T) {
				fake := &scripted{}
				hook, err := stopper.Stop(t.Context(), fake, clock.RealClock{}, stopper.Order{
					ID: "a0", Grace: containerrestart.Grace(c.grace), Hook: containerrestart.Hook{HTTP: &containerrestart.HTTPGet{
						Scheme: scheme, Address: netip.MustParseAddrPort(server.Listener.Addr().String()), Path: c.path,
						Headers: []corev1.HTTPHeader{{Name: "host", Value: "shop"}, {Name: "X-Why", Value: "stop"}},
					}},
				})
				if err != nil || !says(hook, c.want) || len(fake.calls) != 1 {
					t.Fatalf("hook %v, error %v, calls %v", hook, err, fake.calls)
				}
				if got := <-asked; got != "shop "+c.path+" stop" {
					t.Errorf("asked %s", got)
				}
			})
		}
	}
	if elsewhere.Load() {
		t.Error("a redirect was followed")
	}
}

// bench is a running Stopper. Each stop takes a minute, and the stop of the container "refused" fails.
type bench struct {
	*stopper.Stopper

	mu     sync.Mutex
	done   []string
	hooks  []string
	cancel context.CancelFunc
	ended  chan error
}

func newBench(t *testing.T) *bench {
	b := &bench{ended: make(chan error, 1)}
	b.Stopper = stopper.New(minutes{}, stopper.Options{
		Done: func(key string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.done = append(b.done, key)
		},
		HookFailed: func(_ context.Context, key string, order stopper.Order, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.hooks = append(b.hooks, key+" "+order.ID)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	b.cancel = cancel
	go func() { b.ended <- b.Start(ctx) }()
	return b
}

// minutes is a runtime in which each call takes a minute.
type minutes struct{}

func (minutes) Stop(ctx context.Context, id string, _ time.Duration) error {
	if id == "refused" {
		return reason.Final(errors.New("refused"))
	}
	_, err := after(ctx, time.Minute, 0)
	return err
}

func (minutes) Exec(ctx context.Context, _ string, _ []string, _ time.Duration) (int32, error) {
	return after[int32](ctx, time.Second, 1)
}

func order(id string) stopper.Order {
	return stopper.Order{ID: id, Grace: containerrestart.Grace(2 * time.Minute)}
}

func ids(stops []containerrestart.Stop) (out []string) {
	for _, s := range stops {
		word := s.ID
		if s.Err != nil {
			word += " failed"
		}
		out = append(out, word)
	}
	return out
}

// TestNobodyWaits: a hundred stops of one minute each run at the same time and take one minute, and no caller waits.
func TestNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		begin := time.Now()
		for i := range 100 {
			key := fmt.Sprint("pod-", i)
			if !b.Ask(key, order("x")) || b.Ask(key, order("x")) {
				t.Error("a stop begins once")
			}
		}
		if synctest.Wait(); time.Since(begin) > 0 {
			t.Error("somebody has waited")
		}
		if diff := cmp.Diff([]string{"x"}, ids(b.Stops("pod-7"))); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(b.done) != 100 || b.Stops("pod-7") != nil {
			t.Errorf("%d are done, %v", len(b.done), b.Stops("pod-7"))
		}
		b.cancel()
		if err := <-b.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		withHook := order("b0")
		withHook.Hook.Exec = []string{"bye"}
		b.Ask("pod", order("refused"))
		b.Ask("pod", withHook)
		b.Ask("other", order("c0"))
		time.Sleep(2 * time.Second)
		if diff := cmp.Diff([]string{"b0", "refused failed"}, ids(b.Stops("pod"))); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"refused failed"}, ids(b.Stops("pod"))); diff != "" {
			t.Error(diff)
		}
		if !b.Ask("pod", order("refused")) || !slices.Equal(ids(b.Stops("pod")), []string{"refused"}) {
			t.Errorf("a failed stop begins again: %v", ids(b.Stops("pod")))
		}
		synctest.Wait()
		b.Forget("pod")
		if !b.Ask("pod", order("refused")) || !slices.Equal(b.hooks, []string{"pod b0"}) {
			t.Errorf("forgotten, and not begun again; hooks %v", b.hooks)
		}
		b.cancel()
		<-b.ended
	})
}

// TestForget: after Forget, the stops of a key end, without a report, and without a goroutine that still runs. The
// same holds for a stop that has not begun.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.Ask("pod", order("a0"))
		synctest.Wait()
		begin := time.Now()
		b.Forget("pod")
		b.Ask("early", order("a0"))
		b.Forget("early")
		synctest.Wait()
		if b.Stops("pod") != nil || b.Stops("early") != nil || time.Since(begin) > 0 {
			t.Errorf("%v, %v", b.Stops("pod"), b.Stops("early"))
		}
		if diff := cmp.Diff([]string{"pod"}, b.done); diff != "" {
			t.Errorf("ended (-want +got):\n%s", diff)
		}
		if !b.Ask("pod", order("a0")) {
			t.Error("not begun again")
		}
		synctest.Wait()
		b.cancel()
		<-b.ended
		if diff := cmp.Diff([]string{"pod", "pod"}, b.done); diff != "" {
			t.Errorf("ended (-want +got):\n%s", diff)
		}
	})
}

// TestKeep: all stops of a key that are not kept end, and failed stops are forgotten. A hook that is cancelled does
// not count as failed. The name of the runtime in front of an ID is ignored.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		withHook := order("c0")
		withHook.Hook.Sleep = time.Minute
		for _, o := range []stopper.Order{order("rt://a0"), order("b0"), withHook, order("refused")} {
			b.Ask("pod", o)
		}
		b.Ask("other", order("b0"))
		synctest.Wait()
		b.Keep("pod", "a0")
		synctest.Wait()
		got := [][]string{ids(b.Stops("pod")), ids(b.Stops("other")), b.hooks}
		if diff := cmp.Diff([][]string{{"rt://a0"}, {"b0"}, nil}, got); diff != "" {
			t.Errorf("stops of pod, of other, failed hooks (-want +got):\n%s", diff)
		}
		b.cancel()
		<-b.ended
	})
}

// TestShutdown: all stops end with the context, without a report of failure, and Start waits for the stops.
// synctest.Test fails if a goroutine still runs.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		begin := time.Now()
		for i := range 50 {
			b.Ask(fmt.Sprint(i), order("a0"))
		}
		synctest.Wait()
		b.cancel()
		if err := <-b.ended; err != nil || time.Since(begin) > 0 || len(b.done) != 50 || b.Stops("7") != nil {
			t.Errorf("%v after %v, %d done, %v", err, time.Since(begin), len(b.done), b.Stops("7"))
		}
	})
}
