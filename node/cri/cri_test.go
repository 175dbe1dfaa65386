package cri_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/containerrestart/stopper"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/reason"
)

var _ stopper.Runtime = (*cri.Runtime)(nil)

// server is a CRI server that implements only the calls that the tests need.
type server struct {
	runtimev1.UnimplementedRuntimeServiceServer
	runtimev1.UnimplementedImageServiceServer

	name       string
	containers []*runtimev1.ContainerStatus
	info       string
	block      chan struct{} // StopContainer of "slow" waits for it

	directories []string

	mu    sync.Mutex
	calls []string
	pulls []pulled
}

func (s *server) notef(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *server) Version(context.Context, *runtimev1.VersionRequest) (*runtimev1.VersionResponse, error) {
	return &runtimev1.VersionResponse{RuntimeName: s.name, RuntimeVersion: "v1"}, nil
}

func (s *server) ListContainers(_ context.Context, r *runtimev1.ListContainersRequest) (*runtimev1.ListContainersResponse, error) {
	s.notef("list %v", r.GetFilter().GetLabelSelector())
	list := &runtimev1.ListContainersResponse{Containers: []*runtimev1.Container{{Id: "gone"}}}
	for _, c := range s.containers {
		list.Containers = append(list.Containers, &runtimev1.Container{Id: c.GetId()})
	}
	return list, nil
}

func (s *server) ContainerStatus(_ context.Context, r *runtimev1.ContainerStatusRequest) (*runtimev1.ContainerStatusResponse, error) {
	for _, c := range s.containers {
		if c.GetId() == r.GetContainerId() {
			answer := &runtimev1.ContainerStatusResponse{Status: c}
			if r.GetVerbose() {
				answer.Info = map[string]string{"info": s.info}
			}
			return answer, nil
		}
	}
	return nil, status.Error(codes.NotFound, "no such container")
}

func (s *server) StopContainer(ctx context.Context, r *runtimev1.StopContainerRequest) (*runtimev1.StopContainerResponse, error) {
	s.notef("stop %s %d", r.GetContainerId(), r.GetTimeout())
	switch r.GetContainerId() {
	case "gone":
		return nil, status.Error(codes.NotFound, "no such container")
	case "refused":
		return nil, status.Error(codes.InvalidArgument, "refused")
	case "busy":
		return nil, status.Error(codes.Unknown, "busy")
	case "slow":
		select {
		case <-s.block:
		case <-ctx.Done():
		}
	}
	return &runtimev1.StopContainerResponse{}, nil
}

func (s *server) ExecSync(_ context.Context, r *runtimev1.ExecSyncRequest) (*runtimev1.ExecSyncResponse, error) {
	s.notef("exec %s %v %d", r.GetContainerId(), r.GetCmd(), r.GetTimeout())
	return &runtimev1.ExecSyncResponse{ExitCode: 3, Stdout: []byte("out"), Stderr: []byte("err")}, nil
}

func (s *server) ListImages(context.Context, *runtimev1.ListImagesRequest) (*runtimev1.ListImagesResponse, error) {
	return &runtimev1.ListImagesResponse{Images: []*runtimev1.Image{{Id: "sha256:1", RepoTags: []string{"a:1"}, RepoDigests: []string{"a@sha256:2"}, Size: 7}}}, nil
}

// serve runs a server on the socket at path until stop is called.
func serve(t *testing.T, path string, s *server) (stop func()) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	g := grpc.NewServer()
	runtimev1.RegisterRuntimeServiceServer(g, s)
	runtimev1.RegisterImageServiceServer(g, s)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(listener) }()
	stop = sync.OnceFunc(func() { g.Stop(); <-ended })
	t.Cleanup(stop)
	return stop
}

func socket(t *testing.T) string { return filepath.Join(t.TempDir(), "s") }

