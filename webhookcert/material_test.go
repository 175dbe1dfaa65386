package webhookcert_test

import (
	"bytes"
	"crypto/rand"
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

// TestOpenKruiseSecret: a Secret written by OpenKruise is used unchanged. After a renewal of the leaf and at each
// stage of a rotation, OpenKruise can read the Secret.
func TestOpenKruiseSecret(t *testing.T) {
	p := policy(t, func(c *webhookcert.Config) {
		c.Algorithm, c.LeafRenewBefore = x509.RSA, 180*24*time.Hour
		c.LeafValidity, c.CARenewBefore = 10*365*24*time.Hour, 365*24*time.Hour
	})
	data := madeBy{algorithm: x509.RSA}.secret(t)
	before := maps.Clone(data)
	injected := webhookcert.Observation{Injected: true}
	if d := p.Decide(data, injected, t0); d.Write {
		t.Fatalf("WC-7: a valid Secret is replaced: %v", d.Reason)
	}
	m, err := p.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Bundle, data["ca-cert.pem"]) {
		t.Error("WC-5: the bundle is not ca-cert.pem")
	}
	expired := madeBy{algorithm: x509.RSA, leafUntil: t0.AddDate(0, 0, 90)}.secret(t)
	renewed := issue(t, p.Decide(expired, injected, t0))
	if !bytes.Equal(renewed["ca-cert.pem"], expired["ca-cert.pem"]) || bytes.Equal(renewed["cert.pem"], expired["cert.pem"]) {
		t.Error("WC-9: renewal does not reuse the authority")
	}
	readableByOpenKruise(t, renewed, t0)

	data["rotate"] = []byte("now")
	now := t0
	var steps []string
	for d := p.Decide(data, injected, now); d.Write; d = p.Decide(data, injected, now) {
		data = issue(t, d)
		readableByOpenKruise(t, data, now)
		now = now.Add(p.Config().Overlap + time.Second)
		m, err := p.Read(data)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, m.Stage)
	}
	want := []string{
		stageAnnounced, stageAnnounced, stageSwitched, stageSwitched, stageStable,
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

// readableByOpenKruise makes the checks that OpenKruise makes, for the encodings that OpenKruise supports.
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
	p := policy(t, nil)
	good, other := settled(t, p, t0), settled(t, p, t0)
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
			m, err := p.Read(test.data)
			if test.want == "" != (err == nil) || err != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if (m == nil) != (err != nil) {
				t.Error("material and error, or neither")
			}
		})
	}
	m, err := p.Read(switched(t, p, t0))
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, f := range m.Facts {
		roles = append(roles, f.Role)
	}
	if diff := cmp.Diff([]string{"leaf", "ca", "old-ca"}, roles); diff != "" {
		t.Errorf("unexpected facts (-want +got):\n%s", diff)
	}
}

