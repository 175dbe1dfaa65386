package webhookcert

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// Material is the parsed content of the Secret that a webhook server and its clients need. A Material is never
// modified and may be shared. Policy.Read makes a Material.
type Material struct {
	// Certificate is the certificate to return from tls.Config.GetCertificate.
	Certificate *tls.Certificate
	// Bundle are the certificate authorities that clients must trust, as PEM. The bytes depend only on the set of
	// authorities, not on which authority signs.
	Bundle []byte
	// Facts describe the leaf and the authorities: the leaf first, then its signing authority.
	Facts []Fact
	// Stage is the rotation's stage: "Stable", "Announced" or "Switched", see the package comment. Stage is "Stable"
	// for a Secret that somebody else writes.
	Stage string
}

// These are the roles of certificates, as shown in Fact.
const (
	leafRole   = "leaf"
	caRole     = "ca"
	nextCARole = "next-ca"
	oldCARole  = "old-ca"
)

// Fact describes a certificate, for metrics and logs.
type Fact struct {
	// Role is the certificate's role: "leaf" is the serving certificate, "ca" the authority that has signed the leaf,
	// "next-ca" the next signing authority, and "old-ca" an authority that will be removed from the CA bundle.
	Role                string
	Subject             string
	Serial              string // in hexadecimal digits
	NotBefore, NotAfter time.Time
}

// Read parses the Secret's data. If the leaf or its authority cannot be used, the error is a reason.Reason. A server
// should then continue with its earlier Material. Read does not check whether certificates are valid at the present
// time, because an expired certificate is better than none.
//
// If Config.External is set, somebody else writes the Secret: the CA bundle may have several authorities, the
// certificate may be a chain, names are not checked, and objects are expected to contain the Bundle.
func (p *Policy) Read(data map[string][]byte) (*Material, error) {
	if refused := p.ready(); refused != nil {
		return nil, *refused
	}
	c := &p.config
	if c.External {
		return readExternal(&c.Keys, data)
	}
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
	kept, _ := parseCertificates(data[c.Keys.OldCACerts]) // clients ignore authorities that cannot be parsed
	f.old = distinct(append(extra, kept...), f.ca.cert, f.next.cert)
	m := &Material{
		Certificate: &tls.Certificate{
			Certificate: [][]byte{f.leaf.cert.Raw}, PrivateKey: f.leaf.key, Leaf: f.leaf.cert,
		},
		Bundle: f.bundle(),
		Facts:  []Fact{fact(leafRole, f.leaf.cert), fact(caRole, f.ca.cert)},
		Stage:  f.stage(),
	}
	if f.hasNext {
		m.Facts = append(m.Facts, fact(nextCARole, f.next.cert))
	}
	for _, old := range f.old {
		m.Facts = append(m.Facts, fact(oldCARole, old))
	}
	return m, nil
}

// readExternal parses a Secret that somebody else writes. The error is a reason.Reason.
func readExternal(k *Keys, data map[string][]byte) (*Material, error) {
	var values [3][]byte
	for i, names := range [][]string{k.CACert, k.Cert, k.Key} {
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
	m := &Material{Certificate: &served, Bundle: values[0], Facts: []Fact{fact(leafRole, p.cert)}, Stage: stable}
	for _, authority := range authorities {
		m.Facts = append(m.Facts, fact(caRole, authority))
	}
	return m, nil
}

func fact(role string, cert *x509.Certificate) Fact {
	return Fact{
		Role: role, Subject: subject(cert), Serial: fmt.Sprintf("%x", cert.SerialNumber),
		NotBefore: cert.NotBefore, NotAfter: cert.NotAfter,
	}
}
