package fakecri_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/containerconfig"
	"github.com/workloadkit/workloadkit/testing/fakecri/imagestore"
	"github.com/workloadkit/workloadkit/testing/fakecri/scripted"
)

// like runs commands as the test program in the images of package realnode does.
func like(ctx context.Context, argv []string) (out, errOut []byte, code int32, err error) {
	switch strings.Join(argv, " ") {
	case "/app":
		return nil, []byte("app: listen tcp :8080: bind: address already in use\n"), 1, nil
	case "/app pause":
		<-ctx.Done()
		return nil, nil, 0, ctx.Err()
	}
	return nil, nil, 0, errors.New("executable file not found in $PATH")
}

// started returns a runtime with the Pod that the table needs.
func started(t *testing.T, opts fakecri.Options) (*fakecri.Server, *corev1.Pod) {
	t.Helper()
	pod := newPod("127.0.0.1:5000/app:v1")
	pod.UID, pod.Status.PodIP = types.UID("0f0e"), "10.0.0.7"
	pod.Spec.Containers[0].TerminationMessagePath, pod.Spec.Containers[0].TerminationMessagePolicy = "/dev/termination-log", "File"
	images := imagestore.New(nil, imagestore.Rule{Prefix: "127.0.0.1:5000/missing", Missing: true}, imagestore.Rule{Bytes: 1000})
	machine := scripted.New(nil)
	sandbox := containerconfig.Sandbox(pod)
	sandbox.Created = time.Unix(1, 0)
	machine.AddSandbox(sandbox)
	c := containerconfig.New(pod, &pod.Spec.Containers[0], 0)
	c.ID, c.ImageID = strings.Repeat("a1", 32), images.Add(pod.Spec.Containers[0].Image)
	machine.Add(c, scripted.Behaviour{Exec: like, StopCode: new(int32)})
	machine.Add(fakecri.Container{ID: strings.Repeat("b2", 32), SandboxID: "other", Name: "app"}, scripted.Behaviour{StopTakes: time.Minute})
	opts.Machine, opts.Images = machine, images
	server, err := fakecri.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server, pod
}

func dialled(t *testing.T, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// socket returns a path short enough for a socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri") //nolint:usetesting // The test's own directory has too long a name for a socket.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "cri.sock")
}

// TestTable: the fake gives the responses in the table, on a connection within the process and on a socket.
// TestContainerd runs the same table with containerd.
func TestTable(t *testing.T) {
	t.Run("pipe", func(t *testing.T) {
		server, pod := started(t, fakecri.Options{})
		conn := dialled(t, "passthrough:///x", grpc.WithContextDialer(server.Dial))
		s := newSubject(t, conn, pod, "127.0.0.1:5000/missing:v1")
		s.run(t, table(s))
	})
	t.Run("socket", func(t *testing.T) {
		path := socket(t)
		_, pod := started(t, fakecri.Options{Socket: path})
		s := newSubject(t, dialled(t, "unix://"+path), pod, "127.0.0.1:5000/missing:v1")
		s.run(t, table(s))
	})
}

func TestUnserved(t *testing.T) {
	server, _ := started(t, fakecri.Options{})
	conn := dialled(t, "passthrough:///x", grpc.WithContextDialer(server.Dial))
	runtime := runtimeapi.NewRuntimeServiceClient(conn)
	for name, call := range map[string]func() error{
		"CreateContainer": func() error {
			_, err := runtime.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{})
			return err
		},
		"RunPodSandbox": func() error {
			_, err := runtime.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{})
			return err
		},
		"Exec": func() error { _, err := runtime.Exec(t.Context(), &runtimeapi.ExecRequest{}); return err },
	} {
		if err := call(); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: error %v, want code Unimplemented", name, err)
		}
	}
}

