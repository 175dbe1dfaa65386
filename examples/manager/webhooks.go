package manager

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

// Names of the objects for telling the API server about the webhooks.
const (
	mutatingConfiguration   = "kruise-mutating-webhook-configuration"
	validatingConfiguration = "kruise-validating-webhook-configuration"
)

// secretKeys are OpenKruise's keys, and the keys for the second authority of a rotation. OpenKruise does not know the
// latter and leaves the values alone.
func secretKeys() webhookcert.Keys {
	return webhookcert.Keys{
		CACert: []string{"ca-cert.pem"}, CAKey: []string{"ca-key.pem"},
		Cert: []string{"cert.pem", "tls.crt"}, Key: []string{"key.pem", "tls.key"},
		NextCACert: "next-ca-cert.pem", NextCAKey: "next-ca-key.pem", OldCACerts: "old-ca-certs.pem",
		State: "rotation.json", Rotate: "rotate",
	}
}

// newRotator returns the rotator and server of the certificates, with the environment's names.
func newRotator(c client.WithWatch, w Webhooks, crds []string, external bool, observer rotator.Observer) (*rotator.Rotator, error) {
	config := webhookcert.Config{
		// The way back to OpenKruise must stay open, and OpenKruise's authorities are RSA. OpenKruise's leaves are RSA, too,
		// but OpenKruise accepts any matching pair.
		Algorithm: x509.RSA, LeafAlgorithm: x509.ECDSA, CommonName: "webhook-cert-ca", Keys: secretKeys(), Overlap: w.Overlap, External: external,
		LeafRenewBefore: orDefault(w.RenewBefore, 180*24*time.Hour), CARenewBefore: 365 * 24 * time.Hour,
	}
	config.LeafValidity = max(365*24*time.Hour, 2*config.LeafRenewBefore)
	config.CAValidity = max(10*365*24*time.Hour, config.LeafValidity+2*config.CARenewBefore)
	name := w.ServiceName + "." + w.Namespace + ".svc"
	if w.Host != "" {
		name = w.Host
	}
	if net.ParseIP(name) != nil {
		config.IPs = []string{name}
	} else {
		config.DNSNames = []string{name}
	}
	if name != "localhost" {
		config.DNSNames = append(config.DNSNames, "localhost") // for OpenKruise's readiness check
	}
	if external {
		config.Keys = webhookcert.TLSSecretKeys() // the names used by cert-manager
	}
	return rotator.New(rotator.Options{
		Client: c, Config: config,
		Secret:   client.ObjectKey{Namespace: w.Namespace, Name: w.SecretName},
		Mutating: []string{mutatingConfiguration}, Validating: []string{validatingConfiguration}, CRDs: crds,
		Host: w.Host, Port: w.Port, Directory: w.CertDir,
		Address:  net.JoinHostPort("localhost", strconv.Itoa(orDefault(w.ListenPort, w.Port))),
		Observer: observer,
	})
}

// newWebhooks returns the server of admission and conversion, with rotating certificates and a proof of serving.
func newWebhooks(c client.WithWatch, options Options, pods *podWebhook, log logr.Logger) (*webhooks, error) {
	w := *options.Webhooks
	observer, err := newCertificateMetrics(options.Registry)
	if err != nil {
		return nil, err
	}
	certs, err := newRotator(c, w, kind.ConvertedCRDs(options.Kinds), options.Gates[apps.GateExternalCerts], observer)
	if err != nil {
		return nil, fmt.Errorf("webhook certificates: %w", err)
	}
	reviews, err := newReviewMetrics(options.Registry)
	if err != nil {
		return nil, err
	}
	refusals, err := newRefusals(options.Registry, log)
	if err != nil {
		return nil, err
	}
	if err := refusals.openFor(options); err != nil {
		return nil, err
	}
	served := admission.Options{
		Refused: refusals.Refused,
		Gates:   options.Gates, Reader: c, Client: c, Namespace: w.Namespace, Log: log,
		TemplateUnchecked: reviews.templateUnchecked, UnknownPath: reviews.unknownPath, CutOff: reviews.cutOff,
	}
	endpoints := append(kind.Endpoints(options.Kinds, served), admission.Protection(served), admission.Agents(served))
	if options.Gates[apps.GatePodWebhook] {
		endpoints = append(endpoints, pods.endpoint())
	}
	handlers := admission.Handlers(served, endpoints...)
	rotated := certs.Server(webhookServer(certs, w, reviews.connectionClosed, handlers))
	after := always
	if w.Host != "" {
		after = func(ctx context.Context) error { return awaitOthers(ctx, c, options.LeaderElection, clock.RealClock{}) }
	}
	return &webhooks{server: &deferred{Server: rotated, log: log, after: after}, ready: certs.Ready, faults: certs.Faults, options: served}, nil
}

// webhooks are the server of admission and conversion, the proof of serving, the faults hidden from clients, and the
// options of the handlers.
type webhooks struct {
	server  *deferred
	ready   func(context.Context) error
	faults  func() error
	options admission.Options
}

// noWebhooks stands for a manager without webhooks.
func noWebhooks() *webhooks {
	return &webhooks{ready: always, faults: func() error { return nil }}
}

// deferred is a server that starts after a precondition, with a logger not passed on by managers.
type deferred struct {
	webhook.Server

	log   logr.Logger
	after func(context.Context) error
	// failed receives the error of a server ended too early. A manager reads the errors of its servers after all caches
	// are filled, and caches are not filled without conversion. Set failed before the manager starts.
	failed context.CancelCauseFunc
}

// Start serves until ctx ends.
func (d *deferred) Start(ctx context.Context) error {
	ctx = logr.NewContext(ctx, d.log)
	if err := d.after(ctx); err != nil {
		return nil //nolint:nilerr // Only the context's end is an error.
	}
	err := d.Server.Start(ctx)
	if err != nil {
		d.failed(err)
	}
	return err
}

// webhookServer serves the handlers with the certificate of certs.
func webhookServer(certs *rotator.Rotator, w Webhooks, closed func(), handlers map[string]http.Handler) webhook.Server {
	server := newBoundedServer(listenHost(w.Host), orDefault(w.ListenPort, w.Port), maxConnections, certs.TLS, closed)
	for path, handler := range handlers {
		server.Register(path, handler)
	}
	return server
}

// listenHost restricts a server with a local name to the local address.
func listenHost(called string) string {
	if ip := net.ParseIP(called); called == "localhost" || (ip != nil && ip.IsLoopback()) {
		return called
	}
	return ""
}

// ensureNamespace creates the namespace of Secret and Lease, for clusters without an installation. The label keeps
// webhooks for Pods away from the manager's own Pods.
func ensureNamespace(ctx context.Context, c client.Client, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"control-plane": "openkruise"}}}
	err := c.Get(ctx, client.ObjectKeyFromObject(namespace), &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, namespace)
	}
	if apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
		return nil // the namespace is the installer's job; later requests will name anything missing
	}
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}