func connect(t *testing.T, path string) *cri.Runtime {
	r, err := cri.New("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestCalls(t *testing.T) {
	path, s := socket(t), &server{name: "containerd"}
	serve(t, path, s)
	r := connect(t, path)
	if v, err := r.Version(t.Context()); err != nil || v != (cri.Version{Name: "containerd", Version: "v1"}) {
		t.Errorf("%v, %v", v, err)
	}
	if out, err := r.RunOutput(t.Context(), "a0", []string{"ls", "/"}, 1500*time.Millisecond); out.ExitCode != 3 || string(out.Stdout) != "out" || string(out.Stderr) != "err" || err != nil {
		t.Errorf("output %+v, %v", out, err)
	}
	if code, err := r.Exec(t.Context(), "a0", []string{"ls", "/"}, 1500*time.Millisecond); code != 3 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	images, err := r.Images(t.Context())
	if diff := cmp.Diff([]imagepull.Image{{ID: "sha256:1", Tags: []string{"a:1"}, Digests: []string{"a@sha256:2"}, Bytes: 7}}, images); diff != "" || err != nil {
		t.Errorf("%v, images (-want +got):\n%s", err, diff)
	}
	for id, want := range map[string][2]bool{"a0": {false, false}, "gone": {false, false}, "refused": {true, true}, "busy": {true, false}} {
		if err := r.Stop(t.Context(), id, 2*time.Second); (err != nil) != want[0] || reason.IsFinal(err) != want[1] {
			t.Errorf("stop of %s: %v, final %v", id, err, reason.IsFinal(err))
		}
	}
	if s.calls[0] != "exec a0 [ls /] 2" || !strings.HasSuffix(s.calls[1], " 2") {
		t.Errorf("calls %q", s.calls)
	}
	r.Close()
	if _, err := r.Version(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestContainers(t *testing.T) {
	of := func(id, uid string, attempt uint32, notes map[string]string) *runtimev1.ContainerStatus {
		return &runtimev1.ContainerStatus{
			Id: id, Metadata: &runtimev1.ContainerMetadata{Name: "app", Attempt: attempt}, State: runtimev1.ContainerState_CONTAINER_EXITED,
			CreatedAt: 1e9, StartedAt: 2e9, FinishedAt: 3e9, ExitCode: 137, Annotations: notes,
			Labels: map[string]string{"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop"},
		}
	}
	newer := of("a1", "u", 1, map[string]string{
		"io.kubernetes.container.restartCount": "4", "io.kubernetes.container.hash": "ab", "io.kubernetes.pod.terminationGracePeriod": "30",
		"io.kubernetes.container.preStopHandler": `{"exec":{"command":["bye"]}}`, "io.kubernetes.container.ports": `[{"name":"web","containerPort":80}]`,
	})
	newer.State, newer.FinishedAt, newer.ExitCode = runtimev1.ContainerState_CONTAINER_RUNNING, 0, 0
	junk := of("a0", "u", 0, map[string]string{
		"io.kubernetes.container.restartCount": "x", "io.kubernetes.pod.deletionGracePeriod": "5", "io.kubernetes.pod.terminationGracePeriod": "30",
		"io.kubernetes.container.preStopHandler": "{", "io.kubernetes.container.ports": `{"a":1}`,
	})
	path, s := socket(t), &server{containers: []*runtimev1.ContainerStatus{junk, newer, of("b0", "other", 0, nil), of("c0", "", 0, nil)}}
	serve(t, path, s)
	r := connect(t, path)
	got, err := r.Containers(t.Context(), "u")
	instance := func(id string, attempt int32, state containerrestart.State, grace int) containerrestart.Instance {
		return containerrestart.Instance{ID: id, Name: "app", Attempt: attempt, State: state, Created: time.Unix(1, 0), Started: time.Unix(2, 0), Grace: ptr.To(time.Duration(grace) * time.Second)}
	}
	want := []cri.Container{
		{
			Instance: instance("a1", 4, containerrestart.Running, 30), PodNamespace: "shop", PodName: "web", PodUID: "u", Hash: "ab",
			PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bye"}}}, Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 80}},
		},
		{Instance: instance("a0", 0, containerrestart.Exited, 5), PodNamespace: "shop", PodName: "web", PodUID: "u"},
	}
	want[1].Finished, want[1].ExitCode = time.Unix(3, 0), 137
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if all, err := r.Containers(t.Context(), ""); err != nil || len(all) != 3 {
		t.Errorf("all: %v, %v", all, err)
	}
	if diff := cmp.Diff([]string{"list map[io.kubernetes.pod.uid:u]", "list map[]"}, s.calls); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironment(t *testing.T) {
	path := socket(t)
	s := &server{containers: []*runtimev1.ContainerStatus{{Id: "a0"}}}
	serve(t, path, s)
	r := connect(t, path)
	for info, want := range map[string]string{
		`{"runtimeSpec":{"process":{"env":["A=1","B="]}}}`: "[A=1 B=]",
		`{"runtimeSpec":{"process":{}}}`:                   "[]",
		`{"runtimeSpec":{}}`:                               "NoEnvironment",
		`{"runtimeSpec":{"process":{"env":"SECRET"}}}`:     "NoEnvironment",
		``: "NoEnvironment",
	} {
		s.info = info
		env, err := r.Environment(t.Context(), "a0")
		got := fmt.Sprint(env)
		if errors.Is(err, cri.NoEnvironment) {
			got = "NoEnvironment"
		}
		if got != want || err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v, %v", info, env, err)
		}
	}
	if _, err := r.Environment(t.Context(), "gone"); status.Code(errors.Unwrap(err)) != codes.NotFound {
		t.Errorf("gone: %v", err)
	}
}

// TestSockets: a runtime that starts again at the same path is found, whether or not the connection was lost. Calls
// in progress on the old socket continue.
func TestSockets(t *testing.T) {
	path := socket(t)
	name := func(r *cri.Runtime) string {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		v, err := r.Version(ctx)
		if err != nil {
			return err.Error()
		}
		return v.Name
	}
	r := connect(t, path)
	if _, err := r.Version(t.Context()); !errors.Is(err, cri.NoSocket) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a socket: %v", err)
	}
	first := &server{name: "first", block: make(chan struct{})}
	stopFirst := serve(t, path, first)
	if got := name(r); got != "first" {
		t.Fatal(got)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(t.Context(), "slow", time.Second) }()
	for begun := false; !begun; {
		first.mu.Lock()
		begun = len(first.calls) > 0
		first.mu.Unlock()
	}
	stopSecond := serve(t, path, &server{name: "second"})
	if got := name(r); got != "second" {
		t.Errorf("a new socket, and the old runtime still serves: %s", got)
	}
	close(first.block)
	if err := <-stopped; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	stopFirst()
	stopSecond()
	if _, err := r.Version(t.Context()); status.Code(err) != codes.Unavailable || reason.IsFinal(err) {
		t.Errorf("nobody answers: %v", err)
	}
	serve(t, path, &server{name: "third"})
	if got := name(r); got != "third" {
		t.Errorf("after a loss: %s", got)
	}
}

func TestFind(t *testing.T) {
	there, silent := socket(t), socket(t)
	serve(t, there, &server{name: "containerd"})
	serve(t, silent, &server{})() // the server stops, but the socket file stays
	found, missing := cri.Find(t.Context(), []string{silent, there, filepath.Join(filepath.Dir(there), "none"), "relative"})
	if len(found) != 1 || found[0].Name != "containerd" || found[0].Path() != there {
		t.Errorf("found %v", found)
	}
	for _, f := range found {
		f.Close()
	}
	var codes []reason.Code
	for _, r := range missing {
		codes = append(codes, r.Code)
	}
	if diff := cmp.Diff([]reason.Code{cri.NoRuntime, cri.NoSocket, cri.InvalidEndpoint}, codes); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

func TestKubeletEndpoint(t *testing.T) {
	for data, want := range map[string]string{
		"kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///run/k3s/containerd/containerd.sock\n": "unix:///run/k3s/containerd/containerd.sock",
		`{"containerRuntimeEndpoint":"unix:///a"}`:                                                           "unix:///a",
		`{"kubeletconfig":{"containerRuntimeEndpoint":"unix:///b"}}`:                                         "unix:///b",
		"kind: KubeletConfiguration\n":                                                                       "",
		"":                                                                                                   "",
		"\tx: [":                                                                                             "error",
		"containerRuntimeEndpoint: [not, a, word]":                                                           "error",
	} {
		got, err := cri.KubeletEndpoint([]byte(data))
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q, %v", data, got, err)
		}
	}
}

func TestPaths(t *testing.T) {
	endpoints := []string{"unix:///var/run/crio/crio.sock", "/run/crio/crio.sock", "/run/x.sock", "/opt/y.sock", "npipe://./pipe/x", "/run/../etc/z"}
	if diff := cmp.Diff([]string{"/run/crio/crio.sock", "/run/x.sock", "/opt/y.sock", "/etc/z"}, cri.Paths(endpoints)); diff != "" {
		t.Errorf("the Node's file system (-want +got):\n%s", diff)
	}
	mounts := []cri.Mount{{Node: "/var/run/", Agent: "/hostvarrun"}, {Node: "/opt", Agent: "/host/opt"}}
	if diff := cmp.Diff([]string{"/hostvarrun/crio/crio.sock", "/hostvarrun/x.sock", "/host/opt/y.sock"}, cri.Paths(endpoints, mounts...)); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if got := cri.Paths(cri.Usual()); len(got) != len(cri.Usual()) {
		t.Errorf("usual paths: %v", got)
	}
}