// TestImageNames: an image is found by incomplete names, and RemoveImage removes all names of the image.
func TestImageNames(t *testing.T) {
	images := imagestore.New(nil)
	images.Add("org/app")
	images.Add("app:v1")
	server, err := fakecri.Start(fakecri.Options{Machine: scripted.New(nil), Images: images})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	client := runtimeapi.NewImageServiceClient(dialled(t, "passthrough:///x", grpc.WithContextDialer(server.Dial)))
	for name, want := range map[string]bool{
		"org/app": true, "docker.io/org/app:latest": true, "app:v1": true, "library/app:v1": true, "app": false, "org/app:v1": false, "": false,
	} {
		response, err := client.ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if found := response.GetImage() != nil; found != want || err != nil {
			t.Errorf("image %q found: %t, error %v; want %t", name, found, err, want)
		}
	}
	if _, err := client.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: "app:v1"}}); err != nil || len(images.List()) != 1 {
		t.Errorf("error %v, images %v; want one left", err, images.List())
	}
}

func TestExecOutputIsLimited(t *testing.T) {
	for _, tt := range []struct {
		name string
		out  int
		want codes.Code
	}{
		{"within a message", 15 << 20, codes.OK},
		{"beyond a message", 40 << 20, codes.ResourceExhausted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machine := scripted.New(nil)
			machine.Add(fakecri.Container{ID: "c1"}, scripted.Behaviour{Exec: func(context.Context, []string) ([]byte, []byte, int32, error) {
				return make([]byte, tt.out), nil, 3, nil
			}})
			server, err := fakecri.Start(fakecri.Options{Machine: machine})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			// The client accepts larger messages, so only the server's limit matters.
			conn := dialled(t, "passthrough:///x", grpc.WithContextDialer(server.Dial), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
			response, err := runtimeapi.NewRuntimeServiceClient(conn).ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: "c1"})
			if status.Code(err) != tt.want || err == nil && (len(response.GetStdout()) != tt.out || response.GetExitCode() != 3) {
				t.Errorf("%d bytes, code %d, error %v; want code %s", len(response.GetStdout()), response.GetExitCode(), err, tt.want)
			}
		})
	}
}

// TestFaults: each fault of the plan has its effect on one call, the next call succeeds, and no goroutine is left.
func TestFaults(t *testing.T) {
	const limit = time.Minute
	for _, tt := range []struct {
		name  string
		fault fakecri.Fault
		want  codes.Code
		took  time.Duration
		state runtimeapi.ContainerState // after the call
	}{
		{"none", fakecri.Fault{}, codes.OK, 0, runtimeapi.ContainerState_CONTAINER_EXITED},
		{"delay", fakecri.Fault{Delay: time.Second}, codes.OK, time.Second, runtimeapi.ContainerState_CONTAINER_EXITED},
		{"delay beyond the patience", fakecri.Fault{Delay: time.Hour}, codes.DeadlineExceeded, limit, runtimeapi.ContainerState_CONTAINER_RUNNING},
		{"fail", fakecri.Fault{Kind: fakecri.Fail, Err: status.Error(codes.Internal, "disk full")}, codes.Internal, 0, runtimeapi.ContainerState_CONTAINER_RUNNING},
		{"fail with a plain error", fakecri.Fault{Kind: fakecri.Fail, Err: errors.New("disk full")}, codes.Unknown, 0, runtimeapi.ContainerState_CONTAINER_RUNNING},
		{"fail after the work", fakecri.Fault{Done: true, Kind: fakecri.Fail, Err: fakecri.ErrNotFound}, codes.NotFound, 0, runtimeapi.ContainerState_CONTAINER_EXITED},
		{"hang", fakecri.Fault{Kind: fakecri.Hang}, codes.DeadlineExceeded, limit, runtimeapi.ContainerState_CONTAINER_RUNNING},
		{"hang after the work", fakecri.Fault{Done: true, Kind: fakecri.Hang}, codes.DeadlineExceeded, limit, runtimeapi.ContainerState_CONTAINER_EXITED},
		{"drop", fakecri.Fault{Kind: fakecri.Drop}, codes.Unavailable, 0, runtimeapi.ContainerState_CONTAINER_RUNNING},
		{"drop after the work", fakecri.Fault{Done: true, Kind: fakecri.Drop}, codes.Unavailable, 0, runtimeapi.ContainerState_CONTAINER_EXITED},
		{"restart", fakecri.Fault{Kind: fakecri.Restart}, codes.Unavailable, 0, runtimeapi.ContainerState_CONTAINER_RUNNING},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				machine, plan := scripted.New(nil), &fakecri.Plan{}
				machine.Add(fakecri.Container{ID: "c1"}, scripted.Behaviour{})
				server, err := fakecri.Start(fakecri.Options{Machine: machine, Faults: plan})
				if err != nil {
					t.Fatal(err)
				}
				defer server.Stop()
				conn, err := server.Client()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				client := runtimeapi.NewRuntimeServiceClient(conn)
				plan.Queue("StopContainer", tt.fault)
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				began := time.Now()
				_, err = client.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: "c1", Timeout: 30})
				if took := time.Since(began); status.Code(err) != tt.want || took != tt.took {
					t.Errorf("error %v after %s, want code %s after %s", err, took, tt.want, tt.took)
				}
				answer, err := client.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: "c1"}, grpc.WaitForReady(true))
				if err != nil || answer.GetStatus().GetState() != tt.state {
					t.Errorf("state %v, error %v; want %v", answer.GetStatus().GetState(), err, tt.state)
				}
				if diff := cmp.Diff(map[string]int{"StopContainer": 1, "ContainerStatus": 1}, server.Calls()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				synctest.Wait()
				if n := server.Connections(); n != 1 {
					t.Errorf("%d connections, want the client's alone", n)
				}
			})
		})
	}
}

