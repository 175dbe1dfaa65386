// Package cri answers "how do I ask the container runtime of a Node for containers and images?"
//
// A [Runtime] uses CRI v1 on a unix socket: containers, stops, commands, environments, images. The connection is made
// with the first call, and again after a connection was lost. Before each call, Runtime checks whether the socket at
// the path was replaced: runtimes replace their socket when they start, so mount the socket's directory and not the
// socket itself. A Runtime implements stopper.Runtime.
//
// [Find] looks for runtimes: at the endpoint in the kubelet's own configuration ([KubeletEndpoint]) and at the usual
// paths ([Usual]). If a socket is missing or a runtime does not respond, Find does not fail but returns a reason:
// call Find again later.
package cri

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why a runtime is missing, or does not say where images are stored.
const (
	// NoSocket means that the path of an endpoint has no socket.
	NoSocket reason.Code = "NoSocket"
	// NoRuntime means that no container runtime responds at a socket.
	NoRuntime reason.Code = "NoRuntime"
	// InvalidEndpoint means that an endpoint is not an absolute path of a unix socket.
	InvalidEndpoint reason.Code = "InvalidEndpoint"
	// NoImageDirectory means that a runtime does not say where it stores images.
	NoImageDirectory reason.Code = "NoImageDirectory"
)

// largest is the largest size of a response in bytes, the same as in the kubelet.
const largest = 16 << 20

// Runtime is a container runtime. A Runtime is safe for concurrent use. Make a Runtime with New.
type Runtime struct {
	path string
	// dialer makes connections; nil means connections to the socket at path.
	dialer func(context.Context) (net.Conn, error)

	mu      sync.Mutex
	current *link
	closed  bool
}

// link is a connection to a particular socket. If the socket is replaced, calls in progress continue to use the old
// link, which is closed after the last of these calls.
type link struct {
	conn    *grpc.ClientConn
	socket  os.FileInfo
	calls   int
	retired bool
}

// New returns the runtime at an endpoint: the path of a socket, with or without the prefix "unix://". New makes no
// connection.
func New(endpoint string) (*Runtime, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	if !filepath.IsAbs(path) {
		return nil, reason.Reason{Code: InvalidEndpoint, New: reason.Shorten(endpoint, 256), Remedy: "use the absolute path of a unix socket"}
	}
	return &Runtime{path: path}, nil
}

// NewDialed returns a runtime whose connections are made by dial and not through a socket, for example a runtime in
// the same process or behind a tunnel. name is used in messages in place of the path. NewDialed makes no connection.
func NewDialed(name string, dial func(context.Context) (net.Conn, error)) *Runtime {
	return &Runtime{path: name, dialer: dial}
}

// Path returns the path of the socket.
func (r *Runtime) Path() string { return r.path }

// Close closes the connection after the last call has ended. Later calls return an error.
func (r *Runtime) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.retire()
}

// retire closes the present connection after its last call. The caller must hold the lock.
func (r *Runtime) retire() {
	if l := r.current; l != nil {
		r.current, l.retired = nil, true
		l.closeIfUnused()
	}
}

func (l *link) closeIfUnused() {
	if l.retired && l.calls == 0 {
		_ = l.conn.Close() // fails only if the connection was closed before
	}
}

// acquire returns the connection to the present socket, for use by a call.
func (r *Runtime) acquire() (*link, error) {
	var socket os.FileInfo
	if r.dialer == nil {
		var err error
		if socket, err = os.Stat(r.path); err != nil {
			return nil, reason.Reason{Code: NoSocket, Path: r.path, Remedy: "see whether the container runtime runs"}.With(err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, reason.Final(net.ErrClosed)
	}
	if r.current != nil && r.dialer == nil && !sameSocket(r.current.socket, socket) {
		r.retire()
	}
	if r.current == nil {
		conn, err := r.dial()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.path, err)
		}
		r.current = &link{conn: conn, socket: socket}
	}
	r.current.calls++
	return r.current, nil
}

// sameSocket also compares the modification times, because file systems may reuse the inode of a deleted socket at
// once.
func sameSocket(a, b os.FileInfo) bool { return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) }

func (r *Runtime) release(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.calls--
	l.closeIfUnused()
}

func (r *Runtime) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+r.path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			if r.dialer != nil {
				return r.dialer(ctx)
			}
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest)),
	)
}

// call calls the CRI runtime service.
func call[T any](r *Runtime, do func(runtimev1.RuntimeServiceClient) (T, error)) (T, error) {
	answer, err := connected(r, runtimev1.NewRuntimeServiceClient, do)
	return answer, explain(err)
}

// connected calls a CRI service.
func connected[C, T any](r *Runtime, client func(grpc.ClientConnInterface) C, do func(C) (T, error)) (T, error) {
	l, err := r.acquire()
	if err != nil {
		var none T
		return none, err
	}
	defer r.release(l)
	return do(client(l.conn))
}

// explain marks errors that a retry does not repair as final.
func explain(err error) error {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange:
		return reason.Final(err)
	}
	return err
}

// isUnknown reports whether an error means that the runtime does not have the container.
func isUnknown(err error) bool { return status.Code(err) == codes.NotFound }

// Version is the name and the version of a runtime, such as "containerd" and "v2.4.2".
type Version struct{ Name, Version string }

// Version asks the runtime for its name and version. Container IDs in a Pod's status begin with this name.
func (r *Runtime) Version(ctx context.Context) (Version, error) {
	answer, err := call(r, func(c runtimev1.RuntimeServiceClient) (*runtimev1.VersionResponse, error) {
		return c.Version(ctx, &runtimev1.VersionRequest{})
	})
	return Version{Name: answer.GetRuntimeName(), Version: answer.GetRuntimeVersion()}, err
}

// Stop stops a container within a grace period, rounded up to seconds. If the container does not exist, Stop returns no
// error.
func (r *Runtime) Stop(ctx context.Context, id string, grace time.Duration) error {
	_, err := call(r, func(c runtimev1.RuntimeServiceClient) (*runtimev1.StopContainerResponse, error) {
		return c.StopContainer(ctx, &runtimev1.StopContainerRequest{ContainerId: id, Timeout: seconds(grace)})
	})
	if isUnknown(err) {
		return nil
	}
	return err
}

// Exec runs a command in a container. The output is discarded: see the container's own log.
func (r *Runtime) Exec(ctx context.Context, id string, command []string, limit time.Duration) (exitCode int32, err error) {
	answer, err := r.RunOutput(ctx, id, command, limit)
	return answer.ExitCode, err
}

// Output is the output of a command.
type Output struct {
	ExitCode       int32
	Stdout, Stderr []byte
}

// RunOutput is like Exec, and also returns the output of the command. The runtime limits the length of the output.
func (r *Runtime) RunOutput(ctx context.Context, id string, command []string, limit time.Duration) (Output, error) {
	answer, err := call(r, func(c runtimev1.RuntimeServiceClient) (*runtimev1.ExecSyncResponse, error) {
		return c.ExecSync(ctx, &runtimev1.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: seconds(limit)})
	})
	return Output{ExitCode: answer.GetExitCode(), Stdout: answer.GetStdout(), Stderr: answer.GetStderr()}, err
}

// seconds rounds a duration up to seconds.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
