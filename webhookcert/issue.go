package webhookcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

func newKey(random io.Reader, algorithm x509.PublicKeyAlgorithm) (crypto.Signer, error) {
	if algorithm == x509.RSA {
		return rsa.GenerateKey(random, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), random)
}

// Issue returns the new data of the Secret for the decision, with new keys and certificates. random is required: use
// crypto/rand.Reader except in tests. Go may read random bytes from the system although random is a different source.
// Entries whose names are not in Keys are unchanged. The result is nil if nothing must be written. After an error,
// Issue may be called again; each call makes new keys. For a Decision that does not come from Policy.Decide, the
// error is InvalidConfig.
func (d Decision) Issue(random io.Reader) (map[string][]byte, error) {
	switch {
	case !d.Write:
		return nil, nil
	case d.plan.config == nil:
		return nil, reason.Reason{Code: InvalidConfig, Detail: "the Decision was not made by Policy.Decide"}
	case random == nil:
		return nil, errors.New("issuing certificates: a source of randomness is required")
	}
	c := d.plan.config
	p := &d.plan
	out := *p.found // a shallow copy: the code below replaces parts and modifies none
	var err error
	switch p.ca {
	case create:
		if out.ca, err = c.newAuthority(random, p.now); err != nil {
			return nil, err
		}
	case promote:
		out.ca = out.next
	}
	switch p.next {
	case create:
		if out.next, err = c.newAuthority(random, p.now); err != nil {
			return nil, err
		}
		out.hasNext = true
	case drop:
		out.next, out.hasNext = pair{}, false
	}
	if p.newLeaf {
		if out.leaf, err = c.newLeaf(random, &out.ca, p.now); err != nil {
			return nil, err
		}
	}
	out.old = p.old
	return out.render(c, p)
}

// render encodes all parts under their names in the Secret.
func (f *found) render(c *Config, p *plan) (map[string][]byte, error) {
	k := &c.Keys
	w := writer{before: p.data, data: maps.Clone(p.data)}
	if w.data == nil {
		w.data = map[string][]byte{}
	}
	w.pair(&f.ca, p.ca == keep, k.CACert, k.CAKey)
	w.pair(&f.leaf, !p.newLeaf, k.Cert, k.Key)
	if f.hasNext {
		w.pair(&f.next, p.ca == keep && p.next == keep, []string{k.NextCACert}, []string{k.NextCAKey})
	} else {
		w.put(nil, k.NextCACert, k.NextCAKey)
	}
	w.put(encodeCertificates(f.old...), k.OldCACerts)
	if p.asked {
		delete(w.data, k.Rotate)
	}
	state, err := f.state(p)
	w.put(state, k.State)
	return w.data, errors.Join(w.err, err)
}

// writer collects the entries of the Secret.
type writer struct {
	before, data map[string][]byte
	err          error
}

// put sets the entries of all names to the value, or removes the entries if the value is nil.
func (w *writer) put(value []byte, names ...string) {
	for _, name := range names {
		if len(value) == 0 {
			delete(w.data, name)
		} else {
			w.data[name] = value
		}
	}
}

// pair encodes a certificate and key under their names. If kept is true, the stored bytes of the certificate and key
// stay unchanged, but further certificates in the entry are removed.
func (w *writer) pair(p *pair, kept bool, certNames, keyNames []string) {
	if kept {
		_, key := first(w.before, keyNames)
		_, cert := first(w.before, certNames)
		if certs, _ := parseCertificates(cert); p.cert != nil && len(certs) > 1 {
			cert = encodeCertificates(p.cert)
		}
		w.put(key, keyNames...)
		w.put(cert, certNames...)
		return
	}
	key, err := encodeKey(p.key)
	w.err = errors.Join(w.err, err)
	w.put(key, keyNames...)
	w.put(encodeCertificates(p.cert), certNames...)
}

// state encodes the stamp: a new stamp, the present stamp if still valid, or no stamp.
func (f *found) state(p *plan) ([]byte, error) {
	s := stamp{Version: 1, Set: f.set(), Published: p.found.stamp}
	if p.stamp {
		// The time is rounded up, so that the stamp is never before the observation of the stage.
		s.Published = p.now.UTC().Truncate(time.Millisecond).Add(time.Millisecond)
	}
	if s.Published.IsZero() || (!p.stamp && s.Set != p.found.set()) {
		return nil, nil
	}
	return json.Marshal(s)
}

func (c *Config) newAuthority(random io.Reader, now time.Time) (pair, error) {
	key, err := newKey(random, c.Algorithm)
	if err != nil {
		return pair{}, fmt.Errorf("making an %s key: %w", c.Algorithm, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: c.CommonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(c.CAValidity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // the authority may not sign other authorities
	}
	if c.Organization != "" {
		template.Subject.Organization = []string{c.Organization}
	}
	return sign(random, template, key, template, key)
}

// newLeaf makes a leaf for all names. The leaf becomes valid together with its authority, and does not expire later
// than the authority.
func (c *Config) newLeaf(random io.Reader, ca *pair, now time.Time) (pair, error) {
	key, err := newKey(random, c.LeafAlgorithm)
	if err != nil {
		return pair{}, fmt.Errorf("making an %s key: %w", c.LeafAlgorithm, err)
	}
	template := c.leafTemplate(ca.cert, earliest(now.Add(c.LeafValidity), ca.cert.NotAfter))
	return sign(random, template, key, ca.cert, ca.key)
}

// leafTemplate is a leaf without serial number and key.
func (c *Config) leafTemplate(ca *x509.Certificate, until time.Time) *x509.Certificate {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName(c.serverName())},
		DNSNames:    c.DNSNames,
		NotBefore:   ca.NotBefore,
		NotAfter:    until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if c.LeafAlgorithm == x509.RSA {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment
	}
	for _, ip := range c.IPs {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	return template
}

func sign(random io.Reader, template *x509.Certificate, key crypto.Signer, parent *x509.Certificate, parentKey crypto.Signer) (pair, error) {
	serial, err := rand.Int(random, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return pair{}, fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	der, err := x509.CreateCertificate(random, template, parent, key.Public(), parentKey)
	if err != nil {
		return pair{}, fmt.Errorf("signing a certificate for %q: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("reading back the certificate for %q: %w", template.Subject.CommonName, err)
	}
	return pair{cert: cert, key: key}, nil
}

// commonName shortens a name to the length that X.509 allows. Clients check only the alternative names.
func commonName(name string) string {
	if len(name) > 64 {
		return name[:64]
	}
	return name
}

// encodeKey encodes a key in the format documented for its algorithm; existing keys of other algorithms are encoded
// as PKCS#8.
func encodeKey(key crypto.Signer) ([]byte, error) {
	kind := "PRIVATE KEY"
	var der []byte
	var err error
	switch k := key.(type) {
	case *rsa.PrivateKey:
		kind, der = "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k)
	case *ecdsa.PrivateKey:
		kind = "EC PRIVATE KEY"
		der, err = x509.MarshalECPrivateKey(k)
	default:
		der, err = x509.MarshalPKCS8PrivateKey(key)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", key, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), nil
}

func encodeCertificates(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, cert := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return out
}