// TestRestartReplacesTheSocket: a restart creates a new socket with the same name, and clients of the old connection
// reconnect.
func TestRestartReplacesTheSocket(t *testing.T) {
	path := socket(t)
	server, _ := started(t, fakecri.Options{Socket: path})
	conn := dialled(t, "unix://"+path)
	client := runtimeapi.NewRuntimeServiceClient(conn)
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := client.Version(ctx, &runtimeapi.VersionRequest{}, grpc.WaitForReady(true))
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	server.Down()
	conn.WaitForStateChange(t.Context(), connectivity.Ready) // otherwise the next call could use the broken connection
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket of a runtime that is down: error %v, want none", err)
	}
	if _, err := server.Dial(t.Context(), ""); err == nil {
		t.Error("a runtime that is down was reached")
	}
	if err := os.WriteFile(path+".other", nil, 0o600); err != nil { // uses the inode of the removed socket
		t.Fatal(err)
	}
	if err := server.Up(); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if os.SameFile(before, after) {
		t.Error("the socket is the same file")
	}
	if err := ask(); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

func TestStartNames(t *testing.T) {
	if _, err := fakecri.Start(fakecri.Options{}); err == nil {
		t.Error("a runtime without a Machine started")
	}
	if _, err := fakecri.Start(fakecri.Options{Machine: scripted.New(nil), Socket: "/nowhere/cri.sock"}); err == nil {
		t.Error("a runtime with a socket in a missing directory started")
	}
}

// TestThousands: a thousand runtimes respond in this process, and no connection is left open.
func TestThousands(t *testing.T) {
	var servers []*fakecri.Server
	for range 1000 {
		server, err := fakecri.Start(fakecri.Options{Machine: scripted.New(nil)})
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, server)
	}
	var all sync.WaitGroup
	failed := make(chan error, len(servers))
	for _, server := range servers {
		all.Go(func() {
			conn, err := server.Client()
			if err == nil {
				_, err = runtimeapi.NewRuntimeServiceClient(conn).Version(t.Context(), &runtimeapi.VersionRequest{})
				_ = conn.Close()
			}
			failed <- err
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Error(err)
		}
	}
	left := slices.DeleteFunc(servers, func(s *fakecri.Server) bool { s.Stop(); return s.Connections() == 0 })
	if len(left) > 0 {
		t.Errorf("%d runtimes have connections after the end", len(left))
	}
}
