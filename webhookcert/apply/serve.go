package apply

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/workloadkit/workloadkit/reason"
)

// GetCertificate is for tls.Config. It returns what was parsed when the Secret changed, without lock or allocation, and an
// error as long as there is nothing.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	m := k.certificate.Load()
	if m == nil {
		return nil, reason.Reason{Code: NotServing, Object: k.secret.ref, Detail: "there is no certificate yet"}
	}
	return m.Certificate, nil
}

// TLS makes a server use the keeper's certificate. It is one of controller-runtime's TLSOpts.
func (k *Keeper) TLS(config *tls.Config) { config.GetCertificate = k.GetCertificate }

// Bundle returns the authorities that clients of this server have to trust, as PEM, and nil as long as there are none.
func (k *Keeper) Bundle() []byte {
	if m := k.certificate.Load(); m != nil {
		return m.Bundle
	}
	return nil
}

// Ready returns nil if the server at Options.Address completes a handshake with a client that trusts the published bundle.
// Until Initialised is closed every object that exists has to hold that bundle as well; an object that loses it later is
// repaired and told of (Observer.Injected), and is no reason to take a server away from all the others. The error carries
// reasons with code NotServing or those of package webhookcert.
func (k *Keeper) Ready(ctx context.Context) error {
	s, m := k.status.Load(), k.certificate.Load()
	if s == nil || m == nil {
		detail := "there is no certificate yet"
		if !k.started.Load() {
			detail = "the keeper has not been started; a manager starts a webhook server once GetWebhookServer was called"
		}
		return reason.Reason{Code: NotServing, Object: k.secret.ref, Detail: detail}
	}
	if err := s.faults.Err(); err != nil && !s.initialised {
		return err
	}
	if k.options.Address == "" {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(m.Bundle)
	ctx, cancel := context.WithTimeout(ctx, k.options.Timeout)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{
		RootCAs: roots, ServerName: k.config.ServerName(), Time: k.options.Clock.Now, MinVersion: tls.VersionTLS12,
	}}
	connection, err := dialer.DialContext(ctx, "tcp", k.options.Address)
	if err != nil {
		return fmt.Errorf("%w: %w", reason.Reason{
			Code: NotServing, New: k.options.Address, Detail: "no handshake with the published bundle",
		}, err)
	}
	return connection.Close()
}

// Check is Ready as controller-runtime's healthz.Checker.
func (k *Keeper) Check(request *http.Request) error { return k.Ready(request.Context()) }

// WebhookServer is controller-runtime's webhook.Server.
type WebhookServer interface {
	NeedLeaderElection() bool
	Register(path string, hook http.Handler)
	Start(ctx context.Context) error
	StartedChecker() healthz.Checker
	WebhookMux() *http.ServeMux
}

// Server returns a webhook server that runs the keeper beside it and listens from the first certificate on. A manager starts
// its webhook server before its caches, and so the keeper. Do not start the keeper otherwise then.
func (k *Keeper) Server(server WebhookServer) WebhookServer {
	return &kept{WebhookServer: server, keeper: k}
}

type kept struct {
	WebhookServer
	keeper *Keeper
}

// Start ends when both have ended; if one fails the other is stopped.
func (s *kept) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var keeping error
	group.Go(func() {
		defer cancel()
		keeping = s.keeper.Start(ctx)
	})
	var serving error
	select {
	case <-ctx.Done():
	case <-s.keeper.serving:
		serving = s.WebhookServer.Start(ctx)
		cancel()
	}
	group.Wait()
	return errors.Join(serving, keeping)
}
