package rotator_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

var _ healthz.Checker = (*rotator.Rotator)(nil).Check

// stub is a webhook server that records whether the rotator had a certificate when the server started.
type stub struct {
	webhook.Server

	rotator *rotator.Rotator
	fails   error
	began   chan error
}

func (s *stub) Start(ctx context.Context) error {
	_, err := s.rotator.GetCertificate(nil)
	s.began <- err
	if s.fails != nil {
		return s.fails
	}
	<-ctx.Done()
	return nil
}

func TestServer(t *testing.T) {
	broken := errors.New("address in use")
	for name, fails := range map[string]error{"WC-40: runs until it is stopped": nil, "WC-40: the server fails": broken} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mutating())
				r, err := rotator.New(w.options(func(o *rotator.Options) { o.Validating, o.CRDs = nil, nil }))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.GetCertificate(nil); !errors.Is(err, rotator.NotServing) {
					t.Errorf("a certificate before the start: %v", err)
				}
				if err := r.Check(&http.Request{}); !errors.Is(err, rotator.NotServing) {
					t.Errorf("ready before the start: %v", err)
				}
				inner := &stub{rotator: r, fails: fails, began: make(chan error, 1)}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.Server(inner).Start(ctx) }()
				if err := <-inner.began; err != nil {
					t.Errorf("it listens without a certificate: %v", err)
				}
				if fails == nil {
					synctest.Wait()
					cancel()
				}
				if err := <-ended; !errors.Is(err, fails) {
					t.Errorf("got %v, want %v", err, fails)
				}
				cancel()
				if err := r.Start(t.Context()); err == nil {
					t.Error("it starts twice")
				}
			})
		})
	}
}

