package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// maxConnections bounds the connections to the webhooks. An API server speaks HTTP/1.1 to webhooks (apiserver/pkg/util/webhook), so
	// that each review has one of its own. An idle one takes 6 KiB.
	maxConnections = 2000
	// maxHeader bounds the header of a request, in bytes; those of an API server have a few hundred.
	maxHeader = 16 << 10
	// headerTimeout bounds how long a handshake or a header takes, idleTimeout how long a connection stays open for the next review: an API
	// server gives it up after 90 seconds, and nobody likes to be hung up on.
	headerTimeout, idleTimeout = 5 * time.Second, 2 * time.Minute
	// answerTimeout bounds a review as a whole. What it waits for and what it reads and writes is bounded more tightly where it is judged.
	answerTimeout = 30 * time.Second
	// maxStreams bounds the reviews that wait on one connection.
	maxStreams = 250
)

// boundedServer is controller-runtime's webhook server with limits for those who are no API server.
type boundedServer struct {
	webhook.Server

	address     string
	connections int // at most
	tls         func(*tls.Config)
	// closed is told of connections that had to go.
	closed  func()
	started atomic.Bool
}

func newBoundedServer(host string, port, connections int, configure func(*tls.Config), closed func()) *boundedServer {
	return &boundedServer{
		Server:  webhook.NewServer(webhook.Options{}),
		address: net.JoinHostPort(host, strconv.Itoa(port)), connections: connections, tls: configure, closed: closed,
	}
}

// Start serves until ctx ends, and then for as long as reviews are under way and the manager waits for them.
func (s *boundedServer) Start(ctx context.Context) error {
	logger := logr.FromContextOrDiscard(ctx).WithName("webhooks")
	inner, err := new(net.ListenConfig).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	listener := newBoundedListener(inner, s.connections, func(address string) {
		logger.V(1).Info("A connection was closed for another", "of", address, "most", s.connections)
		s.closed()
	})
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	s.tls(config)
	// A review that has begun is answered, also when ctx ends meanwhile.
	reviews, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	server := &http.Server{
		Handler: s.WebhookMux(), TLSConfig: config, BaseContext: func(net.Listener) context.Context { return reviews },
		MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, WriteTimeout: answerTimeout,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog: log.New(detail{logger}, "", 0), ConnState: listener.state,
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), ShutdownTimeout)
		defer cancel()
		stopped <- server.Shutdown(late)
	}()
	s.started.Store(true)
	logger.Info("Serving webhooks", "address", s.address)
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("webhooks: %w", err)
	}
	return <-stopped
}

// StartedChecker says whether the server listens.
func (s *boundedServer) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhooks do not listen yet")
		}
		return nil
	}
}

// detail logs what a server says of its connections: strangers decide how much that is.
type detail struct{ logger logr.Logger }

func (d detail) Write(line []byte) (int, error) {
	d.logger.V(1).Info("A connection to the webhooks failed", "error", string(line))
	return len(line), nil
}