// TestReadExternal: if Config.External is set, only three entries of the Secret are read, names and times are not
// checked, and Decide never writes.
func TestReadExternal(t *testing.T) {
	p := policy(t, func(c *webhookcert.Config) {
		c.External = true
		c.Keys = webhookcert.Keys{CACert: []string{"ca.crt"}, Cert: []string{"tls.crt"}, Key: []string{"tls.key"}}
	})
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
			m, err := p.Read(test.data)
			if test.want == "" != (err == nil) || err != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err == nil && !bytes.Equal(m.Bundle, good["ca.crt"]) {
				t.Error("the bundle is not ca.crt")
			}
			decision := p.Decide(test.data, webhookcert.Observation{}, t0)
			if data, err := decision.Issue(rand.Reader); decision.Write || decision.Reason.Code != "" || data != nil || err != nil {
				t.Errorf("decided %v, issued %v, %v", decision.Reason, data, err)
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
		{name: "algorithm", edit: func(c *webhookcert.Config) { c.Algorithm = x509.DSA }, want: `"DSA" is neither`},
		{name: "algorithm of leaves", edit: func(c *webhookcert.Config) { c.LeafAlgorithm = x509.Ed25519 }, want: `LeafAlgorithm "Ed25519" is neither`},
		{name: "overlap", edit: func(c *webhookcert.Config) { c.Overlap = -time.Second }, want: "-1s is no time"},
		{name: "leaf", edit: func(c *webhookcert.Config) { c.LeafRenewBefore = 400 * 24 * time.Hour }, want: "LeafRenewBefore 9600h0m0s"},
		{name: "authority", edit: func(c *webhookcert.Config) { c.CARenewBefore = -1 }, want: "CARenewBefore -1ns"},
		{name: "no time to rotate", edit: func(c *webhookcert.Config) { c.CARenewBefore = time.Hour; c.Overlap = time.Hour }, want: "four times"},
		{name: "a key is missing", edit: func(c *webhookcert.Config) { c.Keys.NextCACert = "" }, want: "Keys.NextCACert has no name"},
		{name: "a key is used twice", edit: func(c *webhookcert.Config) { c.Keys.State = "tls.crt" }, want: `Keys.Cert and Keys.State are both "tls.crt"`},
		{name: "no keys", edit: func(c *webhookcert.Config) { c.Keys = webhookcert.Keys{} }},
		{name: "Rotate alone", edit: func(c *webhookcert.Config) { c.Keys = webhookcert.Keys{Rotate: "rotate"} }, want: "Keys.CACert has no name"},
		{name: "external, no names", edit: func(c *webhookcert.Config) { c.External, c.DNSNames = true, nil }, want: "DNSNames and IPs are empty"},
		{name: "external, three keys", edit: func(c *webhookcert.Config) {
			c.External, c.Keys = true, webhookcert.Keys{CACert: []string{"ca"}, Cert: []string{"cert"}, Key: []string{"key"}}
		}},
		{name: "external, two keys", edit: func(c *webhookcert.Config) {
			c.External, c.Keys = true, webhookcert.Keys{CACert: []string{"ca"}, Cert: []string{"cert"}}
		}, want: "Keys.Key has no name"},
		{name: "external, an empty key", edit: func(c *webhookcert.Config) { c.External, c.Keys.Cert = true, []string{""} }, want: "Keys.Cert has no name"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := ok
			test.edit(&c)
			p, err := c.Complete()
			if (p == nil) != (err != nil) {
				t.Errorf("policy %v and error %v", p, err)
			}
			if test.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestDefaults: missing fields get a default, and the Policy shares no slice with the caller.
func TestDefaults(t *testing.T) {
	names := []string{name}
	p, err := webhookcert.Config{DNSNames: names}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	want := webhookcert.Config{
		DNSNames: []string{name}, CommonName: "webhook-ca", Algorithm: x509.ECDSA, LeafAlgorithm: x509.ECDSA, CAValidity: 3650 * day, LeafValidity: 365 * day,
		CARenewBefore: 365 * day, LeafRenewBefore: 365 * day / 3, Overlap: 10 * time.Minute,
		Keys: webhookcert.Keys{
			CACert: []string{"ca.crt"}, CAKey: []string{"ca.key"}, Cert: []string{"tls.crt"}, Key: []string{"tls.key"},
			NextCACert: "next-ca.crt", NextCAKey: "next-ca.key", OldCACerts: "old-ca.crt", State: "rotation.json", Rotate: "rotate",
		},
	}
	names[0] = "changed"
	p.Config().Keys.Cert[0] = "changed"
	if diff := cmp.Diff(want, p.Config()); diff != "" {
		t.Errorf("unexpected defaults (-want +got):\n%s", diff)
	}
}

// TestZeroValues: values not made by Complete and Decide are refused without a panic.
func TestZeroValues(t *testing.T) {
	for what, p := range map[string]*webhookcert.Policy{"zero": {}, "nil": nil} {
		if d := p.Decide(nil, webhookcert.Observation{}, t0); d.Write || !errors.Is(d.Reason, webhookcert.InvalidConfig) {
			t.Errorf("%s Policy decides %+v", what, d)
		}
		if m, err := p.Read(nil); m != nil || !errors.Is(err, webhookcert.InvalidConfig) {
			t.Errorf("%s Policy reads %v, %v", what, m, err)
		}
		if got := p.ServerName(); got != "" {
			t.Errorf("%s Policy is called %q", what, got)
		}
		if diff := cmp.Diff(webhookcert.Config{}, p.Config()); diff != "" {
			t.Errorf("%s Policy has a configuration:\n%s", what, diff)
		}
	}
	if data, err := (webhookcert.Decision{}).Issue(rand.Reader); data != nil || err != nil {
		t.Errorf("zero Decision issues %v, %v", data, err)
	}
	if _, err := (webhookcert.Decision{Write: true}).Issue(rand.Reader); !errors.Is(err, webhookcert.InvalidConfig) {
		t.Errorf("a Decision that nobody made: %v", err)
	}
	if _, err := policy(t, nil).Decide(nil, webhookcert.Observation{}, t0).Issue(nil); err == nil {
		t.Error("certificates without randomness")
	}
}

func Example() {
	policy, err := webhookcert.Config{DNSNames: []string{"webhooks.system.svc"}}.Complete()
	if err != nil {
		fmt.Println(err)
		return
	}
	data := map[string][]byte{}
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for _, later := range []time.Duration{0, 9 * 365 * 24 * time.Hour, time.Minute, 11 * time.Minute} {
		now = now.Add(later)
		decision := policy.Decide(data, webhookcert.Observation{Injected: true}, now)
		if data, err = decision.Issue(rand.Reader); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(decision.Stage, decision.Reason.Code, decision.Reason.Path)
	}
	// Output:
	// Broken CertificateMissing data[ca.crt]
	// Broken CertificateExpired data[tls.crt]
	// Stable CertificateRenewalDue data[ca.crt]
	// Announced RotationStepPublished data[next-ca.crt]
}

func BenchmarkDecide(b *testing.B) {
	for _, algorithm := range []x509.PublicKeyAlgorithm{x509.ECDSA, x509.RSA} {
		b.Run(algorithm.String(), func(b *testing.B) {
			p := policy(b, func(c *webhookcert.Config) { c.Algorithm = algorithm })
			data := settled(b, p, t0)
			b.ReportAllocs()
			for b.Loop() {
				if p.Decide(data, webhookcert.Observation{Injected: true}, t0).Write {
					b.Fatal("nothing is to be done")
				}
			}
		})
	}
}

func BenchmarkRotation(b *testing.B) {
	p := policy(b, nil)
	data := with(settled(b, p, t0), "rotate", "now")
	b.ReportAllocs()
	for b.Loop() {
		d := p.Decide(data, webhookcert.Observation{Injected: true}, t0)
		if _, err := d.Issue(rand.Reader); err != nil {
			b.Fatal(err)
		}
	}
}
