package webhookcert_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"testing"
	"time"

	"github.com/workloadkit/workloadkit/webhookcert"
)

var t0 = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

const name = "webhooks.system.svc"

// These are the stages of a rotation, as in the package comment.
const (
	stageStable, stageAnnounced, stageSwitched = "Stable", "Announced", "Switched"
	stageBroken                                = "Broken"
)

// keys are the keys of an OpenKruise Secret, with additional entries unknown to OpenKruise.
func keys() webhookcert.Keys {
	return webhookcert.Keys{
		CACert: []string{"ca-cert.pem"}, CAKey: []string{"ca-key.pem"},
		Cert: []string{"cert.pem", "tls.crt"}, Key: []string{"key.pem", "tls.key"},
		NextCACert: "next-ca-cert.pem", NextCAKey: "next-ca-key.pem", OldCACerts: "old-ca-certs.pem",
		State: "rotation.json", Rotate: "rotate",
	}
}

func policy(tb testing.TB, edit func(*webhookcert.Config)) *webhookcert.Policy {
	tb.Helper()
	c := webhookcert.Config{DNSNames: []string{name, "localhost"}, Keys: keys()}
	if edit != nil {
		edit(&c)
	}
	p, err := c.Complete()
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func issue(tb testing.TB, d webhookcert.Decision) map[string][]byte {
	tb.Helper()
	data, err := d.Issue(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// settled returns the data that Decide and Issue make for a missing Secret.
func settled(tb testing.TB, p *webhookcert.Policy, now time.Time) map[string][]byte {
	tb.Helper()
	return issue(tb, p.Decide(nil, webhookcert.Observation{}, now))
}

// announced returns the data of a Secret in the stage Announced, with a stamp of the time now.
func announced(tb testing.TB, p *webhookcert.Policy, now time.Time) map[string][]byte {
	tb.Helper()
	data := settled(tb, p, now)
	data["rotate"] = []byte("please")
	for range 2 { // announce, stamp
		data = issue(tb, p.Decide(data, webhookcert.Observation{Injected: true}, now))
	}
	return data
}

// switched returns the data of a Secret in the stage Switched, with a stamp of the time now.
func switched(tb testing.TB, p *webhookcert.Policy, now time.Time) map[string][]byte {
	tb.Helper()
	data := announced(tb, p, now.Add(-2*p.Config().Overlap))
	for range 2 { // switch, stamp
		data = issue(tb, p.Decide(data, webhookcert.Observation{Injected: true}, now))
	}
	return data
}

// verify verifies a leaf as a client does.
func verify(p *webhookcert.Policy, leaf *x509.Certificate, bundle []byte, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: p.ServerName(), CurrentTime: now})
	return err
}

// madeBy describes certificates that Decide does not make.
type madeBy struct {
	algorithm           x509.PublicKeyAlgorithm
	from, until         time.Time
	leafFrom, leafUntil time.Time
	dns                 []string
	noCA                bool
	// bits, if not 0, is the size of the authority's RSA key.
	bits int
	// edit changes the authority before its signature.
	edit func(*x509.Certificate)
}

// secret returns the data of a Secret as OpenKruise makes the Secret, with the faults in m.
func (m madeBy) secret(tb testing.TB) map[string][]byte {
	tb.Helper()
	or := func(t *time.Time, fallback time.Time) {
		if t.IsZero() {
			*t = fallback
		}
	}
	or(&m.from, t0.AddDate(-1, 0, 0))
	or(&m.until, m.from.AddDate(10, 0, 0))
	or(&m.leafFrom, m.from)
	or(&m.leafUntil, m.until)
	if m.dns == nil {
		m.dns = []string{"localhost", name}
	}
	caKey, key := m.key(tb), m.key(tb)
	if m.bits != 0 {
		was := os.Getenv("GODEBUG")
		defer tb.Setenv("GODEBUG", was)
		tb.Setenv("GODEBUG", "rsa1024min=0") // otherwise Go refuses such short keys
		small, err := rsa.GenerateKey(rand.Reader, m.bits)
		if err != nil {
			tb.Fatal(err)
		}
		caKey = small
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(0), Subject: pkix.Name{CommonName: "webhook-cert-ca"},
		NotBefore: m.from, NotAfter: m.until, BasicConstraintsValid: true, IsCA: !m.noCA,
		KeyUsage: x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if m.edit != nil {
		m.edit(ca)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(77), Subject: pkix.Name{CommonName: name}, DNSNames: m.dns,
		NotBefore: m.leafFrom, NotAfter: m.leafUntil,
		KeyUsage:    x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caPEM, leafPEM := create(tb, ca, ca, caKey.Public(), caKey), create(tb, leaf, ca, key.Public(), caKey)
	return map[string][]byte{
		"ca-cert.pem": caPEM, "ca-key.pem": keyPEM(tb, caKey),
		"cert.pem": leafPEM, "tls.crt": leafPEM, "key.pem": keyPEM(tb, key), "tls.key": keyPEM(tb, key),
	}
}

// unable returns authorities whose leaves clients do not accept, by the name of their fault.
func unable() map[string]madeBy {
	return map[string]madeBy{
		"name constraints": {edit: func(ca *x509.Certificate) {
			ca.PermittedDNSDomainsCritical, ca.PermittedDNSDomains = true, []string{"corp.example"}
		}},
		"one name excluded": {edit: func(ca *x509.Certificate) { ca.ExcludedDNSDomains = []string{"localhost"} }},
		"client authentication alone": {edit: func(ca *x509.Certificate) {
			ca.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}},
		"an unknown usage alone": {edit: func(ca *x509.Certificate) {
			ca.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 2, 3, 4}}
		}},
		"an unknown critical extension": {edit: func(ca *x509.Certificate) {
			ca.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
		}},
		"no usage for certificates":     {edit: func(ca *x509.Certificate) { ca.KeyUsage = x509.KeyUsageDigitalSignature }},
		"a key that is not signed with": {bits: 512},
	}
}

func (m madeBy) key(tb testing.TB) crypto.Signer {
	tb.Helper()
	var key crypto.Signer
	var err error
	if m.algorithm == x509.RSA {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func create(tb testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) []byte {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(tb testing.TB, key crypto.Signer) []byte {
	tb.Helper()
	if k, ok := key.(*rsa.PrivateKey); ok {
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
	}
	der, err := x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// with returns a copy of the data with changed entries; a nil value removes an entry.
func with(data map[string][]byte, pairs ...any) map[string][]byte {
	out := maps.Clone(data)
	for i := 0; i < len(pairs); i += 2 {
		value, _ := pairs[i+1].([]byte)
		if text, ok := pairs[i+1].(string); ok {
			value = []byte(text)
		}
		if value == nil {
			delete(out, pairs[i].(string))
		} else {
			out[pairs[i].(string)] = value
		}
	}
	return out
}

// certificates counts the certificates in a bundle.
func certificates(bundle []byte) int { return bytes.Count(bundle, []byte("BEGIN CERTIFICATE")) }

// parse parses a PEM certificate.
func parse(tb testing.TB, raw []byte) *x509.Certificate {
	tb.Helper()
	block, _ := pem.Decode(raw)
	if block == nil {
		tb.Fatalf("no PEM block in %q", raw)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		tb.Fatal(err)
	}
	return cert
}
