package faultapi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// queue returns the waiting calls as text.
func queue(turnstile *faultapi.Turnstile) string {
	var parts []string
	for _, w := range turnstile.Waiting() {
		parts = append(parts, w.Call.Task+":"+w.Call.Verb+" "+w.Call.Name)
	}
	return strings.Join(parts, ", ")
}

// process is a simulated controller process whose calls all wait at the same turnstile.
type process struct {
	*stage

	turnstile *faultapi.Turnstile
	client    *faultapi.Client
	mu        sync.Mutex
	ended     map[string]error
}

func newProcess(t *testing.T) *process {
	p := &process{stage: newStage(t), turnstile: &faultapi.Turnstile{}, ended: map[string]error{}}
	p.client = p.server.Client(p.turnstile, p.cache)
	return p
}

// create starts a task that creates Pods in sequence.
func (p *process) create(ctx context.Context, task string, names ...string) {
	ctx = faultapi.WithTask(ctx, task)
	go func() {
		var err error
		for _, name := range names {
			if err = p.client.Create(ctx, named(name)); err != nil {
				break
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended[task] = err
	}()
	synctest.Wait()
}

func TestTurnstile(t *testing.T) {
	refused, lost, crashed := errors.New("refused"), errors.New("timeout"), errors.New("crashed")
	release := func(i int, fate faultapi.Fate) func(*process) {
		return func(p *process) { p.turnstile.Waiting()[i].Release(fate) }
	}
	for _, tc := range []struct {
		name  string
		do    []func(*process)
		made  string
		left  string
		ended map[string]error
	}{
		{"calls wait", nil, "", "1:create a, 2:create c", map[string]error{}},
		{"the next call of a task comes when its last is over", []func(*process){release(0, faultapi.Fate{})}, "a map[]", "1:create b, 2:create c", map[string]error{}},
		{"the test chooses who goes first", []func(*process){release(1, faultapi.Fate{})}, "c map[]", "1:create a", map[string]error{"2": nil}},
		{"refused", []func(*process){release(0, faultapi.Fate{Before: refused})}, "", "2:create c", map[string]error{"1": refused}},
		{"an answer that gets lost", []func(*process){release(0, faultapi.Fate{After: lost})}, "a map[]", "2:create c", map[string]error{"1": lost}},
		{"refused before lost", []func(*process){release(0, faultapi.Fate{Before: refused, After: lost})}, "", "2:create c", map[string]error{"1": refused}},
		{"a crash between two calls", []func(*process){release(0, faultapi.Fate{}), func(p *process) { p.turnstile.Break(crashed) }}, "a map[]", "", map[string]error{"1": crashed, "2": crashed}},
		{"the dead make no calls", []func(*process){
			func(p *process) { p.turnstile.Break(crashed) },
			func(p *process) { p.create(p.t.Context(), "3", "d") },
		}, "", "", map[string]error{"1": crashed, "2": crashed, "3": crashed}},
		{"released twice", []func(*process){func(p *process) {
			first := p.turnstile.Waiting()[0]
			first.Release(faultapi.Fate{})
			first.Release(faultapi.Fate{Before: refused})
		}}, "a map[]", "1:create b, 2:create c", map[string]error{}},
		{"released after a crash", []func(*process){func(p *process) {
			first := p.turnstile.Waiting()[0]
			p.turnstile.Break(crashed)
			first.Release(faultapi.Fate{})
		}}, "", "", map[string]error{"1": crashed, "2": crashed}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(t)
				p.create(t.Context(), "2", "c")
				p.create(t.Context(), "1", "a", "b")
				for _, do := range tc.do {
					do(p)
					synctest.Wait()
				}
				if got := queue(p.turnstile); got != tc.left {
					t.Errorf("waiting %q, want %q", got, tc.left)
				}
				if diff := cmp.Diff(tc.made, inventory(p.server)); diff != "" {
					t.Errorf("on the server (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(fmt.Sprint(tc.ended), fmt.Sprint(p.ended)); diff != "" {
					t.Errorf("tasks that ended (-want +got):\n%s", diff)
				}
				p.turnstile.Break(crashed)
			})
		})
	}
}

// TestTurnstileOrder: the order of the waiting calls does not depend on the order in which goroutines run.
func TestTurnstileOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t)
		names := []string{"a", "b", "c", "d", "e", "f"}
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for i, name := range names {
			p.create(t.Context(), fmt.Sprint("task", i%2), name)
		}
		var want []string
		for _, task := range []string{"task0", "task1"} {
			for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
				for i := range names {
					if names[i] == name && fmt.Sprint("task", i%2) == task {
						want = append(want, task+":create "+name)
					}
				}
			}
		}
		if diff := cmp.Diff(strings.Join(want, ", "), queue(p.turnstile)); diff != "" {
			t.Errorf("waiting (-want +got):\n%s", diff)
		}
		p.turnstile.Break(errors.New("over"))
	})
}

// TestTurnstileOutlastsContexts: after the end of a call's context, the test still decides whether the call is
// carried out.
func TestTurnstileOutlastsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t)
		ctx, cancel := context.WithCancel(t.Context())
		p.create(ctx, "1", "a")
		cancel()
		synctest.Wait()
		if got, want := queue(p.turnstile), "1:create a"; got != want {
			t.Fatalf("waiting %q, want %q", got, want)
		}
		p.turnstile.Waiting()[0].Release(faultapi.Fate{After: context.Canceled})
		synctest.Wait()
		if got, want := inventory(p.server), "a map[]"; got != want || !errors.Is(p.ended["1"], context.Canceled) {
			t.Errorf("on the server %q, ended with %v", got, p.ended["1"])
		}
	})
}

// TestCachedReadsDoNotWait: reads from the cache do not wait at the turnstile.
func TestCachedReadsDoNotWait(t *testing.T) {
	p := newProcess(t)
	s := p.stage
	s.must(s.user.Create(t.Context(), named("a")))
	p.cache.Deliver(pods, 1)
	pod := named("a")
	if err := p.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.UID == "" {
		t.Errorf("Get = %v, %+v", err, pod.ObjectMeta)
	}
}
