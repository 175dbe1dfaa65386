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
	// maxConnections is the largest number of connections to the webhooks. An API server calls webhooks by HTTP/1.1
	// (apiserver/pkg/util/webhook), so each concurrent review has its own connection. An idle connection takes 6 KiB.
	maxConnections = 2000
	// maxHeader is the largest size of a request's header, in bytes; the header of an API server has a few hundred.
	maxHeader = 16 << 10
	// headerTimeout is how long a TLS handshake or a header may take. idleTimeout is how long a connection stays open
	// for the next review. An API server closes an idle connection after 90 seconds, and the webhook must not close the
	// connection first.
	headerTimeout, idleTimeout = 5 * time.Second, 2 * time.Minute
	// answerTimeout is how long the server may take for a review, from the first byte of the request to the last byte
	// of the response. The handlers set shorter limits for waits, reads and writes.
	answerTimeout = 30 * time.Second
	// maxStreams is the largest number of concurrent reviews on a connection.
	maxStreams = 250
)

// boundedServer is controller-runtime's webhook server with limits, so that no client can overload the server.
type boundedServer struct {
	webhook.Server

	address     string
	connections int // the largest number of open connections
	tls         func(*tls.Config)
	// closed is called for each connection that is closed because of the limit.
	closed  func()
	started atomic.Bool
}

func newBoundedServer(host string, port, connections int, configure func(*tls.Config), closed func()) *boundedServer {
	return &boundedServer{
		Server:  webhook.NewServer(webhook.Options{}),
		address: net.JoinHostPort(host, strconv.Itoa(port)), connections: connections, tls: configure, closed: closed,
	}
}

// Start serves until ctx ends. Then Start waits until running reviews have ended, or until the manager's shutdown
// timeout.
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
	// A review that has started gets an answer, even if ctx ends meanwhile.
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

// StartedChecker returns a check that the server is listening.
func (s *boundedServer) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhooks do not listen yet")
		}
		return nil
	}
}

// detail logs a server's messages about connections only at a verbose level, because any client can cause any number of
// messages.
type detail struct{ logger logr.Logger }

func (d detail) Write(line []byte) (int, error) {
	d.logger.V(1).Info("A connection to the webhooks failed", "error", string(line))
	return len(line), nil
}
