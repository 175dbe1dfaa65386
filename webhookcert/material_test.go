package webhookcert_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/webhookcert"
)

// A Secret that OpenKruise wrote is used as it is (WC-5, WC-7, WC-8), renewed under its authority (WC-9), rotated, and can
// be read by OpenKruise at each step.
func TestOpenKruiseSecret(t *testing.T) {
	c := config(t, func(c *webhookcert.Config) {
		c.Algorithm, c.LeafRenewBefore = webhookcert.RSA, 180*24*time.Hour
		c.LeafValidity, c.CARenewBefore = 10*365*24*time.Hour, 365*24*time.Hour
	})
	data := madeBy{algorithm: webhookcert.RSA}.secret(t)
	before := maps.Clone(data)
	injected := webhookcert.Observation{Injected: true}
	if d := webhookcert.Decide(c, data, injected, t0); d.Write {
		t.Fatalf("WC-7: a valid Secret is replaced: %v", d.Reason)
	}
	m, err := webhookcert.Read(c, data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Bundle, data["ca-cert.pem"]) {
		t.Error("WC-5: the bundle is not ca-cert.pem")
	}
	expired := madeBy{algorithm: webhookcert.RSA, leafUntil: t0.AddDate(0, 0, 90)}.secret(t)
	renewed := issue(t, c, webhookcert.Decide(c, expired, injected, t0))
	if !bytes.Equal(renewed["ca-cert.pem"], expired["ca-cert.pem"]) || bytes.Equal(renewed["cert.pem"], expired["cert.pem"]) {
		t.Error("WC-9: renewal does not reuse the authority")
	}
	readableByOpenKruise(t, renewed, t0)

	data["rotate"] = []byte("now")
	now := t0
	var steps []webhookcert.Step
	for d := webhookcert.Decide(c, data, injected, now); d.Write; d = webhookcert.Decide(c, data, injected, now) {
		data = issue(t, c, d)
		readableByOpenKruise(t, data, now)
		now = now.Add(c.Overlap + time.Second)
		m, err := webhookcert.Read(c, data)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, m.Step)
	}
	want := []webhookcert.Step{
		webhookcert.Announced, webhookcert.Announced, webhookcert.Switched, webhookcert.Switched, webhookcert.Stable,
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("unexpected steps (-want +got):\n%s", diff)
	}
	names := func(data map[string][]byte) map[string]bool {
		out := map[string]bool{}
		for name := range data {
			out[name] = true
		}
		return out
	}
	if diff := cmp.Diff(names(before), names(data)); diff != "" {
		t.Errorf("WC-5: other keys are left behind (-want +got):\n%s", diff)
	}
}

// readableByOpenKruise checks what OpenKruise checks (WC-7) with the encodings that it reads (WC-8).
func readableByOpenKruise(t *testing.T, data map[string][]byte, now time.Time) {
	t.Helper()
	if certificates(data["ca-cert.pem"]) != 1 {
		t.Errorf("WC-5: ca-cert.pem holds %d certificates", certificates(data["ca-cert.pem"]))
	}
	for _, name := range []string{"ca-key.pem", "key.pem", "tls.key"} {
		block, _ := pem.Decode(data[name])
		if block == nil {
			t.Fatalf("WC-8: %s is no PEM", name)
		}
		if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
			t.Errorf("WC-8: %s: %v", name, err)
		}
	}
	if !bytes.Equal(data["cert.pem"], data["tls.crt"]) || !bytes.Equal(data["key.pem"], data["tls.key"]) {
		t.Error("WC-5: the copies differ")
	}
	block, _ := pem.Decode(data["cert.pem"])
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data["ca-cert.pem"])
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now.AddDate(0, 0, 180)}); err != nil {
		t.Errorf("WC-7: %v", err)
	}
}

func TestRead(t *testing.T) {
	c := config(t, nil)
	good, other := settled(t, c, t0), settled(t, c, t0)
	tests := []struct {
		name string
		data map[string][]byte
		want reason.Code
	}{
		{name: "good", data: good},
		{name: "an authority without key", data: with(good, "ca-key.pem", nil)},
		{name: "nothing", want: webhookcert.CertificateMissing},
		{name: "no authority", data: with(good, "ca-cert.pem", nil), want: webhookcert.CertificateMissing},
		{name: "garbage", data: with(good, "ca-cert.pem", "x"), want: webhookcert.CertificateUnreadable},
		{name: "no key", data: with(good, "key.pem", nil, "tls.key", nil), want: webhookcert.CertificateMissing},
		{name: "another key", data: with(good, "key.pem", other["key.pem"]), want: webhookcert.KeyMismatch},
		{name: "another authority", data: with(good, "ca-cert.pem", other["ca-cert.pem"]), want: webhookcert.CertificateIssuerMismatch},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := webhookcert.Read(c, test.data)
			if test.want == "" != (err == nil) || err != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if (m == nil) != (err != nil) {
				t.Error("material and error, or neither")
			}
		})
	}
	m, err := webhookcert.Read(c, switched(t, c, t0))
	if err != nil {
		t.Fatal(err)
	}
	var roles []webhookcert.Role
	for _, f := range m.Facts {
		roles = append(roles, f.Role)
	}
	if diff := cmp.Diff([]webhookcert.Role{webhookcert.Leaf, webhookcert.CA, webhookcert.OldCA}, roles); diff != "" {
		t.Errorf("unexpected facts (-want +got):\n%s", diff)
	}
}

