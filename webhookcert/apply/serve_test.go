package apply_test

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

	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/apply"
)

var _ healthz.Checker = (*apply.Keeper)(nil).Check

// stub is a webhook server that notes whether there was a certificate when it began to listen.
type stub struct {
	apply.WebhookServer

	keeper *apply.Keeper
	fails  error
	began  chan error
}

func (s *stub) Start(ctx context.Context) error {
	_, err := s.keeper.GetCertificate(nil)
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
				k, err := apply.New(w.options(func(o *apply.Options) { o.Validating, o.CRDs = nil, nil }))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := k.GetCertificate(nil); !errors.Is(err, apply.NotServing) {
					t.Errorf("a certificate before the start: %v", err)
				}
				if err := k.Check(&http.Request{}); !errors.Is(err, apply.NotServing) {
					t.Errorf("ready before the start: %v", err)
				}
				inner := &stub{keeper: k, fails: fails, began: make(chan error, 1)}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- k.Server(inner).Start(ctx) }()
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
				if err := k.Start(t.Context()); err == nil {
					t.Error("it starts twice")
				}
			})
		})
	}
}

// WC-10: the files follow the Secret, and an authority's key is not among them.
func TestFilesFollow(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "certs")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k, _ := w.start(func(o *apply.Options) {
			o.Mutating, o.Validating, o.CRDs, o.Directory = nil, nil, nil, directory
		})
		synctest.Wait()
		check := func() {
			t.Helper()
			if _, err := tls.LoadX509KeyPair(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "key.pem")); err != nil {
				t.Error(err)
			}
			bundle, err := os.ReadFile(filepath.Join(directory, "ca-cert.pem"))
			if err != nil || string(bundle) != string(k.Bundle()) {
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
		edit func(*apply.Options)
		want string
	}{
		{name: "good", edit: func(*apply.Options) {}},
		{name: "no client", edit: func(o *apply.Options) { o.Client = nil }, want: "Client"},
		{name: "no Secret", edit: func(o *apply.Options) { o.Secret = client.ObjectKey{Name: "x"} }, want: `"/x"`},
		{name: "no port", edit: func(o *apply.Options) { o.Host = "localhost" }, want: "Port 0"},
		{name: "an IP address", edit: func(o *apply.Options) { o.Host, o.Port, o.Config.IPs = "::1", 9443, []string{"::1"} }},
		{name: "an IP address among the names", edit: func(o *apply.Options) { o.Config.DNSNames = []string{"127.0.0.1"} }, want: "clients look for it in IPs"},
		{name: "a host that no certificate is for", edit: func(o *apply.Options) { o.Host, o.Port = "elsewhere.example.com", 9443 }, want: `Host "elsewhere.example.com" is not among`},
		{name: "the same, external", edit: func(o *apply.Options) { o.External, o.Host, o.Port = true, "elsewhere.example.com", 9443 }, want: `Host "elsewhere.example.com" is not among`},
		{name: "a host of a wildcard", edit: func(o *apply.Options) {
			o.Host, o.Port, o.Config.DNSNames = "a.example.com", 9443, []string{"*.example.com"}
		}},
		{name: "no Secret can have that name", edit: func(o *apply.Options) { o.Secret.Name = "Bad_Name" }, want: "Bad_Name"},
		{name: "a name that is empty", edit: func(o *apply.Options) { o.CRDs = []string{""} }, want: "CRDs"},
		{name: "a name twice", edit: func(o *apply.Options) { o.Mutating = []string{"a", "b", "a"} }, want: `Mutating: "a" is named twice`},
		{name: "a host with a port", edit: func(o *apply.Options) { o.Host, o.Port = "localhost:8443", 9443 }, want: `Host: BadAddress: "localhost:8443"`},
		{name: "a bad host, external", edit: func(o *apply.Options) { o.External, o.Host, o.Port = true, "LocalHost", 9443 }, want: `"LocalHost"`},
		{name: "no names", edit: func(o *apply.Options) { o.Config.DNSNames = nil }, want: "DNSNames"},
		{name: "no names, external", edit: func(o *apply.Options) { o.External, o.Config.DNSNames = true, nil }, want: "DNSNames"},
		{name: "few keys, external", edit: func(o *apply.Options) { o.External, o.Config.Keys.State = true, "" }},
		{name: "no keys, external", edit: func(o *apply.Options) { o.External, o.Config.Keys = true, webhookcert.Keys{} }, want: "config: Keys."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := apply.New(w.options(test.edit))
			if test.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// What could never be injected is no readiness.
func TestReadyNamesABadTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mutating())
		k, err := apply.New(w.options(func(o *apply.Options) {
			o.Validating, o.CRDs, o.Host, o.Port, o.Config.DNSNames = nil, nil, "localhost", 9443, []string{"localhost"}
		}))
		if err != nil {
			t.Fatal(err)
		}
		k.SetHost("LocalHost")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = k.Start(ctx) }()
		w.pass(time.Minute)
		if err := k.Ready(t.Context()); !errors.Is(err, webhookcert.BadAddress) || !strings.Contains(err.Error(), "LocalHost") {
			t.Errorf("ready: %v", err)
		}
		same(t, "initialised", false, closed(k.Initialised()))
		cancel()
		synctest.Wait()
	})
}

func BenchmarkGetCertificate(b *testing.B) {
	w := newWorld(&testing.T{})
	k, err := apply.New(w.options(func(o *apply.Options) { o.Mutating, o.Validating, o.CRDs = nil, nil, nil }))
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = k.Start(b.Context()) }()
	<-k.Initialised()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.GetCertificate(nil); err != nil {
			b.Fatal(err)
		}
	}
}
