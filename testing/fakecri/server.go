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

// maxMessage is containerd's limit on a message.
const maxMessage = 16 << 20

// Options say what to serve.
type Options struct {
	// Machine is required.
	Machine Machine
	// Images nil means a store that is always empty.
	Images Images
	// Faults nil means none.
	Faults Faults
	// Socket is the path of a unix socket, at most about 100 bytes. Without a Socket the server is reached by Dial alone.
	Socket string
	// Name and Version of the runtime; empty means containerd and 2.4.2.
	Name, Version string
	// Clock nil means the real time.
	Clock clock.PassiveClock
}

// Server is a runtime. The methods are safe for concurrent use.
type Server struct {
	opts Options

	mu      sync.Mutex // held while the runtime starts and stops
	life    *life      // nil while down
	stopped bool

	counts sync.Mutex
	calls  map[string]int
	conns  map[*countedConn]bool

	restarts sync.WaitGroup
}

// life is the time between a start and a stop of the runtime.
type life struct {
	server  *grpc.Server
	pipe    *pipe
	serving sync.WaitGroup
}

// Start starts a runtime, to be ended with Stop.
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

// Up starts a runtime that is down.
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
		// Serve ends with the runtime, and has no other end.
		l.serving.Go(func() { _ = l.server.Serve(counted{listener, s}) })
	}
	s.life = l
	return nil
}

// Down ends all calls and connections, and removes the socket. The containers stay.
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

// Restart takes the runtime down and up again: the socket is another file of the same name.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down()
	return s.up()
}

// Stop ends the runtime for good.
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

// Dial connects to the runtime within this process. The signature is that of grpc.WithContextDialer, and the address is
// of no importance.
func (s *Server) Dial(ctx context.Context, _ string) (net.Conn, error) {
	s.mu.Lock()
	l := s.life
	s.mu.Unlock()
	if l == nil {
		return nil, errors.New("connect to the fake runtime: the runtime is down")
	}
	return l.pipe.dial(ctx)
}

// Client returns a connection by Dial.
func (s *Server) Client() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///fakecri", grpc.WithContextDialer(s.Dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connect to the fake runtime: %w", err)
	}
	return conn, nil
}

// intercept counts a call, and makes it go wrong.
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
		// The restart waits for the end of all calls, and so for the end of this call. A failed restart leaves the runtime
		// down, for Up to say why.
		s.restarts.Go(func() { _ = s.Restart() })
	case Hang:
	default:
		return nil, fmt.Errorf("a fault of unknown kind %q", fault.Kind)
	}
	<-ctx.Done()
	return nil, answer(ctx.Err())
}

// hangUp closes the connection of a call.
func hangUp(ctx context.Context) {
	if from, ok := peer.FromContext(ctx); ok {
		if address, ok := from.Addr.(caller); ok {
			_ = address.conn.Close() // broken anyway
		}
	}
}

// answer gives an error containerd's code.
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