// WC-20, WC-22: three keys, no checks of name and time.
func TestReadExternal(t *testing.T) {
	k := &webhookcert.Keys{CACert: []string{"ca.crt"}, Cert: []string{"tls.crt"}, Key: []string{"tls.key"}}
	from := madeBy{dns: []string{"else"}, leafUntil: t0.AddDate(0, 0, -1)}.secret(t)
	good := map[string][]byte{"ca.crt": from["ca-cert.pem"], "tls.crt": from["cert.pem"], "tls.key": from["key.pem"]}
	tests := []struct {
		name string
		data map[string][]byte
		want reason.Code
	}{
		{name: "WC-22: another name, expired", data: good},
		{name: "WC-20: no authority", data: with(good, "ca.crt", nil), want: webhookcert.CertificateMissing},
		{name: "WC-20: garbage", data: with(good, "ca.crt", "x"), want: webhookcert.CertificateUnreadable},
		{name: "WC-20: a key that does not fit", data: with(good, "tls.key", from["ca-key.pem"]), want: webhookcert.KeyMismatch},
		{name: "WC-20: no Secret", want: webhookcert.CertificateMissing},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := webhookcert.ReadExternal(k, test.data)
			if test.want == "" != (err == nil) || err != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err == nil && !bytes.Equal(m.Bundle, good["ca.crt"]) {
				t.Error("the bundle is not ca.crt")
			}
		})
	}
}

func TestComplete(t *testing.T) {
	ok := webhookcert.Config{DNSNames: []string{name}, Keys: keys()}
	tests := []struct {
		name string
		edit func(*webhookcert.Config)
		want string
	}{
		{name: "defaults", edit: func(*webhookcert.Config) {}},
		{name: "no names", edit: func(c *webhookcert.Config) { c.DNSNames = nil }, want: "DNSNames and IPs are empty"},
		{name: "an empty name", edit: func(c *webhookcert.Config) { c.DNSNames = []string{name, ""} }, want: `DNSNames: "" is no DNS name`},
		{name: "a name that no certificate can hold", edit: func(c *webhookcert.Config) { c.DNSNames = []string{"é.example.com"} }, want: `"é.example.com"`},
		{name: "no IP", edit: func(c *webhookcert.Config) { c.IPs = []string{"1.2.3"} }, want: `"1.2.3" is not an IP`},
		{name: "algorithm", edit: func(c *webhookcert.Config) { c.Algorithm = "DSA" }, want: `"DSA" is neither`},
		{name: "overlap", edit: func(c *webhookcert.Config) { c.Overlap = -time.Second }, want: "-1s is no time"},
		{name: "leaf", edit: func(c *webhookcert.Config) { c.LeafRenewBefore = 400 * 24 * time.Hour }, want: "LeafRenewBefore 9600h0m0s"},
		{name: "authority", edit: func(c *webhookcert.Config) { c.CARenewBefore = -1 }, want: "CARenewBefore -1ns"},
		{name: "no time to rotate", edit: func(c *webhookcert.Config) { c.CARenewBefore = time.Hour; c.Overlap = time.Hour }, want: "four times"},
		{name: "a key is missing", edit: func(c *webhookcert.Config) { c.Keys.NextCACert = "" }, want: "Keys.NextCACert has no name"},
		{name: "a key is used twice", edit: func(c *webhookcert.Config) { c.Keys.State = "tls.crt" }, want: `Keys.Cert and Keys.State are both "tls.crt"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := ok
			test.edit(&c)
			_, err := c.Complete()
			if test.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func Example() {
	config, err := webhookcert.Config{
		DNSNames: []string{"webhooks.system.svc"},
		Keys: webhookcert.Keys{
			CACert: []string{"ca.crt"}, CAKey: []string{"ca.key"}, Cert: []string{"tls.crt"}, Key: []string{"tls.key"},
			NextCACert: "next-ca.crt", NextCAKey: "next-ca.key", OldCACerts: "old-ca.crt", State: "rotation.json", Rotate: "rotate",
		},
	}.Complete()
	if err != nil {
		fmt.Println(err)
		return
	}
	data := map[string][]byte{}
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for _, later := range []time.Duration{0, 9 * 365 * 24 * time.Hour, time.Minute, 11 * time.Minute} {
		now = now.Add(later)
		decision := webhookcert.Decide(&config, data, webhookcert.Observation{Injected: true}, now)
		if data, err = decision.Issue(&config, source()); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(decision.Step, decision.Reason.Code, decision.Reason.Path)
	}
	// Output:
	// Broken CertificateMissing data[ca.crt]
	// Broken CertificateExpired data[tls.crt]
	// Stable CertificateRenewalDue data[ca.crt]
	// Announced RotationStepPublished data[next-ca.crt]
}

func BenchmarkDecide(b *testing.B) {
	for _, algorithm := range []webhookcert.Algorithm{webhookcert.ECDSA, webhookcert.RSA} {
		b.Run(string(algorithm), func(b *testing.B) {
			c := config(b, func(c *webhookcert.Config) { c.Algorithm = algorithm })
			data := settled(b, c, t0)
			b.ReportAllocs()
			for b.Loop() {
				if webhookcert.Decide(c, data, webhookcert.Observation{Injected: true}, t0).Write {
					b.Fatal("nothing is to be done")
				}
			}
		})
	}
}

func BenchmarkRotation(b *testing.B) {
	c := config(b, nil)
	data := with(settled(b, c, t0), "rotate", "now")
	b.ReportAllocs()
	for b.Loop() {
		d := webhookcert.Decide(c, data, webhookcert.Observation{Injected: true}, t0)
		if _, err := d.Issue(c, source()); err != nil {
			b.Fatal(err)
		}
	}
}