// TestFilesFollow: the files change with the Secret, and the keys of authorities are not among the files.
func TestFilesFollow(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "certs")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, _ := w.start(func(o *rotator.Options) {
			o.Mutating, o.Validating, o.CRDs, o.Directory = nil, nil, nil, directory
		})
		synctest.Wait()
		check := func() {
			t.Helper()
			if _, err := tls.LoadX509KeyPair(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "key.pem")); err != nil {
				t.Error(err)
			}
			bundle, err := os.ReadFile(filepath.Join(directory, "ca-cert.pem"))
			if err != nil || string(bundle) != string(r.Bundle()) {
				t.Errorf("the bundle on disk differs, %v", err)
			}
		}
		check()
		secret := w.secret()
		secret.Data["rotate"] = []byte("now")
		w.change(secret)
		synctest.Wait()
		check()
		if _, err := os.Stat(filepath.Join(directory, "ca-key.pem")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the authority's key is on disk: %v", err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name string
		edit func(*rotator.Options)
		want string
	}{
		{name: "good", edit: func(*rotator.Options) {}},
		{name: "no client", edit: func(o *rotator.Options) { o.Client = nil }, want: "Client"},
		{name: "no Secret", edit: func(o *rotator.Options) { o.Secret = client.ObjectKey{Name: "x"} }, want: `"/x"`},
		{name: "no port", edit: func(o *rotator.Options) { o.Host = "localhost" }, want: "Port 0"},
		{name: "an IP address", edit: func(o *rotator.Options) { o.Host, o.Port, o.Config.IPs = "::1", 9443, []string{"::1"} }},
		{name: "an IP address among the names", edit: func(o *rotator.Options) { o.Config.DNSNames = []string{"127.0.0.1"} }, want: "clients look for it in IPs"},
		{name: "a host that no certificate is for", edit: func(o *rotator.Options) { o.Host, o.Port = "elsewhere.example.com", 9443 }, want: `Host "elsewhere.example.com" is not among`},
		{name: "the same, external", edit: func(o *rotator.Options) { o.Config.External, o.Host, o.Port = true, "elsewhere.example.com", 9443 }, want: `Host "elsewhere.example.com" is not among`},
		{name: "a host of a wildcard", edit: func(o *rotator.Options) {
			o.Host, o.Port, o.Config.DNSNames = "a.example.com", 9443, []string{"*.example.com"}
		}},
		{name: "no Secret can have that name", edit: func(o *rotator.Options) { o.Secret.Name = "Bad_Name" }, want: "Bad_Name"},
		{name: "nothing gets the bundle", edit: func(o *rotator.Options) { o.Mutating, o.Validating, o.CRDs = nil, nil, nil }, want: "none of Mutating, Validating and CRDs"},
		{name: "SecretAlone beside names", edit: func(o *rotator.Options) { o.SecretAlone = true }, want: "SecretAlone"},
		{name: "files get the bundle", edit: func(o *rotator.Options) { o.Mutating, o.Validating, o.CRDs, o.Directory = nil, nil, nil, "certs" }},
		{name: "a name that is empty", edit: func(o *rotator.Options) { o.CRDs = []string{""} }, want: "CRDs"},
		{name: "an address without a port", edit: func(o *rotator.Options) { o.Address = "localhost" }, want: `Address "localhost"`},
		{name: "a name twice", edit: func(o *rotator.Options) { o.Mutating = []string{"a", "b", "a"} }, want: `Mutating: "a" is named twice`},
		{name: "a host with a port", edit: func(o *rotator.Options) { o.Host, o.Port = "localhost:8443", 9443 }, want: `Host: BadAddress: "localhost:8443"`},
		{name: "a bad host, external", edit: func(o *rotator.Options) { o.Config.External, o.Host, o.Port = true, "LocalHost", 9443 }, want: `"LocalHost"`},
		{name: "no names", edit: func(o *rotator.Options) { o.Config.DNSNames = nil }, want: "DNSNames"},
		{name: "no names, external", edit: func(o *rotator.Options) { o.Config.External, o.Config.DNSNames = true, nil }, want: "DNSNames"},
		{name: "few keys, external", edit: func(o *rotator.Options) { o.Config.External, o.Config.Keys.State = true, "" }},
		{name: "one key, external", edit: func(o *rotator.Options) {
			o.Config.External, o.Config.Keys = true, webhookcert.Keys{CACert: []string{"ca.crt"}}
		}, want: "config: Keys.Cert has no name"},
		{name: "no keys", edit: func(o *rotator.Options) { o.Config.Keys = webhookcert.Keys{} }},
		{name: "no keys, external", edit: func(o *rotator.Options) { o.Config.External, o.Config.Keys = true, webhookcert.Keys{} }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := rotator.New(w.options(test.edit))
			if test.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestReadyNamesABadTarget: a server is not ready if the configured address is invalid, so that the objects can never
// contain the address.
func TestReadyNamesABadTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		r, err := rotator.New(w.options(func(o *rotator.Options) {
			o.Validating, o.CRDs, o.Host, o.Port, o.Config.DNSNames = nil, nil, "localhost", 9443, []string{"localhost"}
		}))
		if err != nil {
			t.Fatal(err)
		}
		r.SetHost("LocalHost")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = r.Start(ctx) }()
		w.pass(time.Minute)
		if err := r.Ready(t.Context()); !errors.Is(err, webhookcert.BadAddress) || !strings.Contains(err.Error(), "LocalHost") {
			t.Errorf("ready: %v", err)
		}
		same(t, "initialised", false, closed(r.Initialised()))
		cancel()
		synctest.Wait()
	})
}

// TestZeroRotator: a Rotator not made by New returns errors and does not panic.
func TestZeroRotator(t *testing.T) {
	r := &rotator.Rotator{}
	config := &tls.Config{}
	r.TLS(config)
	_, handshake := config.GetCertificate(nil)
	for what, err := range map[string]error{
		"Start": r.Start(t.Context()), "Ready": r.Ready(t.Context()), "Check": r.Check(&http.Request{}), "GetCertificate": handshake,
		"Server": r.Server(&stub{rotator: r}).Start(t.Context()),
	} {
		if err == nil || !strings.Contains(err.Error(), "not made by New") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if r.Bundle() != nil || r.Initialised() != nil {
		t.Error("there is a bundle, or something to wait for")
	}
}

func BenchmarkGetCertificate(b *testing.B) {
	w := newWorld(&testing.T{})
	r, err := rotator.New(w.options(func(o *rotator.Options) { o.Mutating, o.Validating, o.CRDs, o.SecretAlone = nil, nil, nil, true }))
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = r.Start(b.Context()) }()
	<-r.Initialised()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.GetCertificate(nil); err != nil {
			b.Fatal(err)
		}
	}
}
