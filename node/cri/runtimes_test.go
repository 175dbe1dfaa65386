package cri_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/workloadkit/workloadkit/node/containerrestart/stopper"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/reason"
)

var _ stopper.Runtime = (*cri.Runtimes)(nil)

func container(id, uid string) *runtimev1.ContainerStatus {
	return &runtimev1.ContainerStatus{
		Id: id, Metadata: &runtimev1.ContainerMetadata{Name: "app"}, Labels: map[string]string{"io.kubernetes.pod.uid": uid},
	}
}

// TestRuntimes: a runtime may start late, or may start again with another name. The name at the beginning of a
// container ID identifies the runtime.
func TestRuntimes(t *testing.T) {
	first, second := socket(t), socket(t)
	changes := 0
	r := cri.NewRuntimes(func() []string { return []string{first, second, "relative"} })
	r.OnChange(func(context.Context) { changes++ })
	ask := func(ids ...string) string {
		found, err := r.Containers(t.Context(), "u", ids...)
		var got []string
		for _, c := range found {
			got = append(got, c.ID)
		}
		switch {
		case reason.IsFinal(err):
			got = append(got, "final")
		case err != nil:
			got = append(got, "later")
		}
		return strings.Join(got, " ")
	}
	if why := r.Missing(); len(why) != 1 || why[0].Code != cri.NoRuntime {
		t.Errorf("before the first look: %v", why)
	}

	r.Look(t.Context())
	if why := r.Missing(); len(why) != 3 || !errors.Is(why, cri.NoSocket) || !errors.Is(why, cri.InvalidEndpoint) || r.Answering() || r.String() != "" {
		t.Errorf("without sockets: %v", why)
	}
	if got := ask() + ", " + ask("one://a"); got != "later, later" {
		t.Errorf("without runtimes: %s", got)
	}

	one := &server{name: "one", containers: []*runtimev1.ContainerStatus{container("a", "u")}}
	stop := serve(t, first, one)
	r.Look(t.Context())
	r.Look(t.Context())
	if got := ask() + ", " + ask("one://x") + ", " + ask("two://b") + ", " + ask("x"); got != "one://a, one://a, final, final" {
		t.Errorf("a runtime: %s", got)
	}
	if why := r.Missing(); why != nil || r.String() != "one at "+first {
		t.Errorf("a runtime: %v, %s", why, r)
	}

	serve(t, second, &server{name: "two", containers: []*runtimev1.ContainerStatus{container("b", "u")}, info: `{"runtimeSpec":{"process":{"env":["A=1"]}}}`})
	r.Look(t.Context())
	if got := ask() + ", " + ask("two://b") + ", " + ask("two://b", "one://a", "two://c"); got != "one://a two://b, two://b, two://b one://a" {
		t.Errorf("two runtimes: %s", got)
	}
	env, err := r.Environment(t.Context(), "two://b")
	code, execErr := r.Exec(t.Context(), "two://b", []string{"ls"}, time.Second)
	if err := errors.Join(err, execErr, r.Stop(t.Context(), "one://a", time.Second)); err != nil || code != 3 || len(env) != 1 {
		t.Errorf("%v, %d, %v", env, code, err)
	}
	if diff := cmp.Diff("stop a 1", one.calls[len(one.calls)-1]); diff != "" {
		t.Error(diff)
	}

	stop()
	r.Look(t.Context())
	if got := ask("one://a"); got != "later" {
		t.Errorf("a runtime that is away for a while: %s", got)
	}
	serve(t, first, &server{name: "three"})
	r.Look(t.Context())
	if got := ask("one://a") + ", " + ask("three://a"); got != "final, " || changes != 5 {
		t.Errorf("a runtime of another name: %s, %d changes", got, changes)
	}
}

// TestDialed: a runtime in this process needs no socket, and Start searches at once.
func TestDialed(t *testing.T) {
	listener := bufconn.Listen(1 << 16)
	g := grpc.NewServer()
	runtimev1.RegisterRuntimeServiceServer(g, &server{name: "here"})
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	r := cri.NewRuntimes(nil, cri.NewDialed("here", func(ctx context.Context) (net.Conn, error) { return listener.DialContext(ctx) }))
	found := make(chan string, 1)
	r.OnChange(func(context.Context) { found <- r.String() })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	if got := <-found; got != "here at here" {
		t.Error(got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := r.Containers(t.Context(), "u", "here://a"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
