package rotator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/workloadkit/workloadkit/reason"
)

// GetCertificate is for tls.Config. GetCertificate returns the certificate parsed at the last change of the Secret,
// without lock or allocation. Before the first certificate, GetCertificate returns an error with code NotServing.
func (r *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	m := r.certificate.Load()
	if m == nil {
		return nil, r.notServing("there is no certificate yet")
	}
	return m.Certificate, nil
}

// notServing is the error of a server without certificate.
func (r *Rotator) notServing(detail string) error {
	why := reason.Reason{Code: NotServing, Detail: detail}
	if r.secret == nil {
		why.Detail = "the Rotator was not made by New"
	} else {
		why.Object = r.secret.ref
	}
	return why
}

// TLS makes a server use the rotator's certificate. Pass TLS in controller-runtime's TLSOpts.
func (r *Rotator) TLS(config *tls.Config) { config.GetCertificate = r.GetCertificate }

// Bundle returns the authorities to be trusted by clients of this server, as PEM. Bundle is nil before the first
// certificate.
func (r *Rotator) Bundle() []byte {
	if m := r.certificate.Load(); m != nil {
		return m.Bundle
	}
	return nil
}

// Ready returns nil if the server at Options.Address completes a handshake with a client that trusts the published
// bundle. Until Initialised is closed, every existing object has to hold the bundle as well. An object losing the
// bundle later is repaired and reported (Observer.Injected), and does not take this server out of service. The error
// carries reasons with code NotServing or the codes of package webhookcert.
func (r *Rotator) Ready(ctx context.Context) error {
	s, m := r.status.Load(), r.certificate.Load()
	if s == nil || m == nil {
		if !r.started.Load() {
			return r.notServing("the rotator has not been started; a manager starts a webhook server once GetWebhookServer was called")
		}
		return r.notServing("there is no certificate yet")
	}
	if err := s.faults.Err(); err != nil && !s.initialised {
		return err
	}
	if r.options.Address == "" {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(m.Bundle)
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{
		RootCAs: roots, ServerName: r.policy.ServerName(), Time: r.options.Clock.Now, MinVersion: tls.VersionTLS12,
	}}
	connection, err := dialer.DialContext(ctx, "tcp", r.options.Address)
	if err != nil {
		return fmt.Errorf("%w: %w", reason.Reason{
			Code: NotServing, New: r.options.Address, Detail: "no handshake with the published bundle",
		}, err)
	}
	return connection.Close()
}

// Faults returns the present faults of the certificate and the objects, with reasons of code NotServing and the codes
// of package webhookcert. nil means: no faults. Faults goes on reporting after everything has held once, unlike Ready:
// Faults is for people and alerts, and must not take a server out of service.
func (r *Rotator) Faults() error {
	s := r.status.Load()
	if s == nil {
		return r.notServing("the rotator has not looked yet")
	}
	return s.faults.Err()
}

// Check is Ready as controller-runtime's healthz.Checker.
func (r *Rotator) Check(request *http.Request) error { return r.Ready(request.Context()) }

// Server returns a webhook server that runs the Rotator beside server, and lets server listen from the first
// certificate on. A manager starts its webhook server before its caches, and so the Rotator. Do not start the Rotator
// in another way then.
func (r *Rotator) Server(server webhook.Server) webhook.Server {
	return &rotated{Server: server, rotator: r}
}

type rotated struct {
	webhook.Server

	rotator *Rotator
}

// Start ends when both the Rotator and the server have ended. If either fails, Start stops both.
func (s *rotated) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var rotating error
	group.Go(func() {
		defer cancel()
		rotating = s.rotator.Start(ctx)
	})
	var serving error
	select {
	case <-ctx.Done():
	case <-s.rotator.serving:
		serving = s.Server.Start(ctx)
		cancel()
	}
	group.Wait()
	return errors.Join(serving, rotating)
}
