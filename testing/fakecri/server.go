package fakecri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/testing/internal/sleep"
)

// maxMessage is the largest size of a message in containerd.
const maxMessage = 16 << 20

// Options are the options of a Server.
type Options struct {
	// Machine is required.
	Machine Machine
	// Images is the image store; if nil, the store is always empty.
	Images Images
	// Faults decides about faults; if nil, there are no faults.
	Faults Faults
	// Socket is the path of a unix socket, at most about 100 bytes. If empty, clients can connect only by Dial.
	Socket string
	// Name and Version are the runtime's name and version; if empty, containerd and 2.4.2.
	Name, Version string
	// Clock is the clock for times in responses; if nil, the real clock is used.
	Clock clock.PassiveClock
}

// Server is a simulated container runtime. The methods are safe for concurrent use.
type Server struct {
	opts Options

	mu      sync.Mutex // held while the runtime is started or stopped
	life    *life      // nil while the runtime is stopped
	stopped bool

	counts sync.Mutex
	calls  map[string]int
	conns  map[*countedConn]bool

	restarts sync.WaitGroup
}

// life is the state of the runtime between a start and a stop.
type life struct {
	server  *grpc.Server
	pipe    *pipe
	serving sync.WaitGroup
}

// Start starts a runtime; call Stop at the end.
func Start(opts Options) (*Server, error) {
	if opts.Machine == nil {
		return nil, errors.New("start the fake runtime: no Machine given")
	}
	if opts.Images == nil {
		opts.Images = none{}
	}
	if opts.Faults == nil {
		opts.Faults = &Plan{}
	}
	if opts.Name == "" {
		opts.Name = "containerd"
	}
	if opts.Version == "" {
		opts.Version = "2.4.2"
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	s := &Server{opts: opts, calls: map[string]int{}, conns: map[*countedConn]bool{}}
	if err := s.Up(); err != nil {
		return nil, err
	}
	return s, nil
}

// Up starts the runtime again after Down.
func (s *Server) Up() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up()
}

func (s *Server) up() error {
	if s.life != nil || s.stopped {
		return nil
	}
	l := &life{
		pipe: newPipe(),
		server: grpc.NewServer(grpc.UnaryInterceptor(s.intercept), grpc.WaitForHandlers(true),
			grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage)),
	}
	runtimeapi.RegisterRuntimeServiceServer(l.server, &runtimeService{opts: s.opts})
	runtimeapi.RegisterImageServiceServer(l.server, &imageService{opts: s.opts})
	listeners := []net.Listener{l.pipe}
	if s.opts.Socket != "" {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.opts.Socket, Net: "unix"})
		if err != nil {
			return fmt.Errorf("start the fake runtime: %w", err)
		}
		listeners = append(listeners, listener)
	}
	for _, listener := range listeners {
		// Serve returns only when the runtime is stopped.
		l.serving.Go(func() { _ = l.server.Serve(counted{listener, s}) })
	}
	s.life = l
	return nil
}

// Down stops the runtime: it ends all calls and connections, and removes the socket. The containers are not stopped.
func (s *Server) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down()
}

func (s *Server) down() {
	if s.life == nil {
		return
	}
	s.life.server.Stop()
	s.life.serving.Wait()
	s.life = nil
}

// Restart stops and starts the runtime. The socket is then a new file with the same name.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down()
	return s.up()
}

// Stop stops the runtime for good.
func (s *Server) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.down()
	s.mu.Unlock()
	s.restarts.Wait()
}

// Calls returns how often each method has been called.
func (s *Server) Calls() map[string]int {
	s.counts.Lock()
	defer s.counts.Unlock()
	return maps.Clone(s.calls)
}

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.counts.Lock()
	defer s.counts.Unlock()
	return len(s.conns)
}

// Dial connects to the runtime within the process. The signature fits grpc.WithContextDialer, and the address is
// ignored.
func (s *Server) Dial(ctx context.Context, _ string) (net.Conn, error) {
	s.mu.Lock()
	l := s.life
	s.mu.Unlock()
	if l == nil {
		return nil, errors.New("connect to the fake runtime: the runtime is down")
	}
	return l.pipe.dial(ctx)
}

// Client returns a gRPC connection made by Dial.
func (s *Server) Client() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///fakecri", grpc.WithContextDialer(s.Dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connect to the fake runtime: %w", err)
	}
	return conn, nil
}

// intercept counts a call, and applies a fault.
func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	s.counts.Lock()
	s.calls[method]++
	s.counts.Unlock()
	fault := s.opts.Faults.Next(ctx, method, request)
	if fault.Delay > 0 {
		if err := sleep.For(ctx, fault.Delay); err != nil {
			return nil, answer(err)
		}
	}
	if fault.Done || fault.Kind == "" {
		response, err := handle(ctx, request)
		if fault.Kind == "" {
			return response, answer(err)
		}
	}
	switch fault.Kind {
	case Fail:
		return nil, answer(fault.Err)
	case Drop:
		hangUp(ctx)
	case Restart:
		// Restart waits until all calls have ended, including this call, so it runs in another goroutine. If the
		// restart fails, the runtime stays stopped, and Up returns the reason.
		s.restarts.Go(func() { _ = s.Restart() })
	case Hang:
	default:
		return nil, fmt.Errorf("a fault of unknown kind %q", fault.Kind)
	}
	<-ctx.Done()
	return nil, answer(ctx.Err())
}

// hangUp closes the connection on which a call arrived.
func hangUp(ctx context.Context) {
	if from, ok := peer.FromContext(ctx); ok {
		if address, ok := from.Addr.(caller); ok {
			_ = address.conn.Close() // the connection is broken anyway
		}
	}
}

// answer returns an error with the gRPC code that containerd uses.
func answer(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Unknown
	switch {
	case errors.Is(err, ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	return status.Error(code, err.Error())
}
