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

// GetCertificate implements the field GetCertificate of tls.Config. GetCertificate returns the certificate that was
// parsed when the Secret last changed, without lock or allocation. If there is no certificate yet, the error has the
// code NotServing.
func (r *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	m := r.certificate.Load()
	if m == nil {
		return nil, r.notServing("there is no certificate yet")
	}
	return m.Certificate, nil
}

// notServing is the error of a server that has no certificate.
func (r *Rotator) notServing(detail string) error {
	why := reason.Reason{Code: NotServing, Detail: detail}
	if r.secret == nil {
		why.Detail = "the Rotator was not made by New"
	} else {
		why.Object = r.secret.ref
	}
	return why
}

// TLS makes a server serve the Rotator's certificate. List TLS in the TLSOpts of controller-runtime's webhook server.
func (r *Rotator) TLS(config *tls.Config) { config.GetCertificate = r.GetCertificate }

// Bundle returns the authorities that clients of this server must trust, as PEM. Bundle is nil if there is no
// certificate yet.
func (r *Rotator) Bundle() []byte {
	if m := r.certificate.Load(); m != nil {
		return m.Bundle
	}
	return nil
}

// Ready returns nil if the server at Options.Address completes a TLS handshake with a client that trusts the published
// CA bundle. Until the channel Initialised is closed, every existing object must also hold the CA bundle. If an object
// loses the bundle later, the Rotator repairs and reports the object (Observer.Injected), and this server stays ready.
// The error has reasons with code NotServing or the codes of package webhookcert.
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

// Faults returns what is wrong with the certificate and the objects now, as reasons with code NotServing and the codes
// of package webhookcert. nil means that there are no faults. Unlike Ready, Faults also reports objects that lose the
// bundle later: Faults is for people and alerts, and must not be used for readiness.
func (r *Rotator) Faults() error {
	s := r.status.Load()
	if s == nil {
		return r.notServing("the rotator has not looked yet")
	}
	return s.faults.Err()
}

// Check calls Ready, and is a healthz.Checker of controller-runtime.
func (r *Rotator) Check(request *http.Request) error { return r.Ready(request.Context()) }

// Server returns a webhook server that runs the Rotator together with server; server listens as soon as there is a
// first certificate. A manager starts its webhook servers before its caches, and so starts the Rotator before the
// caches, too. If Server is used, do not start the Rotator in another way.
func (r *Rotator) Server(server webhook.Server) webhook.Server {
	return &rotated{Server: server, rotator: r}
}

type rotated struct {
	webhook.Server

	rotator *Rotator
}

// Start returns when both the Rotator and the server have ended. If either fails, Start stops both.
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
