package webhookcert

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Material is what a server and its clients need, parsed once. It is never modified and may be shared.
type Material struct {
	// Certificate is for tls.Config.GetCertificate.
	Certificate *tls.Certificate
	// Bundle is what clients have to trust, as PEM. The same authorities give the same bytes, whichever of them signs.
	Bundle []byte
	// Facts describe the leaf and the authorities, the signing one first.
	Facts []Fact
	// Step is where the rotation is. It is Stable for somebody else's Secret.
	Step Step
}

// Role says what a certificate is for.
type Role string

const (
	// Leaf is the serving certificate.
	Leaf Role = "leaf"
	// CA is the authority that has signed the leaf.
	CA Role = "ca"
	// NextCA is the authority that will sign next.
	NextCA Role = "next-ca"
	// OldCA is an authority that is about to be dropped from the bundle.
	OldCA Role = "old-ca"
)

// Fact describes one certificate, for metrics and logs.
type Fact struct {
	Role                Role
	Subject             string
	Serial              string
	NotBefore, NotAfter time.Time
}

// Read returns what to serve and to publish by the Secret's data. The error is a reason.Reason that says what is wrong with
// the leaf or its authority; a server goes on with what it had then. Validity in time is not checked, because a certificate
// with a wrong date serves better than none.
func Read(c *Config, data map[string][]byte) (*Material, error) {
	f := &found{}
	var extra []*x509.Certificate
	f.ca, extra = lookPair(data, c.Keys.CACert, c.Keys.CAKey)
	f.leaf, _ = lookPair(data, c.Keys.Cert, c.Keys.Key)
	switch {
	case f.ca.certErr != nil:
		return nil, *f.ca.certErr
	case f.leaf.fault() != nil:
		return nil, *f.leaf.fault()
	}
	if err := f.leaf.cert.CheckSignatureFrom(f.ca.cert); err != nil {
		return nil, reason.Reason{
			Code: CertificateIssuerMismatch, Path: dataPath(c.Keys.Cert[0]), New: subject(f.ca.cert), Detail: err.Error(),
		}
	}
	f.next, _ = lookPair(data, []string{c.Keys.NextCACert}, []string{c.Keys.NextCAKey})
	f.hasNext = f.next.cert != nil
	kept, _ := parseCertificates(data[c.Keys.OldCACerts]) // what cannot be read is trusted by nobody
	f.old = distinct(append(extra, kept...), f.ca.cert, f.next.cert)
	m := &Material{
		Certificate: &tls.Certificate{
			Certificate: [][]byte{f.leaf.cert.Raw}, PrivateKey: f.leaf.key, Leaf: f.leaf.cert,
		},
		Bundle: f.bundle(),
		Facts:  []Fact{fact(Leaf, f.leaf.cert), fact(CA, f.ca.cert)},
		Step:   f.step(),
	}
	if f.hasNext {
		m.Facts = append(m.Facts, fact(NextCA, f.next.cert))
	}
	for _, old := range f.old {
		m.Facts = append(m.Facts, fact(OldCA, old))
	}
	return m, nil
}

// ReadExternal returns what to serve and to expect in the objects by a Secret that somebody else keeps, such as
// cert-manager (ca.crt, tls.crt, tls.key). Only CACert, Cert and Key of the keys are used. The bundle may hold
// several authorities and the certificate a chain; neither names nor dates are checked. The error is a
// reason.Reason.
func ReadExternal(k *Keys, data map[string][]byte) (*Material, error) {
	var values [3][]byte
	for i, names := range [][]string{k.CACert, k.Cert, k.Key} {
		if len(names) == 0 {
			return nil, fmt.Errorf("keys: CACert, Cert and Key are required")
		}
		name, value := first(data, names)
		if len(value) == 0 {
			return nil, reason.Reason{Code: CertificateMissing, Path: dataPath(name)}
		}
		values[i] = value
	}
	authorities, err := parseCertificates(values[0])
	if err != nil {
		return nil, reason.Reason{Code: CertificateUnreadable, Path: dataPath(k.CACert[0]), Detail: err.Error()}
	}
	p, _ := lookPair(data, k.Cert, k.Key)
	if fault := p.fault(); fault != nil {
		return nil, *fault
	}
	served, err := tls.X509KeyPair(values[1], values[2])
	if err != nil {
		return nil, reason.Reason{Code: CertificateUnreadable, Path: dataPath(k.Cert[0]), Detail: err.Error()}
	}
	m := &Material{Certificate: &served, Bundle: values[0], Facts: []Fact{fact(Leaf, p.cert)}, Step: Stable}
	for _, authority := range authorities {
		m.Facts = append(m.Facts, fact(CA, authority))
	}
	return m, nil
}

func fact(role Role, cert *x509.Certificate) Fact {
	return Fact{
		Role: role, Subject: subject(cert), Serial: fmt.Sprintf("%x", cert.SerialNumber),
		NotBefore: cert.NotBefore, NotAfter: cert.NotAfter,
	}
}
